# SPDX-License-Identifier: Apache-2.0
"""`ragged-all-to-all` as gathers: which row of which device lands in each row of the output.

Every device gathers all rows and their targets; each output row then looks up its source. The
rows that nobody sends to keep the output operand's.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dtype import S32, U32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.passes.expand.exchange import Exchange


def ragged_rows(op: Instruction, exchange: Exchange) -> Instruction:
    """Return the output with the rows that the group's devices send to this one."""
    build, count = exchange.build, exchange.size
    rows, output, *vectors = op.operands
    length = rows.shape.dims[0]
    everyone = exchange.gather(rows, 0)
    starts, sizes, targets = (
        _for_me(build.convert_to(vector, S32), exchange) for vector in vectors[:3]
    )
    # Slice p * per + k of the vectors is slice k of device p.
    (slices,) = starts.shape.static_dims
    grid = Shape.array(S32, (output.shape.dims[0], slices))
    row = build.iota(shape=grid, iota_dimension=0)
    first, size, target = (
        build.broadcast_to(vector, grid.dims, (1,)) for vector in (starts, sizes, targets)
    )
    device = build.divide(
        build.iota(shape=grid, iota_dimension=1), build.full(slices // count, grid)
    )
    length_value = build.broadcast_to(_size(length, build), grid.dims, ())
    behind = build.compare(row, target, direction="GE")
    before = build.compare(row, build.add(target, size), direction="LT")
    inside = build.and_(behind, before)
    position = build.add(
        build.subtract(build.add(first, row), target), build.multiply(device, length_value)
    )
    chosen = build.select(inside, position, build.full(-1, grid))
    largest = exchange.module.take(scalar_computation("maximum", S32))
    source = build.reduce(chosen, build.constant(-1, S32), dimensions=(1,), to_apply=largest)
    taken = _rows_at(everyone, source, output.shape, build)
    found = build.compare(source, build.full(0, source.shape), direction="GE")
    return build.select(build.broadcast_to(found, output.shape.dims, (0,)), taken, output)


def _for_me(vector: Instruction, exchange: Exchange) -> Instruction:
    """Return the part of every device's vector that is about this device."""
    return exchange.exchange(vector, 0)


def _size(length: object, build: Builder) -> Instruction:
    assert isinstance(length, int), "ragged-all-to-all moves rows of a static number"
    return build.constant(length, S32)


def _rows_at(
    everyone: Instruction, source: Instruction, shape: Shape, build: Builder
) -> Instruction:
    safe = build.maximum(source, build.full(0, source.shape))
    dims = shape.dims
    return build.gather(
        everyone,
        build.convert_to(safe, U32),
        shape=Shape.array(shape.dtype, dims),
        offset_dims=tuple(range(1, len(dims))),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *dims[1:]),
    )
