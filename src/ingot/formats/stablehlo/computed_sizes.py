# SPDX-License-Identifier: Apache-2.0
"""Slices, paddings and sizes that a program computes from data, for results with bounds.

StableHLO's dynamic ops take starts, paddings and sizes as operands. Where the type of the result
has its dimensions, or bounds of them (`tensor<?xf32, #stablehlo.bounds<8>>`), every element of the
result comes from a computed index: one gather per dimension reads them. A bounded result gets its
sizes by `set-dimension-size`. Of these, XLA's translator supports only `dynamic_reshape`.

Source: StableHLO specification `real_dynamic_slice`, `dynamic_pad`, `dynamic_conv`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def scalars(build: Builder, vector: Instruction) -> list[Instruction]:
    """Return the elements of an integer vector, each an s32[]."""
    count = vector.shape.static_dims[0]
    return [
        build.convert_to(build.reshape_to(build.slice(vector, slice=((n, n + 1, 1),)), ()), S32)
        for n in range(count)
    ]


def with_sizes(
    build: Builder, value: Instruction, declared: Shape, sizes: Sequence[Instruction]
) -> Instruction:
    """Give an array at its bounds the sizes of the dimensions that `declared` leaves open."""
    for dim, is_open in enumerate(declared.bounded):
        if is_open:
            value = build.set_dimension_size(value, sizes[dim], dimensions=(dim,))
    return value


def at_bounds(declared: Shape) -> Shape:
    """Return a shape whose dimensions are the bounds of those of `declared`."""
    return replace(declared, bounded=())


def sliced(
    build: Builder,
    operand: Instruction,
    bounds: tuple[Instruction, Instruction, Instruction],
    declared: Shape,
) -> Instruction:
    """Return the elements from the starts, a stride apart, before the limits."""
    value, sizes = operand, list[Instruction]()
    rows = zip(*(scalars(build, bound) for bound in bounds), strict=True)
    for axis, (start, limit, stride) in enumerate(rows):
        count = declared.static_dims[axis]
        steps = build.multiply(_counted(build, count), _repeated(build, stride, count))
        value = _taken(build, value, axis, build.add(steps, _repeated(build, start, count)))
        one = build.constant(1, S32)
        reach = build.subtract(build.add(build.subtract(limit, start), stride), one)
        sizes.append(build.divide(reach, stride))
    return with_sizes(build, value, declared, sizes)


def padded(
    build: Builder,
    operand: Instruction,
    value: Instruction,
    amounts: tuple[Instruction, Instruction, Instruction],
    declared: Shape,
) -> Instruction:
    """Return the operand with computed amounts of `value` before, behind and between its elements.

    Args:
        build: the builder to add to.
        operand: the array.
        value: the padding value, a scalar.
        amounts: low, high and interior padding, one of each per dimension.
        declared: the result's shape, or its bounds.
    """
    result, sizes = operand, list[Instruction]()
    rows = zip(*(scalars(build, amount) for amount in amounts), strict=True)
    for axis, (low, high, interior) in enumerate(rows):
        count = declared.static_dims[axis]
        one, zero = build.constant(1, S32), build.constant(0, S32)
        step = build.add(interior, one)
        length = build.get_dimension_size(operand, dimensions=(axis,))
        steps = _repeated(build, step, count)
        position = build.subtract(_counted(build, count), _repeated(build, low, count))
        source = build.divide(position, steps)
        nothing = _repeated(build, zero, count)
        inside = build.and_(
            build.and_(
                build.compare(position, nothing, direction="GE"),
                build.compare(source, _repeated(build, length, count), direction="LT"),
            ),
            build.compare(build.remainder(position, steps), nothing, direction="EQ"),
        )
        result = _around(build, result, axis, source, inside, value)
        gaps = build.multiply(build.maximum(build.subtract(length, one), zero), interior)
        sizes.append(build.add(build.add(low, high), build.add(length, gaps)))
    return with_sizes(build, result, declared, sizes)


def _around(
    build: Builder,
    operand: Instruction,
    axis: int,
    indices: Instruction,
    inside: Instruction,
    value: Instruction,
) -> Instruction:
    """Return the elements at `indices` of an axis; `value` where not `inside`."""
    shape = at_bounds(operand.shape.with_dim(axis, indices.shape.dims[0]))
    outside = build.broadcast_to(value, shape.dims, ())
    if operand.shape.dims[axis] == 0:
        return outside
    taken = _taken(build, operand, axis, indices)
    return build.select(build.broadcast_to(inside, shape.dims, (axis,)), taken, outside)


def _counted(build: Builder, count: int) -> Instruction:
    return build.iota(shape=Shape.array(S32, (count,)), iota_dimension=0)


def _repeated(build: Builder, scalar: Instruction, count: int) -> Instruction:
    return build.broadcast_to(scalar, (count,), ())


def _taken(build: Builder, operand: Instruction, axis: int, indices: Instruction) -> Instruction:
    """Return the elements at indices of an axis; indices outside are clamped."""
    rank = operand.shape.rank
    others = tuple(n for n in range(rank) if n != axis)
    dims = tuple(1 if n == axis else size for n, size in enumerate(operand.shape.dims))
    return build.gather(
        operand,
        indices,
        offset_dims=others,
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=1,
        slice_sizes=dims,
    )
