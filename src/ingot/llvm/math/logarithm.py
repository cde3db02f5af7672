# SPDX-License-Identifier: Apache-2.0
"""log, log1p, asinh, acosh, atanh.

log: x = 2^k (1 + f) with 1 + f in [1/sqrt2, sqrt2]; f64 uses the series of log((1+s)/(1-s)),
f32 a polynomial in f, which saves the division. log1p feeds the rounding error of 1 + x back.
Source: P. Tang, "Table-driven implementation of the logarithm" (the error terms).
"""

from __future__ import annotations

from ingot.llvm.math import coefficients as rows
from ingot.llvm.math.emitter import INFINITY, NAN, MathEmitter
from ingot.llvm.math.exponential import LN2, LN2_HIGH_F64, LN2_LOW_F64
from ingot.llvm.values import Value

# Bits of the start of the mantissa's interval: 2/3 (f32), 1/sqrt2 (f64).
_START_F32, _START_F64 = 0x3F2AAAAB, 0x3FE6A09E667F3BCD
_LN2_HIGH_F32, _LN2_LOW_F32 = 0.693359375, -2.12194440e-4
_SMALL_SINGLE = 2.0**-10
"""Up to here two terms of the series of asinh and atanh suffice for an f32."""


def split_exponent(m: MathEmitter, x: Value) -> tuple[Value, Value]:
    """Return (k, f) with x = 2^k (1 + f), k as a float; x positive, denormals included."""
    shift = m.mantissa_bits
    denormal = m.compare("olt", x, m.smallest_normal)
    k, f = split_normal(m, m.select(denormal, m.mul(x, m.c(2.0**shift)), x))
    return m.add(k, m.select(denormal, -float(shift), 0.0)), f


def split_normal(m: MathEmitter, x: Value) -> tuple[Value, Value]:
    """Return what `split_exponent` does for an x that is not denormal."""
    shift, bits = m.mantissa_bits, m.bits(x)
    start = m.i(_START_F32 if m.is_f32 else _START_F64)
    exponent = m.builder.ashr(m.builder.sub(bits, start), m.i(shift))
    mantissa = m.from_bits(m.builder.sub(bits, m.builder.shl(exponent, m.i(shift))))
    return m.integer_to_float(exponent), m.sub(mantissa, m.c(1.0))


def assemble(m: MathEmitter, k: Value, f: Value, correction: Value) -> Value:
    """Return k ln2 + log(1 + f) + correction."""
    if m.is_f32:
        square = m.mul(f, f)
        rest = m.mul(m.mul(m.polynomial(f, rows.LOG_TAIL_F32), square), f)
        rest = m.add(m.fma(k, m.c(_LN2_LOW_F32), rest), correction)
        rest = m.fma(square, m.c(-0.5), rest)
        return m.fma(k, m.c(_LN2_HIGH_F32), m.add(f, rest))
    s = m.div(f, m.add(f, m.c(2.0)))
    z = m.mul(s, s)
    series = m.mul(m.polynomial(z, rows.LOG_SERIES_F64), z)
    half_square = m.mul(m.mul(f, f), m.c(0.5))
    low = m.fma(k, m.c(LN2_LOW_F64), correction)
    rest = m.fma(s, m.add(half_square, series), low)
    rest = m.sub(m.sub(half_square, rest), f)
    return m.sub(m.mul(k, m.c(LN2_HIGH_F64)), rest)


def log(m: MathEmitter, x: Value) -> Value:
    """Return the natural logarithm: -inf at zero, NaN below."""
    result = assemble(m, *split_normal(m, x), m.c(-0.0))
    return m.unless_all(m.is_positive_normal(x), result, lambda: _log_of_any(m, x))


def _log_of_any(m: MathEmitter, x: Value) -> Value:
    result = assemble(m, *split_exponent(m, x), m.c(-0.0))
    result = m.select(m.compare("oeq", x, INFINITY), INFINITY, result)
    result = m.select(m.compare("oeq", x, 0.0), -INFINITY, result)
    return m.select(m.compare("ult", x, 0.0), NAN, result)


def log_plus_one(m: MathEmitter, x: Value) -> Value:
    """Return log(1 + x), accurate near zero."""
    result = _log_plus_one_finite(m, x, None)
    finite = m.builder.and_(m.compare("ogt", x, -1.0), m.compare("olt", x, INFINITY))
    ordinary = m.builder.and_(finite, m.compare("one", x, 0.0))
    return m.unless_all(ordinary, result, lambda: _log_plus_one_specials(m, x, result))


def _log_plus_one_specials(m: MathEmitter, x: Value, result: Value) -> Value:
    result = m.select(m.compare("oeq", x, INFINITY), INFINITY, result)
    result = m.select(m.compare("oeq", x, -1.0), -INFINITY, result)
    result = m.select(m.compare("ult", x, -1.0), NAN, result)
    return m.select(m.compare("oeq", x, 0.0), x, result)


