# SPDX-License-Identifier: Apache-2.0
"""exp, expm1, logistic, tanh, sinh, cosh.

exp: x = n ln2 + r with |r| <= ln2/2, a polynomial in r, scaling by 2^n in two steps so that the
denormal results and the last finite ones are rounded once. expm1 keeps the reduction's rest and
joins 2^n - 1 with an exact sum. The others are built on these two.
Source: W. Cody and W. Waite, "Software Manual for the Elementary Functions" (the reduction).
"""

from __future__ import annotations

from ingot.llvm.math import coefficients as rows
from ingot.llvm.math.emitter import MathEmitter
from ingot.llvm.values import Value

LOG2_E = 1.4426950408889634
LN2 = 0.6931471805599453
# The high part has trailing zeros, so that n times it is exact without FMA.
LN2_HIGH_F32, LN2_LOW_F32 = 0.693145751953125, 1.42860682030941723212e-6
LN2_HIGH_F64, LN2_LOW_F64 = 6.93147180369123816490e-01, 1.90821492927058770002e-10

LOWEST_NORMAL_F32, LOWEST_NORMAL_F64 = -87.34, -708.4
"""Arguments from which on the exponential is a normal number."""

LEAST_TWICE_NORMAL_F32 = -86.9
"""Arguments up to which the exponential is less than twice the least normal number, and from which
on its exponent is -125 or more."""

TANH_SMALL = 0.7
"""Up to here the f32 tangent is its operand, corrected."""

TANH_UNIT = 1.25
"""In this unit sums of 1 and 3 with up to half as much lie below a power of two, where they are
rounded least (the factor was searched for)."""


def reduce(m: MathEmitter, x: Value) -> tuple[Value, Value, Value, Value]:
    """Return (k as a float, k, r, c): x = k ln2 + r + c, |r| <= ln2/2, c r's rounding error."""
    n, k = m.round_product(x, LOG2_E)
    high = m.fma(n, m.pick(-LN2_HIGH_F32, -LN2_HIGH_F64), x)
    low = m.mul(n, m.pick(LN2_LOW_F32, LN2_LOW_F64))
    r = m.sub(high, low)
    return n, k, r, m.sub(m.sub(high, r), low)


def scale(m: MathEmitter, value: Value, exponent: Value) -> Value:
    """Return value * 2^exponent, rounded once also where the result is denormal."""
    half = m.builder.ashr(exponent, m.i(1))
    rest = m.builder.sub(exponent, half)
    return m.mul(m.mul(value, m.power_of_two(half)), m.power_of_two(rest))


def scaled_exp(m: MathEmitter, x: Value, offset: int = 0) -> Value:
    """Return 2^offset exp(x); a negative offset avoids an overflow."""
    if not (m.is_f32 and m.has_scaling):
        # Else the polynomial is positive for every r, and VSCALEF makes it infinite, or +inf of NaN
        # and the exponent +inf.
        x = m.at_most(x, m.single_or_double(88.8 - offset * LN2, 711.0))
    return _scaled_exp_below(m, x, offset)


def _scaled_exp_below(m: MathEmitter, x: Value, offset: int = 0) -> Value:
    """Return 2^offset exp(x) for an x that is hardly above those with finite results."""
    x = m.at_least(x, m.single_or_double(-104.0, -746.0))
    if m.is_f32 and m.makes_denormals_slowly:
        _, k, twice = _reduced_exp(m, x, 2.0)
        is_tiny = m.compare("olt", x, LEAST_TWICE_NORMAL_F32 - offset * LN2)
        return _half_in_words(m, twice, m.builder.add(k, m.i(offset)) if offset else k, is_tiny)
    n, k, p = _reduced_exp(m, x)
    if not m.has_scaling:
        return scale(m, p, m.builder.add(k, m.i(offset)) if offset else k)
    lowest = m.single_or_double(LOWEST_NORMAL_F32, LOWEST_NORMAL_F64) - offset * LN2_HIGH_F64
    exponent = m.add(n, m.c(float(offset))) if offset else n
    return _scaled_in_units(m, p, exponent, m.compare("olt", x, lowest))


