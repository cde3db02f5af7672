# SPDX-License-Identifier: Apache-2.0
"""Bessel functions of the first and second kind, the modified ones K0 and K1, spherical j0.

Computed in f64. Up to 5 as rational functions of x^2, beyond by Hankel's expansion: a sine and a
cosine of the shifted argument, each times a rational function of 1/x^2. K0 and K1 are Chebyshev
series on (0, 2] and beyond.
Source: Cephes (`j0.c`, `j1.c`, `k0.c`, `k1.c`, Moshier 1984).

Example: `bessel_j0(Real(b, x))` is an f64 array of x's dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ingot.frontends.building.special_functions.reals import Real
from ingot.frontends.building.special_functions.zeta_bessel import bessel_i0, bessel_i1
from ingot.support.records import record

# Highest power first.
_J0_PP = (
    0.0007969367292973471, 0.08283523921074408, 1.239533716464143, 5.447250030587687,
    8.74716500199817, 5.303240382353949, 1.0,
)  # fmt: skip
_J0_PQ = (
    0.0009244088105588637, 0.08562884743544745, 1.2535274390105895, 5.470977403304171,
    8.761908832370695, 5.306052882353947, 1.0,
)  # fmt: skip
_J0_QP = (
    -0.011366383889846916, -1.2825271867050931, -19.553954425773597, -93.20601521237683,
    -177.68116798048806, -147.07750515495118, -51.41053267665993, -6.050143506007285,
)  # fmt: skip
_J0_QQ = (
    1.0, 64.3178256118178, 856.4300259769806, 3882.4018360540163, 7240.467741956525,
    5930.727011873169, 2062.0933166032783, 242.0057402402914,
)  # fmt: skip
_J0_RP = (
    -4794432209.782018, 1956174919465.5657, -249248344360967.72, 9708622510473064.0,
)  # fmt: skip
_J0_RQ = (
    1.0, 499.563147152651, 173785.4016763747, 48440965.83399621, 11185553704.535683,
    2112775201154.892, 310518229857422.56, 3.1812195594320496e+16, 1.7108629408104315e+18,
)  # fmt: skip
_Y0_P = (
    15592.436785523574, -14663929.59039716, 5435264770.518765, -982136065717.9115,
    87590639439536.7, -3466283033847297.0, 4.4273326857256984e+16, -1.8495080043698668e+16,
)  # fmt: skip
_Y0_Q = (
    1.0, 1041.2835366425984, 626107.330137135, 268919633.39381415, 86400248710.3935,
    20297961275010.555, 3171577528429750.5, 2.5059625617265306e+17,
)  # fmt: skip
_J1_PP = (
    0.0007621256162081731, 0.07313970569409176, 1.1271960812968493, 5.112079511468076,
    8.424045901417724, 5.214515986823615, 1.0,
)  # fmt: skip
_J1_PQ = (
    0.0005713231280725487, 0.06884559087544954, 1.105142326340617, 5.073863861286015,
    8.399855543276042, 5.209828486823619, 1.0,
)  # fmt: skip
_J1_QP = (
    0.05108625947501766, 4.982138729512334, 75.82382841325453, 366.7796093601508,
    710.8563049989261, 597.4896124006136, 211.68875710057213, 25.207020585802372,
)  # fmt: skip
_J1_QQ = (
    1.0, 74.23732770356752, 1056.4488603826283, 4986.410583376536, 9562.318924047562,
    7997.041604473507, 2826.1927851763908, 336.0936078106983,
)  # fmt: skip
_J1_RP = (
    -899971225.7055594, 452228297998.19403, -72749424522181.83, 3682957328638529.0,
)  # fmt: skip
_J1_RQ = (
    1.0, 620.8364781180543, 256987.25675774884, 83514679.14319493, 22151159547.97925,
    4749141220799.914, 784369607876235.9, 8.952223361846274e+16, 5.322786203326801e+18,
)  # fmt: skip
_Y1_P = (
    1263204747.9017804, -647355876379.1603, 114509511541823.73, -8127702555013251.0,
    2.024394757135949e+17, -7.788771962659501e+17,
)  # fmt: skip
_Y1_Q = (
    1.0, 594.3015923461282, 235564.09294306856, 73481194.44597217, 18760131610.870617,
    3882312774962.3857, 620557727146953.8, 6.871410873553005e+16, 3.9727060811656064e+18,
)  # fmt: skip
K0_NEAR = (
    1.374465435613523e-16, 4.25981614279661e-14, 1.0349695257633842e-11, 1.904516377220209e-09,
    2.5347910790261494e-07, 2.286212103119452e-05, 0.001264615411446926, 0.0359799365153615,
    0.3442898999246285, -0.5353273932339028,
)  # fmt: skip
K0_FAR = (
    5.300433772686263e-18, -1.6475804301524212e-17, 5.2103915050390274e-17,
    -1.678231096805412e-16, 5.512055978524319e-16, -1.848593377343779e-15,
    6.3400764774050706e-15, -2.2275133269916698e-14, 8.032890775363575e-14,
    -2.9800969231727303e-13, 1.140340588208475e-12, -4.514597883373944e-12,
    1.8559491149547177e-11, -7.957489244477107e-11, 3.577397281400301e-10,
    -1.69753450938906e-09, 8.574034017414225e-09, -4.660489897687948e-08, 2.766813639445015e-07,
    -1.8317555227191195e-06, 1.39498137188765e-05, -0.00012849549581627802,
    0.0015698838857300533, -0.0314481013119645, 2.4403030820659555,
)  # fmt: skip
K1_NEAR = (
    -7.023863479386288e-18, -2.427449850519366e-15, -6.666901694199329e-13,
    -1.4114883926335278e-10, -2.213387630734726e-08, -2.4334061415659684e-06,
    -0.0001730288957513052, -0.006975723859639864, -0.12261118082265715, -0.3531559607765449,
    1.5253002273389478,
)  # fmt: skip
K1_FAR = (
    -5.756744483665017e-18, 1.7940508731475592e-17, -5.689462558442859e-17,
    1.838093544366639e-16, -6.057047248373319e-16, 2.038703165624334e-15,
    -7.019837090418314e-15, 2.4771544244813043e-14, -8.976705182324994e-14,
    3.3484196660784293e-13, -1.2891739609510289e-12, 5.13963967348173e-12,
    -2.1299678384275683e-11, 9.218315187605006e-11, -4.1903547593418965e-10,
    2.015049755197033e-09, -1.0345762465678097e-08, 5.7410841254500495e-08,
    -3.5019606030878126e-07, 2.406484947837217e-06, -1.936197974166083e-05,
    0.00019521551847135162, -0.002857816859622779, 0.10392373657681724, 2.7206261904844427,
)  # fmt: skip

_J0_ROOTS = (5.78318596294678452118, 30.4712623436620863991)
"""The squares of the first roots of J0."""
_J1_ROOTS = (14.6819706421238932572, 49.2184563216946036703)


def _denominator(factors: Sequence[float], monic: bool) -> Sequence[float]:
    """Return Cephes' denominator; `monic` says whether its leading 1 counts.

    PyTorch's kernels leave it out, which moves their results by 3e-7.
    """
    return factors if monic or factors[0] != 1 else factors[1:]


@record
class _Hankel:
    """The expansion for large arguments.

    Attributes:
        shift: the number subtracted from the argument of sine and cosine.
        amplitude: numerator and denominator of the leading part, in 25 / x^2.
        correction: those of the part with 5 / x.
    """

    shift: float
    amplitude: tuple[Sequence[float], Sequence[float]]
    correction: tuple[Sequence[float], Sequence[float]]

    def parts(self, x: Real, monic: bool) -> tuple[Real, Real, Real]:
        """Return both parts and the shifted argument, for x > 0."""
        inverse = 5 / x
        square = inverse * inverse
        first, second = (
            square.polynomial(top) / square.polynomial(_denominator(bottom, monic))
            for top, bottom in (self.amplitude, self.correction)
        )
        scale = math.sqrt(2 / math.pi) / x.sqrt()
        return first * scale, second * inverse * scale, x - self.shift

    def first_kind(self, x: Real, monic: bool) -> Real:
        """J."""
        first, second, phase = self.parts(x, monic)
        return first * phase.cos() - second * phase.sin()

    def second_kind(self, x: Real, monic: bool) -> Real:
        """Y."""
        first, second, phase = self.parts(x, monic)
        return first * phase.sin() + second * phase.cos()


_ORDER_0 = _Hankel(math.pi / 4, (_J0_PP, _J0_PQ), (_J0_QP, _J0_QQ))
_ORDER_1 = _Hankel(0.75 * math.pi, (_J1_PP, _J1_PQ), (_J1_QP, _J1_QQ))


def bessel_j0(x: Real, *, monic: bool = True) -> Real:
    """The Bessel function of the first kind J0."""
    size = x.abs()
    square = size * size
    near = (square - _J0_ROOTS[0]) * (square - _J0_ROOTS[1])
    near = near * square.polynomial(_J0_RP) / square.polynomial(_denominator(_J0_RQ, monic))
    near = (1 - square / 4).where(size < 1e-5, near)
    return near.where(size <= 5, _ORDER_0.first_kind(size, monic))


def bessel_j1(x: Real, *, monic: bool = True) -> Real:
    """The Bessel function of the first kind J1."""
    size = x.abs()
    square = size * size
    near = (square - _J1_ROOTS[0]) * (square - _J1_ROOTS[1]) * x
    near = near * (square.polynomial(_J1_RP) / square.polynomial(_denominator(_J1_RQ, monic)))
    far = _ORDER_1.first_kind(size, monic)
    return near.where(size <= 5, (-far).where(x < 0, far))


def _of_positive(x: Real, found: Real, at_zero: float, below: float) -> Real:
    """Return `found` for x > 0, the limit `at_zero` at 0, and the framework's value `below` 0."""
    found = found.filled(below).where(x < 0, found)
    return found.filled(at_zero).where(x.equals(0), found)


