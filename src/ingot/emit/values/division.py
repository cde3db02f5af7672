# SPDX-License-Identifier: Apache-2.0
"""Integer quotients and remainders: by zero and of the least number as HLO has them, in lanes.

CPUs divide integers one by one, but floats in vectors. So lanes of up to 32 bits are converted to
floats that hold them exactly and multiplied by slightly more than the reciprocal, which is computed
once for a divisor that a loop does not change. Truncating the product is exact: rounding takes it
neither below an integer that the quotient reaches nor up to the next one, which is at least a part
in 2^16 or 2^32 away. Lanes of 64 bits are multiplied by a reciprocal in f64, then the remainder is
once more; the result is at most one off.

A constant divisor is left to LLVM where LLVM has shifts or products for it.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo.dtype import DType
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value

WIDE_VECTORS = 512
"""Vectors that convert between f64 and integers of 64 bits, or unsigned ones of 32."""

BELOW_LIMIT = 2.0**64 - 2048
"""The greatest f64 below 2^64."""

MORE_THAN_ONE = {lt.F32: 1 + 2.0**-22, lt.F64: 1 + 2.0**-51}
"""As much above 1 as outweighs two roundings."""

Parts = tuple[Value, Value]
"""Quotient and remainder."""


def divide(
    f: FunctionBuilder, x: Value, y: Value, element: DType, is_constant_divisor: bool
) -> Value:
    """Return x / y cut off toward zero: all ones by zero, the least number by -1 is itself.

    `is_constant_divisor`: y is a constant that LLVM divides by with shifts or products in lanes.
    """
    zero, minus_one = f.const(x.type, 0), f.const(x.type, -1)
    by_zero = f.icmp("eq", y, zero)
    quotient = _quotient_of(f, x.type, element, is_constant_divisor)
    if not element.is_signed:
        safe = f.select(by_zero, f.const(x.type, 1), y)
        return f.select(by_zero, minus_one, quotient(x, safe)[0])
    # min / -1 overflows: dividing by -1 is negation, which wraps to min.
    negates = f.icmp("eq", y, minus_one)
    safe = f.select(f.or_(by_zero, negates), f.const(x.type, 1), y)
    found = f.select(negates, f.sub(zero, x), quotient(x, safe)[0])
    return f.select(by_zero, minus_one, found)


def remainder(
    f: FunctionBuilder, x: Value, y: Value, element: DType, is_constant_divisor: bool
) -> Value:
    """Return the remainder of x by y, with the sign of x: x for y = 0, zero for y = -1."""
    zero = f.const(x.type, 0)
    by_zero = f.icmp("eq", y, zero)
    quotient = _quotient_of(f, x.type, element, is_constant_divisor)
    if not element.is_signed:
        safe = f.select(by_zero, f.const(x.type, 1), y)
        return f.select(by_zero, x, quotient(x, safe)[1])
    negates = f.icmp("eq", y, f.const(x.type, -1))
    safe = f.select(f.or_(by_zero, negates), f.const(x.type, 1), y)
    return f.select(by_zero, x, f.select(negates, zero, quotient(x, safe)[1]))


def _quotient_of(
    f: FunctionBuilder, type: lt.Type, element: DType, is_constant_divisor: bool
) -> Callable[[Value, Value], Parts]:
    """Return how a type is divided where neither special case holds."""
    bits, wide = type.element.bits, f.module.vector_bits >= WIDE_VECTORS
    if not type.is_vector or is_constant_divisor:
        return lambda x, y: _by_integers(f, x, y, element)
    if bits <= 16:
        return lambda x, y: _by_floats(f, x, y, element, lt.F32)
    if bits == 32 and (element.is_signed or wide):
        return lambda x, y: _by_floats(f, x, y, element, lt.F64)
    if bits == 64 and wide:
        return lambda x, y: _of_64_bits(f, x, y, element)
    return lambda x, y: _by_integers(f, x, y, element)


def _by_integers(f: FunctionBuilder, x: Value, y: Value, element: DType) -> Parts:
    """Divide by the CPU's own instructions, or by those that LLVM has for a constant."""
    if element.is_signed:
        return f.sdiv(x, y), f.srem(x, y)
    return f.udiv(x, y), f.urem(x, y)


def _by_floats(f: FunctionBuilder, x: Value, y: Value, element: DType, floats: lt.Type) -> Parts:
    """Divide as floats with twice the bits of the integers, or more."""
    wide, words = x.type.with_element(floats), x.type.with_element(lt.I32)
    if element.is_signed:
        a, b = f.sitofp(x, wide), f.sitofp(y, wide)
    else:
        a, b = f.uitofp(x, wide), f.uitofp(y, wide)
    more = MORE_THAN_ONE[floats]
    ratio = f.mul(a, f.div(f.const(wide, more), b))
    is_whole = element.is_signed or x.type.element.bits < 32
    whole = f.fptosi(ratio, words) if is_whole else f.fptoui(ratio, words)
    quotient = whole if x.type == words else f.trunc(whole, x.type)
    return quotient, f.sub(x, f.mul(quotient, y))


def _of_64_bits(f: FunctionBuilder, x: Value, y: Value, element: DType) -> Parts:
    if not element.is_signed:
        return _unsigned(f, x, y)
    last = f.const(x.type, 63)
    sign = f.ashr(x, last)
    quotient, left = _unsigned(f, f.abs(x), f.abs(y))
    turn = f.xor(sign, f.ashr(y, last))
    return f.sub(f.xor(quotient, turn), turn), f.sub(f.xor(left, sign), sign)


def _unsigned(f: FunctionBuilder, x: Value, y: Value) -> Parts:
    """Divide integers of 64 bits by way of reciprocals."""
    floats = x.type.with_element(lt.F64)
    zero, one = f.const(x.type, 0), f.const(x.type, 1)
    reciprocal = f.div(f.const(floats, 1.0), f.uitofp(y, floats))
    # Four roundings: at most 2^13 off, so the remainder fits 63 bits where y does.
    guess = f.mul(f.uitofp(x, floats), reciprocal)
    guess = f.intrinsic("llvm.minnum", floats, [guess, f.const(floats, BELOW_LIMIT)])
    quotient = f.fptoui(guess, x.type)
    left = f.sub(x, f.mul(quotient, y))
    more = f.fptosi(f.mul(f.sitofp(left, floats), reciprocal), x.type)
    quotient, left = f.add(quotient, more), f.sub(left, f.mul(more, y))
    over, under = f.icmp("sge", left, y), f.icmp("slt", left, zero)
    step = f.select(over, one, f.select(under, f.const(x.type, -1), zero))
    quotient = f.add(quotient, step)
    left = f.sub(left, f.select(over, y, f.select(under, f.sub(zero, y), zero)))
    # A divisor of 64 bits goes once or not at all.
    is_long, fits = f.icmp("slt", y, zero), f.icmp("uge", x, y)
    quotient = f.select(is_long, f.zext(fits, x.type), quotient)
    return quotient, f.select(is_long, f.select(fits, f.sub(x, y), x), left)
