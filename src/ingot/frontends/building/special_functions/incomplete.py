# SPDX-License-Identifier: Apache-2.0
"""Incomplete gamma and beta functions, and the derivatives of the gamma ones in `a`.

Computed in f64. Below x = 1 or a by the power series, beyond by the continued fraction, each with
its derivative carried along, and where both are long by an expansion (`incomplete_large`); the beta
function by a continued fraction after Lentz.
Sources: Cephes (`igam.c`, Moshier 1984); NIST DLMF 8.17.22; Thompson and Barnett (1986) for
Lentz's method; Figurnov et al., "Implicit reparameterization gradients" (2018).
"""

from __future__ import annotations

import math

from ingot.frontends.building.special_functions.incomplete_large import large
from ingot.frontends.building.special_functions.reals import Real, iterate
from ingot.frontends.building.special_functions.special import digamma, log_gamma
from ingot.hlo.dtype import F64, DType

_EPSILON = 2.0**-52
# Where the last term of an f64 sum lies, of what is rounded to f32 or less: sums of up to 1000
# terms as large keep f32's digits.
_COARSE = 2.0**-35
_LOG_GREATEST = math.log(1.7976931348623157e308)
_MOST_FRACTIONS, _MOST_BETA_FRACTIONS = 2000, 600
_CONVERGENTS = 4


def _lgamma(x: Real) -> Real:
    return x.through(log_gamma)


def _digamma(x: Real) -> Real:
    return x.through(digamma)


def _power_part(a: Real, x: Real) -> Real:
    """The logarithm of x^a e^-x / gamma(a)."""
    return a * x.log() - x - _lgamma(a)


def _last_term(element: DType) -> float:
    """Return how small a term of a sum must be, relative to it, to be the last one."""
    return _EPSILON if element is F64 else _COARSE


def _series(a: Real, x: Real, open_: Real, least: float = _EPSILON) -> Real:
    """Return the sum of x^n / ((a+1) ... (a+n)). A step adds four terms and divides once."""

    def step(state: list[Real]) -> tuple[Real, list[Real]]:
        r, term, total, x = state
        upper = r + 3
        # Of four terms, whose common denominator is that of the last.
        last_two = (r + 4) * upper
        r2 = r + 2
        made = x * (x * (x * (x + (r + 4)) + last_two) + last_two * r2)
        part = term / (last_two * r2 * (r + 1))
        square = x * x
        term = part * (square * square)
        total = total + part * made
        return term > total * least, [r + 4, term, total, x]

    return iterate([a, a.filled(1), a.filled(1), x], step, open_)[2]


def _series_slope(a: Real, x: Real, open_: Real, least: float) -> tuple[Real, Real]:
    """Return the sum of x^n / ((a+1) ... (a+n)) and its derivative in a."""
    zero, one = a.filled(0), a.filled(1)

    def step(state: list[Real]) -> tuple[Real, list[Real]]:
        r, term, total, x, slope, slopes = state
        r = r + 1
        slope = slope * (x / r) - term * x / (r * r)
        slopes = slopes + slope
        term = term * (x / r)
        total = total + term
        return (slope / slopes).abs() > least, [r, term, total, x, slope, slopes]

    found = iterate([a, one, one, x, zero, zero], step, open_)
    return found[2], found[5]


def _fraction(a: Real, x: Real, open_: Real, least: float = _EPSILON) -> Real:
    """Return the continued fraction of gamma(a, x) / (x^a e^-x).

    A step makes four convergents p / q and compares the last two. Where it is open, x and `a` are
    below 1e5, so that p and q grow by less than 1e21 in a step.
    """

    def step(state: list[Real]) -> tuple[Real, list[Real]]:
        y, z, count, p1, q1, p2, q2 = state
        for _ in range(_CONVERGENTS):
            count, y, z = count + 1, y + 1, z + 2
            yc = y * count
            p1, q1, p2, q2 = p1 * z - p2 * yc, q1 * z - q2 * yc, p1, q1
        across = p1 * q2
        more = (across - p2 * q1).abs() > across.abs() * least
        scale = p1.filled(_EPSILON).where(p1.abs() > 1 / _EPSILON, 1)
        rows = [row * scale for row in (p1, q1, p2, q2)]
        return more & (count < _MOST_FRACTIONS), [y, z, count, *rows]

    y = 1 - a
    z = x + y + 1
    found = iterate([y, z, x.filled(0), x + 1, z * x, x.filled(1), x], step, open_)
    return found[3] / found[4]