def bessel_y0(x: Real, *, below: float = math.nan, monic: bool = True) -> Real:
    """The Bessel function of the second kind Y0."""
    square = x * x
    near = square.polynomial(_Y0_P) / square.polynomial(_denominator(_Y0_Q, monic))
    near = near + (2 / math.pi) * x.log() * bessel_j0(x, monic=monic)
    return _of_positive(x, near.where(x <= 5, _ORDER_0.second_kind(x, monic)), -math.inf, below)


def bessel_y1(x: Real, *, below: float = math.nan, monic: bool = True) -> Real:
    """The Bessel function of the second kind Y1."""
    square = x * x
    near = x * (square.polynomial(_Y1_P) / square.polynomial(_denominator(_Y1_Q, monic)))
    near = near + (2 / math.pi) * (bessel_j1(x, monic=monic) * x.log() - 1 / x)
    return _of_positive(x, near.where(x <= 5, _ORDER_1.second_kind(x, monic)), -math.inf, below)


def bessel_k0(x: Real, *, scaled: bool = False, below: float = math.nan) -> Real:
    """The modified Bessel function of the second kind K0; scaled: times exp(x)."""
    near = (x * x - 2).chebyshev(K0_NEAR) - (x * 0.5).log() * bessel_i0(x)
    return _modified(x, near, K0_FAR, scaled, below)


def bessel_k1(x: Real, *, scaled: bool = False, below: float = math.nan) -> Real:
    """The modified Bessel function of the second kind K1; scaled: times exp(x)."""
    near = (x * 0.5).log() * bessel_i1(x) + (x * x - 2).chebyshev(K1_NEAR) / x
    return _modified(x, near, K1_FAR, scaled, below)


def _modified(x: Real, near: Real, far: Sequence[float], scaled: bool, below: float) -> Real:
    beyond = (8 / x - 2).chebyshev(far) / x.sqrt()
    if scaled:
        near = near * x.exp()
    else:
        beyond = beyond * (-x).exp()
    return _of_positive(x, near.where(x <= 2, beyond), math.inf, below)


def spherical_bessel_j0(x: Real) -> Real:
    """The spherical Bessel function j0: sin(x) / x."""
    square = x * x
    factors = [(-1) ** n / math.factorial(2 * n + 1) for n in range(7)]
    near = square.polynomial(factors[::-1])
    found = near.where(x.abs() < 0.5, x.sin() / x)
    return found.filled(0).where(x.abs().equals(math.inf), found)
