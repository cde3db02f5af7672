# SPDX-License-Identifier: Apache-2.0
"""The quantile of the normal distribution, computed in f64.

Within 3/8 of 1/2 by a rational function of the distance; in the tails by one of the inverse of
sqrt(-2 log p), so that small probabilities keep their digits.
Source: Cephes (`ndtri.c`, Moshier 1984).
"""

from __future__ import annotations

import math

from ingot.frontends.building.special_functions.reals import Real

# Highest power first.
_P0 = (
    -59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968,
    -1.2391658386738125,
)  # fmt: skip
_Q0 = (
    1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937,
    200.26021238006066, -82.03722561683334, 15.90562251262117, -1.1833162112133,
)  # fmt: skip
_P1 = (
    4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008,
    14.684956192885803, 2.1866330685079025, -0.1402560791713545, -0.03504246268278482,
    -0.0008574567851546854,
)  # fmt: skip
_Q1 = (
    1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075,
    2.504649462083094, -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574,
)  # fmt: skip
_P2 = (
    3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755,
    0.20148538954917908, 0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06,
    6.239745391849833e-09,
)  # fmt: skip
_Q2 = (
    1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663,
    0.013420400608854318, 0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09,
)  # fmt: skip

_TAIL = math.exp(-2)


def normal_quantile(p: Real) -> Real:
    """X below which a normally distributed number is with probability p; NaN outside of [0, 1]."""
    upper = p > 1 - _TAIL
    tail = (1 - p).where(upper, p)
    middle = tail - 0.5
    square = middle * middle
    ratio = square.polynomial(_P0) / square.polynomial(_Q0)
    centre = (middle + middle * (square * ratio)) * math.sqrt(2 * math.pi)
    size = (tail.log() * -2).sqrt()
    inverse = 1 / size
    near = inverse.polynomial(_P1) / inverse.polynomial(_Q1)
    far = inverse.polynomial(_P2) / inverse.polynomial(_Q2)
    found = size - size.log() / size - inverse * near.where(size < 8, far)
    found = found.where(upper, -found)
    found = centre.where(tail > _TAIL, found)
    found = found.filled(-math.inf).where(p.equals(0), found)
    found = found.filled(math.inf).where(p.equals(1), found)
    return found.filled(math.nan).where((p < 0) | (p > 1), found)
