# SPDX-License-Identifier: Apache-2.0
"""Rows: what a loop's body takes of an array in each trip, and what it puts into one.

A scan over `xs` reads `xs[i]` by a dynamic slice of one row, and stacks its results by dynamic
updates of one row. For passes that move work on rows out of the loop, onto the whole array.
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import splat_of
from ingot.hlo.shape import Shape
from ingot.passes.simplify.trip_count import Induction, element_index
from ingot.support.records import record


@record
class Row:
    """A value of a loop's body that is one row of an array that the loop does not change.

    Attributes:
        value: the row itself, in the body.
        array: the array, in the body.
        axis: the dimension of the array along which the rows lie.
        index: which row it is, an integer of rank 0 in the body.
    """

    value: Instruction
    array: Instruction
    axis: int
    index: Instruction

    @property
    def count(self) -> int:
        """How many rows the array has."""
        return self.array.shape.static_dims[self.axis]


def row_of(value: Instruction, invariant: Container[Instruction]) -> Row | None:
    """Return of which array a value is a row, be it converted; None if it is not one.

    Args:
        value: in the body of a loop, of static shape.
        invariant: the instructions of the body that are the same in each trip.
    """
    source = value
    while source.opcode in ("reshape", "convert"):
        source = source.operands[0]
    if source.opcode != "dynamic-slice" or source.operands[0] not in invariant:
        return None
    array, *starts = source.operands
    if not array.shape.is_static:
        return None
    dims, sizes = array.shape.static_dims, source.shape.static_dims
    cut = [axis for axis, size in enumerate(dims) if sizes[axis] != size]
    if len(cut) != 1 or sizes[cut[0]] != 1:
        return None
    axis = cut[0]
    others = (splat_of(start) for n, start in enumerate(starts) if n != axis)
    if any(start != 0 for start in others):
        return None
    return Row(value, array, axis, starts[axis])


def whole(build: Builder, row: Row, array: Instruction) -> Instruction:
    """Return `[count, *dims of the row]`: what the row is, for all rows of the array.

    `array` is the row's array where `build` adds instructions.
    """
    rank = array.shape.rank
    if row.axis:
        order = (row.axis, *(n for n in range(rank) if n != row.axis))
        dims = tuple(array.shape.static_dims[n] for n in order)
        array = build.transpose(array, shape=array.shape.with_dims(dims), dimensions=order)
    made = build.reshape_to(array, (row.count, *row.value.shape.static_dims))
    steps: list[Instruction] = []
    source = row.value
    while source.opcode != "dynamic-slice":
        if source.opcode == "convert":
            steps.append(source)
        source = source.operands[0]
    for step in reversed(steps):
        made = build.convert_to(made, step.shape.dtype)
    return made


def taken(
    build: Builder, stack: Instruction, axis: int, index: Instruction, dims: tuple[int, ...]
) -> Instruction:
    """Return row `index` of a stack of rows along an axis, as an array of `dims`."""
    starts = _starts(build, stack.shape.rank, axis, index)
    sizes = list(stack.shape.static_dims)
    sizes[axis] = 1
    made = build.dynamic_slice(stack, *starts, dynamic_slice_sizes=tuple(sizes))
    return build.reshape_to(made, dims)


def put(build: Builder, stack: Instruction, value: Instruction, index: Instruction) -> Instruction:
    """Return a stack with a value as its row `index` along dimension 0."""
    row = build.reshape_to(value, (1, *value.shape.static_dims))
    return build.dynamic_update_slice(stack, row, *_starts(build, stack.shape.rank, 0, index))


def empty_stack(build: Builder, count: int, of: Shape) -> Instruction:
    """Return zeros for `count` rows of a shape."""
    return build.full(0, of.with_dims((count, *of.static_dims)))


def visits_each_once(index: Instruction, induction: Induction, count: int) -> bool:
    """Whether an index takes each of 0..count-1 in exactly one trip of a counted loop."""
    found = _affine(index, induction.index)
    if found is None or induction.trips != count:
        return False
    factor, offset = found
    first = factor * induction.start + offset
    step = factor * induction.step
    return abs(step) == 1 and {first, first + step * (count - 1)} == {0, count - 1}


def _affine(index: Instruction, counter: int) -> tuple[int, int] | None:
    """Return (factor, offset) of an index that is `factor * state[counter] + offset`, in s32."""
    if index.opcode == "get-tuple-element":
        state = index.operands[0]
        is_state = state.opcode == "parameter" and element_index(index, state) == counter
        return (1, 0) if is_state else None
    number = splat_of(index)
    if number is not None and index.shape.dtype.is_integer:
        return 0, int(number)
    if index.opcode == "convert" and index.shape.dtype.is_integer:
        return _affine(index.operands[0], counter)
    if index.opcode not in ("add", "subtract"):
        return None
    left, right = (_affine(operand, counter) for operand in index.operands)
    if left is None or right is None:
        return None
    sign = 1 if index.opcode == "add" else -1
    return left[0] + sign * right[0], left[1] + sign * right[1]


def _starts(build: Builder, rank: int, axis: int, index: Instruction) -> list[Instruction]:
    zero = build.constant(np.zeros((), index.shape.dtype.numpy), index.shape.dtype)
    return [index if n == axis else zero for n in range(rank)]
