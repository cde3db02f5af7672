# SPDX-License-Identifier: Apache-2.0
"""Split values: what stands for values with complex numbers while a computation is split.

A split value is an instruction (whole: one without complex numbers, or one that was left complex),
a `Pair` of real and imaginary part, or a tuple of split values. `parts` and `whole` make one of the
other on demand, once.

Split values cross the borders of computations in one of two ways: nested (`f32[2]` beside `c64[3]`
is `(f32[2], (f32[3], f32[3]))`, so indices of tuple elements stay what they are), or flat (three
values), where an op takes and gives lists of arrays.

Invariant: `parts` and `whole` add instructions and change none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import REAL_OF
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import fresh, mutable, record


class Pair(NamedTuple):
    """Real and imaginary part of a complex array."""

    re: Instruction
    im: Instruction


@record
class Group:
    """The split values of a tuple's elements."""

    elements: tuple[SplitValue, ...]


SplitValue = Instruction | Pair | Group


def has_complex(shape: Shape) -> bool:
    """Whether there is a complex array in a shape."""
    if shape.elements:
        return any(map(has_complex, shape.elements))
    return shape.dtype.is_complex


def split_shape(shape: Shape) -> Shape:
    """Return the nested shape of the parts: complex arrays become pairs of arrays."""
    if shape.is_tuple:
        return Shape.tuple(tuple(map(split_shape, shape.elements)))
    if not shape.dtype.is_complex:
        return shape
    part = shape.with_dtype(REAL_OF[shape.dtype])
    return Shape.tuple((part, part))


def flat_shapes(shape: Shape) -> list[Shape]:
    """Return the shapes of the leaves of the parts."""
    return [leaf for _, leaf in split_shape(shape).leaves()]


@mutable
class SplitValues:
    """The split values of one computation.

    `superseded` holds the calls, loops and branches that were replaced, and are removed even if
    they have effects.
    """

    computation: Computation
    superseded: set[Instruction] = fresh(factory=set)
    _known: dict[Instruction, SplitValue] = fresh(factory=dict)
    _parts: dict[Instruction, Pair] = fresh(factory=dict)
    _wholes: dict[Pair, Instruction] = fresh(factory=dict)

    def of(self, instruction: Instruction) -> SplitValue:
        """Return what stands for an instruction of the program as it was."""
        return self._known.get(instruction, instruction)

    def set(self, instruction: Instruction, split: SplitValue) -> None:
        """Note what stands for an instruction."""
        self._known[instruction] = split

    # ---- the two sides of a complex array

    def parts(self, split: SplitValue) -> Pair:
        """Return the parts of a complex array."""
        if isinstance(split, Pair):
            return split
        assert isinstance(split, Instruction), "a tuple has no parts"
        found = self._parts.get(split)
        if found is None:
            found = self._parts[split] = self._taken_apart(split)
        return found

    def _taken_apart(self, value: Instruction) -> Pair:
        build = Builder(self.computation, value.metadata)
        if value.opcode == "constant":
            array, element = value.attributes.literal.value, REAL_OF[value.shape.dtype]
            return Pair(build.constant(array.real, element), build.constant(array.imag, element))
        return Pair(build.real(value), build.imag(value))

    def whole(self, split: SplitValue) -> Instruction:
        """Return the value as the program had it."""
        if isinstance(split, Instruction):
            return split
        if isinstance(split, Group):
            build = Builder(self.computation)
            return build.tuple(*map(self.whole, split.elements))
        found = self._wholes.get(split)
        if found is None:
            build = Builder(self.computation, split.re.metadata)
            found = self._wholes[split] = build.complex(split.re, split.im)
        return found

    # ---- borders

    def nested(self, split: SplitValue) -> Instruction:
        """Return the value of nested parts."""
        build = Builder(self.computation)
        if isinstance(split, Group):
            return build.tuple(*map(self.nested, split.elements))
        if isinstance(split, Instruction) and not has_complex(split.shape):
            return split
        if isinstance(split, Instruction) and split.shape.is_tuple:
            return self.nested(self.elements(split))
        return build.tuple(*self.parts(split))

    def flat(self, split: SplitValue) -> list[Instruction]:
        """Return the leaves of the parts."""
        if isinstance(split, Instruction) and split.shape.is_tuple:
            split = self.elements(split)
        if isinstance(split, Group):
            return [leaf for element in split.elements for leaf in self.flat(element)]
        if isinstance(split, Instruction) and not has_complex(split.shape):
            return [split]
        return list(self.parts(split))

    def elements(self, split: SplitValue) -> Group:
        """Return the split values of a tuple's elements."""
        if isinstance(split, Group):
            return split
        assert isinstance(split, Instruction), "an array has no elements"
        return Group(tuple(Builder(self.computation, split.metadata).elements_of(split)))

    def from_nested(self, value: Instruction, shape: Shape) -> SplitValue:
        """Return the split value of nested parts of a value that had `shape`."""
        if not has_complex(shape):
            return value
        inner = Builder(self.computation, value.metadata).elements_of(value)
        if not shape.is_tuple:
            return Pair(*inner)
        return Group(tuple(map(self.from_nested, inner, shape.elements)))


def from_flat(leaves: Iterator[Instruction], shape: Shape) -> SplitValue:
    """Return the split value of the leaves of its parts, in order; the value had `shape`."""
    if shape.is_tuple:
        return Group(tuple(from_flat(leaves, element) for element in shape.elements))
    if shape.dtype.is_complex:
        return Pair(next(leaves), next(leaves))
    return next(leaves)
