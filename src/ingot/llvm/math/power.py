# SPDX-License-Identifier: Apache-2.0
"""power, cbrt, sqrt, rsqrt.

The f32 power is exp2(y log2 x) inside f64. The f64 power carries log x and its product with y as
unevaluated sums of two f64, because an error in the exponent is multiplied by up to 745.
Source: T. Dekker, "A floating-point technique for extending the available precision".
"""

from __future__ import annotations

from ingot.llvm.math import coefficients as rows
from ingot.llvm.math.emitter import INFINITY, NAN, MathEmitter
from ingot.llvm.math.exponential import reduce, scale
from ingot.llvm.math.logarithm import log2_of_single, split_exponent
from ingot.llvm.types import F64
from ingot.llvm.values import Value

# The high part has 40 bits: its product with an exponent is exact.
_LN2_HIGH, _LN2_LOW = 0.6931471805592082, 7.371002565167799e-13
_THIRD, _THIRD_LOW = 0.3333333333333333, 1.850371707708594e-17
_CBRT_BIAS = 715094163


def power(m: MathEmitter, x: Value, y: Value) -> Value:
    """Return x to the y, with the special cases of C's pow."""
    size = _power_f32(m, m.abs(x), y) if m.is_f32 else _power_f64(m, m.abs(x), y)
    positive = m.builder.and_(m.compare("ogt", x, 0.0), m.compare("olt", x, INFINITY))
    ordinary = m.builder.and_(positive, m.compare("ord", y, y))
    return m.unless_all(ordinary, size, lambda: _power_specials(m, x, y, size))


def _power_f32(m: MathEmitter, a: Value, y: Value) -> Value:
    wide = m.over(F64)
    # A finite exponent, so that log2 1 = 0 times it is 0; no f32 but 1 has a smaller logarithm.
    exponent = m.builder.fpext(m.clamp(y, -1e30, 1e30), wide.type)
    log2 = log2_of_single(wide, m.builder.fpext(a, wide.type))
    t = wide.clamp(wide.mul(log2, exponent), -180.0, 160.0)
    n, integer = wide.round_product(t, 1.0)
    p = wide.polynomial(wide.sub(t, n), rows.SINGLE_EXP2)
    shifted = wide.builder.shl(integer, wide.i(52))
    result = wide.from_bits(wide.builder.add(wide.bits(p), shifted))
    return m.builder.fptrunc(result, m.type)


def _power_f64(m: MathEmitter, a: Value, y: Value) -> Value:
    # Beyond 2^70 every y gives 0, 1 or infinity; the limit keeps the exact products finite.
    y = m.clamp(y, -(2.0**70), 2.0**70)
    high, low = _log_pair(m, a)
    product, error = m.two_product(y, high)
    rest = m.fma(y, low, error)
    limited = m.clamp(product, -746.0, 711.0)
    rest = m.select(m.compare("oeq", limited, product), rest, 0.0)
    _, k, r, c = reduce(m, limited)
    r, rest = m.two_sum(r, m.add(rest, c))
    square = m.mul(r, r)
    inner = m.fma(m.polynomial(r, rows.EXP_TAIL_F64), r, m.c(0.5))
    tail = m.fma(inner, square, m.fma(rest, r, rest))
    return scale(m, m.add(m.c(1.0), m.add(r, tail)), k)


def _log_pair(m: MathEmitter, x: Value) -> tuple[Value, Value]:
    """Return log x as an unevaluated sum with about 65 good bits."""
    k, f = split_exponent(m, x)
    denominator, lost = m.fast_two_sum(m.c(2.0), f)
    s = m.div(f, denominator)
    product, error = m.two_product(s, denominator)
    s_rest = m.sub(m.sub(m.sub(f, product), error), m.mul(s, lost))
    s_rest = m.div(s_rest, denominator)
    z, z_error = m.two_product(s, s)
    z_rest = m.fma(m.add(s, s), s_rest, z_error)
    series = m.mul(m.mul(z, z), m.polynomial(z, rows.POWER_SERIES_F64))
    third, third_error = m.two_product(z, m.c(_THIRD))
    third_rest = m.fma(z, m.c(_THIRD_LOW), m.fma(z_rest, m.c(_THIRD), third_error))
    factor, factor_rest = m.fast_two_sum(third, series)
    factor_rest = m.add(factor_rest, third_rest)
    double, double_rest = m.add(s, s), m.add(s_rest, s_rest)
    term, term_error = m.two_product(double, factor)
    term_rest = m.fma(double, factor_rest, m.fma(double_rest, factor, term_error))
    total, first = m.two_sum(m.mul(k, m.c(_LN2_HIGH)), double)
    total, second = m.two_sum(total, term)
    small = m.add(m.fma(k, m.c(_LN2_LOW), double_rest), term_rest)
    return m.fast_two_sum(total, m.add(m.add(first, second), small))


