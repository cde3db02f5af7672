# SPDX-License-Identifier: Apache-2.0
"""Evaluates shaping ops: they move elements and compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import bits_of, from_bits, rounded
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.evaluator.windows import padded
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension


@evaluates("broadcast")
def broadcast(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Operand dimension i is result dimension dimensions[i]; others repeat."""
    (operand,) = operands
    dimensions: tuple[int, ...] = op.attributes.dimensions
    dims = context.dims(op.shape)
    order = sorted(range(len(dimensions)), key=lambda number: dimensions[number])
    spread = [dims[dim] if dim in dimensions else 1 for dim in range(len(dims))]
    return np.broadcast_to(operand.transpose(order).reshape(spread), dims)


@evaluates("reshape")
def reshape(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The same elements in row-major order."""
    dims = context.dims(op.shape)
    return operands[0].reshape(dims)


@evaluates("bitcast")
def bitcast(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The same bits in memory, in which operand and result have their layouts."""
    before, after = _memory_order(op.operands[0].shape), _memory_order(op.shape)
    dims = context.dims(op.shape)
    lying = tuple(dims[dim] for dim in after)
    found = _from_flat_bits(operands[0].transpose(before), op.shape.dtype, lying)
    return found.transpose([after.index(dim) for dim in range(len(after))])


def _memory_order(shape: Shape) -> tuple[int, ...]:
    """Return the dimensions in memory order, major first."""
    rank = shape.rank
    return tuple(reversed(shape.layout.minor_to_major)) if shape.layout else tuple(range(rank))


@evaluates("bitcast-convert")
def bitcast_convert(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The same bits; least significant first where one element becomes several."""
    return _from_flat_bits(operands[0], op.shape.dtype, context.dims(op.shape))


def _from_flat_bits(value: Array, element: DType, dims: tuple[int, ...]) -> Array:
    if value.dtype == element.numpy:
        return value.reshape(dims)
    bits = bits_of(value).reshape(*dims, element.bits)
    return from_bits(bits, element)


@evaluates("transpose")
def transpose(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Result dimension i is operand dimension dimensions[i]."""
    return operands[0].transpose(op.attributes.dimensions)


@evaluates("reverse")
def reverse(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The dimensions backwards."""
    return np.flip(operands[0], op.attributes.dimensions)


@evaluates("slice")
def slice_(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """From start, by stride, up to but not including limit."""
    box = tuple(
        slice(context.number(start), context.number(limit), stride)
        for start, limit, stride in op.attributes.slice
    )
    return operands[0][box]


@evaluates("pad")
def pad(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """First gaps between elements, then borders; a negative border cuts elements off."""
    operand, value = operands
    dimensions = [
        WindowDimension(1, 1, low, high, gap + 1) for low, high, gap in op.attributes.padding
    ]
    return padded(operand, dimensions, value)


@evaluates("concatenate")
def concatenate(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operands, one after the other along the dimension."""
    return np.concatenate(operands, axis=op.attributes.dimensions[0])


@evaluates("iota")
def iota(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Each element's index along the dimension."""
    dims = context.dims(op.shape)
    dim: int = op.attributes.iota_dimension
    spread = [dims[dim] if number == dim else 1 for number in range(len(dims))]
    counted = rounded(np.arange(dims[dim], dtype=np.int64), op.shape.dtype)
    return np.broadcast_to(counted.reshape(spread), dims)


@evaluates("get-dimension-size")
def get_dimension_size(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The size of that dimension."""
    (dim,) = op.attributes.dimensions
    return np.asarray(operands[0].shape[dim], np.int32)


def box_at(
    starts: Sequence[Array], sizes: Sequence[int], whole: Sequence[int]
) -> tuple[slice, ...]:
    """Return the box of `sizes` at `starts`, moved inside `whole`."""
    clamped = [
        min(max(int(start), 0), limit - size)
        for start, size, limit in zip(starts, sizes, whole, strict=True)
    ]
    return tuple(slice(low, low + size) for low, size in zip(clamped, sizes, strict=True))


@evaluates("dynamic-slice")
def dynamic_slice(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The box of the given sizes at the starts, clamped inside."""
    operand, *starts = operands
    sizes = context.numbers(op.attributes.dynamic_slice_sizes)
    return operand[box_at(starts, sizes, operand.shape)]


@evaluates("dynamic-update-slice")
def dynamic_update_slice(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operand with the update in the box at the starts, clamped inside."""
    operand, update, *starts = operands
    whole, sizes = (context.dims(value.shape) for value in op.operands[:2])
    box = box_at(starts, sizes, whole)
    if update.shape != sizes or operand.shape != whole:
        return _dynamic_update(operand, update, [one.start for one in box], context.dims(op.shape))
    result = operand.copy()
    result[box] = update
    return result


def _dynamic_update(
    operand: Array, update: Array, starts: Sequence[int], dims: Sequence[int]
) -> Array:
    """Return the update in an operand, where one of them is of dynamic size, in `dims`."""
    ends = [start + size for start, size in zip(starts, update.shape, strict=True)]
    widest = [max(both) for both in zip(operand.shape, ends, dims, strict=True)]
    result = np.zeros(widest, operand.dtype)
    result[tuple(map(slice, operand.shape))] = operand
    result[tuple(map(slice, starts, ends))] = update
    return result[tuple(map(slice, dims))]