def _fraction_slope(a: Real, x: Real, open_: Real, least: float) -> tuple[Real, Real]:
    """Return the continued fraction of gamma(a, x) / (x^a e^-x), and its derivative in a."""
    y = 1 - a
    z = x + y + 1
    p, q, dp, dq = x + 1, z * x, x.filled(0), -x
    value = p / q
    start = [
        value, (dp - value * dq) / q, y, z, x.filled(0), p, q, x.filled(1), x, dp, dq,
        x.filled(0), x.filled(0),
    ]  # fmt: skip

    def step(state: list[Real]) -> tuple[Real, list[Real]]:
        value, slope, y, z, count, p1, q1, p2, q2, dp1, dq1, dp2, dq2 = state
        count, y, z = count + 1, y + 1, z + 2
        yc = y * count
        p, q = p1 * z - p2 * yc, q1 * z - q2 * yc
        dp = dp1 * z - p1 - dp2 * yc + p2 * count
        dq = dq1 * z - q1 - dq2 * yc + q2 * count
        some = ~q.equals(0)
        value = (p / q).where(some, value)
        new_slope = ((dp - value * dq) / q).where(some, slope)
        change = (new_slope - slope).abs().where(some, 1)
        large = p.abs() > 1 / _EPSILON
        rows = [p, q, p1, q1, dp, dq, dp1, dq1]
        rows = [(row * _EPSILON).where(large, row) for row in rows]
        # The last bits of f64 do not settle relative to a small derivative; f32's do.
        bound = new_slope.abs() * least if least > _EPSILON else new_slope.filled(least)
        more = (change > bound) & (count < _MOST_FRACTIONS)
        return more, [value, new_slope, y, z, count, *rows]

    found = iterate(start, step, open_)
    return found[0], found[1]


def _regular(a: Real, x: Real) -> tuple[Real, Real, Real, Real]:
    """Return x^a e^-x / gamma(a), whether it is above 0, where the domain ends, where NaN is."""
    power = _power_part(a, x)
    wrong = (x < 0) | (a <= 0) | a.is_nan() | x.is_nan()
    return power.exp(), power >= -_LOG_GREATEST, wrong, x.equals(math.inf)


def igamma(a: Real, x: Real, element: DType = F64) -> Real:
    """The regularized lower incomplete gamma function P(a, x), to the digits of `element`."""
    least = _last_term(element)
    part, is_regular, wrong, endless = _regular(a, x)
    beyond = (x >= 1) & (x > a)
    by_size = large(a, x, element is F64)
    open_ = is_regular & ~(x.equals(0) | wrong | endless | by_size.is_near)
    upper = _fraction(a, x, open_ & beyond, least)
    lower = _series(a, x, open_ & ~beyond, least)
    found = (1 - upper * part).where(beyond, lower * part / a)
    found = by_size.tails()[0].where(by_size.is_near, found)
    # Where the power part is 0 the function is 0 or 1.
    found = found.where(is_regular, found.filled(1).where(beyond, 0))
    found = found.filled(1).where(endless & ~a.equals(math.inf), found)
    found = found.filled(math.nan).where(wrong, found)
    return found.filled(0).where(x.equals(0), found)


def igammac(a: Real, x: Real, element: DType = F64) -> Real:
    """The regularized upper incomplete gamma function Q(a, x), to the digits of `element`."""
    least = _last_term(element)
    part, is_regular, wrong, endless = _regular(a, x)
    below = (x < 1) | (x < a)
    by_size = large(a, x, element is F64)
    open_ = is_regular & ~(wrong | endless | by_size.is_near)
    lower = _series(a, x, open_ & below, least)
    upper = _fraction(a, x, open_ & ~below, least)
    found = (1 - lower * part / a).where(below, upper * part)
    found = by_size.tails()[1].where(by_size.is_near, found)
    found = found.where(is_regular, found.filled(1).where(below, 0))
    found = found.filled(0).where(endless, found)
    return found.filled(math.nan).where(wrong, found)