def _power_specials(m: MathEmitter, x: Value, y: Value, size: Value) -> Value:
    builder = m.builder
    integral, odd = _integrality(m, y)
    falling = m.compare("olt", y, 0.0)
    at_zero = m.select(falling, INFINITY, 0.0)
    size = m.select(m.compare("oeq", x, 0.0), at_zero, size)
    at_infinity = m.select(falling, 0.0, INFINITY)
    size = m.select(m.compare("oeq", m.abs(x), INFINITY), at_infinity, size)
    negative = builder.icmp("slt", m.bits(x), m.i(0))
    size = m.select(builder.and_(odd, negative), m.neg(size), size)
    undefined = builder.and_(_finite_negative(m, x), builder.not_(integral))
    undefined = builder.or_(undefined, m.compare("uno", x, y))
    size = m.select(undefined, NAN, size)
    one = builder.or_(m.compare("oeq", y, 0.0), m.compare("oeq", x, 1.0))
    return m.select(one, 1.0, size)


def _finite_negative(m: MathEmitter, x: Value) -> Value:
    below = m.compare("olt", x, 0.0)
    return m.builder.and_(below, m.compare("ogt", x, -INFINITY))


def _integrality(m: MathEmitter, y: Value) -> tuple[Value, Value]:
    """Return (is y an integer, is it odd); floats from 2^24, 2^53 on are even integers."""
    limit = 2.0 ** (m.mantissa_bits + 1)
    size = m.abs(y)
    below = m.compare("olt", size, limit)
    limited = m.select(below, size, limit)
    integer = m.builder.fptosi(limited, m.integer)
    integral = m.compare("oeq", m.builder.sitofp(integer, m.type), limited)
    low_bit = m.builder.icmp("ne", m.builder.and_(integer, m.i(1)), m.i(0))
    return integral, m.builder.and_(m.builder.and_(integral, below), low_bit)


def cbrt(m: MathEmitter, x: Value) -> Value:
    """Return the cube root (f64): a third of the exponent, a polynomial, one Halley step."""
    builder = m.builder
    a = m.abs(x)
    denormal = m.compare("olt", a, 2.0**-1022)
    a = m.select(denormal, m.mul(a, m.c(2.0**54)), a)
    # The bits divided by three: 0xAAAAAAAB / 2^33 is a third for 32-bit numbers.
    word = builder.lshr(m.bits(a), m.i(32))
    third = builder.lshr(builder.mul(word, m.i(0xAAAAAAAB)), m.i(33))
    t = m.from_bits(builder.shl(builder.add(third, m.i(_CBRT_BIAS)), m.i(32)))
    ratio = m.mul(m.mul(t, t), m.div(t, a))
    t = m.mul(t, m.polynomial(ratio, rows.CBRT_F64))
    # 23 bits, so that t * t is exact.
    rounded = builder.add(m.bits(t), m.i(0x80000000))
    t = m.from_bits(builder.and_(rounded, m.i(0xFFFFFFFFC0000000)))
    r = m.div(a, m.mul(t, t))
    r = m.div(m.sub(r, t), m.add(m.add(t, t), r))
    t = m.fma(t, r, t)
    t = m.select(denormal, m.mul(t, m.c(2.0**-18)), t)
    special = builder.or_(m.compare("oeq", x, 0.0), m.compare("ueq", m.abs(x), INFINITY))
    return m.select(special, x, m.copysign(t, x))


def sqrt(m: MathEmitter, x: Value) -> Value:
    """Return the square root, correctly rounded."""
    return m.sqrt(x)


def rsqrt(m: MathEmitter, x: Value) -> Value:
    """Return 1 / sqrt(x): infinite at zero with zero's sign, NaN below."""
    return m.div(m.c(1.0), m.sqrt(x))
