# SPDX-License-Identifier: Apache-2.0
"""Gathers and scatters along a divided dimension: each device looks up what its part has.

An embedding table is divided so, and its gradient. Each device subtracts from the indices where its
part begins. A gather takes zeros where an index is of another part, so its
results are summands. A scatter drops the indices outside of its operand, so its results are parts,
with no exchange.

Invariant: devices that have different parts of the operand have equal indices; otherwise the
operand is gathered.

Source: xla/service/spmd/gather_scatter_handler.cc (trivially sliced operand dimensions).
"""

from __future__ import annotations

import math

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import IndexMap
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.hlo.shape import Shape
from ingot.passes.spmd.along import sliced
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
from ingot.passes.spmd.sharding import Column, count_of
from ingot.passes.spmd.values import Values


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
    if 2 * _elements(op.shape) > _elements(whole_shape(operand.shape, given)):
        return False  # To sum the results would take longer than to gather the operand.
    part = values.convert(operand, divided_too(kept, axis, column, rank))
    build = values.resharder.builder(op)
    given_indices = _wide(build, values.convert(indices, divided))
    own = held(build, _component(build, given_indices, how, axis), size)
    own = build.subtract(own, _begin(values, build, own, (part, axis, column)))
    made = values.computation.copy_of(op, [part, _with(build, given_indices, how, axis, own)])
    values.computation.set_shape(made, local_shape(op.shape, division.results[0]))
    values.computation.set_attributes(made, local_attributes(op, made, division))
    here = _is_inside(build, own, part.shape.static_dims[axis])
    if how.index_vector_dim < own.shape.rank:
        dims = own.shape.dims
        left = (*dims[: how.index_vector_dim], *dims[how.index_vector_dim + 1 :])
        here = build.reshape_to(here, left)
    batch = tuple(dim for dim in range(op.shape.rank) if dim not in how.window_dims)
    mask = build.broadcast_to(here, made.shape.dims, batch)
    chosen = build.select(mask, made, build.full(0, made.shape))
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
    own = build.subtract(own, _begin(values, build, own, (operand, axis, column)))
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
    return sliced(build, indices, how.index_vector_dim, (*ends, 1))


def _elements(shape: Shape) -> int:
    return math.prod(shape.static_dims)


def _wide(build: Builder, indices: Instruction) -> Instruction:
    """Return indices of a type that has the offset of every part."""
    return indices if indices.shape.dtype.bits >= S32.bits else build.convert_to(indices, S32)


def held(build: Builder, indices: Instruction, size: int) -> Instruction:
    """Return indices held inside of a dimension of `size`, as a gather holds them."""
    wide = _wide(build, indices)
    least, most = (build.constant(bound, wide.shape.dtype) for bound in (0, size - 1))
    return build.clamp(least, wide, most)


def _begin(
    values: Values, build: Builder, like: Instruction, what: tuple[Instruction, int, Column]
) -> Instruction:
    """Return where the part begins that this device has, in the shape and type of indices."""
    part, axis, column = what
    size = part.shape.static_dims[axis]
    offset = values.resharder.part_offset(build, column, size)
    return build.broadcast_to(build.convert_to(offset, like.shape.dtype), like.shape.dims, ())


def _is_inside(build: Builder, own: Instruction, size: int) -> Instruction:
    """Return whether indices, from where this device's part begins, are in that part."""
    least, limit = (build.full(bound, own.shape) for bound in (0, size))
    return between(build, own, least, limit)
