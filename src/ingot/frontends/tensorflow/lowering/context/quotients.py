# SPDX-License-Identifier: Apache-2.0
"""Quotients and remainders of symbolic sizes, some of which may be negative.

`hlo.dim` divides what is not negative, as sizes are. TensorFlow programs also divide differences of
sizes: `tf.maximum((9 - n) // 2, 0)` says where an image is put. Such a difference is moved up (or
negated) until it cannot be negative.

    (n - 9) // 2  ->  (n + 1) // 2 - 5
    (9 - n) // 2  ->  4 - n // 2

Invariant: what is given is the floor's, whatever the named sizes are; None where that is not sure.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.context.values import Size
from ingot.hlo import dim as dim_math


def floor_quotient(left: Size, right: Size) -> Size | None:
    """Return left // right."""
    exact = dim_math.exact_quotient(left, right)
    if exact is not None:
        return exact
    if not isinstance(right, int):
        known = dim_math.never_negative(left) and dim_math.never_negative(right)
        return dim_math.floordiv(left, right) if known else None
    if right < 0:
        left, right = -left, -right
    periods = _periods(left, right)
    if periods is not None:
        return dim_math.floordiv(left + periods * right, right) - periods
    negated = right - 1 - left
    periods = _periods(negated, right)
    if periods is None:
        return None
    return periods - dim_math.floordiv(negated + periods * right, right)


def floor_remainder(left: Size, right: Size) -> Size | None:
    """Return left % right, which has the sign of `right`."""
    periods = _periods(left, right) if isinstance(right, int) and right > 0 else None
    if isinstance(right, int) and periods is not None:
        return dim_math.mod(left + periods * right, right)
    quotient = floor_quotient(left, right)
    return None if quotient is None else left - quotient * right


def _periods(size: Size, period: int) -> int | None:
    """Return how many periods must be added so that a size is not negative, None if none do."""
    constant = size if isinstance(size, int) else dict(size.terms).get((), 0)
    if not dim_math.never_negative(size - constant):
        return None
    return max(-(constant // period), 0)
