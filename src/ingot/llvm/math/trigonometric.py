# SPDX-License-Identifier: Apache-2.0
"""sin, cos, tan, with a reduction that is right for every argument.

x = k pi/2 + r, |r| <= pi/4. Moderate arguments subtract k times pi/2 in parts (Cody and Waite).
Lanes beyond go, in a branch that is rarely taken, through a scalar subroutine that multiplies by
192 bits of 2/pi (M. Payne and R. Hanek, "Radian reduction for trigonometric functions").
Invariant: the path of a lane depends on that lane alone, so all widths give the same bits.
"""

from __future__ import annotations

from functools import cache

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder, Subroutine
from ingot.llvm.math import coefficients as rows
from ingot.llvm.math.emitter import NAN, MathEmitter
from ingot.llvm.types import F64, I1, I32, I64, I128, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, const

TWO_OVER_PI = 0.6366197723675814
# pi/2 in parts of 33 bits: k times each is exact for k below 2^20.
PI_HALF_PARTS = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21)
PI_HALF_REST = 8.4784276603689e-32
PI_HALF, PI_HALF_LOW = 1.5707963267948966, 6.123233995736766e-17
# The same for f32 with FMA, valid to 48000.
PI_HALF_F32 = (1.57079601287841796875, 3.13916473e-07, 5.39030253e-15)
LIMIT_F32, LIMIT_F64 = 48000.0, 1.0e6

TWO_OVER_PI_WORDS = (
    *(0x0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561),
    *(0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484),
    *(0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F),
    *(0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B),
    *(0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D),
)
"""A zero word, then 2/pi after its binary point, 64 bits a word."""


def sine(m: MathEmitter, x: Value) -> Value:
    """Return the sine; NaN at infinity."""
    return sine_and_cosine(m, x)[0]


def cosine(m: MathEmitter, x: Value) -> Value:
    """Return the cosine; NaN at infinity."""
    return sine_and_cosine(m, x)[1]


def sine_and_cosine(m: MathEmitter, x: Value) -> tuple[Value, Value]:
    """Return both, which are hardly dearer than one: each needs both polynomials."""
    k, r, rest = _reduce(m, x)
    odd = _bit(m, k, 0)
    sines, cosines = _kernel_sine(m, r, rest), _kernel_cosine(m, r, rest)
    sine_value = _with_sign(m, m.select(odd, cosines, sines), k)
    cosine_value = _with_sign(m, m.select(odd, sines, cosines), m.builder.add(k, m.i(1)))
    # The polynomial loses the sign of a zero.
    return m.select(m.compare("oeq", x, 0.0), x, sine_value), cosine_value


def tan(m: MathEmitter, x: Value) -> Value:
    """Return the tangent (f64); NaN at infinity."""
    k, r, rest = _reduce(m, x)
    odd = _bit(m, k, 0)
    assert rest is not None
    sines = m.fast_two_sum(*_sine_parts(m, r, rest))
    cosines = m.fast_two_sum(*_cosine_parts(m, r, rest))
    pairs = list(zip(sines, cosines, strict=True))
    high, low = (m.select(odd, m.neg(cosine_r), sine_r) for sine_r, cosine_r in pairs)
    below, below_low = (m.select(odd, sine_r, cosine_r) for sine_r, cosine_r in pairs)
    result = m.quotient((high, low), (below, below_low))
    return m.select(m.compare("oeq", x, 0.0), x, result)


def _with_sign(m: MathEmitter, value: Value, k: Value) -> Value:
    """Return the value, negated in the lower half of the circle."""
    sign = m.builder.shl(m.builder.and_(k, m.i(2)), m.i(m.integer.element.bits - 2))
    return m.from_bits(m.builder.xor(m.bits(value), sign))


def _bit(m: MathEmitter, k: Value, position: int) -> Value:
    return m.builder.icmp("ne", m.builder.and_(k, m.i(1 << position)), m.i(0))


def _kernel_sine(m: MathEmitter, r: Value, rest: Value | None) -> Value:
    z = m.mul(r, r)
    if rest is None:
        return m.fma(m.mul(m.polynomial(z, rows.SINE_F32), z), r, r)
    return m.add(*_sine_parts(m, r, rest))


