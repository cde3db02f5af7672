# SPDX-License-Identifier: Apache-2.0
"""Conversion between f32 and the floats of 8 and 4 bits, by integer arithmetic on vectors.

A minifloat is an `i8` that holds its bits, in memory and in registers: data movement does not
interpret it. Arithmetic is in f32, so only `convert` comes here. Invariant: round to nearest even,
once; NaN, infinities, overflow and zeros follow each format's own rules, as in ml_dtypes and XLA.
The one exception is theirs too: f8e8m0fnu, which has no mantissa, rounds halves up. As for the
values between its two least numbers, `hlo.dtype.rounded_to` says what is right.

Source: ml_dtypes/include/float8.h, float4.h; xla/service/elemental_ir_emitter.cc.
"""

from __future__ import annotations

from enum import Enum, auto

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.math.half import round_to_odd
from ingot.llvm.types import F32, F64, I8, I32
from ingot.llvm.values import Value, const
from ingot.support.records import record


class Special(Enum):
    """Which bit patterns are not plain numbers."""

    IEEE = auto()  # infinity and NaN in the highest exponent
    FN = auto()  # one NaN, all ones; no infinity: overflow is NaN
    FNUZ = auto()  # one NaN where -0 would be; no infinity, no -0: overflow is NaN
    FINITE = auto()  # neither: overflow is the greatest number, NaN is -0


@record
class Minifloat:
    """A float format of at most 8 bits with a sign.

    Attributes:
        exponent: exponent bits.
        mantissa: explicit mantissa bits.
        bias: the exponent field minus the exponent.
        special: the bit patterns of NaN and infinity.
    """

    exponent: int
    mantissa: int
    bias: int
    special: Special

    @property
    def sign(self) -> int:
        """The sign bit; below it lie the bits of the magnitude."""
        return 1 << (self.exponent + self.mantissa)

    @property
    def least_normal(self) -> float:
        """The least number with a full mantissa."""
        return 2.0 ** (1 - self.bias)

    @property
    def infinity(self) -> int:
        """The magnitude bits of the highest exponent: infinity where the format has it."""
        return ((1 << self.exponent) - 1) << self.mantissa


EXPONENT_ONLY = "f8e8m0fnu"
"""No sign, no mantissa, no zero: powers of two from 2^-127, and NaN as all ones."""

MINIFLOATS: dict[str, Minifloat] = {
    "f4e2m1fn": Minifloat(2, 1, 1, Special.FINITE),
    "f8e3m4": Minifloat(3, 4, 3, Special.IEEE),
    "f8e4m3": Minifloat(4, 3, 7, Special.IEEE),
    "f8e4m3fn": Minifloat(4, 3, 7, Special.FN),
    "f8e4m3fnuz": Minifloat(4, 3, 8, Special.FNUZ),
    "f8e4m3b11fnuz": Minifloat(4, 3, 11, Special.FNUZ),
    "f8e5m2": Minifloat(5, 2, 15, Special.IEEE),
    "f8e5m2fnuz": Minifloat(5, 2, 16, Special.FNUZ),
}


def widen(f: FunctionBuilder, value: Value, name: str) -> Value:
    """Return the bits of a minifloat (`i8`) as f32, exactly; NaN keeps sign and payload."""
    integer = value.type.with_element(I32)
    bits = f.zext(value, integer)
    if name == EXPONENT_ONLY:
        return _widen_exponent(f, bits)
    return _widen(f, bits, MINIFLOATS[name])


def narrow(f: FunctionBuilder, value: Value, name: str) -> Value:
    """Return an f32 or f64 value as the bits of a minifloat (`i8`), rounded once."""
    single = value.type.with_element(F32)
    if value.type.element is F64:
        value = round_to_odd(f, value)
    bits = f.bitcast(value, single.with_element(I32))
    if name == EXPONENT_ONLY:
        narrowed = _narrow_exponent(f, bits)
    else:
        narrowed = _narrow(f, bits, MINIFLOATS[name])
    return f.trunc(narrowed, value.type.with_element(I8))


UPPER_HALF = "f8e5m2"
"""The upper half of an f16."""


def narrow_f16(f: FunctionBuilder, bits: Value) -> Value:
    """Return the bits of f16 values (`i16`) as those of f8e5m2 (`i8`), rounded once."""

    def number(value: int) -> Value:
        return const(bits.type, value)

    size, sign = f.and_(bits, number(0x7FFF)), f.and_(bits, number(0x8000))
    odd = f.and_(f.lshr(bits, number(8)), number(1))
    rounded = f.add(f.add(bits, number(0x7F)), odd)
    is_nan = f.icmp("ugt", size, number(0x7C00))
    held = f.select(is_nan, f.or_(sign, number(0x7E00)), rounded)
    return f.trunc(f.lshr(held, number(8)), bits.type.with_element(I8))


def is_not_zero(f: FunctionBuilder, value: Value, name: str) -> Value:
    """Return whether a minifloat (`i8`) is a number other than zero, or NaN."""
    if name == EXPONENT_ONLY:
        return f.icmp("eq", value, value)
    format = MINIFLOATS[name]
    has_minus_zero = format.special is not Special.FNUZ
    size = f.and_(value, const(value.type, format.sign - 1)) if has_minus_zero else value
    return f.icmp("ne", size, f.zero(value.type))


