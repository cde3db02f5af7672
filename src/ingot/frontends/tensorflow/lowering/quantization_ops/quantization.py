# SPDX-License-Identifier: Apache-2.0
"""Quantisation by a range, to integers and back, or at once to floats of 2^bits values.

Source: TensorFlow's `kernels/quantize_and_dequantize_op.h`, `quantize_op.cc`, `dequantize_op.cc`,
`quantization_utils.h`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.image_ops.pixels import NEAREST
from ingot.hlo.dtype import BF16, F32, U32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion

_LARGEST = 2147483520.0
"""The greatest f32 that is an s32: what TensorFlow's kernel clips to."""


def _limits(op: Op, x: Instruction, kept: tuple[int, ...]) -> tuple[Instruction, Instruction]:
    """Return the least and the greatest number, given or found."""
    if op.attribute("range_given", False):
        return op.tensor(1), op.tensor(2)
    axes = tuple(axis for axis in range(x.shape.rank) if axis not in kept)
    return op.b.reduced("minimum", x, axes), op.b.reduced("maximum", x, axes)


def _side(
    b: TensorBuilder, limit: Instruction, quantum: float, none: float = float("inf")
) -> Instruction:
    """Return the factor that takes a limit to its quantised value; `none` where signs differ."""
    same = b.compared("GT", b.binary("multiply", limit, quantum), 0)
    factor = b.divide(b.like(quantum, limit.shape), limit)
    return b.select(same, factor, b.like(none, limit.shape))


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


def _round_trip_gradient(op: Op) -> tuple[Value, ...]:
    """Gradient, input, range: the gradient where the input is in the range, times 0 elsewhere."""
    b, gradient, x = op.b, op.tensor(0), op.tensor(1)
    axis = int(op.attribute("axis", -1))
    kept = () if axis == -1 else (op.axis_of(axis, x.shape.rank),)
    dims = tuple(x.shape.dims[n] for n in kept)
    least, most = (b.spread(b.reshape_to(op.tensor(n), dims), x.shape.dims, kept) for n in (2, 3))
    inside = b.and_(b.compare(x, least, direction="GE"), b.compare(x, most, direction="LE"))
    none = b.zeros(Shape.array(x.shape.dtype, dims))
    return b.multiply(gradient, b.convert_to(inside, gradient.shape.dtype)), none, none


def _wide_range(op: Op) -> tuple[Instruction, Instruction]:
    """Return the least and greatest number to quantise, made to hold 0 and to be apart."""
    b = op.b
    axis = int(op.attribute("axis", -1))
    shape = (op.dims(0)[op.axis_of(axis, op.rank(0))],) if axis != -1 else ()
    given = (b.reshape_to(item, shape) for item in op.tensors(1))
    least, most = given
    ordered = b.compare(most, least, direction="LT")
    ordered = b.reduced("and", b.not_(ordered), tuple(range(ordered.shape.rank)))
    emit_assertion(b, ordered, "input_max_range must be larger than input_min_range.")
    zero, one = b.zeros(least.shape), b.like(1, least.shape)
    away = float(op.attribute("ensure_minimum_range", 0.01))
    apart = b.binary("multiply", b.maximum(one, b.maximum(b.abs(least), b.abs(most))), away)
    least = b.minimum(zero, least)
    return least, b.maximum(zero, b.maximum(most, b.add(least, apart)))


def _quantized(op: Op) -> tuple[Value, ...]:
    """Floats, and the range that the integers shall span: integers, and the range that they do."""
    b, x = op.b, op.tensor(0)
    least, most = _wide_range(op)
    axis = int(op.attribute("axis", -1))
    kept = () if axis == -1 else (op.axis_of(axis, x.shape.rank),)
    limits = np.iinfo(op.result().numpy)
    low, high = float(limits.min), float(limits.max)
    mode = str(op.attribute("mode", "MIN_COMBINED"))

    def spread(value: Instruction) -> Instruction:
        return b.spread(value, x.shape.dims, kept)

    def within(value: Instruction) -> Instruction:
        return b.maximum(b.minimum(value, spread(most)), spread(least))

    if mode == "SCALED":
        low += bool(op.attribute("narrow_range", False))
        largest = float(np.finfo(np.float32).max)
        scale = b.minimum(_side(b, least, low, largest), _side(b, most, high, largest))
        least, most = (b.divide(b.like(end, scale.shape), scale) for end in (low, high))
        steps = b.multiply(within(x), spread(scale))
        is_even = str(op.attribute("round_mode")) == "HALF_TO_EVEN"
        made = b.round_nearest_even(steps) if is_even else b.emit(NEAREST, steps)
    else:
        # TensorFlow divides in f64 where both are numbers; the quotient is an f32.
        scale = b.divide(b.like(high - low, least.shape), b.subtract(most, least))
        if mode == "MIN_FIRST":
            start = b.emit(NEAREST, b.multiply(least, scale))
            made = b.subtract(b.emit(NEAREST, b.multiply(x, spread(scale))), spread(start))
            made = b.binary("minimum", b.binary("add", made, low), _LARGEST)
        else:
            steps = b.multiply(b.subtract(within(x), spread(least)), spread(scale))
            half = (high - low + 1) / 2 if low else 0.0
            made = b.emit(NEAREST, b.binary("subtract", steps, half))
    return b.convert_to(made, op.result()), least, most


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
    index = b.iota_of(U32, wide.shape.dims, x.shape.rank)
    shift = b.binary("multiply", b.subtract(b.like(3, index.shape), index), 8)
    byte = b.binary("and", b.emit("shift-right-logical", wide, shift), 255)
    scaled = b.binary("multiply", b.convert_to(byte, BF16), (high - low) / 255)
    made = b.reshape_to(b.binary("add", scaled, low), (*rest, last * 4))
    if op.attribute("transpose_output", False):
        return b.transposed(made, tuple(reversed(range(made.shape.rank))))
    return made


RULES: dict[str, Rule] = {
    "QuantizeAndDequantizeV4Grad": _round_trip_gradient,
    "QuantizeV2": _quantized,
    "XlaDequantize": _dequantized_words,
    "Dequantize": _dequantized,
    "QuantizeAndDequantizeV2": _bits_of_attribute,
    "QuantizeAndDequantizeV3": _bits_of_operand,
    "QuantizeAndDequantizeV4": _bits_of_attribute,
}
