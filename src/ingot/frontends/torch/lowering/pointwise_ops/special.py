# SPDX-License-Identifier: Apache-2.0
"""Special functions: gamma's and the error function's relatives, Bessel functions, polynomials.

They are computed in f64 and rounded once; the mathematics is that of `frontends/building`, and the
values at poles and ends of domains are PyTorch's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.float_bits import copy_sign
from ingot.frontends.building.special_functions import bessel, incomplete, special, zeta_bessel
from ingot.frontends.building.special_functions import orthogonal_polynomials as polynomials
from ingot.frontends.building.special_functions.airy import airy_ai
from ingot.frontends.building.special_functions.error_function import erfcx
from ingot.frontends.building.special_functions.normal import normal_quantile
from ingot.frontends.building.special_functions.orthogonal_polynomials import Polynomial
from ingot.frontends.building.special_functions.reals import Real, iterate
from ingot.frontends.torch.lowering.context.op import Op, Operand, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.pointwise_ops.pointwise import in_f64, in_reals
from ingot.hlo.dtype import F64, DType
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_OVERLOADS = ("", ".x_scalar", ".n_scalar")
_GREATEST_HERMITE = {F64: 512.0}
_GREATEST_HERMITE_F32 = 128.0


def _digamma(b: ArrayBuilder, x: Instruction) -> Instruction:
    """NaN at the negative integers; at 0 infinite with the sign of -x."""
    endless = copy_sign(b, b.like(math.inf, x.shape), b.negate(x))
    return b.select(b.compared("EQ", x, 0), endless, special.digamma(b, x))


def _trigamma(x: Real) -> Real:
    """The derivative of digamma; by reflection below 1/2."""
    low = x < 0.5
    found = zeta_bessel.zeta_of_positive(x.filled(2), (1 - x).where(low, x))
    ratio = math.pi / (x * math.pi).sin()
    return (ratio * ratio - found).where(low, found)


def _igamma(a: Real, x: Real, element: DType) -> Real:
    """P(a, x); for a = 0 its limit 1, for an infinite a 0."""
    found = incomplete.igamma(a, x, element)
    return _at_ends(a, x, found, 1.0, 0.0)


def _igammac(a: Real, x: Real, element: DType) -> Real:
    """Q(a, x); for a = 0 its limit 0, for an infinite a 1."""
    found = incomplete.igammac(a, x, element)
    return _at_ends(a, x, found, 0.0, 1.0)


def _at_ends(a: Real, x: Real, found: Real, at_zero: float, at_infinity: float) -> Real:
    limit = found.filled(at_zero).where(x > 0, math.nan)
    found = limit.where(a.equals(0), found)
    limit = found.filled(at_infinity).where(x < math.inf, math.nan)
    found = limit.where(a.equals(math.inf) & (x >= 0), found)
    return found.filled(math.nan).where(a < 0, found)


def _zeta(x: Real, q: Real) -> Real:
    """Zeta; infinite where q is 0 or a negative integer, reflected where it is another negative."""

    def once(state: list[Real]) -> tuple[Real, list[Real]]:
        x, q, _ = state
        return x < x, [x, q, zeta_bessel.zeta_reflected(x, q)]

    # The loop runs once if some q is negative, else not at all.
    whole = q.equals(q.floor())
    between = (q < 0) & ~whole & (x > 1) & (x < math.inf) & x.equals(x.floor())
    found = iterate([x, q, zeta_bessel.zeta(x, q)], once, between)[2]
    return found.filled(math.inf).where((q <= 0) & whole & (x > 1), found)


def _polygamma_of(n: int) -> Callable[[Real], Real]:
    """The n-th derivative of digamma for n > 1: (-1)^(n+1) n! zeta(n + 1, x)."""
    factor = (-1.0) ** (n + 1) * math.exp(math.lgamma(n + 1.0))
    return lambda x: _zeta(x.filled(n + 1.0), x) * factor


def _ndtr(x: Real) -> Real:
    """The probability of a normally distributed number below x."""
    return (x * -math.sqrt(0.5)).through(lambda b, value: b.erfc(value)) * 0.5


@RULES.rule("polygamma")
def _polygamma(op: Op, n: int, x: Operand) -> Instruction:
    b = op.b
    (operand,) = op.together(x, element=F64)
    if n == 0:
        made = _digamma(b, operand)
    else:
        made = (_trigamma if n == 1 else _polygamma_of(n))(Real(b, operand)).x
    return b.convert_to(made, op.dtype)


RULES.add(in_f64(special.log_gamma), "lgamma")
RULES.add(in_f64(_digamma), "digamma")


@RULES.rule("erfinv")
def _erf_inverse(op: Op, x: Operand) -> Instruction:
    (operand,) = op.together(x, element=F64)
    return op.b.convert_to(special.erf_inverse(op.b, operand, op.dtype), op.dtype)


_OF_REALS: dict[str, Callable[..., Real]] = {
    "special_erfcx": erfcx,
    "special_ndtr": _ndtr,
    "special_ndtri": normal_quantile,
    "i0": zeta_bessel.bessel_i0,
    "special_i0e": zeta_bessel.bessel_i0e,
    "special_i1": zeta_bessel.bessel_i1,
    "special_i1e": zeta_bessel.bessel_i1e,
    "special_modified_bessel_i0": zeta_bessel.bessel_i0,
    "special_modified_bessel_i1": zeta_bessel.bessel_i1,
    "special_modified_bessel_k0": bessel.bessel_k0,
    "special_modified_bessel_k1": bessel.bessel_k1,
    "special_scaled_modified_bessel_k0": partial(bessel.bessel_k0, scaled=True),
    "special_scaled_modified_bessel_k1": partial(bessel.bessel_k1, scaled=True),
    "special_bessel_j0": partial(bessel.bessel_j0, monic=False),
    "special_bessel_j1": partial(bessel.bessel_j1, monic=False),
    "special_bessel_y0": partial(bessel.bessel_y0, monic=False),
    "special_bessel_y1": partial(bessel.bessel_y1, monic=False),
    "special_spherical_bessel_j0": bessel.spherical_bessel_j0,
    "special_airy_ai": airy_ai,
    "special_zeta": _zeta,
    "special_zeta.other_scalar": _zeta,
    "special_zeta.self_scalar": _zeta,
}


def _to_digits(function: Callable[..., Real]) -> Rule:
    """Return the rule of a function that takes the type that it is rounded to."""

    def rule(op: Op, *values: Operand) -> Instruction:
        made: Instruction = in_reals(partial(function, element=op.dtype))(op, *values)
        return made

    return rule


RULES.add(_to_digits(_igamma), "igamma")
RULES.add(_to_digits(_igammac), "igammac")

for _name, _function in _OF_REALS.items():
    RULES.add(in_reals(_function), _name)


def _of_degree(polynomial: Polynomial) -> Callable[[Real, Real], Real]:
    return lambda x, n: polynomial(x, polynomials.degree(n))


def _add_polynomial(name: str, polynomial: Polynomial) -> None:
    rule = in_reals(_of_degree(polynomial))
    RULES.add(rule, *(f"special_{name}{overload}" for overload in _OVERLOADS))


for _kind, _polynomial in polynomials.CHEBYSHEV.items():
    _add_polynomial(f"chebyshev_polynomial_{_kind}", _polynomial)
    _add_polynomial(f"shifted_chebyshev_polynomial_{_kind}", polynomials.shifted(_polynomial))
_add_polynomial("laguerre_polynomial_l", polynomials.laguerre)
_add_polynomial("legendre_polynomial_p", polynomials.legendre)


def _add_hermite(name: str, polynomial: Callable[..., Real]) -> None:
    """Hermite's polynomials are NaN above a degree that depends on the element type."""

    def rule(op: Op, x: Operand, n: Operand) -> Instruction:
        greatest = _GREATEST_HERMITE.get(op.dtype, _GREATEST_HERMITE_F32)
        limited = in_reals(_of_degree(lambda x, n: polynomial(x, n, greatest=greatest)))
        made: Instruction = limited(op, x, n)
        return made

    RULES.add(rule, *(f"special_hermite_polynomial_{name}{overload}" for overload in _OVERLOADS))


_add_hermite("h", polynomials.hermite_h)
_add_hermite("he", polynomials.hermite_he)
