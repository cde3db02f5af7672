# SPDX-License-Identifier: Apache-2.0
"""Inputs where they cannot all be tried: f64, functions of two operands, complex numbers.

Blocks of 2^17 inputs, each block by its number alone, so that a short run measures a part of what a
long one does. A quarter are any bits; the others lie where functions are used and where they are
hard: near zeros, poles, branch points, the limits between formulas, overflow and underflow, near
multiples of pi/2 of all sizes, near whole and half numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tests.accuracy.engines import NUMPY
from tests.accuracy.functions import Array, Function

BLOCK = 1 << 17
_PART = BLOCK >> 2
_POINTS = np.array(
    [
        *(0.25, 0.5, 0.625, 1 / math.sqrt(2), 2 / 3, 0.8664, 0.927734375, 0.9273, 1.0, 4 / 3),
        *(1.25, math.sqrt(2), 2.0, 3.0, 4.0, 6.0, 10.0, 22.0, 40.0, 88.7228, 103.972, 709.7827),
        *(745.1332, 710.4758, 89.4159, 48000.0, 1.0e6, 2.0**-12, 2.0**-26, 2.0**-28, 2.0**-54),
        *(2.0**24, 2.0**52, 2.0**53, 2.0**60, 2.0**63, 2.0**512, 2.0**1023, 2.0**-1022, 2.0**-126),
        *(2.0**-149, 2.0**-1074, 2.0**64, 2.0**127, 15.9424, 17.3287, 18.7149, 36.7368, 8.6643),
    ]
)
_SPECIAL = np.array(
    [
        *(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1e-3, 1e3, 0.1, 1e-30, 1e30, 5e-324, 1e-310, 1e-45, 1e-40),
        *(3.4028234e38, 1.7976931348623157e308, math.inf, math.nan, 2.0**24, 2.0**53, 0.9999999),
    ]
)

_LIMITS = {"c64": 30.0, "c128": 250.0}
_POWER_LIMIT = 2.0
"""Parts of complex numbers lie within 2 to the plus or minus this."""


def all_16_bits(element: str) -> Array:
    """Return every number of a 16-bit type."""
    return np.arange(1 << 16, dtype=np.uint16).view(NUMPY[element])


def block(function: Function, element: str, number: int) -> list[Array]:
    """Return the operands of one block."""
    seed = [number, *function.name.encode(), *element.encode()]
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        if element.startswith("c"):
            limit = _POWER_LIMIT if function.name == "power" else _LIMITS[element]
            return [_complex(rng, NUMPY[element], limit) for _ in range(function.arity)]
        dtype = NUMPY[element]
        if function.arity == 1:
            return [_line(rng, dtype)]
        return _pairs(function, rng, dtype)


def near(rng: np.random.Generator, *args: Array) -> list[Array]:
    """Return numbers around given ones: by a few units in the last place to a few thousand."""
    found: list[Array] = []
    for item in args:
        bits = item.view(f"u{item.dtype.itemsize}")
        reach = 2.0 ** rng.integers(0, 14, item.size)
        apart = np.round(rng.uniform(-1, 1, item.size) * reach).astype(np.int64)
        found.append((bits + apart.astype(bits.dtype)).view(item.dtype))
    return found


def _bits(rng: np.random.Generator, dtype: np.dtype[Any], count: int) -> Array:
    size = dtype.itemsize
    return rng.integers(0, 1 << 8 * size, count, f"u{size}").view(dtype)


def _signs(rng: np.random.Generator, values: Array) -> Array:
    return np.where(rng.integers(0, 2, values.size) == 1, -values, values)


def _around_points(rng: np.random.Generator, count: int) -> Array:
    """Return numbers at all relative distances from the points, multiples of pi/2 and of ln2/2."""
    kind = rng.integers(0, 5, count)
    multiples = np.round(2.0 ** rng.uniform(0, 62, count))
    base = np.where(kind == 0, multiples * (math.pi / 2), rng.choice(_POINTS, count))
    base = np.where(kind == 1, np.round(rng.uniform(1, 2100, count)) * (math.log(2) / 2), base)
    apart = 2.0 ** -rng.uniform(0, 54, count)
    return base * (1 + _signs(rng, apart))


def _line(rng: np.random.Generator, dtype: np.dtype[Any], count: int = BLOCK) -> Array:
    part = count >> 2
    uniform = [rng.uniform(-limit, limit, part >> 2) for limit in (1.0, 20.0, 750.0, 2e6)]
    spread = 2.0 ** rng.uniform(-70, 70, part)
    rest = count - 3 * part
    values = [*uniform, _signs(rng, spread), _signs(rng, _around_points(rng, rest))]
    return np.concatenate([_bits(rng, dtype, part), np.concatenate(values).astype(dtype)])


def _pairs(function: Function, rng: np.random.Generator, dtype: np.dtype[Any]) -> list[Array]:
    special = np.concatenate([_SPECIAL, -_SPECIAL])
    x = [_bits(rng, dtype, _PART)]
    y = [_bits(rng, dtype, _PART)]
    left, right = np.meshgrid(special, special)
    x.append(left.ravel())
    y.append(right.ravel())
    size = 2.0 ** rng.uniform(-40, 40, _PART)
    close = 1 + _signs(rng, 2.0 ** -rng.uniform(0, 50, _PART))
    if function.name == "power":
        base = np.concatenate([size, close, 2.0 ** rng.uniform(-1000, 1000, _PART)])
        # The result is anything between underflow and overflow of f64 and f32.
        result = rng.uniform(-750, 715, base.size) * rng.choice([1, 0.12, 0.001], base.size)
        x += [base, _signs(rng, size)]
        y += [result / np.log(base), np.round(rng.uniform(-40, 40, _PART))]
    else:
        x += [size, size, _signs(rng, size), _line(rng, dtype, _PART)]
        multiples = np.round(2.0 ** rng.uniform(0, 60, _PART))
        y += [size * close, size * multiples, _signs(rng, 2.0 ** rng.uniform(-40, 40, _PART))]
        y += [_line(rng, dtype, _PART)]
    return [np.concatenate([item.astype(dtype) for item in side]) for side in (x, y)]


def _complex(rng: np.random.Generator, dtype: np.dtype[Any], limit: float) -> Array:
    real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    count = _PART >> 1
    angle = rng.uniform(-math.pi, math.pi, count)
    radius = 1 + _signs(rng, 2.0 ** -rng.uniform(0, 30, count))
    spread = [_signs(rng, 2.0 ** rng.uniform(-limit, limit, count)) for _ in range(2)]
    plain = [rng.uniform(-10, 10, count) for _ in range(2)]
    axis = [
        rng.choice([0.0, -0.0, 1e-20, 1.0, -1.0], count),
        _signs(rng, 2.0 ** rng.uniform(-20, 6, count)),
    ]
    parts = [
        np.concatenate([spread[at], plain[at], circle, axis[at], axis[1 - at]]).astype(real)
        for at, circle in enumerate((radius * np.cos(angle), radius * np.sin(angle)))
    ]
    z = np.empty(parts[0].size, dtype)
    z.real, z.imag = parts
    return z
