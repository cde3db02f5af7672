# SPDX-License-Identifier: Apache-2.0
"""The scaled complementary error function, for which HLO has no opcode.

The function erfcx(x) = exp(x^2) erfc(x) is a Chebyshev series of (1 + 2 x) erfcx(x) in
(x - 4) / (x + 4), after Shepherd and Laframboise (1981); its factors were computed with mpmath.
"""

from __future__ import annotations

from ingot.frontends.building.special_functions.reals import Real

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
