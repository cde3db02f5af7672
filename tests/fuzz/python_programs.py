# SPDX-License-Identifier: Apache-2.0
r"""Random Python functions over arrays, written with NumPy's names, a line at a time.

`Writer` knows the shape and the kind of every variable, takes
operands that fit, and keeps numbers moderate: what could grow is squashed. So a program is valid
by construction, and its results may be compared with a tolerance.

Example:
    writer = Writer(random.Random(7))
    writer.grow(10)
    print("\n".join(writer.lines))
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

Shape = tuple[int, ...]
FLOAT, INT, BOOL = "float", "int", "bool"
SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)
LARGEST = 1 << 13


@dataclass(frozen=True, slots=True)
class Variable:
    """A name of the function, and what it holds."""

    name: str
    shape: Shape
    kind: str = FLOAT


@dataclass(slots=True)
class Writer:
    """Grows the body of a function.

    Attributes:
        choose: decides.
        lines: the body so far, without indentation.
        pool: the variables so far.
        depth: of loops, branches and mapped functions around.
        prefix: begins the names of variables.
        full: how an array of one number is written.
    """

    choose: random.Random
    lines: list[str] = field(default_factory=list[str])
    pool: list[Variable] = field(default_factory=list[Variable])
    depth: int = 0
    prefix: str = "v"
    full: str = "jnp.full({shape}, {value})"

    def grow(self, steps: int, makers: list[Callable[[Writer], Variable | None]]) -> None:
        """Add so many lines, each made by one of `makers`; None is another try."""
        while steps > 0:
            made = self.choose.choice(makers)(self)
            steps -= 1
            if made is not None:
                self.pool.append(made)

    # ---- for makers

    def any(self, accept: Callable[[Variable], bool] = lambda _: True) -> Variable | None:
        """Return one of the last variables that fit, if there is one."""
        fitting = [item for item in self.pool if accept(item)]
        return self.choose.choice(fitting[-6:]) if fitting else None

    def number(self, shape: Shape | None = None) -> Variable:
        """Return a variable of floats, of that shape or of any."""
        found = self.any(lambda v: v.kind == FLOAT and shape in (None, v.shape))
        if found is None:
            wanted = shape if shape is not None else self.shape()
            value = self.choose.choice((0.5, -1.0, 2.0))
            return self.let(self.full.format(shape=wanted, value=value), wanted)
        return found

    def shape(self) -> Shape:
        """Return a shape of up to three dimensions."""
        return tuple(self.choose.choice(SIZES) for _ in range(self.choose.randint(0, 3)))

    def let(self, text: str, shape: Shape, kind: str = FLOAT) -> Variable:
        """Write `name = text` and return the variable."""
        name = f"{self.prefix}{len(self.lines)}"
        self.lines.append(f"{name} = {text}")
        return Variable(name, shape, kind)

    def write(self, text: str) -> None:
        """Write lines that define a function."""
        self.lines.extend(text.splitlines())

    def axis(self, shape: Shape) -> int:
        """Return a dimension of a shape."""
        return self.choose.randrange(len(shape))


def is_row(v: Variable) -> bool:
    """Whether a variable holds floats along at least one dimension, none of them empty."""
    return v.kind == FLOAT and len(v.shape) > 0 and 0 not in v.shape


def too_large(shape: Shape) -> bool:
    """Whether an array of this shape would take the reference too long."""
    return math.prod(shape) > LARGEST


def without(shape: Shape, axis: int) -> Shape:
    """Return a shape without one dimension."""
    return (*shape[:axis], *shape[axis + 1 :])


def with_size(shape: Shape, axis: int, size: int) -> Shape:
    """Return a shape with another size of one dimension."""
    return (*shape[:axis], size, *shape[axis + 1 :])


def indented(lines: list[str], by: str = "    ") -> str:
    """Return lines as the body of a function."""
    return "\n".join(by + line for line in lines)