def _slope_in_a(a: Real, x: Real, sample: bool, element: DType) -> Real:
    least = _last_term(element)
    part, is_regular, wrong, _ = _regular(a, x)
    beyond = (x > 1) & (x > a)
    by_size = large(a, x, element is F64)
    open_ = is_regular & ~(x.equals(0) | wrong | by_size.is_near)
    value, slope = _series_slope(a, x, open_ & ~beyond, least)
    total = slope + value * (x.log() - _digamma(a + 1))
    lower = -(total * x) / a if sample else part * total / a
    value, slope = _fraction_slope(a, x, open_ & beyond, least)
    total = slope + value * (x.log() - _digamma(a))
    upper = total * x if sample else -(part * total)
    found = by_size.slope(sample).where(by_size.is_near, upper.where(beyond, lower))
    found = found.where(is_regular, 0)
    found = found.filled(math.nan).where(wrong, found)
    return found.filled(0).where(x.equals(0), found)


def igamma_slope(a: Real, x: Real, element: DType = F64) -> Real:
    """The derivative of P(a, x) in a, to the digits of `element`."""
    return _slope_in_a(a, x, False, element)


def gamma_sample_slope(a: Real, x: Real, element: DType = F64) -> Real:
    """The derivative in a of a gamma-distributed sample x: -(dP/da) / (dP/dx)."""
    return _slope_in_a(a, x, True, element)


def betainc(a: Real, b: Real, x: Real) -> Real:
    """The regularized incomplete beta function I_x(a, b)."""
    wrong = (a <= 0) | (b <= 0) | (x < 0) | (x > 1) | x.is_nan()
    unknown = a.is_nan() | b.is_nan() | a.equals(math.inf) | b.equals(math.inf)
    is_zero, is_one = x.equals(0), x.equals(1)
    rapid = x < (a + 1) / (a + b + 2)
    a, b, x = a.where(rapid, b), b.where(rapid, a), x.where(rapid, 1 - x)
    small = _lgamma(b) - _lgamma(a + b)
    factor = (a * x.log() + b * (-x).log1p() - _lgamma(a) - small).exp() / a
    tiny = a < 4.4501477170144028e-308
    factor = (b * (-x).log1p() - small).exp().where(tiny, factor)
    found = _beta_fraction(a, b, x) * factor
    found = found.where(rapid, 1 - found)
    found = found.filled(math.nan).where(unknown, found)
    found = found.filled(0).where(is_zero, found)
    found = found.filled(1).where(is_one, found)
    return found.filled(math.nan).where(wrong, found)


def _beta_fraction(a: Real, b: Real, x: Real) -> Real:
    """Lentz's method: h is the product of c d, c and d the ratios of successive convergents."""
    tiny = _EPSILON / 2

    def held(value: Real) -> Real:
        return value.filled(tiny).where(value.abs() < tiny, value)

    def step(state: list[Real]) -> tuple[Real, list[Real]]:
        count, c, d, h, a, b, x = state
        m = ((count - 1) / 2).floor()
        even = (count - m * 2).equals(2)
        double = a + m * 2
        numerator = (-(a + m) * (a + b + m) * x / (double * (double + 1))).where(
            even, m * (b - m) * x / ((double - 1) * double)
        )
        first = -(a + b) * x / (a + 1)
        numerator = first.where(count.equals(2), numerator)
        numerator = numerator.filled(1).where(count.equals(1), numerator)
        c = held(1 + numerator / c)
        d = 1 / held(1 + numerator * d)
        step_ = c * d
        more = ((step_ - 1).abs() >= tiny) & (count < _MOST_BETA_FRACTIONS)
        return more, [count + 1, c, d, h * step_, a, b, x]

    zero, one = a.filled(0), a.filled(1)
    start = [one, a.filled(tiny), zero, a.filled(tiny), a, b, x]
    return iterate(start, step, one.equals(1))[3]
