# SPDX-License-Identifier: Apache-2.0
"""Elemental rules of ops whose indices are run-time values: dynamic slices and gathers.

A start index is lowered like any value, clamped as StableHLO says, and becomes `$k` of the index.
So a gather is a load at a computed point: it fuses like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import GatherAttributes
from ingot.hlo.opset.shaping import SizesAttributes
from ingot.kernel import expr as ex
from ingot.kernel.elemental.lowering import ElementalLowering, Rule
from ingot.kernel.elemental.points import (
    Point,
    batch_dim,
    clamp_index,
    compare,
    select,
    start_index,
    window_origin,
    with_value,
)
from ingot.kernel.expr import Expr


def _dynamic_slice(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    operand, windows = instruction.operands[0], instruction.as_(SizesAttributes).dynamic_slice_sizes

    def start(dim: int) -> Expr:
        return lowering.operand(instruction, dim + 1, point)

    origin, inner = window_origin(point, operand.shape.dims, windows, start)
    index = tuple(first + position for first, position in zip(origin, point.index, strict=True))
    return lowering.value(operand, inner.at(index))


def _dynamic_update_slice(
    lowering: ElementalLowering, instruction: Instruction, point: Point
) -> Expr:
    operand, update = instruction.operands[:2]

    def start(dim: int) -> Expr:
        return lowering.operand(instruction, dim + 2, point)

    origin, inner = window_origin(point, operand.shape.dims, update.shape.dims, start)
    index = tuple(position - first for position, first in zip(point.index, origin, strict=True))
    mask = None
    for position, first, window in zip(index, origin, update.shape.dims, strict=True):
        if first != 0:
            inside = ex.index(position, inner.values)
            mask = ex.conjunction(mask, compare("GE", inside, ex.index(0)))
            mask = ex.conjunction(mask, compare("LT", inside, ex.index(window)))
    if mask is None:
        return lowering.value(update, point)
    masked = Point(index, inner.values, ex.conjunction(point.mask, mask))
    return select(mask, lowering.value(update, masked), lowering.value(operand, point))


def _gather(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    operand, starts = instruction.operands
    given = instruction.as_(GatherAttributes)
    batch = [p for number, p in enumerate(point.index) if number not in given.offset_dims]
    offsets = iter([point.index[number] for number in given.offset_dims])
    dropped = (*given.collapsed_slice_dims, *given.operand_batching_dims)
    vector_dim = given.index_vector_dim
    inner = point
    index: list[int | Dim] = []
    for number, (size, window) in enumerate(
        zip(operand.shape.dims, given.slice_sizes, strict=True)
    ):
        position: int | Dim = 0 if number in dropped else next(offsets)
        if number in given.operand_batching_dims:
            which = given.operand_batching_dims.index(number)
            position = batch[batch_dim(given.start_indices_batching_dims[which], vector_dim)]
        elif number in given.start_index_map and size - window != 0:
            which = given.start_index_map.index(number)
            where = start_index(batch, which, vector_dim, starts.shape.rank)
            start = clamp_index(lowering.value(starts, point.at(where)), size - window)
            symbol, inner = with_value(inner, start)
            position = position + symbol
        index.append(position)
    return lowering.value(operand, inner.at(tuple(index)))


INDEXING: Mapping[str, Rule] = {
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "gather": _gather,
}
"""Rule per opcode; `rules` joins it with the other tables."""
