# SPDX-License-Identifier: Apache-2.0
"""Evaluates elementwise ops other than transcendental functions.

Source: StableHLO specification; where it leaves a result open, XLA:CPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.evaluator import complex_numbers

# Registers the other parts of the family.
from ingot.evaluator import rounding as rounding
from ingot.evaluator import transcendental as transcendental
from ingot.evaluator.numbers import (
    bits_of,
    computed,
    converted,
    element_of,
    rounded,
    total_order_key,
    unsigned_view,
)
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.elementwise import HOLDS


def _register(opcode: str, function: Callable[..., Any]) -> None:
    """Register a rule that computes on widened operands and rounds to the result's type."""

    @evaluates(opcode)
    def rule(op: Instruction, operands: Sequence[Any], context: Context) -> Value:  # pyright: ignore[reportUnusedFunction]
        return rounded(function(*map(computed, operands)), op.shape.dtype)


def _is_integer(value: Array) -> bool:
    return value.dtype.kind in "iu"


# ---- arithmetic


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "c":
        return complex_numbers.divide(x, y)
    if not _is_integer(x):
        return np.asarray(x / y)
    negates = (y == -1) if x.dtype.kind == "i" else np.zeros(y.shape, np.bool_)
    safe = np.where((y == 0) | negates, np.ones_like(y), y)
    truncated = (x - np.fmod(x, safe)) // safe
    # All ones for x/0, and -x, which wraps for the least integer, for x/-1.
    return np.where(y == 0, ~np.zeros_like(x), np.where(negates, np.negative(x), truncated))


def _remainder(x: Array, y: Array) -> Array:
    if not _is_integer(x):
        return np.fmod(x, y)
    safe = np.where(y == 0, np.ones_like(y), y)
    if x.dtype.kind == "i":
        safe = np.where(y == -1, np.ones_like(y), safe)
    return np.where(y == 0, x, np.fmod(x, safe))


def _maximum(x: Array, y: Array) -> Array:
    """IEEE maximum: NaN if either is, and +0 is greater than -0."""
    if x.dtype.kind != "f":
        return np.maximum(x, y)
    return np.where(x == y, np.where(np.signbit(x), y, x), np.maximum(x, y))


def _minimum(x: Array, y: Array) -> Array:
    """IEEE minimum: NaN if either is, and -0 is smaller than +0."""
    if x.dtype.kind != "f":
        return np.minimum(x, y)
    return np.where(x == y, np.where(np.signbit(x), x, y), np.minimum(x, y))


def _clamp(low: Array, x: Array, high: Array) -> Array:
    return _minimum(_maximum(x, low), high)


def _sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        return complex_numbers.sign(x)
    if x.dtype.kind == "f":
        return np.where((x == 0) | np.isnan(x), x, np.copysign(np.ones_like(x), x))
    return np.sign(x)


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    away = np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)
    # An infinity minus itself is NaN, which is not >= 0.5: it stays as it is.
    return np.copysign(away, x)


_register("add", np.add)
_register("subtract", np.subtract)
_register("multiply", np.multiply)
_register("divide", _divide)
_register("remainder", _remainder)
_register("maximum", _maximum)
_register("minimum", _minimum)
_register("clamp", _clamp)
_register("abs", np.abs)
_register("negate", np.negative)
_register("sign", _sign)
_register("ceil", np.ceil)
_register("floor", np.floor)
_register("round-nearest-afz", _round_away)
_register("round-nearest-even", np.rint)
_register("is-finite", np.isfinite)
_register("real", np.real)
_register("imag", np.imag)
_register("not", np.invert)
_register("and", np.bitwise_and)
_register("or", np.bitwise_or)
_register("xor", np.bitwise_xor)


