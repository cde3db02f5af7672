# SPDX-License-Identifier: Apache-2.0
"""Quantisation that gives floats back: each number is rounded to one of 2^bits values.

Also what quantised integers stand for. Source: TensorFlow's
`kernels/quantize_and_dequantize_op.h`, `dequantize_op.cc`, `quantization_utils.h`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo.dtype import BF16, F32, U32
from ingot.hlo.instruction import Instruction


def _limits(op: Op, x: Instruction, kept: tuple[int, ...]) -> tuple[Instruction, Instruction]:
    """Return the least and the greatest number, given or found."""
    if op.attribute("range_given", False):
        return op.tensor(1), op.tensor(2)
    axes = tuple(axis for axis in range(x.shape.rank) if axis not in kept)
    return op.b.reduced("minimum", x, axes), op.b.reduced("maximum", x, axes)


def _side(b: TensorBuilder, limit: Instruction, quantum: float) -> Instruction:
    """Return the factor that takes a limit to its quantised value; none where signs differ."""
    same = b.compared("GT", b.binary("multiply", limit, quantum), 0)
    factor = b.divide(b.like(quantum, limit.shape), limit)
    return b.select(same, factor, b.like(float("inf"), limit.shape))


def _round_trip(op: Op, bits: int) -> Value:
    b, x = op.b, op.tensor(0)
    axis = int(op.attribute("axis", -1))
    kept = () if axis == -1 else (op.axis_of(axis, x.shape.rank),)
    signed = bool(op.attribute("signed_input", True))
    low = -(2.0 ** (bits - 1)) + bool(op.attribute("narrow_range", False)) if signed else 0.0
    high = 2.0 ** (bits - 1) - 1 if signed else 2.0**bits - 1
    least, most = _limits(op, x, kept)
    below, above = _side(b, least, low), _side(b, most, high)
    by_least = b.compare(below, above, direction="LT")
    scale = b.select(by_least, below, above)
    inverse = b.select(
        by_least, b.binary("divide", least, low or 1), b.binary("divide", most, high)
    )
    if op.attribute("range_given", False):
        ends = (
            b.select(by_least, least, b.binary("multiply", inverse, low)),
            b.select(by_least, b.binary("multiply", inverse, high), most),
        )
        first, last = (b.spread(end, x.shape.dims, kept) for end in ends)
        x = b.maximum(b.minimum(x, last), first)
    scaled = b.multiply(x, b.spread(scale, x.shape.dims, kept))
    if str(op.attribute("round_mode", "HALF_TO_EVEN")) == "HALF_UP":
        rounded = b.floor(b.binary("add", scaled, 0.5))
    else:
        rounded = b.round_nearest_even(scaled)
    return b.multiply(rounded, b.spread(inverse, x.shape.dims, kept))


def _bits_of_attribute(op: Op) -> Value:
    return _round_trip(op, int(op.attribute("num_bits", 8)))


def _bits_of_operand(op: Op) -> Value:
    return _round_trip(op, op.integer(3, "num_bits"))


def _dequantized(op: Op) -> Value:
    """Integers, and the numbers that their least and greatest stand for, per tensor or axis."""
    b, x = op.b, op.b.convert_to(op.tensor(0), F32)
    limits = np.iinfo(op.dtype(0).numpy)
    low, high = float(limits.min), float(limits.max)
    axis = int(op.attribute("axis", -1))
    kept = () if axis == -1 else (axis,)
    least, most = (
        b.reshape_to(item, () if axis == -1 else item.shape.dims) for item in op.tensors(1)
    )
    mode = str(op.attribute("mode", "MIN_COMBINED"))
    if mode == "SCALED":
        first = low + bool(op.attribute("narrow_range", False))
        scale = b.binary("divide", most, high)
        if first < 0:
            scale = b.maximum(scale, b.binary("divide", least, first))
        return b.convert_to(b.multiply(x, b.spread(scale, x.shape.dims, kept)), op.result())
    scale = b.binary("divide", b.subtract(most, least), high - low)
    start = least
    if mode == "MIN_FIRST":
        steps = b.divide(least, scale)
        away = b.floor(b.binary("add", b.abs(steps), 0.5))
        start = b.multiply(b.multiply(b.sign(steps), away), scale)
    moved = b.binary("add", x, -low)
    scaled = b.multiply(moved, b.spread(scale, x.shape.dims, kept))
    return b.convert_to(b.add(scaled, b.spread(start, x.shape.dims, kept)), op.result())


def _dequantized_words(op: Op) -> Value:
    """Four bytes in each `u32`, the highest first, as bf16 numbers of a range.

    The result's last dimension is four times as long; transposed, its dimensions are reversed.
    """
    b, x = op.b, op.tensor(0)
    mode = str(op.attribute("mode"))
    if mode != "MIN_COMBINED":
        raise op.error(f"mode {mode}: only MIN_COMBINED is defined for packed bytes")
    low, high = (float(op.attribute(name)) for name in ("min_range", "max_range"))
    *rest, last = x.shape.dims
    wide = b.spread(x, (*x.shape.dims, 4), tuple(range(x.shape.rank)))
    place = b.iota_of(U32, wide.shape.dims, x.shape.rank)
    shift = b.binary("multiply", b.subtract(b.like(3, place.shape), place), 8)
    byte = b.binary("and", b.emit("shift-right-logical", wide, shift), 255)
    scaled = b.binary("multiply", b.convert_to(byte, BF16), (high - low) / 255)
    made = b.reshape_to(b.binary("add", scaled, low), (*rest, last * 4))
    if op.attribute("transpose_output", False):
        return b.transposed(made, tuple(reversed(range(made.shape.rank))))
    return made


RULES: dict[str, Rule] = {
    "XlaDequantize": _dequantized_words,
    "Dequantize": _dequantized,
    "QuantizeAndDequantizeV2": _bits_of_attribute,
    "QuantizeAndDequantizeV3": _bits_of_operand,
    "QuantizeAndDequantizeV4": _bits_of_attribute,
}
