# SPDX-License-Identifier: Apache-2.0
"""Compares arrays of a case: what differs, in words, or nothing.

NaN equals NaN whatever its bits; zeros are equal only with the same sign where asked; other floats
may differ by the case's units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.differential.case import Array

from ingot.hlo.dtype import from_numpy


def difference(
    got: Array, want: Array, ulps: float, *, of_largest: bool = False, leave_out: Any = None
) -> str:
    """Return the first difference.

    Args:
        got: one array.
        want: the other one.
        ulps: allowed, in units of the wanted value's last place.
        of_largest: in units of the largest finite value's last place.
        leave_out: mask of elements that are not compared.
    """
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"is {got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    good = _good(got, want, ulps, of_largest)
    if leave_out is not None and np.shape(leave_out) == good.shape:
        good = good | leave_out
    if good.all():
        return ""
    places = np.argwhere(~good)
    place = tuple(int(number) for number in places[0])
    count = f" ({len(places)} of {good.size})" if good.size > 1 else ""
    return f"at {list(place)}: {got[place]!s} and not {want[place]!s}{count}"


def _good(got: Array, want: Array, ulps: float, of_largest: bool) -> Any:
    kind = from_numpy(want.dtype)
    if kind.is_complex:
        return _good_complex(got, want, ulps, of_largest)
    if not kind.is_float:
        return np.asarray(got == want)
    wide, other = got.astype(np.float64), want.astype(np.float64)
    with np.errstate(all="ignore"):
        equal = (wide == other) & (np.signbit(wide) == np.signbit(other))
        near = np.abs(wide - other) <= ulps * _unit(other, kind.mantissa, kind.name, of_largest)
    if ulps == 0:
        near = equal
    return np.where(np.isnan(other), np.isnan(wide), equal | near)


def _good_complex(got: Array, want: Array, ulps: float, of_largest: bool) -> Any:
    single = want.dtype == np.complex64
    mantissa, name = (23, "f32") if single else (52, "f64")
    wide, other = got.astype(np.complex128), want.astype(np.complex128)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(other.real), np.abs(other.imag))
        unit = _unit(size, mantissa, name, of_largest)
        near = [
            (a == b) | (np.abs(a - b) <= ulps * unit) | (np.isnan(a) & np.isnan(b))
            for a, b in ((wide.real, other.real), (wide.imag, other.imag))
        ]
    # What is infinite or not a number in one part is so as a whole.
    odd = ~np.isfinite(other) & ~np.isfinite(wide)
    return (near[0] & near[1]) | odd


def _unit(wide: Any, mantissa: int, name: str, of_largest: bool) -> Any:
    finite = np.abs(wide[np.isfinite(wide)])
    size = np.abs(wide)
    if of_largest and finite.size:
        size = np.maximum(size, finite.max())
    _, exponent = np.frexp(np.where(np.isfinite(size), size, 1.0))
    least = {"f64": -1021, "f16": -13, "f32": -125, "bf16": -125}.get(name, -9)
    return np.ldexp(1.0, np.maximum(exponent, least) - 1 - mantissa)


def denormal(array: Array) -> Any:
    """Return which elements are denormal, or the least normal number, rounded to it or not."""
    kind = from_numpy(array.dtype)
    if kind.is_complex:
        return denormal(array.real) | denormal(array.imag)
    if not kind.is_float:
        return np.zeros(array.shape, np.bool_)
    wide = np.abs(array.astype(np.float64))
    least = {"f64": 2.0**-1022, "f16": 2.0**-14}.get(kind.name, 2.0**-126)
    return (wide > 0) & (wide <= least)