def _sine_parts(m: MathEmitter, r: Value, rest: Value) -> tuple[Value, Value]:
    """Return the sine of r + rest in f64 as a sum that is not yet rounded."""
    z = m.mul(r, r)
    cube = m.mul(z, r)
    inner = m.polynomial(z, rows.SINE_F64[1:])
    # sin(r + rest) = sin r + rest (1 - r^2/2)
    low = m.sub(m.mul(z, m.sub(m.mul(rest, m.c(0.5)), m.mul(cube, inner))), rest)
    low = m.sub(low, m.mul(cube, m.c(rows.SINE_F64[0])))
    return r, m.neg(low)


def _kernel_cosine(m: MathEmitter, r: Value, rest: Value | None) -> Value:
    z = m.mul(r, r)
    if rest is None:
        tail = m.polynomial(z, rows.COSINE_F32)
        return m.fma(m.mul(z, z), tail, m.fma(z, m.c(-0.5), m.c(1.0)))
    return m.add(*_cosine_parts(m, r, rest))


def _cosine_parts(m: MathEmitter, r: Value, rest: Value) -> tuple[Value, Value]:
    """Return the cosine of r + rest in f64 as a sum that is not yet rounded."""
    z = m.mul(r, r)
    tail = m.mul(m.mul(z, z), m.polynomial(z, rows.COSINE_F64))
    half = m.mul(z, m.c(0.5))
    main = m.sub(m.c(1.0), half)
    lost = m.sub(m.sub(m.c(1.0), main), half)
    return main, m.add(lost, m.sub(tail, m.mul(r, rest)))


def _reduce(m: MathEmitter, x: Value) -> tuple[Value, Value, Value | None]:
    """Return (k, r, rest of r); f32 needs no rest."""
    limit = LIMIT_F32 if m.is_f32 else LIMIT_F64
    # Written so that NaN and infinity go the slow way, where they become NaN.
    large = m.builder.not_(m.compare("ole", m.abs(x), limit))
    k, parts = _reduce_moderate(m, x)

    def slow() -> list[Value]:
        other_k, other = _reduce_large(m, x)
        return [
            m.builder.select(large, other_k, k),
            *(m.select(large, b, a) for a, b in zip(parts, other, strict=True)),
        ]

    some = m.builder.reduce("or", large)
    k, *parts = m.builder.if_(some, slow, otherwise=[k, *parts], likely=False)
    return k, parts[0], parts[1] if len(parts) > 1 else None


def _reduce_moderate(m: MathEmitter, x: Value) -> tuple[Value, list[Value]]:
    if not m.is_f32:
        return _reduce_moderate_f64(m, x)
    if not m.has_fma:
        wide = m.over(F64)
        k, parts = _reduce_moderate_f64(wide, m.builder.fpext(x, wide.type))
        return m.builder.trunc(k, m.integer), [m.builder.fptrunc(parts[0], m.type)]
    n, k = m.round_product(x, TWO_OVER_PI)
    for part in PI_HALF_F32:
        x = m.fma(n, m.c(-part), x)
    return k, [x]


def _reduce_moderate_f64(m: MathEmitter, x: Value) -> tuple[Value, list[Value]]:
    n, k = m.round_product(x, TWO_OVER_PI)
    first, second, third = (m.mul(n, m.c(part)) for part in PI_HALF_PARTS)
    r = m.sub(x, first)
    r, error = m.two_sum(r, m.neg(second))
    r, error_third = m.two_sum(r, m.neg(third))
    low = m.add(error, m.sub(error_third, m.mul(n, m.c(PI_HALF_REST))))
    high = m.add(r, low)
    return k, [high, m.add(m.sub(r, high), low)]


def _reduce_large(m: MathEmitter, x: Value) -> tuple[Value, list[Value]]:
    """Send every lane through the subroutine; the lanes that need it are picked by the caller."""
    builder, lanes, element = m.builder, m.type.lanes, m.type.element
    memory = builder.alloca(element, 3 * lanes, 64)
    at_low, at_k = builder.gep(memory, lanes, element), builder.gep(memory, 2 * lanes, element)
    builder.store(x, memory)
    subroutine = builder.owner.subroutine(large_reduction(element))
    builder.call(subroutine, [memory, const(I64, lanes)])
    k, high = builder.load(m.integer, at_k), builder.load(m.type, memory)
    return k, [high] if m.is_f32 else [high, builder.load(m.type, at_low)]


