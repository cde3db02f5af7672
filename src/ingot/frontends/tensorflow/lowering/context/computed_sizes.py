# SPDX-License-Identifier: Apache-2.0
"""Sizes that only run time knows: an integer of the program becomes a size of its shapes.

The HLO gets a definition of the size (`hlo.size_definitions`), and every rule treats it like the
size of an argument. Where it must be equal to another size, an assertion says so when the program
runs, and the op is lowered with operands that have one size (`with_equal_sizes`).

Invariant: the integer is computed in the frame that the size is used in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from ingot.frontends.tensorflow.lowering.context.frame import Frame
from ingot.frontends.tensorflow.lowering.context.sizes import SizesDifferError, solve
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import (
    Known,
    Size,
    TensorList,
    Value,
    object_array,
    plain_size,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.size_definitions import define_size
from ingot.semantics.assertions import emit_assertion


def computed_size(frame: Frame, count: Instruction) -> Dim:
    """Return the size that `count`, an integer of rank 0, is when the program runs."""
    name = frame.program.new_size()
    frame.sizes[name] = frame.builder.convert_to(count, S64)
    define_size(frame.builder, frame.sizes[name], name)
    return Dim.symbol(name)


def without_bound(b: TensorBuilder, x: Instruction, axis: int) -> Instruction:
    """Return an array of which each element along an axis counts, not only the first ones."""
    bounded = [is_bounded and n != axis for n, is_bounded in enumerate(x.shape.bounded)]
    if any(bounded):
        shape = Shape(x.shape.dtype, x.shape.dims, x.shape.layout, (), tuple(bounded))
    else:
        shape = Shape.array(x.shape.dtype, x.shape.dims)
    size = b.scalar(x.shape.dims[axis], S32)
    return b.emit("set-dimension-size", x, size, shape=shape, dimensions=(axis,))


def with_equal_sizes(frame: Frame, values: Sequence[Value], found: SizesDifferError) -> list[Value]:
    """Assert that two sizes are equal; return an op's operands with one of them in place of both.

    An operand gets the other size by a slice, which is whole where the assertion holds.
    """
    b, left, right = frame.builder, found.left, found.right
    text = f"Incompatible shapes: the sizes {left} and {right} must be equal"
    if found.broadcasts:
        text += "; one that is computed is not broadcast where it is 1"
    emit_assertion(b, b.compare(b.size(left), b.size(right), direction="EQ"), text)
    for replace_size in _replacements(frame, left, right):
        made = [with_sizes(frame, value, replace_size) for value in values]
        if any(new is not old for new, old in zip(made, values, strict=True)):
            return made
    raise found.refusal()


def _replacements(frame: Frame, left: Size, right: Size) -> Iterator[Callable[[Size], Size]]:
    """Yield what may bring one of two equal sizes into the place of the other."""
    if frame.program.is_computed((left,)) and not frame.program.is_computed((right,)):
        left, right = right, left
    for old, new in ((right, left), (left, right)):
        if not isinstance(old, int):
            yield lambda size, old=old, new=new: new if size == old else size
    gap = left - right
    solution = solve(gap, frame.program.computed) if isinstance(gap, Dim) else None
    if solution is not None:
        known = dict([solution])
        yield lambda size: dim_math.substitute(size, known)


def with_sizes(frame: Frame, value: Value, replaced: Callable[[Size], Size]) -> Value:
    """Return a value with its sizes replaced: its first elements."""
    if isinstance(value, Instruction):
        return _cut(frame, value, replaced)
    if isinstance(value, Known) and value.is_symbolic:
        sizes = [replaced(plain_size(item)) for item in value.array.ravel()]
        if sizes != value.array.ravel().tolist():
            return Known.of(object_array(sizes).reshape(value.array.shape), value.element)
    if isinstance(value, TensorList) and value.buffer is not None:
        buffer = _cut(frame, value.buffer, replaced)
        if buffer is not value.buffer:
            dims = None if value.dims is None else tuple(map(replaced, value.dims))
            length = value.length if value.is_counted else buffer.shape.dims[0]
            return replace(value, buffer=buffer, length=length, dims=dims)
    return value


def _cut(frame: Frame, value: Instruction, replaced: Callable[[Size], Size]) -> Instruction:
    """Return the part of an array from index 0 that has the sizes in place of its own."""
    dims = tuple(map(replaced, value.shape.dims))
    if dims == value.shape.dims:
        return value
    zeros = [frame.builder.constant(0, S64)] * len(dims)
    return frame.builder.emit("dynamic-slice", value, *zeros, dynamic_slice_sizes=dims)


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
            flat = np.ravel_multi_index(index, value.shape.static_dims)
            dims = operand.shape.static_dims
            index = tuple(map(int, np.unravel_index(flat, dims))) if dims else ()
            value = operand
        elif value.opcode == "broadcast":
            axes: tuple[int, ...] = value.attributes.dimensions
            index = tuple(index[axis] for axis in axes)
            value = value.operands[0]
        else:
            for axis, start in enumerate(index):
                value = b.sliced(value, axis, start, start + 1)
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
