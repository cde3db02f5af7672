# SPDX-License-Identifier: Apache-2.0
"""What a function is specialised on: values and sizes of the call that it is compiled for.

XLA calls such values compile-time constants. An op whose result's shape or structure follows from
the value of an argument (`tf.range(n)`, an axis, a permutation) needs it when it is lowered. The
lowering asks `CallArguments` for it; what it asked for becomes part of the `Key` of the compiled
variant, and `launch` uses the variant only for calls whose arguments have the same bytes there.

An argument that has had several values already is *varying*: sizes that follow from it are computed
when the program runs, as those that follow from large data are, and one program takes every value.

Invariant: a program depends on the arguments only through what `CallArguments` was asked for, so
two calls that fit one key may share the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ingot.frontends.tensorflow.graphs.captured import CapturedNode, Shape
from ingot.frontends.tensorflow.variants.list_rooms import Rooms
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.hlo.module import Module
from ingot.support.diagnostics import Diagnostic, SourceLocation
from ingot.support.records import mutable, record

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.graphs.binding import LoweredFunction
    from ingot.frontends.tensorflow.graphs.graph_digest import GraphDigest

Ranks = tuple[int, ...]
Sizes = tuple[tuple[int, ...], ...]
Reader = Callable[[int, int], "bytes | None"]
"""Gives the first bytes of a parameter's memory; None where they cannot be read."""

MOST_ELEMENTS = 1024
"""Of an argument whose value a function may be specialised on."""

COMPUTED = "the program computes this size when it runs"
"""Note of a refusal that no call's sizes can change."""

COMPUTED_VALUE = "(computed)"
"""Stands in the text of an assertion for a value that the program computes."""

_TYPICAL_SIZE = 24
_SHOWN = 8


@record
class Reason:
    """The op that needs something of an argument when it is compiled.

    Attributes:
        what: what it takes it for, "axis".
        op: the op's type.
        node: the node's name.
        location: the user's line.
    """

    what: str
    op: str = ""
    node: str = ""
    location: SourceLocation | None = None

    @staticmethod
    def at(node: CapturedNode, what: str) -> Reason:
        """Return the reason that `node` gives."""
        return Reason(what, node.op, node.name, node.location)

    def __str__(self) -> str:
        if not self.op:
            return self.what
        where = f" at {self.location}" if self.location is not None else ""
        return f"{self.op} '{self.node}'{where} takes it for its {self.what}"


@record
class Value:
    """The value of a parameter that a program was made for."""

    parameter: int
    name: str
    array: np.ndarray
    reason: Reason

    @property
    def data(self) -> bytes:
        """The bytes that a call's argument must have."""
        return self.array.tobytes()

    @property
    def text(self) -> str:
        """The value, shortened where it is long."""
        flat = self.array.ravel().tolist()
        more = ", ..." if len(flat) > _SHOWN else ""
        shown = ", ".join(map(str, flat[:_SHOWN])) + more
        return f"[{shown}]" if self.array.ndim else shown

    def __str__(self) -> str:
        return f"argument '{self.name}' = {self.text}: {self.reason}"


@record
class FixedSize:
    """The size of one dimension of a parameter that a program was made for."""

    parameter: int
    axis: int
    name: str
    size: int
    reason: Reason

    def __str__(self) -> str:
        return f"size {self.axis} of argument '{self.name}' = {self.size}: {self.reason}"


@record
class Key:
    """Which calls a compiled variant (or a failed compilation) is for."""

    ranks: Ranks
    values: tuple[Value, ...] = ()
    sizes: tuple[FixedSize, ...] = ()
    varying: tuple[str, ...] = ()
    """Names of arguments that sizes are computed from, where others are specialised on them."""

    def fits(self, sizes: Sizes, read: Reader | None) -> bool:
        """Whether a call with parameters of these sizes and values is one of them."""
        if tuple([len(item) for item in sizes]) != self.ranks:
            return False
        if any(sizes[item.parameter][item.axis] != item.size for item in self.sizes):
            return False
        return all(
            sizes[item.parameter] == item.array.shape
            and read is not None
            and read(item.parameter, item.array.nbytes) == item.data
            for item in self.values
        )

    @property
    def is_special(self) -> bool:
        """Whether it is for some values or sizes only."""
        return bool(self.values or self.sizes)

    def explain(self) -> tuple[str, ...]:
        """Return a line per value and size that the variant was made for."""
        varying = [f"argument '{name}': any value, sizes are computed" for name in self.varying]
        return (*map(str, (*self.values, *self.sizes)), *varying)


