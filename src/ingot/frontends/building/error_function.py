# SPDX-License-Identifier: Apache-2.0
"""The complementary error function, for which HLO has no opcode.

In f32 by rational approximation: 1 - x T(x^2) near zero, exp(-x^2) / |x| times a polynomial in
1/x^2 beyond, so that the tail keeps its digits. Source: XLA's `lib/math.cc` (`ErfcImpl32`), after
Cephes. In f64 as 1 - erf(x) near zero and exp(-x^2) erfcx(x) beyond.

The scaled function erfcx(x) = exp(x^2) erfc(x) is a Chebyshev series of (1 + 2 x) erfcx(x) in
(x - 4) / (x + 4), after Shepherd and Laframboise (1981); its factors were computed with mpmath.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.reals import Real
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction

# Highest power first.
NEAR_ZERO = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
    1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip
BELOW_TWO = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1,
    6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1,
    5.638259427386472e-1,
)  # fmt: skip
ABOVE_TWO = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786,
    -1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip

SCALED = (
    1.2459819733129574e-18, -8.193570309884333e-18, -3.1704898956330886e-17,
    2.22009300666632e-16, 7.504598509880083e-16, -6.668675118770408e-15,
    -1.4716575027010623e-14, 2.1454508286554553e-13, 9.167958364111294e-14,
    -6.901108320480815e-12, 1.408871764208813e-11, 1.9098355172456688e-10,
    -1.1717889351884957e-09, -2.1057869513809494e-09, 5.5765709395703566e-08,
    -2.4261399442449534e-07, -7.158364623450346e-07, 1.7183861600300937e-05,
    -0.0001369696503010054, 0.0007456494372536184, -0.003136927294554264, 0.01059566336347286,
    -0.02875393558027666, 0.06009212804122225, -0.081265123236185, -0.007260796620301901,
    2.3549664010748974,
)  # fmt: skip


def erfc(b: ArrayBuilder, x: Instruction) -> Instruction:
    """1 - erf(x); narrow floats are computed in f32."""
    element = x.shape.dtype
    if element is F64:
        return _erfc_f64(Real(b, x)).x
    return b.convert_to(_erfc_f32(b, b.convert_to(x, F32)), element)


def _scaled(x: Real) -> Real:
    """Exp(x^2) erfc(x) for x >= 0."""
    return (2 - 16 / (x + 4)).chebyshev(SCALED) / (x * 2 + 1)


def _exp_square(x: Real, sign: float) -> Real:
    """Exp(sign x^2): the square of the leading bits of x is exact."""
    lead = (x * 16).floor() * (1 / 16)
    lead = x.where(x.abs() > 64, lead)
    rest = (x - lead) * (x + lead) * sign
    rest = rest.filled(0).where(x.abs() > 64, rest)
    return (lead * lead * sign).exp() * rest.exp()


def erfcx(x: Real) -> Real:
    """Exp(x^2) erfc(x): without overflow or underflow where x is large."""
    size = x.abs()
    scaled = _scaled(size)
    return (_exp_square(size, 1) * 2 - scaled).where(x < 0, scaled)


def _erfc_f64(x: Real) -> Real:
    size = x.abs()
    tail = _exp_square(size, -1) * _scaled(size)
    tail = tail.filled(0).where(size > 28, tail)
    far = (2 - tail).where(x < 0, tail)
    return (1 - x.through(lambda b, value: b.erf(value))).where(size < 0.5, far)


def _erfc_f32(b: ArrayBuilder, x: Instruction) -> Instruction:
    size, square = b.abs(x), b.multiply(x, x)
    near = _rest(b, b.multiply(x, _polynomial(b, square, NEAR_ZERO)), 1)
    one = b.like(1, x.shape)
    inverse = b.divide(one, square)
    scale = b.multiply(_exp_square(Real(b, size), -1).x, b.divide(one, size))
    below, above = _polynomial(b, inverse, BELOW_TWO), _polynomial(b, inverse, ABOVE_TWO)
    tail = b.multiply(scale, b.select(b.compared("LT", size, 2), below, above))
    far = b.select(b.compared("LT", x, 0), _rest(b, tail, 2), tail)
    return b.select(b.compared("LT", size, 1), near, far)


def _rest(b: ArrayBuilder, x: Instruction, whole: float) -> Instruction:
    """`whole` - x."""
    return b.subtract(b.like(whole, x.shape), x)


def _polynomial(b: ArrayBuilder, x: Instruction, row: tuple[float, ...]) -> Instruction:
    total = b.like(row[0], x.shape)
    for coefficient in row[1:]:
        total = b.binary("add", b.multiply(total, x), coefficient)
    return total