def _reduced_exp(m: MathEmitter, x: Value, factor: float = 1.0) -> tuple[Value, Value, Value]:
    """Return (n as a float, n, factor p) with exp(x) = 2^n p; the factor is a power of two."""
    if m.is_f32:
        n, k = m.round_product(x, LOG2_E)
        r = m.fma(n, m.c(-LN2_HIGH_F32), x)
        r = m.fma(n, m.c(-LN2_LOW_F32), r)
        if m.has_fma:
            return n, k, m.polynomial(r, [item * factor for item in rows.EXP_F32])
        square = m.mul(r, r)
        p = m.add(m.fma(m.polynomial(r, rows.EXP_F32[2:]), square, r), m.c(1.0))
        return n, k, p if factor == 1.0 else m.mul(p, m.c(factor))
    assert factor == 1.0, "only f32 has a factor"
    n, k, r, c = reduce(m, x)
    return n, k, m.add(m.add(r, m.add(_expm1_rest(m, r), c)), m.c(1.0))


def exp_of_sum(
    m: MathEmitter, sums: tuple[Value, Value], factors: tuple[Value, Value], is_tiny: Value
) -> Value:
    """Return the product of a sum and the exponential of a sum, rounded once, or hardly more.

    Args:
        m: over the type of the values.
        sums: the exponent, from -770 (f32: -104) to 0, and a rounding error of it.
        factors: the factor, a normal number near 1, and a rounding error of it.
        is_tiny: where the result is a denormal number or zero.
    """
    (x, low), (factor, rest) = sums, factors
    if m.is_f32:
        n, k = m.round_product(x, LOG2_E)
        r = m.fma(n, m.c(-LN2_HIGH_F32), x)
        r = m.add(r, m.fma(n, m.c(-LN2_LOW_F32), low))
        t = m.fma(m.polynomial(r, rows.EXP_F32[2:]), m.mul(r, r), r)
    else:
        n, k, r, c = reduce(m, x)
        r, c = m.two_sum(r, m.add(c, low))
        t = m.add(r, m.add(_expm1_rest(m, r), c))
    p, lost = m.fast_two_sum(m.c(1.0), t)
    value = m.fma_once(factor, p, m.fma(factor, lost, m.mul(rest, p)))
    return _scaled_in_units(m, value, n, is_tiny) if m.has_scaling else scale(m, value, k)


def _scaled_in_units(m: MathEmitter, value: Value, exponent: Value, is_tiny: Value) -> Value:
    """Return value * 2^exponent as `scale` does, without ever making a denormal.

    Intel's CPUs take a hundred cycles for an instruction that makes one, or that underflows to
    zero, as the exponential of a masked score does. So a tiny result is counted in units of the
    least denormal: below 2^mantissa_bits an addition rounds to whole ones, and their number is
    the result's bits.
    """
    builder, unit = m.builder, m.c(2.0**m.mantissa_bits)
    units = m.c(float(m.bias - 1 + m.mantissa_bits))
    shifted = builder.select(is_tiny, m.add(exponent, units), exponent)
    scaled = m.scaled(value, shifted)
    counted = m.bits(builder.select(is_tiny, m.add(scaled, unit), scaled))
    return m.from_bits(builder.sub(counted, builder.select(is_tiny, m.bits(unit), m.i(0))))


def _half_in_words(m: MathEmitter, twice: Value, exponent: Value, is_tiny: Value) -> Value:
    """Return twice * 2^(exponent - 1) as `scale` does, of f32, without ever making a denormal.

    A tiny result is counted in units of the least denormal, too, but as an integer: its bits, up to
    twice the least normal number. So one product with a power of two does for every exponent.

    Args:
        m: over f32.
        twice: from 1 to 4, less than 2 where the exponent of a tiny result is -125.
        exponent: from -151 to 128.
        is_tiny: wherever the exponent is less than -125, nowhere that it is more; not of NaN.
    """
    builder, units = m.builder, m.bias - 1 + m.mantissa_bits
    biased = builder.select(is_tiny, m.i(m.bias - 1 + units), m.i(m.bias - 1))
    power = builder.shl(builder.add(exponent, biased), m.i(m.mantissa_bits))
    scaled = m.mul(twice, m.from_bits(power))
    counted = builder.intrinsic("llvm.lrint", m.integer, [scaled])
    return builder.select(is_tiny, m.from_bits(counted), scaled)


