# SPDX-License-Identifier: Apache-2.0
"""Forms of values with complex numbers while a computation is split into parts.

A form is an instruction (whole: one without complex numbers, or one that was left complex), a
`Pair` of real and imaginary part, or a tuple of forms. Forms are lazy: `parts` and `whole` make the
other form on demand, once.

Split values cross the borders of computations in one of two ways: nested (`f32[2]` beside `c64[3]`
is `(f32[2], (f32[3], f32[3]))`, so indices of tuple elements stay what they are), or flat (three
values), where an op takes and gives lists of arrays.

Invariant: making the other form adds instructions and changes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import C64, F32, F64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import fresh, record


class Pair(NamedTuple):
    """Real and imaginary part of a complex array."""

    re: Instruction
    im: Instruction


@record
class Group:
    """The forms of a tuple's elements."""

    elements: tuple[Form, ...]


Form = Instruction | Pair | Group


def has_complex(shape: Shape) -> bool:
    """Whether there is a complex array in a shape."""
    if shape.elements:
        return any(map(has_complex, shape.elements))
    return shape.dtype.is_complex


def part_type(element: DType) -> DType:
    """Return the type of the parts of a complex type."""
    return F32 if element is C64 else F64


def split_shape(shape: Shape) -> Shape:
    """Return the nested shape of the parts: complex arrays become pairs of arrays."""
    if shape.is_tuple:
        return Shape.tuple(tuple(map(split_shape, shape.elements)))
    if not shape.dtype.is_complex:
        return shape
    part = shape.with_dtype(part_type(shape.dtype))
    return Shape.tuple((part, part))


def flat_shapes(shape: Shape) -> list[Shape]:
    """Return the shapes of the leaves of the parts."""
    return [leaf for _, leaf in split_shape(shape).leaves()]


@dataclass(slots=True)
class Forms:
    """The forms of the values of one computation.

    `superseded` holds the calls, loops and branches that were replaced, and are removed even if
    they have effects.
    """

    computation: Computation
    superseded: set[Instruction] = field(default_factory=fresh(set[Instruction]))
    _known: dict[Instruction, Form] = field(default_factory=fresh(dict[Instruction, Form]))
    _parts: dict[Instruction, Pair] = field(default_factory=fresh(dict[Instruction, Pair]))
    _wholes: dict[Pair, Instruction] = field(default_factory=fresh(dict[Pair, Instruction]))

    def of(self, instruction: Instruction) -> Form:
        """Return the form of an instruction of the program as it was."""
        return self._known.get(instruction, instruction)

    def set(self, instruction: Instruction, form: Form) -> None:
        """Note the form of an instruction."""
        self._known[instruction] = form

    # ---- the two sides of a complex array

    def parts(self, form: Form) -> Pair:
        """Return the parts of a complex array."""
        if isinstance(form, Pair):
            return form
        assert isinstance(form, Instruction), "a tuple has no parts"
        found = self._parts.get(form)
        if found is None:
            found = self._parts[form] = self._taken_apart(form)
        return found

    def _taken_apart(self, value: Instruction) -> Pair:
        build = Builder(self.computation, value.metadata)
        if value.opcode == "constant":
            array, element = value.attributes.literal.value, part_type(value.shape.dtype)
            return Pair(build.constant(array.real, element), build.constant(array.imag, element))
        return Pair(build.real(value), build.imag(value))

    def whole(self, form: Form) -> Instruction:
        """Return the value as the program had it."""
        if isinstance(form, Instruction):
            return form
        if isinstance(form, Group):
            build = Builder(self.computation)
            return build.tuple(*map(self.whole, form.elements))
        found = self._wholes.get(form)
        if found is None:
            build = Builder(self.computation, form.re.metadata)
            found = self._wholes[form] = build.complex(form.re, form.im)
        return found

    # ---- borders

    def nested(self, form: Form) -> Instruction:
        """Return the value of nested parts."""
        build = Builder(self.computation)
        if isinstance(form, Group):
            return build.tuple(*map(self.nested, form.elements))
        if isinstance(form, Instruction) and not has_complex(form.shape):
            return form
        if isinstance(form, Instruction) and form.shape.is_tuple:
            return self.nested(self.elements(form))
        return build.tuple(*self.parts(form))

    def flat(self, form: Form) -> list[Instruction]:
        """Return the leaves of the parts."""
        if isinstance(form, Instruction) and form.shape.is_tuple:
            form = self.elements(form)
        if isinstance(form, Group):
            return [leaf for element in form.elements for leaf in self.flat(element)]
        if isinstance(form, Instruction) and not has_complex(form.shape):
            return [form]
        return list(self.parts(form))

    def elements(self, form: Form) -> Group:
        """Return the forms of a tuple's elements."""
        if isinstance(form, Group):
            return form
        assert isinstance(form, Instruction), "an array has no elements"
        return Group(tuple(Builder(self.computation, form.metadata).elements_of(form)))

    def from_nested(self, value: Instruction, shape: Shape) -> Form:
        """Return the form of nested parts of a value that had `shape`."""
        if not has_complex(shape):
            return value
        inner = Builder(self.computation, value.metadata).elements_of(value)
        if not shape.is_tuple:
            return Pair(*inner)
        return Group(tuple(map(self.from_nested, inner, shape.elements)))


def from_flat(leaves: Iterator[Instruction], shape: Shape) -> Form:
    """Return the form of a value that had `shape` from the leaves of its parts, in order."""
    if shape.is_tuple:
        return Group(tuple(from_flat(leaves, element) for element in shape.elements))
    if shape.dtype.is_complex:
        return Pair(next(leaves), next(leaves))
    return next(leaves)