def _widen(f: FunctionBuilder, bits: Value, format: Minifloat) -> Value:
    integer = bits.type
    single = integer.with_element(F32)

    def number(value: int) -> Value:
        return const(integer, value)

    magnitude = f.and_(bits, number(format.sign - 1))
    rebias = (127 - format.bias) << 23
    size = f.add(f.shl(magnitude, number(23 - format.mantissa)), number(rebias))
    # A denormal: with the exponent of the least normal number, minus that number; exact.
    raised = f.bitcast(f.add(size, number(1 << 23)), single)
    denormal = f.bitcast(f.sub(raised, const(single, format.least_normal)), integer)
    is_denormal = f.icmp("ult", magnitude, number(1 << format.mantissa))
    size = f.select(is_denormal, denormal, size)
    if format.special is Special.IEEE:
        special = f.icmp("uge", magnitude, number(format.infinity))
        size = f.select(special, f.or_(size, number(0x7F800000)), size)
    elif format.special is Special.FN:
        special = f.icmp("eq", magnitude, number(format.sign - 1))
        size = f.select(special, number(0x7FC00000), size)
    elif format.special is Special.FNUZ:
        special = f.icmp("eq", bits, number(format.sign))
        size = f.select(special, number(0x7FC00000), size)
    shift = 31 - (format.exponent + format.mantissa)
    sign = f.shl(f.and_(bits, number(format.sign)), number(shift))
    return f.bitcast(f.or_(size, sign), single)


def _narrow(f: FunctionBuilder, bits: Value, format: Minifloat) -> Value:
    integer = bits.type
    single = integer.with_element(F32)

    def number(value: int) -> Value:
        return const(integer, value)

    size = f.and_(bits, number(0x7FFFFFFF))
    sign = f.and_(f.lshr(bits, number(31 - (format.exponent + format.mantissa))),
                  number(format.sign))  # fmt: skip
    dropped = 23 - format.mantissa
    odd = f.and_(f.lshr(size, number(dropped)), number(1))
    rebias = (1 << (dropped - 1)) - 1 - ((127 - format.bias) << 23)
    normal = f.lshr(f.add(size, f.add(odd, number(rebias))), number(dropped))
    # Added to a number whose last bit is worth the least denormal, the FPU rounds there.
    magic = 2.0 ** (1 - format.bias + dropped)
    moved = f.bitcast(f.add(f.bitcast(size, single), const(single, magic)), integer)
    denormal = f.sub(moved, f.bitcast(const(single, magic), integer))
    is_denormal = f.icmp("ult", size, number((128 - format.bias) << 23))
    result = f.select(is_denormal, denormal, normal)
    nan = f.icmp("ugt", size, number(0x7F800000))
    return _with_specials(f, format, result, sign, nan)


def _with_specials(
    f: FunctionBuilder, format: Minifloat, result: Value, sign: Value, nan: Value
) -> Value:
    """Return sign and rounded magnitude together, overflow and NaN as the format has them."""
    integer = result.type

    def number(value: int) -> Value:
        return const(integer, value)

    all_ones = format.sign - 1
    if format.special is Special.IEEE:
        held = f.intrinsic("llvm.umin", integer, [result, number(format.infinity)])
        quiet = number(format.infinity | 1 << (format.mantissa - 1))
        return f.or_(f.select(nan, quiet, held), sign)
    if format.special is Special.FN:
        held = f.intrinsic("llvm.umin", integer, [result, number(all_ones)])
        return f.or_(f.select(nan, number(all_ones), held), sign)
    if format.special is Special.FINITE:
        held = f.intrinsic("llvm.umin", integer, [result, number(all_ones)])
        return f.select(nan, number(format.sign), f.or_(held, sign))
    zero = f.icmp("eq", result, number(0))
    signed = f.select(zero, number(0), f.or_(result, sign))
    lost = f.or_(nan, f.icmp("ugt", result, number(all_ones)))
    return f.select(lost, number(format.sign), signed)


def _widen_exponent(f: FunctionBuilder, bits: Value) -> Value:
    integer = bits.type
    size = f.shl(bits, const(integer, 23))
    size = f.select(f.icmp("eq", bits, f.zero(integer)), const(integer, 0x00400000), size)
    size = f.select(f.icmp("eq", bits, const(integer, 255)), const(integer, 0x7FC00000), size)
    return f.bitcast(size, integer.with_element(F32))


def _narrow_exponent(f: FunctionBuilder, bits: Value) -> Value:
    """Zero, negative numbers, infinity and NaN are NaN."""
    integer = bits.type
    below = f.zext(f.icmp("ult", bits, const(integer, 1 << 23)), integer)
    half = f.lshr(const(integer, 1 << 22), below)  # the least two numbers lie half as far apart
    rounded = f.lshr(f.add(bits, half), const(integer, 23))
    # As unsigned numbers: zero wraps to the top, negative numbers and NaN lie above infinity.
    less_one = f.sub(bits, const(integer, 1))
    good = f.icmp("ult", less_one, const(integer, 0x7F800000 - 1))
    return f.select(good, rounded, const(integer, 255))
