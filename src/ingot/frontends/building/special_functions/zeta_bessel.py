# SPDX-License-Identifier: Apache-2.0
"""Hurwitz's zeta function, polygamma functions, and modified Bessel functions.

Computed in f64. Zeta is summed to 12 terms and ended by Euler and Maclaurin's formula; the Bessel
functions are Chebyshev series on [0, 8] and beyond.
Source: Cephes (`zeta.c`, `i0.c`, `i1.c`, Moshier 1984); NIST DLMF 25.11.4, 25.11.5 and 5.15.
"""

from __future__ import annotations

import math

from ingot.frontends.building.special_functions.reals import Real
from ingot.frontends.building.special_functions.special import digamma, log_gamma

I0_NEAR = (
    -4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16,
    1.715391285555133e-15, -1.1685332877993451e-14, 7.676185498604936e-14, -4.856446783111929e-13,
    2.95505266312964e-12, -1.726826291441556e-11, 9.675809035373237e-11, -5.189795601635263e-10,
    2.6598237246823866e-09, -1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07,
    1.1173875391201037e-06, -4.4167383584587505e-06, 1.6448448070728896e-05,
    -5.754195010082104e-05, 0.00018850288509584165, -0.0005763755745385824, 0.0016394756169413357,
    -0.004324309995050576, 0.010546460394594998, -0.02373741480589947, 0.04930528423967071,
    -0.09490109704804764, 0.17162090152220877, -0.3046826723431984, 0.6767952744094761,
)  # fmt: skip
I0_FAR = (
    -7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17, 3.461222867697461e-17,
    -2.8276239805165836e-16, -3.425485619677219e-16, 1.7725601330565263e-15,
    3.8116806693526224e-15, -9.554846698828307e-15, -4.150569347287222e-14, 1.54008621752141e-14,
    3.8527783827421426e-13, 7.180124451383666e-13, -1.7941785315068062e-12,
    -1.3215811840447713e-11, -3.1499165279632416e-11, 1.1889147107846439e-11,
    4.94060238822497e-10, 3.3962320257083865e-09, 2.266668990498178e-08, 2.0489185894690638e-07,
    2.8913705208347567e-06, 6.889758346916825e-05, 0.0033691164782556943, 0.8044904110141088,
)  # fmt: skip
I1_NEAR = (
    2.7779141127610464e-18, -2.111421214358166e-17, 1.5536319577362005e-16,
    -1.1055969477353862e-15, 7.600684294735408e-15, -5.042185504727912e-14,
    3.223793365945575e-13, -1.9839743977649436e-12, 1.1736186298890901e-11,
    -6.663489723502027e-11, 3.625590281552117e-10, -1.8872497517228294e-09,
    9.381537386495773e-09, -4.445059128796328e-08, 2.0032947535521353e-07,
    -8.568720264695455e-07, 3.4702513081376785e-06, -1.3273163656039436e-05,
    4.781565107550054e-05, -0.00016176081582589674, 0.0005122859561685758,
    -0.0015135724506312532, 0.004156422944312888, -0.010564084894626197, 0.024726449030626516,
    -0.05294598120809499, 0.1026436586898471, -0.17641651835783406, 0.25258718644363365,
)  # fmt: skip
I1_FAR = (
    7.517296310842105e-18, 4.414348323071708e-18, -4.6503053684893586e-17,
    -3.209525921993424e-17, 2.96262899764595e-16, 3.3082023109209285e-16,
    -1.8803547755107825e-15, -3.8144030724370075e-15, 1.0420276984128802e-14,
    4.272440016711951e-14, -2.1015418427726643e-14, -4.0835511110921974e-13,
    -7.198551776245908e-13, 2.0356285441470896e-12, 1.4125807436613782e-11,
    3.2526035830154884e-11, -1.8974958123505413e-11, -5.589743462196584e-10,
    -3.835380385964237e-09, -2.6314688468895196e-08, -2.512236237870209e-07,
    -3.882564808877691e-06, -0.00011058893876262371, -0.009761097491361469, 0.7785762350182801,
)  # fmt: skip

_TERMS = 12
# Bernoulli numbers B2, B4, ... over (2k)!.
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
)  # fmt: skip


def bessel_i0e(x: Real) -> Real:
    """e^-|x| I0(x)."""
    size = x.abs()
    near = (size / 2 - 2).chebyshev(I0_NEAR)
    far = (32 / size - 2).chebyshev(I0_FAR) / size.sqrt()
    return near.where(size <= 8, far)


def bessel_i1e(x: Real) -> Real:
    """e^-|x| I1(x)."""
    size = x.abs()
    near = (size / 2 - 2).chebyshev(I1_NEAR) * size
    far = (32 / size - 2).chebyshev(I1_FAR) / size.sqrt()
    found = near.where(size <= 8, far)
    return (-found).where(x < 0, found)


def bessel_i0(x: Real) -> Real:
    """The modified Bessel function I0(x)."""
    return bessel_i0e(x) * x.abs().exp()


def bessel_i1(x: Real) -> Real:
    """The modified Bessel function I1(x)."""
    return bessel_i1e(x) * x.abs().exp()


def zeta_of_positive(x: Real, q: Real) -> Real:
    """Zeta for q > 0."""
    total = x.filled(0)
    for term in range(_TERMS):
        total = total + (q + float(term)) ** -x
    end = q + float(_TERMS)
    power = end**-x
    total = total + power * end / (x - 1) + power * 0.5
    rising, down = x, power / end
    for number, factor in enumerate(_BERNOULLI):
        total = total + rising * down * factor
        rising = rising * (x + (2.0 * number + 1)) * (x + (2.0 * number + 2))
        down = down / (end * end)
    return total.filled(0).where(q.equals(math.inf), total)


def zeta_reflected(x: Real, q: Real) -> Real:
    """Zeta for a negative q between whole numbers and a whole x.

    With r = q - floor(q) the terms of negative base are (-1)^x times those of 1 - r, as far as -q;
    floor(q) + 1 - q is 1 - r without its rounding.
    """
    part = q - q.floor()
    half = x * 0.5
    below = zeta_of_positive(x, q.floor() + 1 - q) - zeta_of_positive(x, 1 - q)
    return zeta_of_positive(x, part) + below.where(half.equals(half.floor()), -below)


def zeta(x: Real, q: Real) -> Real:
    """The sum of (q + n)^-x over n from 0 on."""
    found = zeta_of_positive(x, q)
    limit = found.filled(math.inf).where(q < 1, found.filled(1).where(q.equals(1), 0))
    found = limit.where(x.equals(math.inf), found)
    whole = q.equals(q.floor())
    pole = (q <= 0) & whole
    even = (x * 0.5).equals((x * 0.5).floor())
    found = found.filled(math.nan).where((q <= 0) & ~x.equals(x.floor()), found)
    found = found.filled(math.nan).where(pole, found)
    found = found.filled(math.inf).where(pole & even, found)
    found = found.filled(math.nan).where((x < 1) | x.is_nan() | q.is_nan(), found)
    return found.filled(math.inf).where(x.equals(1), found)


def polygamma(n: Real, x: Real) -> Real:
    """The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x)."""
    half = n * 0.5
    is_even = half.equals(half.floor()) & ~n.equals(math.inf)
    sign = n.filled(-1).where(is_even, 1)
    found = sign * (n + 1).through(log_gamma).exp() * zeta(n + 1, x)
    found = x.through(digamma).where(n.equals(0), found)
    wrong = (n < 0) | ~n.equals(n.floor())
    return found.filled(math.nan).where(wrong, found)
