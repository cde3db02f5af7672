# SPDX-License-Identifier: Apache-2.0
"""Special functions: the rules of the ops whose mathematics all front ends share.

Computed in f64 inside, so f32 results are correctly rounded but for the last bit or two.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.float_bits import next_after
from ingot.frontends.building.special_functions import bessel, integrals, special
from ingot.frontends.building.special_functions.incomplete import (
    betainc,
    gamma_sample_slope,
    igamma,
    igamma_slope,
    igammac,
)
from ingot.frontends.building.special_functions.normal import normal_quantile
from ingot.frontends.building.special_functions.reals import Real
from ingot.frontends.building.special_functions.zeta_bessel import (
    bessel_i0,
    bessel_i0e,
    bessel_i1,
    bessel_i1e,
    polygamma,
    zeta,
)
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.dtype import F64
from ingot.hlo.instruction import Instruction

Compute = Callable[[ArrayBuilder, Instruction], Instruction]


def _wide(compute: Compute) -> Rule:
    def rule(op: Op) -> Value:
        x = op.tensor(0)
        made = compute(op.b, op.b.convert_to(x, F64))
        return op.b.convert_to(made, x.shape.dtype)

    return rule


def _real(function: Callable[..., Real]) -> Rule:
    """Return the rule of a function of `Real` operands, which broadcast."""

    def rule(op: Op) -> Value:
        operands = op.b.together(*op.tensors())
        with np.errstate(all="ignore"):
            made: Any = function(*(Real(op.b, op.b.convert_to(x, F64)) for x in operands))
        return op.b.convert_to(made.x, op.result())

    return rule


def _rounded(make: Callable[[Callable[..., Any]], Rule], function: Callable[..., Any]) -> Rule:
    """Return the rule that `make` makes of a function that takes the type it is rounded to."""

    def rule(op: Op) -> Value | tuple[Value, ...]:
        return make(partial(function, element=op.result()))(op)

    return rule


def _next_after(op: Op) -> Value:
    return next_after(op.b, *op.b.together(op.tensor(0), op.tensor(1)))


RULES: dict[str, Rule] = {
    "BesselI0": _real(bessel_i0),
    "BesselI0e": _real(bessel_i0e),
    "BesselI1": _real(bessel_i1),
    "BesselI1e": _real(bessel_i1e),
    "BesselJ0": _real(bessel.bessel_j0),
    "BesselJ1": _real(bessel.bessel_j1),
    "BesselK0": _real(partial(bessel.bessel_k0, below=np.inf)),
    "BesselK0e": _real(partial(bessel.bessel_k0, scaled=True, below=np.inf)),
    "BesselK1": _real(partial(bessel.bessel_k1, below=np.inf)),
    "BesselK1e": _real(partial(bessel.bessel_k1, scaled=True, below=np.inf)),
    "BesselY0": _real(partial(bessel.bessel_y0, below=-np.inf)),
    "BesselY1": _real(partial(bessel.bessel_y1, below=-np.inf)),
    "Betainc": _real(betainc),
    "Dawsn": _real(integrals.dawson),
    "Digamma": _wide(special.digamma),
    "Erfinv": _rounded(_wide, special.erf_inverse),
    "Expint": _real(integrals.exponential_integral),
    "FresnelCos": _real(integrals.fresnel_cosine),
    "FresnelSin": _real(integrals.fresnel_sine),
    "Igamma": _rounded(_real, igamma),
    "IgammaGradA": _rounded(_real, igamma_slope),
    "Igammac": _rounded(_real, igammac),
    "Lgamma": _wide(special.log_gamma),
    "Ndtri": _real(normal_quantile),
    "NextAfter": _next_after,
    "Polygamma": _real(polygamma),
    "RandomGammaGrad": _rounded(_real, gamma_sample_slope),
    "Spence": _real(integrals.spence),
    "Zeta": _real(zeta),
}