@cache
def large_reduction(element: Type) -> Subroutine:
    """Return `void (ptr memory, i64 lanes)`: x[lanes] in; r high, r low, k (three rows) out."""
    name = f"ingot.reduce_large.f{element.bits}"

    def body(module: ModuleBuilder, linkage: str) -> FunctionRef:
        words = b"".join(word.to_bytes(8, "little") for word in TWO_OVER_PI_WORDS)
        table = module.global_bytes(f"{name}.two_over_pi", words)
        f = module.function(
            name,
            VOID,
            [("memory", PTR), ("lanes", I64)],
            linkage=linkage,
            attrs="nounwind noinline cold",
        )
        memory, lanes = f.params

        def lane(i: Value) -> None:
            at = f.gep(memory, i, element)
            at_low = f.gep(at, lanes, element)
            x = f.load(element, at)
            k, high, low = _reduce_lane(f, table, x if element is F64 else f.fpext(x, F64))
            if element is F64:
                f.store(low, at_low)
            else:
                k, high = f.trunc(k, I32), f.fptrunc(high, element)
            f.store(high, at)
            f.store(k, f.gep(at_low, lanes, element))

        f.for_range(lanes, lane)
        f.ret()
        return f.reference

    return Subroutine(name, VOID, (PTR, I64), body)


def _reduce_lane(f: FunctionBuilder, table: Value, x: Value) -> tuple[Value, Value, Value]:
    """Payne and Hanek for one f64: x = m 2^e; the bits of m 2^e 2/pi that count modulo 4."""
    bits = f.bitcast(x, I64)
    biased = f.and_(f.lshr(bits, const(I64, 52)), const(I64, 0x7FF))
    mantissa = f.or_(f.and_(bits, const(I64, (1 << 52) - 1)), const(I64, 1 << 52))
    # Earlier bits contribute multiples of 4. The table starts with 64 zeros: small e stay in it.
    # Lanes that are not large pass too; their result is not used, but they must not read outside.
    start = f.imax(f.add(biased, const(I64, 64 - 2 - 1075)), 0)
    assert isinstance(start, Value)
    word, shift = f.lshr(start, const(I64, 6)), f.and_(start, const(I64, 63))
    loaded = [
        f.load(I64, f.gep(f.gep(table, word, I64), offset, I64), invariant=True)
        for offset in range(4)
    ]
    window = [f.intrinsic("llvm.fshl", I64, [loaded[at], loaded[at + 1], shift]) for at in range(3)]
    wide = [f.zext(item, I128) for item in window]
    factor = f.zext(mantissa, I128)
    shift_word = const(I128, 64)
    total = f.shl(f.mul(wide[0], factor), shift_word)
    total = f.add(total, f.mul(wide[1], factor))
    total = f.add(total, f.lshr(f.mul(wide[2], factor), shift_word))
    rounded = f.add(total, const(I128, 1 << 125))
    quadrant = f.trunc(f.lshr(rounded, const(I128, 126)), I64)
    high, low = _fraction(f, f.shl(total, const(I128, 2)))
    m = MathEmitter(f, F64, has_fma=False)
    r, error = m.two_product(high, m.c(PI_HALF))
    rest = m.add(error, m.add(m.mul(high, m.c(PI_HALF_LOW)), m.mul(low, m.c(PI_HALF))))
    r, rest = m.fast_two_sum(r, rest)
    negative = f.icmp("slt", bits, const(I64, 0))
    infinite = f.icmp("eq", biased, const(I64, 0x7FF))
    r = m.select(infinite, NAN, m.select(negative, m.neg(r), r))
    rest = m.select(negative, m.neg(rest), rest)
    return f.select(negative, f.neg(quadrant), quadrant), r, rest


def _fraction(f: FunctionBuilder, signed: Value) -> tuple[Value, Value]:
    """Return a signed 128-bit fraction (units of 2^-128) as an unevaluated sum of two f64."""
    negative = f.icmp("slt", signed, const(I128, 0))
    size = f.select(negative, f.neg(signed), signed)
    zeros = f.intrinsic("llvm.ctlz", I128, [size, const(I1, False)])
    size = f.shl(size, zeros)
    first = f.trunc(f.lshr(size, const(I128, 75)), I64)
    second = f.trunc(f.lshr(f.shl(size, const(I128, 53)), const(I128, 75)), I64)
    m = MathEmitter(f, F64, has_fma=False)
    exponent = f.sub(const(I64, -53), f.trunc(zeros, I64))
    scale = m.power_of_two(exponent)
    scale = m.select(negative, m.neg(scale), scale)
    high = m.mul(f.sitofp(first, F64), scale)
    low = m.mul(m.mul(f.sitofp(second, F64), scale), m.c(2.0**-53))
    return high, low
