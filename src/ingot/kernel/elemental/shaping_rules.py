# SPDX-License-Identifier: Apache-2.0
"""Elemental rules of leaves, of ops that only move elements, and of gathers: they change the index.

One rule per opcode, in `SHAPING`, but for ops whose row of the op table has the indexing map of
their one operand: `mapped` follows that. Ops that leave gaps (pad, concatenate) add a mask, so that
no load reads outside of its operand. Every index stays a `Dim` polynomial, so kernels know their
strides.

Indices of dynamic slices and gathers are run-time values. A start index is lowered like any value,
clamped as StableHLO says, and becomes `$k` of the index. So a gather is a load at a computed point:
it fuses like everything else.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType, dtype
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import GatherAttributes
from ingot.hlo.opset.shaping import (
    DimensionsAttributes,
    IotaAttributes,
    PadAttributes,
    SizesAttributes,
)
from ingot.hlo.opset.structural import ConstantAttributes, IndexAttributes
from ingot.kernel import expr as ex
from ingot.kernel.elemental.lowering import ElementalLowering, Rule
from ingot.kernel.elemental.points import (
    Point,
    batch_dim,
    clamp_index,
    position_value,
    start_index,
    uses_values,
    window_origin,
    with_value,
)
from ingot.kernel.expr import Expr, compare, converted, select
from ingot.kernel.index_math import linearize, reshape_index
from ingot.support.diagnostics import UnsupportedError


def _parameter(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    shape = instruction.shape
    where = linearize(point.index, shape.dims)
    buffer = lowering.buffers[instruction]
    used = point.values if uses_values(where) else ()
    return ex.load(buffer, where, shape.dtype, used, point.mask)


def _constant(_: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    del point
    given = instruction.as_(ConstantAttributes)
    if given.literal.is_splat:
        return ex.constant(given.literal.scalar)
    raise UnsupportedError(
        "a constant with several values is not part of a kernel",
        code="INGOT0341",
        instruction=repr(instruction),
    )


def _iota(_: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    given = instruction.as_(IotaAttributes)
    value = position_value(point.index[given.iota_dimension], point)
    return converted(value, instruction.shape.dtype)


def mapped(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    """Return the value of the operand at the index that the op's indexing map gives for `point`.

    `lowering` lowers the operand; `instruction` has one operand and an indexing map.
    """
    indexing = instruction.definition.indexing
    assert indexing is not None, instruction
    index = indexing.index(instruction, point.index)
    return lowering.value(instruction.operands[0], point.at(index))


def _reshape(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    operand = instruction.operands[0]
    index = reshape_index(point.index, instruction.shape.dims, operand.shape.dims, lowering.extents)
    return lowering.value(operand, point.at(index))


def _pad(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    operand, filler = instruction.operands
    given = instruction.as_(PadAttributes)
    index: list[int | Dim] = []
    mask: Expr | None = None
    for position, size, padding in zip(point.index, operand.shape.dims, given.padding, strict=True):
        inner, inside = unpadded(position, size, padding, point)
        index.append(inner)
        mask = ex.conjunction(mask, inside)
    if mask is None:
        return lowering.value(operand, point.at(tuple(index)))
    inner_point = Point(tuple(index), point.values, ex.conjunction(point.mask, mask))
    outside = lowering.value(filler, point.at(()))
    return select(mask, lowering.value(operand, inner_point), outside)


def unpadded(
    position: int | Dim, size: int | Dim, padding: tuple[int, int, int], point: Point
) -> tuple[int | Dim, Expr | None]:
    """Return the operand's index along one dimension, and whether it is inside (None: always).

    Args:
        position: the index in the padded result.
        size: elements of the operand along the dimension.
        padding: elements before the operand, after it, and between its elements.
        point: the point that `position` belongs to; its values are those that it uses.
    """
    low, high, interior = padding
    moved, step = position - low, interior + 1
    # A point is within the result: only where there is padding it may be outside of the operand.
    mask: Expr | None = None
    if interior:
        rest = position_value(dim.mod(moved, step), point)
        mask = compare("EQ", rest, ex.index(0))
    value = position_value(moved, point)
    if low > 0:
        mask = ex.conjunction(mask, compare("GE", value, ex.index(0)))
    if high > 0:
        end = (size - 1) * step + 1
        mask = ex.conjunction(mask, compare("LT", value, ex.index(end)))
    return dim.floordiv(moved, step) if interior else moved, mask


def _concatenate(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    given = instruction.as_(DimensionsAttributes)
    (axis,) = given.dimensions
    position = position_value(point.index[axis], point)
    start: int | Dim = 0
    parts: list[tuple[Expr, Expr]] = []
    for operand in instruction.operands:
        size, at = operand.shape.dims[axis], point.index[axis] - start
        end = start + size
        if isinstance(at, int) and isinstance(size, int):
            if 0 <= at < size:
                inside = (*point.index[:axis], at, *point.index[axis + 1 :])
                return lowering.value(operand, point.at(inside))
        elif size != 0:
            below = compare("LT", position, ex.index(end))
            above = compare("GE", position, ex.index(start))
            mask = ex.conjunction(ex.conjunction(above, below), point.mask)
            # One row of a stack is read at 0 alone: its index is free of the stack's axis.
            inside = (*point.index[:axis], 0 if size == 1 else at, *point.index[axis + 1 :])
            parts.append((below, lowering.value(operand, Point(inside, point.values, mask))))
        start = end
    if not parts:
        return lowering.value(instruction.operands[0], point)
    result = parts[-1][1]
    for below, part in reversed(parts[:-1]):
        result = select(below, part, result)
    return result


def _bitcast(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    if instruction.operands[0].shape.dtype is instruction.shape.dtype:
        return _reshape(lowering, instruction, point)
    return _bitcast_convert(lowering, instruction, point)


def _bitcast_convert(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    operand = instruction.operands[0]
    source, to = operand.shape.dtype.bits, instruction.shape.dtype.bits
    if source == to:
        return ex.as_bits(lowering.value(operand, point), instruction.shape.dtype)
    if source < to:
        return _joined(lowering, instruction, point, to // source)
    return _part(lowering, instruction, point)


def _unsigned(bits: int) -> DType:
    return dtype(f"u{bits}")


def _joined(
    lowering: ElementalLowering, instruction: Instruction, point: Point, count: int
) -> Expr:
    """Return a wide element made of `count` narrow ones, least significant first."""
    operand = instruction.operands[0]
    wide, narrow = _unsigned(instruction.shape.dtype.bits), _unsigned(operand.shape.dtype.bits)
    total: Expr | None = None
    for number in range(count):
        value = lowering.value(operand, point.at((*point.index, number)))
        part = converted(ex.as_bits(value, narrow), wide)
        part = ex.compute("shift-left", part, ex.scalar(number * narrow.bits, wide))
        total = part if total is None else ex.compute("or", total, part)
    assert total is not None
    return ex.as_bits(total, instruction.shape.dtype)


def _part(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    """Return a narrow element: the part of a wide one that the last index names."""
    operand = instruction.operands[0]
    wide, narrow = _unsigned(operand.shape.dtype.bits), _unsigned(instruction.shape.dtype.bits)
    value = ex.as_bits(lowering.value(operand, point.at(point.index[:-1])), wide)
    distance = converted(position_value(point.index[-1] * narrow.bits, point), wide)
    shifted = ex.compute("shift-right-logical", value, distance)
    return ex.as_bits(converted(shifted, narrow), instruction.shape.dtype)


def _dimension_size(_: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    del point
    given = instruction.as_(DimensionsAttributes)
    (number,) = given.dimensions
    size = instruction.operands[0].shape.dims[number]
    return converted(ex.index(size), instruction.shape.dtype)


def _element(lowering: ElementalLowering, instruction: Instruction, point: Point) -> Expr:
    source = instruction.operands[0]
    given = instruction.as_(IndexAttributes)
    if source in lowering.reductions:
        return lowering.reductions[source][given.index]
    if source.opcode == "tuple":
        return lowering.value(source.operands[given.index], point)
    raise UnsupportedError(
        f"get-tuple-element of {source.opcode} is not part of a kernel",
        code="INGOT0342",
        instruction=repr(instruction),
    )


SHAPING: Mapping[str, Rule] = {
    "parameter": _parameter,
    "constant": _constant,
    "iota": _iota,
    "reshape": _reshape,
    "bitcast": _bitcast,
    "bitcast-convert": _bitcast_convert,
    "pad": _pad,
    "concatenate": _concatenate,
    "get-dimension-size": _dimension_size,
    "get-tuple-element": _element,
}
"""Rule per opcode; `rules` joins it with the other tables."""


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
