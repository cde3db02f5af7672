# SPDX-License-Identifier: Apache-2.0
"""Dynamic slices and updates along a divided dimension: each device does its own part.

Examples are a cache of keys and values, divided along the sequence, and a batch that a loop takes
examples of. A slice that begins at a run-time index may lie in any part, or in two. Every device
takes a slice of that size of its own part, the nearest one, and a mask selects the elements that
are meant: an update keeps the others, and a slice replaces them by zeros, so that its results are
summands.

Source: xla/service/spmd/spmd_partitioner.cc (HandleDynamicUpdateSlice, HandleDynamicSlice), which
takes one element at a time.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.along import index_along, padded
from ingot.passes.spmd.division import (
    Annotations,
    divided_too,
    local_shape,
    own_axis,
    whole_shape,
)
from ingot.passes.spmd.indexed import held
from ingot.passes.spmd.reshard import between
from ingot.passes.spmd.sharding import Sharding, count_of
from ingot.passes.spmd.values import Values
from ingot.support.records import record

_INDEX_LIMIT = 1 << 31


@record
class _Along:
    """The dimension that a slice is taken along.

    Attributes:
        axis: the dimension.
        taken: the size of the slice.
        size: the size of a part.
        local: where the slice begins, counted from the start of the part; an s32 scalar.
        begin: the index in the part where the device begins to look.
    """

    axis: int
    taken: int
    size: int
    local: Instruction
    begin: Instruction


def update_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace the dynamic-update-slice `op` along a divided dimension; return whether it is."""
    if values.summands(op):
        return False
    values.sum_operands(op)
    target, update, *starts = op.operands
    wanted = next((one for one in annotated if one is not None), values.sharding(target))
    division = values.division(op, annotated)
    if division is None:
        return False
    axis = own_axis(division, wanted, division.results[0], op.shape.rank)
    if axis is None or not _fits(values, wanted, target, update.shape.static_dims[axis], axis):
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
    is_there = _is_inside(build, sizes, axis, (shift, along.taken))
    kept = build.select(is_there, new, old)
    made = build.emit("dynamic-update-slice", part, kept, *firsts)
    values.replace_part(op, made, (sharding,), annotated)
    return True


def slice_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace the dynamic-slice `op` along a divided dimension; return whether it is."""
    target, *starts = op.operands
    given, division = values.sharding(target), values.division(op, annotated)
    if division is None or op.shape.dtype is PRED:
        return False
    axis = own_axis(division, given, division.operands[0], op.shape.rank)
    if axis is None or not _fits(values, given, target, op.shape.static_dims[axis], axis):
        return False
    taken, column = op.shape.static_dims[axis], given.column(axis)
    if 2 * taken > target.shape.static_dims[axis] * count_of(column):
        return False  # To sum the results would take longer than to gather the operand.
    sharding = divided_too(division.operands[0], axis, column, op.shape.rank)
    part = values.convert(target, sharding)
    along = _along(values, op, (part, sharding, axis), taken, starts)
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


def _fits(values: Values, wanted: Sharding, target: Instruction, taken: int, axis: int) -> bool:
    """Whether a slice fits into a part along a dimension of an array, and its indices into s32."""
    whole = whole_shape(target.shape, values.sharding(target)).static_dims
    size, rest = divmod(whole[axis], count_of(wanted.column(axis)))
    return not rest and taken <= size and max(whole) < _INDEX_LIMIT


def _along(
    values: Values,
    op: Instruction,
    target: tuple[Instruction, Sharding, int],
    taken: int,
    starts: list[Instruction],
) -> _Along:
    part, sharding, axis = target
    build, size = values.resharder.builder(op), part.shape.static_dims[axis]
    column = sharding.column(axis)
    start = build.convert_to(held(build, starts[axis], size * count_of(column) - taken + 1), S32)
    offset = values.resharder.part_offset(build, column, size)
    local = build.subtract(start, offset)
    least, most = build.constant(0, S32), build.constant(size - taken, S32)
    return _Along(axis, taken, size, local, build.clamp(least, local, most))


def _firsts(build: Builder, starts: list[Instruction], along: _Along) -> list[Instruction]:
    """Return where the device begins to look, in each dimension; s32 scalars."""
    found = [build.convert_to(held(build, start, _INDEX_LIMIT), S32) for start in starts]
    found[along.axis] = along.begin
    return found


def _shifted(build: Builder, value: Instruction, along: _Along, shift: Instruction) -> Instruction:
    """Return a value of the same size from `shift` on; it has any elements where there are none."""
    if along.taken == 1:
        return value
    wide = padded(build, value, along.axis, (along.taken, along.taken, 0))
    first = build.add(shift, build.constant(along.taken, S32))
    return build.slice_at(wide, along.axis, first, along.taken)


def _is_inside(
    build: Builder, dims: tuple[int, ...], axis: int, bound: tuple[Instruction, int]
) -> Instruction:
    """Return whether the index along a dimension, plus a scalar, is from 0 to below `limit`."""
    first, limit = bound
    index = index_along(build, dims, axis)
    moved = build.add(index, build.broadcast_to(first, dims, ()))
    return between(build, moved, build.full(0, index.shape), build.full(limit, index.shape))