@mutable
class CallArguments:
    """The arguments of the call that a function is compiled for, and what was asked of them.

    Attributes:
        sizes: dimensions of every parameter.
        read: gives their memory; None when there is no call, only sizes to try.
        exact: why every size is fixed; None while sizes stay open that can.
        rooms: the room of lists that grow, where the usual one was too little.
        varying: parameters that had several values already: what can be computed from them when the
            program runs is not asked for.
        refused: parameters that the function had to be specialised on though they vary.
        computed: by parameter, the names of those that the program computes sizes from.
        values: by parameter, what was asked for.
        fixed: by parameter and axis, the sizes that were asked for.
        lowered: the function as it was lowered before there was a call, if that asked for nothing.
        digest: the digest of a function that was made before there was a call.
    """

    sizes: Sizes
    read: Reader | None = None
    exact: Reason | None = None
    rooms: Rooms = field(default_factory=dict[str, int])
    varying: frozenset[int] = frozenset()
    refused: frozenset[int] = frozenset()
    computed: dict[int, str] = field(default_factory=dict[int, str])
    values: dict[int, Value] = field(default_factory=dict[int, Value])
    fixed: dict[tuple[int, int], FixedSize] = field(
        default_factory=dict[tuple[int, int], FixedSize]
    )
    lowered: LoweredFunction | None = None
    digest: GraphDigest | None = None

    def value(self, parameter: int, name: str, dtype: np.dtype, reason: Reason) -> Value | None:
        """Ask for the value of a parameter; None if it is too large, or not to be had."""
        known = self.values.get(parameter)
        if known is not None:
            return known
        dims = self.sizes[parameter]
        if self.read is None or prod(dims) > MOST_ELEMENTS:
            return None
        data = self.read(parameter, prod(dims) * dtype.itemsize)
        if data is None:
            return None
        found = Value(parameter, name, np.frombuffer(data, dtype).reshape(dims), reason)
        self.values[parameter] = found
        return found

    def size(self, parameter: int, axis: int, name: str, reason: Reason) -> int:
        """Ask for the size of a dimension of a parameter."""
        size = self.sizes[parameter][axis]
        self.fixed.setdefault((parameter, axis), FixedSize(parameter, axis, name, size, reason))
        return size

    def dims(self, parameter: int) -> tuple[int, ...]:
        """Return the dimensions of a parameter, to compare them or to tell of them."""
        return self.sizes[parameter]

    def specialise(self) -> None:
        """Let the function be compiled for the values of the call, even of varying arguments."""
        self.refused, self.varying = self.varying, frozenset()

    def fix_sizes(self, reason: Reason) -> None:
        """Let the function be compiled for all sizes of the call."""
        self.exact = reason

    def fit(self, module: Module) -> bool:
        """Whether lowering the function for this call gives what it gave without a call.

        So it does if the call fixes nothing, and sizes that were found to be one are one in it.
        """
        return self.fit_shapes([shape.dims for shape in module.parameter_shapes])

    def fit_shapes(self, shapes: Sequence[Sequence[int | Dim]]) -> bool:
        """Do what `fit` does, given the sizes of the module's parameters."""
        if self.exact is not None or self.rooms or self.varying or self.values or self.fixed:
            return False
        given = [
            (size, number)
            for dims, sizes in zip(shapes, self.sizes, strict=True)
            for size, number in zip(dims, sizes, strict=True)
        ]
        symbols = {str(size): number for size, number in given if isinstance(size, Dim)}
        if not dim_math.symbols_of([size for size, _ in given]) <= symbols.keys():
            return False
        return all(dim_math.evaluate(size, symbols) == number for size, number in given)

    def key(self) -> Key:
        """Return which calls fit what was asked for."""
        ranks = tuple([len(item) for item in self.sizes])
        values, fixed = tuple(self.values.values()), tuple(self.fixed.values())
        return Key(ranks, values, fixed, tuple(self.computed.values()))


Guess = Callable[[int], np.ndarray]
"""Makes up the elements of an argument, given their number."""

GUESSES: tuple[Guess, ...] = (
    lambda count: np.arange(count),
    lambda count: np.arange(count)[::-1] + (count == 1),
)
"""Values that do for most axes, permutations and numbers, and are two different ones."""


class CallNeededError(Exception):
    """What happens depends on the arguments of a call, and there is none."""


class NoArguments(CallArguments):
    """Stands for a call's arguments before there is a call.

    A function is lowered with it to find what it refuses in every call. What a rule refuses of open
    sizes it may take of fixed ones, so sizes that are asked for are typical ones; the refusal is
    certain if it comes again with them. So are values, where `guess` makes some up.
    """

    def __init__(self, shapes: Sequence[Shape], guess: Guess | None = None) -> None:
        """Take the static shapes of the parameters, the only thing that is known.

        Without a `guess`, a value that is asked for raises CallNeededError.
        """
        super().__init__(())
        self._shapes = shapes
        self._guess = guess
        self._asked: list[Reason] = []

    def value(self, parameter: int, name: str, dtype: np.dtype, reason: Reason) -> Value | None:
        """Make a value up; raises CallNeededError where that cannot be."""
        if self._guess is None:
            raise CallNeededError(f"argument '{name}' = ?: {reason}")
        array = self._guess(prod(self.dims(parameter))).astype(dtype)
        return Value(parameter, name, array.reshape(self.dims(parameter)), reason)

    def size(self, parameter: int, axis: int, name: str, reason: Reason) -> int:
        """Return a typical size, and remember for what."""
        self._asked.append(reason)
        return _TYPICAL_SIZE

    def dims(self, parameter: int) -> tuple[int, ...]:
        """Return the dimensions of a parameter if they are static; else raise CallNeededError."""
        shape = self._shapes[parameter]
        known = [size for size in shape or () if size is not None]
        if shape is None or len(known) != len(shape):
            raise CallNeededError(f"parameter {parameter} has no static shape")
        return tuple(known)

    @property
    def is_unused(self) -> bool:
        """Whether nothing was asked for or made up."""
        return self._guess is None and not self._asked

    def decides(self, refusal: Diagnostic) -> bool:
        """Whether another call may be taken where this one was refused."""
        return (
            bool(self._asked)
            and COMPUTED not in refusal.notes
            and not any(
                reason.node == refusal.op_name and refusal.message in reason.what
                for reason in self._asked
            )
        )


def bytes_of(arrays: Mapping[int, np.ndarray] | Sequence[np.ndarray]) -> Reader:
    """Return a reader of arrays."""

    def read(parameter: int, count: int) -> bytes | None:
        data = np.asarray(arrays[parameter]).tobytes()
        return data if len(data) == count else None

    return read