def _log_plus_one_finite(m: MathEmitter, high: Value, low: Value | None) -> Value:
    """Return log(1 + high + low) for a positive finite sum."""
    total, error = m.two_sum(m.c(1.0), high)
    if low is not None:
        error = m.add(error, low)
    # No sum of 1 and a number of the type above -1 is denormal.
    return assemble(m, *split_normal(m, total), m.div(error, total))


def log2_of_single(m: MathEmitter, x: Value) -> Value:
    """Return the binary logarithm (f64) with a relative error of 2^-35; x a positive normal."""
    k, f = split_normal(m, x)
    return m.fma(m.polynomial(f, rows.SINGLE_LOG2), f, k)


def asinh_of_single(m: MathEmitter, x: Value) -> Value:
    """Return the inverse hyperbolic sine of an f32 in f64: log(a + sqrt(a^2 + 1))."""
    a = m.abs(x)
    z = m.mul(x, x)
    root = m.sqrt(m.add(z, m.c(1.0)))
    large = m.mul(log2_of_single(m, m.add(a, root)), m.c(LN2))
    # The sum has an error of 2^-53, which is too much of so small a result.
    small = m.fma(m.mul(z, m.c(rows.ASINH_F64[0])), a, a)
    result = m.select(m.compare("ogt", a, _SMALL_SINGLE), large, small)
    return m.copysign(m.select(m.compare("olt", a, INFINITY), result, a), x)


def acosh_of_single(m: MathEmitter, x: Value) -> Value:
    """Return the inverse hyperbolic cosine of an f32 in f64, NaN below one."""
    # The product is exact, so near one the sum is 1 + sqrt(2 (x - 1)) to the last bits.
    root = m.sqrt(m.mul(m.sub(x, m.c(1.0)), m.add(x, m.c(1.0))))
    result = m.mul(log2_of_single(m, m.add(x, root)), m.c(LN2))
    result = m.select(m.compare("olt", x, INFINITY), result, x)
    return m.select(m.compare("ult", x, 1.0), NAN, result)


def atanh_of_single(m: MathEmitter, x: Value) -> Value:
    """Return the inverse hyperbolic tangent of an f32 in f64, infinite at one, NaN beyond."""
    a = m.abs(x)
    ratio = m.div(m.add(m.c(1.0), a), m.sub(m.c(1.0), a))
    large = m.mul(log2_of_single(m, ratio), m.c(LN2 / 2))
    small = m.fma(m.mul(m.mul(a, a), m.c(1 / 3)), a, a)
    result = m.select(m.compare("ogt", a, _SMALL_SINGLE), large, small)
    result = m.select(m.compare("oeq", a, 1.0), INFINITY, result)
    return m.copysign(m.select(m.compare("ugt", a, 1.0), NAN, result), x)


def asinh(m: MathEmitter, x: Value) -> Value:
    """Return the inverse hyperbolic sine (f64)."""
    a = m.abs(x)
    z = m.mul(x, x)
    small = m.fma(m.mul(m.polynomial(z, rows.ASINH_F64), z), x, x)
    root = m.sqrt(m.add(z, m.c(1.0)))
    argument = m.add(a, m.div(z, m.add(root, m.c(1.0))))
    large = _log_plus_one_doubled(m, a, argument, m.c(0.0))
    return m.copysign(m.select(m.compare("olt", a, 0.5), small, large), x)


def acosh(m: MathEmitter, x: Value) -> Value:
    """Return the inverse hyperbolic cosine, NaN below one (f64)."""
    t = m.sub(x, m.c(1.0))
    # log1p(t + sqrt(t (t + 2))), the sum and the root with their rounding errors: near one
    # three roundings would add up to more than two ulps.
    factor, factor_low = m.two_sum(t, m.c(2.0))
    product, product_low = m.two_product(t, factor)
    root = m.sqrt(product)
    square, square_low = m.two_product(root, root)
    defect = m.add(m.sub(product, square), m.sub(m.fma(t, factor_low, product_low), square_low))
    root_low = m.div(defect, m.select(m.compare("oeq", root, 0.0), 1.0, m.add(root, root)))
    high, low = m.fast_two_sum(root, t)
    result = _log_plus_one_doubled(m, x, high, m.add(low, root_low))
    return m.select(m.compare("ult", x, 1.0), NAN, result)


def atanh(m: MathEmitter, x: Value) -> Value:
    """Return the inverse hyperbolic tangent, infinite at one, NaN beyond (f64)."""
    a = m.abs(x)
    argument = m.div(m.add(a, a), m.sub(m.c(1.0), a))
    return m.copysign(m.mul(log_plus_one(m, argument), m.c(0.5)), x)


def _log_plus_one_doubled(m: MathEmitter, a: Value, high: Value, low: Value) -> Value:
    """Return log(1 + high + low), or log(2 a) where a is so large that its square overflows."""
    large = m.compare("ogt", a, 2.0**60)
    high, low = m.select(large, a, high), m.select(large, 0.0, low)
    result = m.add(_log_plus_one_finite(m, high, low), m.select(large, 0.6931471805599453, 0.0))
    return m.select(m.compare("oeq", a, INFINITY), INFINITY, result)
