# SPDX-License-Identifier: Apache-2.0
"""The distance of a result from the exact value, in units in the last place (ulp).

The unit of an exact value w is the distance between neighbouring numbers of the result's type where
w lies: 2^(floor(log2 |w|) - p + 1) for p bits of precision, never less than the least denormal and
never more than the unit of the greatest finite number. A correctly rounded result is at most 0.5
away. An infinity that stands for a finite w counts as the number that would follow the greatest
finite one.

Invariant: infinitely far is a result that is NaN where w is not or the other way round, finite
where w is infinite, or a zero (or any other number) of the wrong sign where the result is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class FloatFormat:
    """Bits of precision (with the hidden one) and the exponents of the normal numbers."""

    precision: int
    least: int
    most: int


def float_format(dtype: np.dtype[Any]) -> FloatFormat:
    """Return the format of a real float type."""
    info = ml_dtypes.finfo(dtype)
    return FloatFormat(int(info.nmant) + 1, int(info.minexp), int(info.maxexp) - 1)


def ulps(result: Array, wanted: Array) -> Array:
    """Return each result's distance from the exact value (long double, or complex of it)."""
    if result.dtype.kind == "c":
        return _complex_ulps(result, wanted)
    form = float_format(result.dtype)
    w = wanted.astype(np.longdouble)
    with np.errstate(all="ignore"):
        found = result.astype(np.longdouble)
        top = np.ldexp(np.longdouble(1), form.most + 1)
        exact = np.isinf(w)
        # Beyond the type's numbers all values are the same infinity.
        capped = np.where(exact, w, np.clip(w, -top, top))
        held = np.where(np.isinf(found) & ~exact, np.copysign(top, found), found)
        distance = np.abs(held - capped) / _unit(w, form)
        distance = np.where(exact & (found == w), 0, distance)
    distance = np.where(np.isnan(found) & np.isnan(w), 0, distance)
    wrong_sign = (found == 0) & (np.signbit(found) != np.signbit(w))
    distance = np.where(np.isnan(distance) | wrong_sign, np.inf, distance)
    return distance.astype(np.float64)


def _unit(w: Array, form: FloatFormat) -> Array:
    _, exponent = np.frexp(np.where(np.isfinite(w), w, 1))
    exponent = np.where(w == 0, form.least, exponent - 1)
    exponent = np.clip(exponent, form.least, form.most)
    return np.ldexp(np.longdouble(1), exponent - (form.precision - 1))


def _complex_ulps(result: Array, wanted: Array) -> Array:
    """Return the distance in the plane, in the unit of the greater part of the exact value.

    Where a part is infinite or NaN, the result need only be infinite, or have a NaN, as well.
    """
    form = float_format(result.real.dtype)
    with np.errstate(all="ignore"):
        larger = np.maximum(np.abs(wanted.real), np.abs(wanted.imag))
        top = np.ldexp(np.longdouble(1), form.most + 1)
        apart = [
            np.clip(a.astype(np.longdouble), -top, top) - np.clip(b, -top, top)
            for a, b in ((result.real, wanted.real), (result.imag, wanted.imag))
        ]
        distance = np.hypot(*apart) / _unit(larger, form)
        infinite = np.isinf(wanted.real) | np.isinf(wanted.imag)
        undefined = (np.isnan(wanted.real) | np.isnan(wanted.imag)) & ~infinite
        has_infinity = np.isinf(result.real) | np.isinf(result.imag)
        has_nan = np.isnan(result.real) | np.isnan(result.imag)
        beyond = (larger >= top) & has_infinity
    distance = np.where((infinite & has_infinity) | (undefined & has_nan) | beyond, 0, distance)
    special = (infinite & ~has_infinity) | (undefined & ~has_nan) | np.isnan(distance)
    return np.where(special, np.inf, distance).astype(np.float64)