def _expm1_rest(m: MathEmitter, r: Value) -> Value:
    """Return exp(r) - 1 - r for a reduced r."""
    return m.mul(_expm1_inner(m, r), m.mul(r, r))


def _expm1_inner(m: MathEmitter, r: Value) -> Value:
    """Return (exp(r) - 1 - r) / r^2 for a reduced r."""
    row = rows.EXPM1_TAIL_F32 if m.is_f32 else rows.EXP_TAIL_F64
    return m.fma(m.polynomial(r, row), r, m.c(0.5))


def short_exp(m: MathEmitter, x: Value, factor: float = 1.0) -> Value:
    """Return exp(factor x) in f32 to about 2 ulp, for factor x in [-87, 30]; a power of two.

    It is the inside of tanh and erf, where small results count little.
    """
    n, k = m.round_product(x, LOG2_E * factor)
    if m.has_fma:
        # Exact, and what is missing of ln2 is 2e-9 of each n.
        r = m.fma(n, m.c(-LN2 / factor), x)
    else:
        r = m.fma(n, m.c(-LN2_HIGH_F32 / factor), x)
        r = m.fma(n, m.c(-LN2_LOW_F32 / factor), r)
    row = [item * factor**power for power, item in enumerate(rows.EXP_SHORT_F32)]
    p = m.polynomial(r, row)
    return m.from_bits(m.builder.add(m.bits(p), m.builder.shl(k, m.i(m.mantissa_bits))))


def exponential(m: MathEmitter, x: Value) -> Value:
    """Return e^x."""
    return scaled_exp(m, x)


def exponential_minus_one(m: MathEmitter, x: Value) -> Value:
    """Return e^x - 1, accurate near zero."""
    limited = m.clamp(x, -50.0, 89.0) if m.is_f32 else m.clamp(x, -60.0, 710.0)
    _, k, r, c = reduce(m, limited)
    rest = m.add(_expm1_rest(m, r), m.fma(c, r, c))
    # All at half size, so that the largest finite results do not overflow on the way.
    half_power = m.power_of_two(m.builder.sub(k, m.i(1)))
    base = m.sub(half_power, m.c(0.5))
    main = m.mul(half_power, r)
    high, low = m.fast_two_sum(base, main)
    total = m.add(high, m.fma(half_power, rest, low))
    result = m.add(total, total)
    tiny = m.compare("olt", m.abs(x), 2.0**-26 if m.is_f32 else 2.0**-55)
    return m.select(tiny, x, result)


def logistic(m: MathEmitter, x: Value) -> Value:
    """Return 1 / (1 + e^-x): s = e / (1 + e) of e = e^-|x| where x is negative, else 1 - s.

    So no side loses digits or overflows.
    """
    e = _scaled_exp_below(m, m.neg(m.abs(x)))
    s = m.quotient((e, None), m.fast_two_sum(m.c(1.0), e))
    return m.select(m.compare("olt", x, 0.0), s, m.sub(m.c(1.0), s))


def tanh(m: MathEmitter, x: Value) -> Value:
    """Return the hyperbolic tangent; f32: a + a^3 / p(a^2) near zero, else 1 - 2 / (e^2a + 1)."""
    a = m.abs(x)
    if not m.is_f32:
        return _tanh_f64(m, a, x)
    # NaN goes the way of small numbers.
    large = m.compare("oge", a, TANH_SMALL)
    e = short_exp(m, m.at_most(a, 10.0), 2.0)
    z = m.mul(a, a)
    below = m.select(large, m.add(e, m.c(1.0)), m.polynomial(z, rows.TANH_F32))
    above = m.select(large, -2.0, m.mul(a, z))
    return m.copysign(m.add(m.select(large, 1.0, a), m.div(above, below)), x)


