# SPDX-License-Identifier: Apache-2.0
"""Dynamic slices and updates along a divided dimension: each device does its own rows.

Examples are a cache of keys and values, divided along the sequence, and a batch that a loop takes
rows of. Rows that begin at a run-time index may lie in any part, or in two. Every device takes as
many rows of its own part, the nearest ones, and a mask selects those that are meant: an update
keeps the others, and a slice replaces them by zeros, so that its results are summands.

Source: xla/service/spmd/spmd_partitioner.cc (HandleDynamicUpdateSlice, HandleDynamicSlice), which
takes one row at a time.
"""

from __future__ import annotations

import numpy as np

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.spmd.division import (
    Annotations,
    divided_too,
    is_apart,
    local_shape,
    whole_shape,
)
from ingot.passes.spmd.indexed import held
from ingot.passes.spmd.reshard import between
from ingot.passes.spmd.rows import padded, row_numbers
from ingot.passes.spmd.sharding import Sharding, count_of
from ingot.passes.spmd.values import Values
from ingot.support.records import record

_INDEX_LIMIT = 1 << 31


@record
class _Along:
    """The dimension that rows are taken along.

    Attributes:
        axis: the dimension.
        rows: the number of rows that are taken.
        size: the rows of a part.
        local: where they begin, counted from the first row of the part; an s32 scalar.
        begin: the row of the part where the device begins to look.
    """

    axis: int
    rows: int
    size: int
    local: Instruction
    begin: Instruction


def update_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace an update along a divided dimension; return whether that was done."""
    if values.summands(op):
        return False
    values.sum_operands(op)
    target, update, *starts = op.operands
    wanted = next((one for one in annotated if one is not None), values.sharding(target))
    division = values.division(op, annotated)
    if division is None:
        return False
    axis = _axis(values, (wanted, division.results[0]), target, update.shape)
    if axis is None or not is_apart(division, wanted.column(axis)):
        return False
    sharding = divided_too(division.results[0], axis, wanted.column(axis), op.shape.rank)
    part = values.convert(target, sharding)
    given = values.convert(update, division.operands[1])
    along = _along(values, op, (part, sharding, axis), given.shape.static_dims[axis], starts)
    build = values.resharder.builder(op)
    firsts = _firsts(build, starts, along)
    sizes = given.shape.static_dims
    old = build.emit("dynamic-slice", part, *firsts, dynamic_slice_sizes=sizes)
    shift = build.subtract(along.begin, along.local)
    new = _shifted(build, given, along, shift)
    is_there = _is_inside(build, sizes, axis, (shift, along.rows))
    rows = build.select(is_there, new, old)
    made = build.emit("dynamic-update-slice", part, rows, *firsts)
    values.replace_part(op, made, (sharding,), annotated)
    return True


def slice_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace a dynamic slice along a divided dimension; return whether that was done."""
    target, *starts = op.operands
    given, division = values.sharding(target), values.division(op, annotated)
    if division is None or op.shape.dtype is PRED:
        return False
    axis = _axis(values, (given, division.operands[0]), target, op.shape)
    if axis is None or not is_apart(division, given.column(axis)):
        return False
    rows, column = op.shape.static_dims[axis], given.column(axis)
    if 2 * rows > target.shape.static_dims[axis] * count_of(column):
        return False  # To sum the results would take longer than to gather the operand.
    sharding = divided_too(division.operands[0], axis, column, op.shape.rank)
    part = values.convert(target, sharding)
    along = _along(values, op, (part, sharding, axis), rows, starts)
    build = values.resharder.builder(op)
    firsts = _firsts(build, starts, along)
    sizes = local_shape(op.shape, division.results[0]).static_dims
    found = build.emit("dynamic-slice", part, *firsts, dynamic_slice_sizes=sizes)
    shift = build.subtract(along.local, along.begin)
    moved = _shifted(build, found, along, shift)
    is_there = _is_inside(build, sizes, axis, (along.local, along.size))
    made = build.select(is_there, moved, build.full(0, moved.shape))
    result = division.results[0].of_summands(column, op.shape.rank)
    values.replace_part(op, made, (result,), annotated)
    return True


def _axis(
    values: Values, ends: tuple[Sharding, Sharding], target: Instruction, taken: Shape
) -> int | None:
    """Return the only dimension of an array that the first sharding divides and the second not.

    None if the rows that are taken do not fit into a part, or their index into s32.
    """
    given, kept = ends
    whole = whole_shape(target.shape, values.sharding(target)).static_dims
    changed = given.changed(kept, target.shape.rank)
    if len(changed) != 1 or any(kept.column(changed[0])) or max(whole) >= _INDEX_LIMIT:
        return None
    (axis,) = changed
    size, rest = divmod(whole[axis], count_of(given.column(axis)))
    return axis if not rest and taken.static_dims[axis] <= size else None


def _along(
    values: Values,
    op: Instruction,
    target: tuple[Instruction, Sharding, int],
    rows: int,
    starts: list[Instruction],
) -> _Along:
    part, sharding, axis = target
    build, size = values.resharder.builder(op), part.shape.static_dims[axis]
    column = sharding.column(axis)
    start = build.convert_to(held(build, starts[axis], size * count_of(column) - rows + 1), S32)
    offset = values.resharder.of_device(build, np.array(column, np.int32) * np.int32(size))
    local = build.subtract(start, offset)
    least, most = build.constant(0, S32), build.constant(size - rows, S32)
    return _Along(axis, rows, size, local, build.clamp(least, local, most))


def _firsts(build: Builder, starts: list[Instruction], along: _Along) -> list[Instruction]:
    """Return where the device begins to look, in each dimension; s32 scalars."""
    found = [build.convert_to(held(build, start, _INDEX_LIMIT), S32) for start in starts]
    found[along.axis] = along.begin
    return found


def _shifted(build: Builder, rows: Instruction, along: _Along, shift: Instruction) -> Instruction:
    """Return the rows from `shift` on, as many as there are; any rows where there are none."""
    if along.rows == 1:
        return rows
    wide = padded(build, rows, along.axis, (along.rows, along.rows, 0))
    first = build.add(shift, build.constant(along.rows, S32))
    return build.slice_at(wide, along.axis, first, along.rows)


def _is_inside(
    build: Builder, dims: tuple[int, ...], axis: int, bound: tuple[Instruction, int]
) -> Instruction:
    """Return whether the index along a dimension, plus a scalar, is inside of `limit` rows."""
    first, limit = bound
    index = row_numbers(build, dims, axis)
    moved = build.add(index, build.broadcast_to(first, dims, ()))
    return between(build, moved, build.full(0, index.shape), build.full(limit, index.shape))
