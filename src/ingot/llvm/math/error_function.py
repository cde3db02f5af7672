# SPDX-License-Identifier: Apache-2.0
"""erf and erfc.

For a >= 0 erfc(a) = exp(-a^2) erfcx(a). erfcx(a) (a + 2), which lies between 0.5 and 2 for every a,
is one polynomial in q = (a - 2) / (a + 2), so that one division serves the whole range. a^2 enters
the exponential as an unevaluated sum: its rounding error would be the result's relative error.
Source: M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x"
(1981), for the mapping.
"""

from __future__ import annotations

from ingot.llvm.math import coefficients as rows
from ingot.llvm.math.emitter import MathEmitter
from ingot.llvm.math.exponential import exp_of_sum, scaled_exp, short_exp
from ingot.llvm.values import Value

_CENTRE = 2.0
"""The polynomial is 2 where the result is 1, and rounded least there; and errors of q count half of
what they do with 3, which takes a coefficient less."""
_LARGEST_F32, _LARGEST_F64 = 10.12, 27.5
"""erfc is zero from here on."""
_TINY_F32, _TINY_F64 = 9.1946, 26.5433
"""erfc is a denormal number, or zero, from here on."""


def erf(m: MathEmitter, x: Value) -> Value:
    """Return the error function."""
    return _erf_f32(m, x) if m.is_f32 else _erf_f64(m, x)


def _erf_f32(m: MathEmitter, x: Value) -> Value:
    t, q = m.abs(x), m.mul(x, x)
    row = rows.ERF_LARGE_F32
    top = m.fma(m.c(row[6]), t, m.c(row[5]))
    next_pair = m.fma(m.c(row[4]), t, m.c(row[3]))
    r = m.fma(top, q, next_pair)
    for item in reversed(row[:3]):
        r = m.fma(r, t, m.c(item))
    r = m.at_least(m.fma(r, t, m.neg(t)), -80.0)
    large = m.copysign(m.sub(m.c(1.0), short_exp(m, r)), x)
    small = m.fma(m.polynomial(q, rows.ERF_SMALL_F32), x, x)
    return m.select(m.compare("ogt", t, 0.927734375), large, small)


def _erf_f64(m: MathEmitter, x: Value) -> Value:
    a = m.at_most(m.abs(x), 6.0)
    square, error = m.two_product(a, a)
    small = m.fma(m.polynomial(square, rows.ERF_SMALL_F64), x, x)
    u = m.div(m.sub(a, m.c(2.5)), m.add(a, m.c(2.5)))
    scaled = m.div(m.polynomial(u, rows.ERF_LARGE_F64), m.add(m.add(a, a), m.c(1.0)))
    falling = scaled_exp(m, m.neg(square))
    falling = m.fma(m.neg(falling), error, falling)
    large = m.copysign(m.sub(m.c(1.0), m.mul(falling, scaled)), x)
    return m.select(m.compare("ogt", a, 0.9273), large, small)


def erfc(m: MathEmitter, x: Value) -> Value:
    """Return 1 - erf(x), to the last digits of its tail."""
    a = m.at_most(m.abs(x), m.single_or_double(_LARGEST_F32, _LARGEST_F64))
    # u = 1 / (a + centre), and how much of itself is missing: both q and the product with u would
    # multiply it.
    total = m.add(a, m.c(_CENTRE))
    lost = m.sub(a, m.sub(total, m.c(_CENTRE)))
    u = m.div(m.c(1.0), total)
    missing = m.fma(m.neg(u), lost, m.fma_once(m.neg(u), total, m.c(1.0)))
    q = m.fma(u, m.c(-2 * _CENTRE), m.c(1.0))
    q = m.fma(m.mul(u, missing), m.c(-2 * _CENTRE), q)
    first, *others = rows.ERFC_F32 if m.is_f32 else rows.ERFC_F64
    inner = m.polynomial(q, others)
    scaled = m.fma(q, inner, m.c(first))
    # What the last sum and the product with u lose.
    low = m.fma(q, inner, m.sub(m.c(first), scaled))
    product, rest = m.two_product(scaled, u)
    factors = product, m.fma(low, u, rest)
    square, error = m.two_product(a, a)
    is_tiny = m.compare("ogt", a, m.single_or_double(_TINY_F32, _TINY_F64))
    far = exp_of_sum(m, (m.neg(square), m.sub(missing, error)), factors, is_tiny)
    return m.select(m.compare("olt", x, 0.0), m.sub(m.c(2.0), far), far)
