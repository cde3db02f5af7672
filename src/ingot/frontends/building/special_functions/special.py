# SPDX-License-Identifier: Apache-2.0
"""Special functions that HLO has no opcode for: gamma's relatives, inverse error function.

Computed in f64 inside, so f32 results are correctly rounded but for the last bit or two; the
inverse of the error function in f32, where that is as good.
Sources: Lanczos' approximation with g = 7 as in XLA's `lib/math.cc`; Giles, "Approximating the
erfinv function" (2010), refined by Newton steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.dtype import F32, F64, DType
from ingot.hlo.instruction import Instruction

LANCZOS_G = 7.0
LANCZOS_BASE = 0.99999999999980993227684700473478
LANCZOS = (
    676.520368121885098567009190444019, -1259.13921672240287047156078755283,
    771.3234287776530788486528258894, -176.61502916214059906584551354,
    12.507343278686904814458936853, -0.13857109526572011689554707,
    9.984369578019570859563e-6, 1.50563273514931155834e-7,
)  # fmt: skip
_LANCZOS_AT_ZERO = LANCZOS_BASE + sum(factor / number for number, factor in enumerate(LANCZOS, 1))
_G_HALF = LANCZOS_G + 0.5
FRACTIONS, MAX_SUMMED = 4, 1e70
"""Fractions of the series that one division adds up: 2^18 logarithms take 2.4 ms, with a division
for each 3.3 (AVX-512, one thread, 2026-11-30). From the argument on all are 0 beside the rest."""
GILES_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
GILES_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
_NEWTON_STEPS = 3
CENTRE_F32 = (
    -8.791182892764482e-09, 1.419136879121652e-07, -5.247059675639321e-07, -4.4015546336595435e-06,
    3.822898361249827e-05, 0.00010028128599515185, -0.002376442775130272, 0.004250642843544483,
    0.24783289432525635, 1.1273744106292725,
)  # fmt: skip
TAIL_F32 = (
    0.00012896687258034945, -0.00031872710678726435, -7.662203279323876e-05, 0.0014958613319322467,
    -0.0035869870334863663, 0.005683170631527901, -0.007639409974217415, 0.009445684030652046,
    1.0016751289367676, 2.832976818084717,
)  # fmt: skip
"""Giles' form with minimax factors for f32: at most 2.0 ulp, 0.4 on average. 2^18 take 0.26 ms; f64
and a Newton step, at most 0.5 ulp, took 1.6 (AVX-512, one thread, 2026-11-30)."""


def _shifted(b: ArrayBuilder, x: Instruction) -> tuple[Instruction, Instruction]:
    """Return (whether to reflect: x < 0.5, the argument of the Lanczos series)."""
    reflect = b.compared("LT", x, 0.5)
    return reflect, b.select(reflect, b.negate(x), b.binary("add", x, -1.0))


def _series_log(b: ArrayBuilder, z: Instruction) -> tuple[Instruction, Instruction]:
    """Return (z + g + 1/2, its logarithm, accurate for small z)."""
    total = b.binary("add", z, _G_HALF)
    growth = b.log_plus_one(b.binary("multiply", z, 1 / _G_HALF))
    return total, b.binary("add", growth, math.log(_G_HALF))


def _log_gamma_after_one(b: ArrayBuilder, z: Instruction) -> Instruction:
    """Log gamma(1 + z) for z > -1/2, with as good a relative error near its roots 0 and 1.

    Lanczos' formula adds numbers that cancel there. Below 3/2 its difference to the formula at 0
    is computed instead, whose terms are multiples of z; from 1/2 on at z - 1, as
    log gamma(1 + z) = log(z) + log gamma(z).
    """
    near = b.compared("LT", z, 1.5)
    second = b.and_(near, b.compared("GE", z, 0.5))
    z = b.select(second, b.binary("add", z, -1.0), z)
    series = b.select(near, b.zeros(z.shape), b.like(LANCZOS_BASE - 1, z.shape))
    summed = b.minimum(z, b.like(MAX_SUMMED, z.shape))
    for first in range(1, len(LANCZOS), FRACTIONS):
        numbers = range(first, first + FRACTIONS)
        tops = [
            b.select(near, b.like(factor / number, z.shape), b.like(factor, z.shape))
            for number, factor in zip(numbers, LANCZOS[first - 1 :], strict=False)
        ]
        series = b.add(series, _fractions(b, tops, summed, first))
    change = b.multiply(b.binary("multiply", z, -1 / _LANCZOS_AT_ZERO), series)
    log_series = b.log_plus_one(b.select(near, change, series))
    total, log_total = _series_log(b, z)
    power = b.subtract(b.binary("add", z, 0.5), b.divide(total, log_total))
    far = b.binary("add", b.multiply(power, log_total), 0.5 * math.log(2 * math.pi))
    half_growth = b.binary("multiply", b.log_plus_one(b.binary("multiply", z, 1 / _G_HALF)), 0.5)
    close = b.add(b.multiply(z, b.binary("add", log_total, -1.0)), half_growth)
    close = b.add(close, b.log_plus_one(b.select(second, z, b.zeros(z.shape))))
    return b.add(b.select(near, close, far), log_series)


def _fractions(
    b: ArrayBuilder, tops: Sequence[Instruction], z: Instruction, first: int
) -> Instruction:
    """Return the sum of top / (z + number) as one fraction; numbers go on from `first`."""
    top, bottom = tops[0], b.binary("add", z, float(first))
    for number, other in enumerate(tops[1:], first + 1):
        term = b.binary("add", z, float(number))
        top, bottom = (
            b.add(b.multiply(top, term), b.multiply(other, bottom)),
            b.multiply(bottom, term),
        )
    return b.divide(top, bottom)


def log_gamma(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Log |gamma(x)|."""
    reflect, z = _shifted(b, x)
    value = _log_gamma_after_one(b, z)
    size = b.abs(x)
    part = b.subtract(size, b.floor(size))
    part = b.minimum(part, b.binary("add", b.negate(part), 1.0))
    sine = b.log(b.sine(b.binary("multiply", part, math.pi)))
    mirrored = b.subtract(b.binary("add", b.negate(sine), math.log(math.pi)), value)
    mirrored = b.select(b.is_finite(sine), mirrored, b.negate(sine))
    result = b.select(reflect, mirrored, value)
    infinite = b.compared("EQ", size, np.inf)
    return b.select(infinite, b.like(np.inf, x.shape), result)


