# SPDX-License-Identifier: Apache-2.0
"""Floats by their bits: signs, neighbours, significands and exponents, powers and logarithms of 2.

Invariant: operands of one function have the same dimensions and element type, f16, bf16, f32 or
f64 (where a function says so only the last two).

Example: `split(b, x)` of 6.0 gives the significand 0.75 and the exponent 3.
"""

from __future__ import annotations

import math

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.dtype import F32, S16, S32, S64, DType
from ingot.hlo.instruction import Instruction

_CARRIERS = {16: S16, 32: S32, 64: S64}
"""The integers that hold the bits of floats."""


def bits_of(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return the bits of floats as integers of their width."""
    return b.emit("bitcast-convert", x, shape=x.shape.with_dtype(_CARRIERS[x.shape.dtype.bits]))


def float_of(b: ArrayBuilder, bits: Instruction, element: DType) -> Instruction:
    """Return the floats of type `element` that integers are the bits of."""
    return b.emit("bitcast-convert", bits, shape=bits.shape.with_dtype(element))


def sign_bit(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Whether the sign bit is set: that of -0 and of some NaN is."""
    return b.compared("LT", bits_of(b, x), 0)


def copy_sign(b: ArrayBuilder, size: Instruction, sign: Instruction) -> Instruction:
    """Return the size of one float with the sign of another."""
    bits = bits_of(b, size)
    least = -(1 << (bits.shape.dtype.bits - 1))
    kept = b.binary("and", bits, ~least)
    made = b.or_(kept, b.binary("and", bits_of(b, sign), least))
    return float_of(b, made, size.shape.dtype)


def next_after(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """The next float after x towards y: one step of x's bits."""
    bits = bits_of(b, x)
    carrier = bits.shape
    up = b.compare(y, x, direction="GT")
    away = b.compare(up, b.compared("GT", x, 0), direction="EQ")
    one = b.like(1, carrier)
    moved = b.add(bits, b.select(away, one, b.negate(one)))
    least = b.like(-(1 << (carrier.dtype.bits - 1)), carrier)
    smallest = b.select(up, one, b.add(least, one))
    moved = b.select(b.compared("EQ", x, 0), smallest, moved)
    made = float_of(b, moved, x.shape.dtype)
    made = b.select(b.compare(x, y, direction="EQ"), y, made)
    wrong = b.or_(b.compare(x, x, direction="NE"), b.compare(y, y, direction="NE"))
    return b.select(wrong, b.add(x, y), made)


def _format(element: DType) -> tuple[int, int]:
    """Return how many bits of a fraction are stored, and the bias of the exponent."""
    return (23, 127) if element is F32 else (52, 1023)


def split(b: ArrayBuilder, x: Instruction) -> tuple[Instruction, Instruction]:
    """Return m and e with x = m * 2^e and 1/2 <= |m| < 1; e is an integer of x's width.

    Zeros, infinities and NaN are their own m, with e = 0. F32 and f64 only.
    """
    element = x.shape.dtype
    fraction_bits, bias = _format(element)
    size = b.abs(x)
    tiny = b.compared("LT", size, 2.0 ** (1 - bias))
    grown = b.select(tiny, b.binary("multiply", x, 2.0 ** (fraction_bits + 2)), x)
    bits = bits_of(b, grown)
    mask = (1 << (element.bits - 1 - fraction_bits)) - 1
    shifted = b.binary("shift-right-logical", bits, fraction_bits)
    exponent = b.binary("subtract", b.binary("and", shifted, mask), bias - 1)
    less = b.like(fraction_bits + 2, bits.shape)
    exponent = b.subtract(exponent, b.select(tiny, less, b.zeros(bits.shape)))
    cleared = b.binary("and", bits, ~(mask << fraction_bits))
    significand = float_of(b, b.binary("or", cleared, (bias - 1) << fraction_bits), element)
    regular = b.and_(b.is_finite(x), b.compared("NE", x, 0))
    return b.select(regular, significand, x), b.select(regular, exponent, b.zeros(bits.shape))


def exp2(b: ArrayBuilder, x: Instruction) -> Instruction:
    """2^x, exact where x is a whole number. F32 and f64 only."""
    element = x.shape.dtype
    fraction_bits, bias = _format(element)
    limit = float(bias + fraction_bits + 3)
    held = b.binary("maximum", b.binary("minimum", x, limit), -limit)
    whole = b.round_nearest_even(held)
    part = b.exponential(b.binary("multiply", b.subtract(held, whole), math.log(2)))
    exponent = b.convert_to(whole, _CARRIERS[element.bits])
    # Two factors, as 2^e may be outside of the normal floats where the product is not.
    half = b.binary("shift-right-arithmetic", exponent, 1)
    for step in (half, b.subtract(exponent, half)):
        bits = b.binary("shift-left", b.binary("add", step, bias), fraction_bits)
        part = b.multiply(part, float_of(b, bits, element))
    return part


def log2(b: ArrayBuilder, x: Instruction) -> Instruction:
    """The logarithm to base 2, exact for powers of 2. F32 and f64 only."""
    significand, exponent = _balanced(b, x)
    return b.add(exponent, b.binary("multiply", b.log(significand), 1 / math.log(2)))


def log10(b: ArrayBuilder, x: Instruction) -> Instruction:
    """The logarithm to base 10. F32 and f64 only."""
    significand, exponent = _balanced(b, x)
    # The high part has few bits, so its product with the exponent is exact.
    high = math.ldexp(math.floor(math.ldexp(math.log10(2), 12)), -12)
    low = math.log10(2) - high
    small = b.add(
        b.binary("multiply", b.log(significand), 1 / math.log(10)),
        b.binary("multiply", exponent, low),
    )
    return b.add(b.binary("multiply", exponent, high), small)


def _balanced(b: ArrayBuilder, x: Instruction) -> tuple[Instruction, Instruction]:
    """Return m and e with x = m * 2^e and m around 1, so that e and log m do not cancel."""
    significand, exponent = split(b, x)
    regular = b.and_(b.is_finite(x), b.compared("NE", x, 0))
    low = b.and_(regular, b.compared("LT", b.abs(significand), math.sqrt(0.5)))
    significand = b.select(low, b.add(significand, significand), significand)
    exponent = b.convert_to(exponent, x.shape.dtype)
    return significand, b.select(low, b.binary("subtract", exponent, 1), exponent)
