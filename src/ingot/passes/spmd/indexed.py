# SPDX-License-Identifier: Apache-2.0
"""Gathers, scatters, slices and updates along a divided dimension: each device does its own part.

An embedding table is divided so, with its gradient, or a cache of keys and values along the
sequence. Each device subtracts from the indices where its part begins. A gather takes zeros where
an index is of another part, so its results are summands. A scatter drops the indices outside of its
operand, so its results are parts, with no exchange.

A slice that begins at a run-time index may lie in any part, or in two. Every device takes a slice
of that size of its own part, the nearest one, and a mask selects the elements that are meant: an
update keeps the others, and a slice replaces them by zeros, so that its results are summands.

Invariant: devices that have different parts of the operand have equal indices; otherwise the
operand is gathered.

Source: xla/service/spmd/gather_scatter_handler.cc (trivially sliced operand dimensions);
spmd_partitioner.cc (HandleDynamicUpdateSlice, HandleDynamicSlice), which takes one element at a
time.
"""

from __future__ import annotations

import math

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import IndexMap
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.passes.spmd.division import (
    Annotations,
    divided_too,
    local_attributes,
    local_shape,
    own_axis,
    still_summed,
    whole_shape,
)
from ingot.passes.spmd.reshard import between
from ingot.passes.spmd.sharding import Column, Sharding, count_of
from ingot.passes.spmd.values import Values
from ingot.support.records import record