def digamma(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Derivative of log gamma; NaN at 0 and the negative integers' poles, as TensorFlow has it."""
    reflect, z = _shifted(b, x)
    top, bottom = b.zeros(x.shape), b.like(LANCZOS_BASE, x.shape)
    for number, factor in enumerate(LANCZOS):
        shifted = b.binary("add", z, number + 1.0)
        term = b.divide(b.like(factor, x.shape), shifted)
        top = b.subtract(top, b.divide(term, shifted))
        bottom = b.add(bottom, term)
    total, log_total = _series_log(b, z)
    tail = b.divide(b.like(LANCZOS_G, x.shape), total)
    value = b.subtract(b.add(log_total, b.divide(top, bottom)), tail)
    near = b.add(x, b.abs(b.floor(b.binary("add", x, 0.5))))
    turn = b.binary("multiply", near, math.pi)
    cotangent = b.divide(b.cosine(turn), b.sine(turn))
    mirrored = b.subtract(value, b.binary("multiply", cotangent, math.pi))
    result = b.select(reflect, mirrored, value)
    whole = b.compare(x, b.floor(x), direction="EQ")
    pole = b.and_(b.compared("LE", x, 0.0), whole)
    return b.select(pole, b.like(np.nan, x.shape), result)


def polynomial(b: ArrayBuilder, x: Instruction, factors: Sequence[float]) -> Instruction:
    """Return a polynomial of `x` by Horner's rule; `factors` begin with the highest power's."""
    total = b.like(factors[0], x.shape)
    for factor in factors[1:]:
        total = b.binary("add", b.multiply(total, x), factor)
    return total


def erf_inverse(b: ArrayBuilder, y: Instruction, element: DType = F64) -> Instruction:
    """X with erf(x) = y, to the digits of `element`: in f64 for that, in f32 for shorter types."""
    if element is not F64:
        return _erf_inverse_f32(b, b.convert_to(y, F32))
    w = b.negate(b.log_plus_one(b.negate(b.multiply(y, y))))
    centre = polynomial(b, b.binary("add", w, -2.5), GILES_CENTRE)
    tail = polynomial(b, b.binary("add", b.sqrt(w), -3.0), GILES_TAIL)
    x = b.multiply(b.select(b.compared("LT", w, 5.0), centre, tail), y)
    for _ in range(_NEWTON_STEPS):
        error = b.subtract(b.erf(x), y)
        slope = b.exponential(b.negate(b.multiply(x, x)))
        step = b.divide(error, b.binary("multiply", slope, 2 / math.sqrt(math.pi)))
        x = b.subtract(x, b.select(b.is_finite(step), step, b.zeros(step.shape)))
    return _with_ends(b, y, x)


def _erf_inverse_f32(b: ArrayBuilder, y: Instruction) -> Instruction:
    """X with erf(x) = y, f32; (1 - y)(1 + y) has all digits where 1 - y^2 has not."""
    left = b.multiply(b.binary("add", b.negate(y), 1.0), b.binary("add", y, 1.0))
    w = b.negate(b.log(left))
    centre = polynomial(b, b.binary("add", w, -1.0), CENTRE_F32)
    tail = polynomial(b, b.binary("add", b.sqrt(w), -3.0), TAIL_F32)
    return _with_ends(b, y, b.multiply(b.select(b.compared("LT", w, 5.0), centre, tail), y))


def _with_ends(b: ArrayBuilder, y: Instruction, x: Instruction) -> Instruction:
    """Return `x`, an infinity where `y` is 1 or -1."""
    end = b.compared("EQ", b.abs(y), 1.0)
    return b.select(end, b.binary("multiply", y, np.inf), x)
