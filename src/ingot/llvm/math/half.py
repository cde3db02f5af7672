# SPDX-License-Identifier: Apache-2.0
"""Conversion between f32 and the 16-bit floats, by integer arithmetic where the CPU has none.

Used by every load and store of f16 and bf16: the arithmetic in between is f32. bf16 is always done
by integers: AVX-512's own instruction flushes denormals. Invariant: round to nearest even, NaN
stays a quiet NaN, denormals and overflow are right, on every target.
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import BF16, F16, F32, F64, I16, I32, Type, vector
from ingot.llvm.values import Value, const
from ingot.support.diagnostics import InternalError


def widen(f: FunctionBuilder, value: Value, has_f16c: bool) -> Value:
    """Return a bf16 or f16 value as f32, exactly.

    Raises:
        InternalError: the value is of another type.
    """
    type = value.type.with_element(F32)
    if value.type.element is F16 and has_f16c:
        return f.fpext(value, type)
    integer = value.type.with_element(I32)
    bits = f.zext(f.bitcast(value, value.type.with_element(I16)), integer)
    if value.type.element is BF16:
        return f.bitcast(f.shl(bits, const(integer, 16)), type)
    if value.type.element is not F16:
        raise InternalError(f"widen of {value.type.text}")
    sign = f.shl(f.and_(bits, const(integer, 0x8000)), const(integer, 16))
    size = f.shl(f.and_(bits, const(integer, 0x7FFF)), const(integer, 13))
    # As f32 bits the number is 2^112 too small, denormals included; the product is exact.
    scaled = f.bitcast(f.mul(f.bitcast(size, type), const(type, 2.0**112)), integer)
    special = f.icmp("uge", size, const(integer, 0x7C00 << 13))
    quiet = f.or_(size, const(integer, 0x7F800000))
    return f.bitcast(f.or_(f.select(special, quiet, scaled), sign), type)


def narrow(f: FunctionBuilder, value: Value, element: Type, has_f16c: bool) -> Value:
    """Return an f32 value as `element` (bf16 or f16), rounded to nearest even.

    Raises:
        InternalError: the value is f64, which `narrow_f64` rounds once.
    """
    type = value.type.with_element(element)
    if value.type.element is F64:
        raise InternalError("f64 is rounded to f16 or bf16 by narrow_f64")
    if element is F16 and has_f16c:
        return f.fptrunc(value, type)
    if element is BF16:
        return f.bitcast(_bf16_bits(f, value), type)
    integer, half = value.type.with_element(I32), value.type.with_element(I16)
    return f.bitcast(f.trunc(_f16_bits(f, f.bitcast(value, integer)), half), type)


def round_to_bf16(f: FunctionBuilder, value: Value) -> Value:
    """Return an f32 value rounded to bf16, as f32.

    A NaN's lower half must be zero: that of every NaN is that arithmetic on bf16 makes.
    """
    integer = value.type.with_element(I32)
    bits = f.bitcast(value, integer)
    # -1 where the last remaining bit is set: by shifts, which LLVM compiles faster than a mask.
    odd = f.ashr(f.shl(bits, const(integer, 15)), const(integer, 31))
    rounded = f.add(f.sub(bits, odd), const(integer, 0x7FFF))
    return f.bitcast(f.and_(rounded, const(integer, 0xFFFF0000)), value.type)


def narrow_f64(f: FunctionBuilder, value: Value, element: Type, has_f16c: bool) -> Value:
    """Return an f64 value as `element`: first to f32 rounded to odd, so that once is rounded."""
    return narrow(f, round_to_odd(f, value), element, has_f16c)


def round_to_odd(f: FunctionBuilder, value: Value) -> Value:
    """Return an f64 value as f32, an inexact one with its last bit set: rounds right again."""
    single = value.type.with_element(F32)
    integer = value.type.with_element(I32)
    rounded = f.fptrunc(value, single)
    back = f.fpext(rounded, value.type)
    size, size_back = f.abs(value), f.abs(back)
    bits = f.bitcast(rounded, integer)
    over = f.fcmp("ogt", size_back, size)
    toward_zero = f.sub(bits, f.zext(over, integer))
    inexact = f.zext(f.fcmp("one", size_back, size), integer)
    return f.bitcast(f.or_(toward_zero, inexact), single)


def _bf16_bits(f: FunctionBuilder, value: Value) -> Value:
    integer = value.type.with_element(I32)
    bits = f.bitcast(value, integer)
    odd = f.and_(f.lshr(bits, const(integer, 16)), const(integer, 1))
    rounded = f.add(f.add(bits, const(integer, 0x7FFF)), odd)
    quiet = f.or_(bits, const(integer, 0x400000))
    return _upper_halves(f, f.select(f.fcmp("uno", value, value), quiet, rounded))


def _upper_halves(f: FunctionBuilder, bits: Value) -> Value:
    """Return the upper 16 bits of 32: of vectors by one shuffle, where shifts would need more."""
    lanes = bits.type.lanes
    if lanes == 1:
        return f.trunc(f.lshr(bits, const(bits.type, 16)), bits.type.with_element(I16))
    halves = f.bitcast(bits, vector(I16, 2 * lanes))
    return f.shuffle(halves, halves, range(1, 2 * lanes, 2))


def _f16_bits(f: FunctionBuilder, bits: Value) -> Value:
    integer = bits.type
    single = integer.with_element(F32)
    sign = f.and_(f.lshr(bits, const(integer, 16)), const(integer, 0x8000))
    size = f.and_(bits, const(integer, 0x7FFFFFFF))
    odd = f.and_(f.lshr(size, const(integer, 13)), const(integer, 1))
    rebias = const(integer, ((15 - 127) << 23) + 0xFFF)
    normal = f.lshr(f.add(size, f.add(odd, rebias)), const(integer, 13))
    # Adding 0.5 makes the FPU round at the f16 denormal's last bit.
    shifted = f.add(f.bitcast(size, single), const(single, 0.5))
    denormal = f.sub(f.bitcast(shifted, integer), const(integer, 0x3F000000))
    result = f.select(f.icmp("ult", size, const(integer, 113 << 23)), denormal, normal)
    overflow = f.icmp("uge", size, const(integer, 0x477FF000))
    result = f.select(overflow, const(integer, 0x7C00), result)
    payload = f.and_(f.lshr(size, const(integer, 13)), const(integer, 0x3FF))
    quiet = f.or_(payload, const(integer, 0x7E00))
    nan = f.icmp("ugt", size, const(integer, 0x7F800000))
    return f.or_(f.select(nan, quiet, result), sign)
