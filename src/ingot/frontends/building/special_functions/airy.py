# SPDX-License-Identifier: Apache-2.0
"""Airy's function Ai, computed in f64.

By its power series between -2.09 and 2.09, beyond by the asymptotic forms, whose corrections are
rational functions of their argument.
Source: Cephes (`airy.c`, Moshier 1984).
"""

from __future__ import annotations

import math

from ingot.frontends.building.special_functions.reals import Real

# Highest power first.
_AN = (
    0.346538101525629, 12.007595273964581, 76.27960536152345, 168.08922493463058,
    159.75639135016442, 70.53609068404442, 14.026469116338967, 1.0,
)  # fmt: skip
_AD = (
    0.5675945326387702, 14.75625625848472, 84.51389701414746, 177.31808814540045,
    164.2346928715297, 71.47784008255756, 14.095913560783403, 1.0,
)  # fmt: skip
_AFN = (
    -0.1316963234183318, -0.6264565444319123, -0.6931580360369335, -0.2797799815451191,
    -0.04919001326095003, -0.004062659235948854, -0.0001592764962392621, -2.776491081552329e-06,
    -1.6778769848911465e-08,
)  # fmt: skip
_AFD = (
    13.356042070655324, 32.682503279522464, 26.736704094149957, 9.187074029072596,
    1.4752914677166642, 0.11568717379518804, 0.004402916416152112, 7.547203482874142e-05,
    4.5185009297058035e-07,
)  # fmt: skip
_AGN = (
    0.01973399320916857, 0.39110302961568827, 1.0657989759959559, 0.9391692298166502,
    0.35146565610554764, 0.06338889196289255, 0.005858041130483885, 0.000282851600836737,
    6.98793669997261e-06, 8.117892395543892e-08, 3.415517847659236e-10,
)  # fmt: skip
_AGD = (
    9.30892908077442, 19.835292871831214, 15.564662893286462, 5.476860694229755,
    0.9542936116189619, 0.08645808263523921, 0.004126565238242226, 0.00010125908511650914,
    1.1716673321441352e-06, 4.9183457006293e-09,
)  # fmt: skip

_AT_ZERO, _SLOPE = 0.355028053887817239260, 0.258819403792806798405
_NEAR = 2.09
_ZERO_FROM = 103.892
_TERMS = 17
"""Terms of the power series: at 2.09 the terms after these are below 2^-53 of the sum."""


def airy_ai(x: Real) -> Real:
    """Ai(x); 0 from 103.892 on, NaN at the infinities as PyTorch has it."""
    size = x.abs()
    root = size.sqrt()
    argument = size * root * (2 / 3)
    inverse = 1 / argument
    scale = 1 / (math.sqrt(math.pi) * root.sqrt())
    above = inverse.polynomial(_AN) / inverse.polynomial(_AD) * scale * 0.5 * (-argument).exp()
    found = above.where(x > _NEAR, _series(x))
    found = _oscillating(argument, inverse, scale).where(x < -_NEAR, found)
    found = found.filled(0).where(x > _ZERO_FROM, found)
    return found.filled(math.nan).where(size.equals(math.inf), found)


def _oscillating(argument: Real, inverse: Real, scale: Real) -> Real:
    square = inverse * inverse
    phase = argument + math.pi / 4
    first = 1 + square * square.polynomial(_AFN) / square.polynomial(_AFD)
    second = inverse * square.polynomial(_AGN) / square.polynomial(_AGD)
    return scale * (phase.sin() * first - phase.cos() * second)


def _series(x: Real) -> Real:
    """The power series, whose even and odd parts grow by x^3 / ((k - 1) k)."""
    first, second = [1.0], [1.0]
    for term in range(1, _TERMS):
        first.append(first[-1] / ((3 * term - 1) * (3 * term)))
        second.append(second[-1] / ((3 * term) * (3 * term + 1)))
    cube = x * x * x
    even = cube.polynomial(first[::-1]) * _AT_ZERO
    return even - x * cube.polynomial(second[::-1]) * _SLOPE
