"""Sizes that only run time knows: an integer of the program becomes a size of its shapes.

The HLO gets a definition of the size (`hlo.size_definitions`), and every rule treats it like the
size of an argument. A size that turns out to be another one (`Equalities`) is no size of its own:
an assertion says at run time that both are the same number.

Invariant: the integer is computed in the frame that the size is used in.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.frontends.tensorflow.lowering.frame import Frame
from ingot.frontends.tensorflow.lowering.values import Size
from ingot.hlo.assertions import emit_assertion
from ingot.hlo.dim import Dim, symbols_of
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import define_size


def computed_size(frame: Frame, count: Instruction) -> Size:
    """Return the size that `count`, an integer of rank 0, is when the program runs."""
    b, program = frame.builder, frame.program
    name = program.new_size()
    count = b.convert_to(count, S64)
    (size,) = program.equalities.simplify((Dim.symbol(name),))
    if isinstance(size, Dim) and size.text == name:
        define_size(b, count, name)
        frame.sizes[name] = count
        return size
    same = b.compare(count, b.size(size), direction="EQ")
    emit_assertion(b, same, f"a size that is computed must be {size}")
    return size


def is_computed(frame: Frame, sizes: Sequence[Size]) -> bool:
    """Whether some of the sizes are known only when the program runs."""
    return not symbols_of(sizes).isdisjoint(frame.program.computed)


def elements(frame: Frame, value: Instruction) -> list[Instruction]:
    """Return the elements of an array of integers, row by row, each of rank 0."""
    return [_element(frame, value, index) for index in np.ndindex(value.shape.static_dims)]


def _element(frame: Frame, value: Instruction, index: tuple[int, ...]) -> Instruction:
    """Return an element, behind what only puts elements together."""
    b, dtype = frame.builder, value.shape.dtype
    while index:
        if value.opcode == "convert":
            value = value.operands[0]
        elif value.opcode == "concatenate":
            value, index = _part(value, index)
        elif value.opcode == "reshape":
            (operand,) = value.operands
            place = np.ravel_multi_index(index, value.shape.static_dims)
            dims = operand.shape.static_dims
            index = tuple(map(int, np.unravel_index(place, dims))) if dims else ()
            value = operand
        elif value.opcode == "broadcast":
            axes: tuple[int, ...] = value.attributes.dimensions
            index = tuple(index[axis] for axis in axes)
            value = value.operands[0]
        else:
            for axis, place in enumerate(index):
                value = b.sliced(value, axis, place, place + 1)
            value, index = b.reshape_to(value, ()), ()
    return b.convert_to(value, dtype)


def _part(value: Instruction, index: tuple[int, ...]) -> tuple[Instruction, tuple[int, ...]]:
    """Return the operand of a concatenation that has an element, and its index there."""
    axis: int = value.attributes.dimensions[0]
    number = index[axis]
    for part in value.operands:
        count = part.shape.static_dims[axis]
        if number < count:
            return part, (*index[:axis], number, *index[axis + 1 :])
        number -= count
    raise AssertionError("the index is within the array")


def have_same_ranks(one: Shape, other: Shape) -> bool:
    """Whether two tuples have arrays of the same types and ranks."""
    pairs = zip(one.elements, other.elements, strict=False)
    return len(one.elements) == len(other.elements) and all(
        left.dtype is right.dtype and left.rank == right.rank for left, right in pairs
    )


def with_new_sizes(frame: Frame, shape: Shape, others: Sequence[Shape]) -> Shape:
    """Return a tuple's shape with a new size wherever one of `others` has another one."""
    return Shape.tuple(
        tuple(
            element.with_dims(
                tuple(
                    size
                    if all(other.elements[n].dims[axis] == size for other in others)
                    else Dim.symbol(frame.program.new_size())
                    for axis, size in enumerate(element.dims)
                )
            )
            if element.is_array
            else element
            for n, element in enumerate(shape.elements)
        )
    )


def measured(
    frame: Frame, values: Sequence[Instruction], outside: Frame | None = None
) -> Sequence[Instruction]:
    """Let the frame know the sizes that some arrays bring with them; return the arrays.

    `outside`: the frame around this one, whose sizes are no news.
    """
    b = frame.builder
    for value in values:
        for axis, size in enumerate(value.shape.dims if value.shape.is_array else ()):
            if not isinstance(size, Dim) or not size.is_symbol or size.text in frame.sizes:
                continue
            if outside is not None and size.text in outside.sizes:
                continue
            found = b.emit("get-dimension-size", value, dimensions=(axis,))
            frame.sizes[size.text] = b.convert_to(found, S64)
    return values
