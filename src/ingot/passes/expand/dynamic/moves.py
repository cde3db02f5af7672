# SPDX-License-Identifier: Apache-2.0
"""Moves of elements across the border of a dynamic dimension: where each element comes from.

An array of dynamic size lies in memory at its bounds, so a reshape that joins or divides a dynamic
dimension, or a reversal of one, is no plain move: the index of each element in the padded array is
computed from the sizes, and one gather reads them. Indices beyond the sizes get any element.

Source: the meaning is xla/service/dynamic_padder.cc (RewriteDynamicReshape, RewriteReverse,
RewriteDynamicConcat, RewriteDynamicSort).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.inline import inline

Numbers = dict[int, Instruction]
"""Size by dimension, for the dynamic ones."""


def all_sizes(build: Builder, dims: Sequence[int], sizes: Numbers) -> list[Instruction]:
    """Return the size of every dimension as an s32[]: that of `sizes`, else that of `dims`."""
    return [
        sizes[dim] if dim in sizes else build.constant(size, S32) for dim, size in enumerate(dims)
    ]


def reshaped(
    build: Builder, operand: Instruction, before: Numbers, dims: Sequence[int], after: Numbers
) -> Instruction:
    """Return the elements of an array of sizes `before`, reshaped to `dims` of sizes `after`."""
    sources = all_sizes(build, operand.shape.static_dims, before)
    number = _flat(build, dims, _indices(build, dims), all_sizes(build, dims, after))
    indices: list[Instruction] = []
    for size in reversed(sources):
        # Avoid division by the size of an empty dimension, whose elements nobody reads.
        least = build.maximum(size, 1)
        wide = build.broadcast_to(least, tuple(dims), ())
        indices.insert(0, build.remainder(number, wide))
        number = build.divide(number, wide)
    return _taken(build, operand, dims, indices)


def reversed_along(
    build: Builder, operand: Instruction, sizes: Numbers, dimensions: Sequence[int]
) -> Instruction:
    """Return the elements with some dimensions reversed."""
    dims = operand.shape.static_dims
    indices = _indices(build, dims)
    for dim in dimensions:
        size = sizes[dim] if dim in sizes else build.constant(dims[dim], S32)
        last = build.subtract(size, 1)
        indices[dim] = build.subtract(build.broadcast_to(last, dims, ()), indices[dim])
    return _taken(build, operand, dims, indices)


def stretched(
    build: Builder, operand: Instruction, dim: int, size: Instruction, wanted: Instruction
) -> Instruction:
    """Return an operand of the wanted size along a dimension; one element is repeated."""
    dims = operand.shape.static_dims
    if 0 in dims:
        return operand
    first = build.slice_along(operand, dim, 0, 1)
    other_dims = tuple(n for n in range(len(dims)) if n != dim)
    row = build.reshape_to(first, tuple(dims[n] for n in other_dims))
    repeated = build.broadcast_to(row, dims, other_dims)
    is_short = build.compare(size, wanted, direction="LT")
    return build.select(build.broadcast_to(is_short, dims, ()), repeated, operand)


def joined(
    build: Builder, operands: Sequence[Instruction], lengths: Sequence[Instruction], dim: int
) -> Instruction:
    """Return the operands, each cut to its length, concatenated along a dimension."""
    size = sum(operand.shape.static_dims[dim] for operand in operands)
    whole = build.full(0, operands[0].shape.with_dim(dim, size))
    start = build.constant(0, S32)
    for operand, length in zip(operands, lengths, strict=True):
        # The next operand overwrites what lies beyond the length of this one.
        whole = build.update_at(whole, operand, dim, start)
        start = build.add(start, length)
    return whole


def sorted_inside(
    build: Builder, module: Module, op: Instruction, inside: Instruction
) -> Instruction:
    """Return a sort's result with the elements where `inside` is true before all others."""
    source: Computation = op.attributes.to_apply
    order = Builder(source.name)
    given = [
        order.parameter(number, parameter.shape)
        for number, parameter in enumerate(source.parameters)
    ]
    flags = [order.parameter(len(given) + number, Shape.array(PRED, ())) for number in range(2)]
    before = inline(order.computation, source, given)
    first = order.and_(flags[0], order.or_(before, order.not_(flags[1])))
    sorted_ = build.sort(
        *op.operands,
        inside,
        dimensions=op.attributes.dimensions,
        is_stable=op.attributes.is_stable,
        to_apply=module.take(order.build(first)),
    )
    return build.value_of(build.elements_of(sorted_)[:-1], op.shape)


def _indices(build: Builder, dims: Sequence[int]) -> list[Instruction]:
    shape = Shape.array(S32, tuple(dims))
    return [build.iota(shape=shape, iota_dimension=number) for number in range(len(dims))]


def _flat(
    build: Builder,
    dims: Sequence[int],
    indices: Sequence[Instruction],
    sizes: Sequence[Instruction],
) -> Instruction:
    """Return the row-major numbers of `indices` in an array of `sizes`."""
    number = build.full(0, Shape.array(S32, tuple(dims)))
    for index, size in zip(indices, sizes, strict=True):
        scaled = build.multiply(number, build.broadcast_to(size, tuple(dims), ()))
        number = build.add(scaled, index)
    return number


def _taken(
    build: Builder, operand: Instruction, dims: Sequence[int], indices: Sequence[Instruction]
) -> Instruction:
    bounds = operand.shape.static_dims
    if 0 in bounds:
        # There is nothing to read: all indices lie beyond the sizes.
        return build.full(0, operand.shape.with_dims(tuple(dims)))
    number = _flat(build, dims, indices, [build.constant(bound, S32) for bound in bounds])
    return build.gather(
        build.reshape_to(operand, (math.prod(bounds),)),
        number,
        shape=operand.shape.with_dims(tuple(dims)),
        offset_dims=(),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=len(dims),
        slice_sizes=(1,),
    )
