# SPDX-License-Identifier: Apache-2.0
"""Incomplete gamma functions of large `a`, where sums take as many terms as the root of `a`.

Temme's expansion is uniform around x = a. With m = (x - a) / a, e^2 / 2 = m - log(1 + m) and e of
m's sign, Q(a, x) = erfc(e sqrt(a / 2)) / 2 + exp(-a e^2 / 2) / sqrt(2 pi a) S, where S is the sum
of S_k(e) / a^k and S_k a power series. As de/da = -m / (a e), the derivative in `a` is known too.

Source: NIST DLMF 8.12, 5.11.3; Temme, "The asymptotic expansion of the incomplete gamma functions"
(1979).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from ingot.frontends.building.special_functions.error_function import erfcx
from ingot.frontends.building.special_functions.reals import Real
from ingot.support.records import record

_LEAST = 200.0
"""Below this `a` the sums take few terms."""
_NEAR = 0.35
"""The largest |m / (2 + m)|; farther away the sums take few terms."""
_LOGARITHMS = (Fraction(1, 12), Fraction(-1, 360), Fraction(1, 1260), Fraction(-1, 1680))
"""Factors of 1/a, 1/a^3, ... in the logarithm of gamma(a) / (sqrt(2 pi / a) (a / e)^a)."""
_TERMS = {True: (7, 24, 20), False: (5, 16, 11)}
"""For all of f64's digits, or f32's: terms in 1/a, in e, and of the logarithm."""


@lru_cache(8)
def _stirling(count: int) -> list[Fraction]:
    """Return the factors of 1/a^k in gamma(a) / (sqrt(2 pi / a) (a / e)^a), from k = 0 on."""
    logarithm = [Fraction(0)] * (count + 1)
    logarithm[1 : count + 1 : 2] = _LOGARITHMS[: (count + 1) // 2]
    found = [Fraction(1)]
    for k in range(1, count):
        terms = (j * logarithm[j] * found[k - j] for j in range(1, k + 1))
        found.append(sum(terms, Fraction(0)) / k)
    return found


@lru_cache(8)
def _series(count: int, length: int) -> list[list[Fraction]]:
    """Return the factors of e^n in S_k: `count` rows of `length`."""
    width = length + 2 * count
    powers = [Fraction(0), Fraction(1)]
    for n in range(2, width + 2):
        others = (j * powers[j] * powers[n - j + 1] for j in range(2, n))
        powers.append((powers[n - 1] - sum(others, Fraction(0))) / (n + 1))
    first = [(n + 2) * powers[n + 2] for n in range(width)]
    first[0] -= 1
    rows = [first]
    for k, factor in enumerate(_stirling(count)[1:], 1):
        before, sign = rows[-1], (-1) ** k
        rows.append(
            [sign * factor * first[n] + (n + 2) * before[n + 2] for n in range(len(before) - 2)]
        )
    return [row[:length] for row in rows]


def _sum_in(variable: Real, rows: list[Real]) -> Real:
    total = rows[-1]
    for row in rows[-2::-1]:
        total = total * variable + row
    return total


@record
class Large:
    """The expansion at `a` and `x`.

    Attributes:
        a: the parameter.
        x: where; both f64.
        is_near: where the expansion holds.
        exact: whether all of f64's digits are needed.
    """

    a: Real
    x: Real
    is_near: Real
    exact: bool

    def _m_and_slope(self) -> tuple[Real, Real]:
        """Return m and e / m, without the cancellation of m - log(1 + m)."""
        m = ((self.x - self.a) / self.a).where(self.is_near, 0)
        t = m / (m + 2)
        square = t * t
        factors = [1 / (2 * n + 3) for n in range(_TERMS[self.exact][2])]
        # m - log(1 + m) = m^2 / (2 + m) - 2 (t^3 / 3 + t^5 / 5 + ...)
        rest = square.polynomial(factors[::-1]) * t * 2 / (m + 2)
        return m, ((1 - rest) * 2 / (m + 2)).sqrt()

    def _terms(self, e: Real, derivative: bool = False) -> list[Real]:
        """Return S_k, or their derivatives in e."""
        count, length, _ = _TERMS[self.exact]
        rows = _series(count, length)
        if derivative:
            rows = [[n * factor for n, factor in enumerate(row)][1:] for row in rows]
        return [e.polynomial([float(factor) for factor in row[::-1]]) for row in rows]

    def tails(self) -> tuple[Real, Real]:
        """Return P(a, x) and Q(a, x)."""
        m, slope = self._m_and_slope()
        e, inverse = m * slope, 1 / self.a
        total = _sum_in(inverse, self._terms(e)) / (self.a * (2 * math.pi)).sqrt()
        half = erfcx(e.abs() * (self.a * 0.5).sqrt()) * 0.5
        power = (self.a * e * e * -0.5).exp()
        above = m > 0
        # The smaller tail is computed, the other is the rest.
        tail = (half + total.where(above, -total)) * power
        return (1 - tail).where(above, tail), tail.where(above, 1 - tail)

    def slope(self, sample: bool) -> Real:
        """Return the derivative of P in `a`, or of a sample x: -(dP/da) / (dP/dx)."""
        m, slope = self._m_and_slope()
        e, inverse = m * slope, 1 / self.a
        rows = self._terms(e)
        counted = [row * k for k, row in enumerate(rows)]
        total = 1 / slope - e * 0.5
        total = total + _sum_in(inverse, rows) * (m - e * e * 0.5 - inverse * 0.5)
        steep = _sum_in(inverse, self._terms(e, derivative=True)) / slope
        total = total - (steep + _sum_in(inverse, counted)) * inverse
        if sample:
            scale = inverse.polynomial([float(f) for f in _stirling(_TERMS[self.exact][0])[::-1]])
            return total * scale * self.x * inverse
        return -total * (self.a * e * e * -0.5).exp() / (self.a * (2 * math.pi)).sqrt()


def large(a: Real, x: Real, exact: bool) -> Large:
    """Return the expansion at `a` and `x`; `exact`: all of f64's digits are needed, not f32's."""
    m = (x - a) / a
    is_near = (a >= _LEAST) & (a < math.inf) & ((m / (m + 2)).abs() <= _NEAR)
    return Large(a.where(is_near, _LEAST), x.where(is_near, _LEAST), is_near, exact)
