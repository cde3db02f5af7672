# SPDX-License-Identifier: Apache-2.0
"""Moves of elements across the border of a dynamic dimension: where each element comes from.

An array of dynamic size lies in memory at its bounds, so a reshape that joins or divides a dynamic
dimension, or a reversal of one, is no plain move: the place of an element in the padded array is
computed from the sizes, and one gather takes them. Places behind the sizes get any element.

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
from ingot.passes.simplify.inline import inline

Numbers = dict[int, Instruction]
"""Size by dimension, for the dynamic ones."""


def all_sizes(build: Builder, dims: Sequence[int], sizes: Numbers) -> list[Instruction]:
    """Return the size of every dimension as an s32[]."""
    return [
        sizes[place] if place in sizes else build.constant(size, S32)
        for place, size in enumerate(dims)
    ]


def reshaped(
    build: Builder, operand: Instruction, before: Numbers, dims: Sequence[int], after: Numbers
) -> Instruction:
    """Return the elements in row-major order of their sizes, as `dims` of sizes `after`."""
    sources = all_sizes(build, operand.shape.static_dims, before)
    number = _flat(build, dims, _places(build, dims), all_sizes(build, dims, after))
    places: list[Instruction] = []
    for size in reversed(sources):
        # Nothing is divided by an empty dimension, whose elements nobody takes.
        least = build.maximum(size, build.constant(1, S32))
        wide = build.broadcast_to(least, tuple(dims), ())
        places.insert(0, build.remainder(number, wide))
        number = build.divide(number, wide)
    return _taken(build, operand, dims, places)


def reversed_along(
    build: Builder, operand: Instruction, sizes: Numbers, dimensions: Sequence[int]
) -> Instruction:
    """Return the elements with some dimensions from their last to their first."""
    dims = operand.shape.static_dims
    places = _places(build, dims)
    for place in dimensions:
        size = sizes[place] if place in sizes else build.constant(dims[place], S32)
        last = build.subtract(size, build.constant(1, S32))
        places[place] = build.subtract(build.broadcast_to(last, dims, ()), places[place])
    return _taken(build, operand, dims, places)


def stretched(
    build: Builder, operand: Instruction, place: int, size: Instruction, wanted: Instruction
) -> Instruction:
    """Return an operand whose dimension is of the wanted size, or of one element, which repeats."""
    dims = operand.shape.static_dims
    if 0 in dims:
        return operand
    first = build.slice(
        operand, slice=tuple((0, 1 if n == place else d, 1) for n, d in enumerate(dims))
    )
    other_dims = tuple(n for n in range(len(dims)) if n != place)
    row = build.reshape_to(first, tuple(dims[n] for n in other_dims))
    repeated = build.broadcast_to(row, dims, other_dims)
    is_short = build.compare(size, wanted, direction="LT")
    return build.select(build.broadcast_to(is_short, dims, ()), repeated, operand)


def joined(
    build: Builder, operands: Sequence[Instruction], lengths: Sequence[Instruction], place: int
) -> Instruction:
    """Return the elements of operands that have some lengths, one after the other."""
    dims = list(operands[0].shape.static_dims)
    dims[place] = sum(operand.shape.static_dims[place] for operand in operands)
    zero = build.constant(0, S32)
    whole = build.full(0, operands[0].shape.with_dims(tuple(dims)))
    start = zero
    for operand, length in zip(operands, lengths, strict=True):
        # What lies behind the size of one is overwritten by the next.
        starts = [start if number == place else zero for number in range(len(dims))]
        whole = build.dynamic_update_slice(whole, operand, *starts)
        start = build.add(start, length)
    return whole


def sorted_inside(
    build: Builder, module: Module, op: Instruction, inside: Instruction
) -> Instruction:
    """Return a sort's result with the elements that count, which `inside` says, before others."""
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
    found = [build.get_tuple_element(sorted_, index=n) for n in range(len(op.operands))]
    return build.tuple(*found) if op.shape.is_tuple else found[0]


def _places(build: Builder, dims: Sequence[int]) -> list[Instruction]:
    shape = Shape.array(S32, tuple(dims))
    return [build.iota(shape=shape, iota_dimension=number) for number in range(len(dims))]


def _flat(
    build: Builder,
    dims: Sequence[int],
    places: Sequence[Instruction],
    sizes: Sequence[Instruction],
) -> Instruction:
    """Return row-major numbers of places in an array of `sizes`."""
    number = build.full(0, Shape.array(S32, tuple(dims)))
    for place, size in zip(places, sizes, strict=True):
        scaled = build.multiply(number, build.broadcast_to(size, tuple(dims), ()))
        number = build.add(scaled, place)
    return number


def _taken(
    build: Builder, operand: Instruction, dims: Sequence[int], places: Sequence[Instruction]
) -> Instruction:
    bounds = operand.shape.static_dims
    if 0 in bounds:
        # There is nothing to take: all places lie behind the sizes.
        return build.full(0, operand.shape.with_dims(tuple(dims)))
    number = _flat(build, dims, places, [build.constant(bound, S32) for bound in bounds])
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