@evaluates("complex")
def complex_(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Real and imaginary part unchanged: NaN and infinity in one do not affect the other."""
    real, imaginary = operands
    result = np.empty(np.broadcast(real, imaginary).shape, op.shape.dtype.numpy)
    result.real, result.imag = real, imaginary
    return result


# ---- bits


def _shift(x: Array, y: Array, inside: Callable[[Array, Array], Any], outside: Array) -> Array:
    """Shift unsigned `x` where the amount is less than the width, else give `outside`."""
    width = element_of(x).bits
    amount = unsigned_view(y)
    fits = amount < width
    raw = unsigned_view(x)
    shifted = inside(raw, np.where(fits, amount, np.zeros_like(amount)))
    return np.where(fits, shifted, outside).astype(raw.dtype)


@evaluates("shift-left")
def shift_left(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Zeros come in; an amount out of range gives 0."""
    x, y = operands
    zero = np.zeros_like(unsigned_view(x))
    return _from_unsigned(_shift(x, y, np.left_shift, zero), op)


@evaluates("shift-right-logical")
def shift_right_logical(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Zeros come in; an amount out of range gives 0."""
    x, y = operands
    zero = np.zeros_like(unsigned_view(x))
    return _from_unsigned(_shift(x, y, np.right_shift, zero), op)


@evaluates("shift-right-arithmetic")
def shift_right_arithmetic(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The top bit comes in, for unsigned types too; an amount out of range leaves only it."""
    x, y = operands
    width = element_of(x).bits
    amount = np.minimum(unsigned_view(y), width - 1)
    raw = unsigned_view(x).astype(np.uint64)
    top = (raw >> np.uint64(width - 1)) & np.uint64(1)
    moved = raw >> amount.astype(np.uint64)
    fill = np.where(top == 1, ~(~np.uint64(0) >> amount.astype(np.uint64)), np.uint64(0))
    # The sign bits of a 64-bit word, shifted down to the width of x.
    return _from_unsigned(moved | (fill >> np.uint64(64 - width)), op)


def _from_unsigned(raw: Array, op: Instruction) -> Array:
    """Return the low bits of unsigned numbers as elements of the result's type."""
    element = op.shape.dtype
    if element.bits < 8:
        return rounded(raw, element)
    return raw.astype(f"u{element.bytes}").view(element.numpy)


@evaluates("popcnt")
def popcnt(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """How many bits are one."""
    return rounded(bits_of(operands[0]).sum(axis=-1, dtype=np.int64), op.shape.dtype)


@evaluates("count-leading-zeros")
def count_leading_zeros(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """How many bits are zero before the first one; the width for 0."""
    seen = np.maximum.accumulate(bits_of(operands[0])[..., ::-1], axis=-1)
    return rounded((seen == 0).sum(axis=-1, dtype=np.int64), op.shape.dtype)


# ---- comparison, choice, conversion


@evaluates("compare")
def compare(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """IEEE comparison, or by the total order of floats."""
    x, y = operands
    if op.attributes.type == "TOTALORDER" and element_of(x).is_float:
        x, y = total_order_key(x), total_order_key(y)
    else:
        x, y = computed(x), computed(y)
    return HOLDS[op.attributes.direction](x, y)


@evaluates("select")
def select(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Chosen bit for bit."""
    predicate, on_true, on_false = operands
    return np.where(np.asarray(predicate), np.asarray(on_true), np.asarray(on_false))


@evaluates("copy")
def copy(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operand."""
    return operands[0]


@evaluates("convert")
def convert(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """To the result's element type."""
    return converted(operands[0], op.shape.dtype)


@evaluates("reduce-precision")
def reduce_precision(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Mantissa rounded to nearest even; then overflow is infinity, underflow is zero.

    Source: xla/service/elemental_ir_emitter.cc, EmitReducePrecisionIR, line by line.
    """
    # An f16 has an exponent of its own width; other narrow floats are rounded as the f32 they are.
    wide = operands[0] if operands[0].dtype == np.float16 else computed(operands[0])
    element = element_of(wide)
    exponent_bits, mantissa_bits = op.attributes.exponent_bits, op.attributes.mantissa_bits
    source_exponent_bits = element.bits - 1 - element.mantissa
    raw = unsigned_view(wide)
    number = raw.dtype.type
    sign_mask = number(1 << (element.bits - 1))
    exponent_mask = number(((1 << source_exponent_bits) - 1) << element.mantissa)
    result = raw
    if mantissa_bits < element.mantissa:
        dropped = element.mantissa - mantissa_bits
        last = (raw >> number(dropped)) & number(1)
        bias = last + number((1 << (dropped - 1)) - 1)
        result = (raw + bias) & ~number((1 << dropped) - 1)
    if exponent_bits < source_exponent_bits:
        bias = (1 << (source_exponent_bits - 1)) - 1
        reduced = (1 << (exponent_bits - 1)) - 1
        exponent, sign = result & exponent_mask, result & sign_mask
        overflows = exponent > number((bias + reduced) << element.mantissa)
        underflows = exponent <= number((bias - reduced) << element.mantissa)
        result = np.where(overflows, sign | exponent_mask, result)
        result = np.where(underflows, sign, result)
    found = result.view(wide.dtype)
    # Rounding carries a NaN's mantissa into the exponent and the sign: NaN stays as it is.
    found = np.where(np.isnan(wide), wide, found)
    return rounded(found, op.shape.dtype)