def gather_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace the gather `op` along a divided dimension; return whether that was done."""
    operand, indices = op.operands
    division = values.division(op, annotated)
    if division is None or op.shape.dtype is PRED:
        return False
    given, (kept, divided) = values.sharding(operand), division.operands
    how, rank = op.attributes.index_map, operand.shape.rank
    axis = own_axis(division, given, kept, rank)
    if axis is None or not _is_indexed(how, axis):
        return False
    column = given.column(axis)
    size = operand.shape.static_dims[axis] * count_of(column)
    whole = whole_shape(operand.shape, given)
    if 2 * math.prod(op.shape.static_dims) > math.prod(whole.static_dims):
        return False  # To sum the results would take longer than to gather the operand.
    part = values.convert(operand, divided_too(kept, axis, column, rank))
    build = values.resharder.builder(op)
    given_indices = _wide(build, values.convert(indices, divided))
    own = held(build, _component(build, given_indices, how, axis), size)
    own = _from_part(values, build, own, (part, axis, column))
    made = values.computation.copy_of(op, [part, _with(build, given_indices, how, axis, own)])
    values.computation.set_shape(made, local_shape(op.shape, division.results[0]))
    values.computation.set_attributes(made, local_attributes(op, made, division))
    here = between(build, own, 0, part.shape.static_dims[axis])
    if how.index_vector_dim < own.shape.rank:
        dims = own.shape.dims
        left = (*dims[: how.index_vector_dim], *dims[how.index_vector_dim + 1 :])
        here = build.reshape_to(here, left)
    batch = tuple(dim for dim in range(op.shape.rank) if dim not in how.window_dims)
    mask = build.broadcast_to(here, made.shape.dims, batch)
    chosen = build.select(mask, made, 0)
    result = division.results[0].of_summands(column, op.shape.rank)
    values.replace_part(op, chosen, (result,), annotated)
    return True


def scatter_parts(values: Values, op: Instruction, annotated: Annotations) -> bool:
    """Replace the scatter `op` if its result is divided along the indices; return whether it is."""
    values.sum_operands(op)
    division = values.division(op, annotated)
    if len(op.operands) != 3 or division is None or division.fold not in ("", "add"):
        return False
    wanted = next((one for one in annotated if one is not None), values.sharding(op.operands[0]))
    (kept,), rank = division.results, op.shape.rank
    axis = own_axis(division, wanted, kept, rank)
    if axis is None or not _is_indexed(op.attributes.index_map, axis):
        return False
    column = wanted.column(axis)
    target = divided_too(kept, axis, column, rank)
    shardings = (target, *division.operands[1:])
    operand, indices, updates = map(values.convert, op.operands, shardings)
    build = values.resharder.builder(op)
    how, indices = op.attributes.index_map, _wide(build, indices)
    own = _component(build, indices, how, axis)
    own = _from_part(values, build, own, (operand, axis, column))
    own = _with(build, indices, how, axis, own)
    made = values.computation.copy_of(op, [operand, own, updates])
    values.replace_part(op, made, (still_summed(target, division.folded, rank),), annotated)
    return True


def _is_indexed(how: IndexMap, axis: int) -> bool:
    """Whether an index is along a dimension, of which the window takes one element."""
    return axis in how.index_to_operand and axis in how.inserted_dims


def _component(build: RuleBuilder, indices: Instruction, how: IndexMap, axis: int) -> Instruction:
    """Return the index along `axis` of each index vector; the vectors have one element then."""
    if len(how.index_to_operand) == 1:
        return indices
    at = how.index_to_operand.index(axis)
    return _elements_of(build, indices, how, (at, at + 1))


def _with(
    build: RuleBuilder, indices: Instruction, how: IndexMap, axis: int, component: Instruction
) -> Instruction:
    """Return index vectors with another index along `axis`."""
    count = len(how.index_to_operand)
    if count == 1:
        return component
    at = how.index_to_operand.index(axis)
    pieces = [
        _elements_of(build, indices, how, (0, at)) if at else None,
        component,
        _elements_of(build, indices, how, (at + 1, count)) if at + 1 < count else None,
    ]
    found = [piece for piece in pieces if piece is not None]
    return build.emit("concatenate", *found, dimensions=(how.index_vector_dim,))


def _elements_of(
    build: RuleBuilder, indices: Instruction, how: IndexMap, ends: tuple[int, int]
) -> Instruction:
    return build.slice_along(indices, how.index_vector_dim, *ends)


def _wide(build: Builder, indices: Instruction) -> Instruction:
    """Return indices of a type that has the offset of every part."""
    return indices if indices.shape.dtype.bits >= S32.bits else build.convert_to(indices, S32)


def held(build: Builder, indices: Instruction, size: int) -> Instruction:
    """Return indices held inside of a dimension of `size`, as a gather holds them."""
    return build.clamp(0, _wide(build, indices), size - 1)


def _from_part(
    values: Values, build: Builder, indices: Instruction, what: tuple[Instruction, int, Column]
) -> Instruction:
    """Return indices counted from where this device's part begins."""
    part, axis, column = what
    offset = values.resharder.part_offset(build, column, part.shape.static_dims[axis])
    offset = build.convert_to(offset, indices.shape.dtype)
    return build.subtract(indices, build.broadcast_to(offset, indices.shape.dims, ()))


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
    is_there = _is_in_range(build, sizes, axis, (shift, along.taken))
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
    is_there = _is_in_range(build, sizes, axis, (along.local, along.size))
    made = build.select(is_there, moved, 0)
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
    return _Along(axis, taken, size, local, build.clamp(0, local, size - taken))


def _firsts(build: Builder, starts: list[Instruction], along: _Along) -> list[Instruction]:
    """Return where the device begins to look, in each dimension; s32 scalars."""
    found = [build.convert_to(held(build, start, _INDEX_LIMIT), S32) for start in starts]
    found[along.axis] = along.begin
    return found


def _shifted(build: Builder, value: Instruction, along: _Along, shift: Instruction) -> Instruction:
    """Return a value of the same size from `shift` on; it has any elements where there are none."""
    if along.taken == 1:
        return value
    wide = build.pad_along(value, along.axis, (along.taken, along.taken, 0))
    return build.slice_at(wide, along.axis, build.add(shift, along.taken), along.taken)


def _is_in_range(
    build: Builder, dims: tuple[int, ...], axis: int, bound: tuple[Instruction, int]
) -> Instruction:
    """Return whether the index along a dimension, plus a scalar, is from 0 to below `limit`."""
    first, limit = bound
    index = build.index_along(dims, axis)
    moved = build.add(index, build.broadcast_to(first, dims, ()))
    return between(build, moved, 0, limit)
