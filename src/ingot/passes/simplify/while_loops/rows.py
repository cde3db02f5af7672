# SPDX-License-Identifier: Apache-2.0
"""Rows: the slices of arrays that a loop's body reads and writes in each trip.

A scan over `xs` reads `xs[i]` by a dynamic slice of one row, and stacks its results by dynamic
updates of one row. For passes that move work on rows out of the loop, onto the whole array.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.rewrite.pattern import splat_of
from ingot.hlo.shape import Shape
from ingot.passes.simplify.while_loops.trip_count import counters, element_index, trip_count
from ingot.support.records import record

_KEPT = ops_with(Trait.RESHAPE_LIKE, also=("convert",))
"""Ops that keep the elements of their operand, in their order."""

_MOST_OPS = 8
"""Between an index and the counters that it is computed from."""


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
    """Return the array that a value, perhaps converted, is a row of; None if it is not one.

    Args:
        value: in the body of a loop, of static shape.
        invariant: the instructions of the body that are the same in each trip.
    """
    source = value
    while source.opcode in _KEPT:
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
    """Return `[count, *dims of the row]`: the value of the row for all rows of the array.

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
    return build.reshape_to(build.slice_at(stack, axis, index, 1), dims)


def put(build: Builder, stack: Instruction, value: Instruction, index: Instruction) -> Instruction:
    """Return a stack with a value as its row `index` along dimension 0."""
    row = build.reshape_to(value, (1, *value.shape.static_dims))
    return build.update_at(stack, row, 0, index)


def empty_stack(build: Builder, count: int, of: Shape) -> Instruction:
    """Return zeros for `count` rows of a shape."""
    return build.full(0, of.with_dims((count, *of.static_dims)))


@record
class Trips:
    """The trips of a counted loop.

    Attributes:
        count: how often the body runs.
        counters: (first value, step) of the elements of the state that count
            (`trip_count.counters`).
    """

    count: int
    counters: Mapping[int, tuple[int, int]]

    def visits_each(self, index: Instruction) -> bool:
        """Whether an index takes each of 0..count-1 in exactly one trip."""
        return self.affine(index) in ((1, 0), (-1, self.count - 1))

    def affine(self, value: Instruction, depth: int = 0) -> tuple[int, int] | None:
        """Return (factor, offset) of an integer that is `factor * number of the trip + offset`.

        None if it is not seen to be one, leaves the range of its type in some trip, or is behind
        more than a few ops (`depth`: how many).
        """
        if not value.shape.is_array or not value.shape.dtype.is_integer or depth > _MOST_OPS:
            return None
        found, element = self._formula(value, depth), value.shape.dtype
        return found if self._is_within(found, least(element), greatest(element)) else None

    def _formula(self, value: Instruction, depth: int) -> tuple[int, int] | None:
        """Return `affine`, in integers without bounds."""
        number = splat_of(value)
        if number is not None:
            return 0, int(number)
        match value.opcode:
            case "get-tuple-element":
                return self._counter(value)
            case _ if value.opcode in _KEPT:
                return self.affine(value.operands[0], depth + 1)
            case "clamp":
                return self._clamped(value, depth + 1)
            case "add":
                return self._combined(value, 1, depth + 1)
            case "subtract":
                return self._combined(value, -1, depth + 1)
            case _:
                return None

    def _combined(self, value: Instruction, sign: int, depth: int) -> tuple[int, int] | None:
        left, right = (self.affine(operand, depth) for operand in value.operands)
        if left is None or right is None:
            return None
        return left[0] + sign * right[0], left[1] + sign * right[1]

    def _counter(self, value: Instruction) -> tuple[int, int] | None:
        (state,) = value.operands
        number = element_index(value, state)
        if state.opcode != "parameter" or number is None or number not in self.counters:
            return None
        start, step = self.counters[number]
        return step, start

    def _clamped(self, value: Instruction, depth: int) -> tuple[int, int] | None:
        """Return the clamped value, if it is within the bounds in each trip."""
        low, inner, high = value.operands
        found, bounds = self.affine(inner, depth), (splat_of(low), splat_of(high))
        if None in bounds:
            return None
        return found if self._is_within(found, *bounds) else None

    def _is_within(self, found: tuple[int, int] | None, low: Any, high: Any) -> bool:
        """Whether a formula gives numbers between two bounds in each trip."""
        if found is None:
            return False
        factor, offset = found
        ends = (offset, offset + factor * (self.count - 1))
        return low <= min(ends) and max(ends) <= high


def trips_of(loop: Instruction) -> Trips | None:
    """Return the trips of a loop, or None if it is not known how many there are, or none."""
    count = trip_count(loop)
    return Trips(count, counters(loop, count)) if count else None
