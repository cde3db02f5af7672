# SPDX-License-Identifier: Apache-2.0
"""Orthogonal polynomials of degrees that are data: Chebyshev's, Hermite's, Laguerre's, Legendre's.

Computed in f64 by their three-term recurrences, each element for as long as its degree says;
Chebyshev's between -1 and 1 by sine and cosine from degree 7 on. Below degree 0 they are 0.
Source: NIST DLMF 18.5 and 18.9; the special cases are PyTorch's (`ATen/native/Math.h`).

Example: `CHEBYSHEV["t"](x, n)` is T_n(x) of two `Real` arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ingot.frontends.building.special_functions.reals import Real, iterate

_TRIGONOMETRIC_FROM = 7
"""The degree of Chebyshev's polynomials from which sine and cosine are used."""

Polynomial = Callable[[Real, Real], Real]
"""`polynomial(x, n)`: its value at x, for whole numbers n."""


def _recurrence(
    x: Real, n: Real, first: Real, step: Callable[[Real, Real, Real, Real], Real], open_: Real
) -> Real:
    """Return p_n of p_0 = 1, p_1 = `first` and p_(k+1) = step(x, k, p_k, p_(k-1))."""

    def advance(state: list[Real]) -> tuple[Real, list[Real]]:
        x, n, k, last, before = state
        made = step(x, k, last, before)
        k = k + 1
        return (k < n) & ~made.is_nan(), [x, n, k, made, last]

    one = x.filled(1)
    state = iterate([x, n, one, first, one], advance, open_ & (n >= 2))
    return _of_degree(n, first, state[3])


def _of_degree(n: Real, first: Real, found: Real) -> Real:
    """Return the simple values of degrees below 2, `found` elsewhere."""
    found = first.where(n.equals(1), found)
    found = found.filled(1).where(n.equals(0), found)
    return found.filled(0).where(n < 0, found)


def degree(n: Real) -> Real:
    """Return degrees without their fraction; -1 where they are no 64-bit integers."""
    whole = n.floor().where(n >= 0, -(-n).floor())
    return whole.where(n.abs() < 2.0**63, -1)


def _alternating(n: Real, value: Real | float) -> Real:
    """Return (-1)^n times a value."""
    half = n * 0.5
    signed = n.filled(1) * value
    return signed.where(half.equals(half.floor()), -signed)


def _twice(x: Real, k: Real, last: Real, before: Real) -> Real:
    del k
    return (x + x) * last - before


def _chebyshev(
    first: Callable[[Real], Real],
    at_one: Callable[[Real], Real | float],
    at_minus_one: Callable[[Real], Real | float],
    by_angle: Callable[[Real, Real], Real],
) -> Polynomial:
    """Return the polynomial of one kind.

    Args:
        first: that of degree 1.
        at_one: its value at 1, of the degree.
        at_minus_one: the size of its value at -1, where signs alternate.
        by_angle: its value by degree and angle, x = cos(angle).
    """

    def polynomial(x: Real, n: Real) -> Real:
        size = x.abs()
        turns = (size < 1) & (n >= _TRIGONOMETRIC_FROM)
        ends = size.equals(1)
        found = _recurrence(x, n, first(x), _twice, ~(turns | ends))
        found = by_angle(n, x.acos()).where(turns, found)
        found = (n.filled(1) * at_one(n)).where(x.equals(1), found)
        found = _alternating(n, at_minus_one(n)).where(x.equals(-1), found)
        return found.filled(0).where(n < 0, found)

    return polynomial


CHEBYSHEV: dict[str, Polynomial] = {
    "t": _chebyshev(
        lambda x: x, lambda n: 1.0, lambda n: 1.0, lambda n, angle: (n * angle).cos()
    ),
    "u": _chebyshev(
        lambda x: x + x, lambda n: n + 1, lambda n: n + 1,
        lambda n, angle: ((n + 1) * angle).sin() / angle.sin(),
    ),
    "v": _chebyshev(
        lambda x: x + x - 1, lambda n: 1.0, lambda n: n + n + 1,
        lambda n, angle: ((n + 0.5) * angle).cos() / (angle * 0.5).cos(),
    ),
    "w": _chebyshev(
        lambda x: x + x + 1, lambda n: n + n + 1, lambda n: 1.0,
        lambda n, angle: ((n + 0.5) * angle).sin() / (angle * 0.5).sin(),
    ),
}  # fmt: skip
"""The four kinds."""


def shifted(polynomial: Polynomial) -> Polynomial:
    """Return a polynomial of 2 x - 1."""
    return lambda x, n: polynomial(x + x - 1, n)


def hermite_h(x: Real, n: Real, *, greatest: float) -> Real:
    """The physicist's Hermite polynomial; NaN above the degree `greatest`."""
    found = _recurrence(x, n, x + x, _hermite_h_step, n <= greatest)
    return found.filled(math.nan).where(n > greatest, found)


def _hermite_h_step(x: Real, k: Real, last: Real, before: Real) -> Real:
    return (x + x) * last - (k + k) * before


def hermite_he(x: Real, n: Real, *, greatest: float) -> Real:
    """The probabilist's Hermite polynomial; NaN above the degree `greatest`."""
    found = _recurrence(x, n, x, lambda x, k, last, before: x * last - k * before, n <= greatest)
    return found.filled(math.nan).where(n > greatest, found)


def laguerre(x: Real, n: Real) -> Real:
    """Laguerre's polynomial."""
    found = _recurrence(x, n, 1 - x, _laguerre_step, ~x.equals(0))
    return found.filled(1).where(x.equals(0) & (n >= 0), found)


def _laguerre_step(x: Real, k: Real, last: Real, before: Real) -> Real:
    return ((k + k + (1 - x)) * last - k * before) / (k + 1)


def legendre(x: Real, n: Real) -> Real:
    """Legendre's polynomial."""
    ends = x.abs().equals(1) & (n >= 0)
    found = _recurrence(x, n, x, _legendre_step, ~ends)
    found = found.filled(1).where(ends & (x > 0), found)
    return _alternating(n, 1.0).where(ends & (x < 0), found)


def _legendre_step(x: Real, k: Real, last: Real, before: Real) -> Real:
    return ((k + k + 1) * x * last - k * before) / (k + 1)