def _tanh_f64(m: MathEmitter, a: Value, x: Value) -> Value:
    """Return tanh(x) of t = tanh(r), a = n ln2/2 + r: with s = 2^n, by the formula of sums.

    ((s-1) + (s+1) t) / ((s+1) + (s-1) t), times `TANH_UNIT` above and below.
    """
    a = m.at_most(a, 22.0)
    shifted = m.fma(a, m.c(2 * LOG2_E), m.c(m.magic))
    n = m.sub(shifted, m.c(m.magic))
    high = m.fma(n, m.c(-LN2_HIGH_F64 / 2), a)
    r = m.fma(n, m.c(-LN2_LOW_F64 / 2), high)
    z = m.mul(r, r)
    rest = m.mul(m.mul(r, z), m.polynomial(z, rows.TANH_REDUCED_F64))
    t = m.add(high, m.fma(n, m.c(-LN2_LOW_F64 / 2), rest))
    # The integer is in the last bits; the bits before it are shifted out.
    shift = m.builder.shl(m.bits(shifted), m.i(m.mantissa_bits))
    s = m.from_bits(m.builder.add(m.bits(m.c(1.0)), shift))
    less = m.fma(s, m.c(TANH_UNIT), m.c(-TANH_UNIT))
    more = m.fma(s, m.c(TANH_UNIT), m.c(TANH_UNIT))
    below = m.fma_once(less, t, more)
    # Far out it is 1 less something, and the error of what is below does not count.
    far = m.sub(below, m.fma(t, m.c(-2 * TANH_UNIT), m.c(2 * TANH_UNIT)))
    above = m.select(m.compare("ult", a, 0.8664), m.fma_once(more, t, less), far)
    return m.copysign(m.div(above, below), x)


def sinh(m: MathEmitter, x: Value) -> Value:
    """Return the hyperbolic sine (f64)."""
    a = m.abs(x)
    z = m.mul(x, x)
    small = m.fma(m.mul(m.polynomial(z, rows.SINH_F64), z), x, x)
    half = scaled_exp(m, a, -1)
    large = m.sub(half, m.div(m.c(0.25), half))
    return m.select(m.compare("olt", a, 1.0), small, m.copysign(large, x))


def cosh(m: MathEmitter, x: Value) -> Value:
    """Return the hyperbolic cosine (f64)."""
    half = scaled_exp(m, m.abs(x), -1)
    return m.add(half, m.div(m.c(0.25), half))


def sinh_of_single(m: MathEmitter, x: Value) -> Value:
    """Return the hyperbolic sine of an f32 in f64."""
    even, odd, (more, less) = _hyperbolic_parts(m, m.abs(x))
    return m.copysign(m.fma(even, less, m.mul(odd, more)), x)


def cosh_of_single(m: MathEmitter, x: Value) -> Value:
    """Return the hyperbolic cosine of an f32 in f64."""
    even, odd, (more, less) = _hyperbolic_parts(m, m.abs(x))
    return m.fma(even, more, m.mul(odd, less))


def _hyperbolic_parts(m: MathEmitter, a: Value) -> tuple[Value, Value, tuple[Value, Value]]:
    """Return (cosh r, sinh r, (cosh of n ln2, sinh of n ln2)) with a = n ln2 + r (f64).

    The formulas of sums make of them cosh a and sinh a, without a division, and without digits
    lost where n is 0.
    """
    # No f32 has a finite result above 90.
    a = m.at_most(a, 100.0)
    n, k = m.round_product(a, LOG2_E)
    r = m.fma(n, m.c(-LN2), a)
    z = m.mul(r, r)
    even = m.fma(m.polynomial(z, rows.SINGLE_COSH), z, m.c(1.0))
    odd = m.fma(m.mul(m.polynomial(z, rows.SINGLE_SINH), z), r, r)
    half = m.power_of_two(m.builder.sub(k, m.i(1)))
    half_inverse = m.power_of_two(m.builder.sub(m.i(-1), k))
    return even, odd, (m.add(half, half_inverse), m.sub(half, half_inverse))
