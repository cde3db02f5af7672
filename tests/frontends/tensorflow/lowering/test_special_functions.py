# SPDX-License-Identifier: Apache-2.0
"""Special functions of one to three operands against TensorFlow: over their domain and its ends."""

import numpy as np
import pytest
import scipy.special as scipy_special
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, specs_of, trace

RAW = tf.raw_ops
ENDS = [0, 0.1, 0.5, 1, 2, 3, 10, 100, 1e3, 1e-10, -1, -0.5, -2, np.inf, -np.inf, np.nan]
DRAWN = np.random.default_rng(0).gamma(1, 5, (2, 200))
GRID = [side.ravel() for side in np.meshgrid(ENDS, ENDS)]
A, X = (np.concatenate([side, drawn]) for side, drawn in zip(GRID, DRAWN, strict=True))
B = np.random.default_rng(1).choice([*ENDS, 4.0, 7.0], A.size)
SHARE = np.concatenate(
    [np.random.default_rng(2).choice(ENDS, len(GRID[0])), np.random.default_rng(3).random(200)]
)
MODEST = np.clip(X, -50, 50)
SIGNED = np.concatenate([DRAWN[0], -DRAWN[1], [0.0, -0.0, 1e-10, 5, 8, 2, 30, np.nan]])
CASES = {
    "bessel_i0": (lambda x: RAW.BesselI0(x=x), [MODEST]),
    "bessel_i0e": (lambda x: RAW.BesselI0e(x=x), [np.concatenate([DRAWN[0], -DRAWN[1]])]),
    "bessel_i1": (lambda x: RAW.BesselI1(x=x), [MODEST]),
    "bessel_i1e": (lambda x: RAW.BesselI1e(x=x), [np.concatenate([DRAWN[0], -DRAWN[1]])]),
    **{
        f"bessel_{kind}": (getattr(tf.math.special, f"bessel_{kind}"), [SIGNED])
        for kind in ("j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e")
    },
    "dawsn": (tf.math.special.dawsn, [np.concatenate([SIGNED, [np.inf, 1e5, -6.0, 2.5, 5.1]])]),
    "expint": (tf.math.special.expint, [np.concatenate([SIGNED, [3.9, 4.1, 12.5, 39.9, 41, 80]])]),
    "fresnel_cos": (tf.math.special.fresnel_cos, [np.concatenate([SIGNED, [np.inf, -np.inf]])]),
    "fresnel_sin": (tf.math.special.fresnel_sin, [np.concatenate([SIGNED, [np.inf, -np.inf]])]),
    "spence": (tf.math.special.spence, [np.concatenate([SIGNED, [1e30, 1, 1.5, 0.5, 0.99]])]),
    "betainc": (tf.math.betainc, [A, B, SHARE]),
    "igamma": (tf.math.igamma, [A, X]),
    "igamma_slope": (lambda a, x: RAW.IgammaGradA(a=a, x=x), [A, X]),
    "igammac": (tf.math.igammac, [A, X]),
    "polygamma": (tf.math.polygamma, [np.round(A), X]),
    "sample_slope": (
        lambda a, x: RAW.RandomGammaGrad(alpha=a, sample=x),
        [np.abs(A) + 0.01, np.abs(X)],
    ),
    "zeta": (tf.math.zeta, [A, X]),
}


# TensorFlow's kernels in f32 overflow or underflow here where the result does not.
EARLY = {"polygamma", "sample_slope"}


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-4), (np.float64, 1e-8)])
@pytest.mark.parametrize("name", sorted(CASES))
def test_special_functions(name, dtype, tolerance):
    function, operands = CASES[name]
    if dtype is np.float32 and name in EARLY:
        operands = [item[len(GRID[0]) :] for item in operands]
    if dtype is np.float32 and name == "bessel_y1":
        # There TensorFlow's kernel has NaN at 0, and -inf in f64.
        operands = [item[item != 0] for item in operands]
    check(function, *(item.astype(dtype) for item in operands), tolerance=tolerance)


EXACT = {
    "j0": [
        0.9384698072408129, -0.22431154579196808, -0.1775967713143383, -0.09308098963931788,
        0.1716508071375539, -0.08636798358104021, 0.024786686152420176,
    ],
    "j1": [
        0.2422684576748739, 0.37542748181309593, -0.32757913759146523, -0.34501397857943766,
        0.23463634685391463, -0.11875106261662294, 0.004728311907089524,
    ],
    "y0": [
        -0.44451873350670656, 0.40791176923625005, -0.30851762524903376, -0.33477723515498115,
        0.22352148938756622, -0.11729573168666403, 0.0047159179776228135,
    ],
    "y1": [
        -1.471472392670243, 0.29594005460767475, 0.14786314339122683, 0.061861000898943724,
        -0.1580604617312475, 0.08442557066174723, -0.024784331292351778,
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(EXACT))
def test_bessel_functions_are_exact_on_both_sides_of_5(kind):
    """The values are mpmath's, with 30 digits."""
    x = np.array([0.5, 2.9, 5.0, 5.25, 8.0, 30.0, 1000.0])
    function = getattr(tf.math.special, f"bessel_{kind}")
    ((found,), _) = trace(function, specs_of([x])).evaluate([x])
    np.testing.assert_allclose(found, EXACT[kind], rtol=2e-13, atol=1e-15)


def test_ranks_and_no_elements():
    check(tf.math.igamma, np.float32(2), np.array([[1, 2, 3]], np.float32), tolerance=1e-5)
    check(tf.math.igamma, np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
    check(tf.math.zeta, np.float32(2), np.float32(3), tolerance=1e-5)


@pytest.mark.parametrize("kind", ["j0", "j1", "y0", "y1", "k0", "k0e", "k1", "k1e"])
def test_gradients_of_bessel_functions(kind):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = getattr(tf.math.special, f"bessel_{kind}")(x)
        return tape.gradient(y, x)

    check(gradient, DRAWN[0][:50] + 0.1, tolerance=1e-8)


@pytest.mark.parametrize("kind", ["dawsn", "expint", "fresnel_cos", "fresnel_sin", "spence"])
def test_integrals(kind):
    """In f64 to the last digits, where TensorFlow's kernels are exact; and gradients."""
    function = getattr(tf.math.special, kind)
    x = np.linspace(0.01, 12.0, 200)
    check(function, x, tolerance=2e-14 if kind != "expint" else 1e-13)

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    check(gradient, x + 0.003, tolerance=1e-10)


def test_gradients_of_incomplete_gamma_functions():
    def gradient(a, x):
        with tf.GradientTape() as tape:
            tape.watch([a, x])
            y = tf.math.igamma(a, x) + tf.math.polygamma(1.0, x) * tf.math.zeta(a + 1, x)
        return tape.gradient(y, [a, x])

    a, x = (np.float32(item[:50] + 0.5) for item in DRAWN)
    check(gradient, a, x, tolerance=1e-3)


def test_the_logarithm_of_gamma_keeps_its_precision_near_its_roots():
    near = np.concatenate([sign * 10.0 ** np.arange(-15.0, 0) for sign in (-1, 1)])
    x = np.concatenate([[1, 2, 1.5, 2.5], 1 + near, 2 + near])
    ((found,), _) = trace(tf.math.lgamma, specs_of([x])).evaluate([x])
    np.testing.assert_allclose(found, tf.math.lgamma(x).numpy(), rtol=2e-14, atol=0)
    assert found[0] == found[1] == 0


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma_functions_are_rounded_once_to_f32(name):
    choose = np.random.default_rng(0)
    a = np.exp(choose.uniform(np.log(1e-3), np.log(1e5), 2000)).astype(np.float32)
    x = (a * np.exp(choose.normal(size=2000) * np.minimum(3 / np.sqrt(a), 2))).astype(np.float32)
    function = getattr(tf.math, name)
    found, wanted = (
        trace(function, specs_of(given)).evaluate(given)[0][0]
        for given in ([a, x], [a.astype(np.float64), x.astype(np.float64)])
    )
    normal = wanted > 1e-30
    ulps = np.abs(found - wanted)[normal] / np.spacing(wanted[normal].astype(np.float32))
    assert np.max(ulps) < 0.6


@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_incomplete_gamma_functions_of_large_parameters(element):
    """Around a = 200, where the expansion begins, around its border in x, and far beyond.

    SciPy is wrong farther out in the tails: by 3e-2 at a = 5e5, x = a - 5.7 sqrt(a).
    """
    choose = np.random.default_rng(1)
    a = np.exp(choose.uniform(np.log(150), np.log(1e5), 1500))
    near = np.clip(choose.normal(size=1500) * 2, -4.4, 4.4) / np.sqrt(a)
    x = a * np.where(choose.uniform(size=1500) < 0.7, 1 + near, choose.uniform(0.4, 2.3, 1500))
    a, x = a.astype(element), x.astype(element)
    exact_a, exact_x = a.astype(np.float64), x.astype(np.float64)
    tolerance = 1e-7 if element is np.float32 else 1e-11
    for function, truth in (
        (tf.math.igamma, scipy_special.gammainc), (tf.math.igammac, scipy_special.gammaincc)
    ):  # fmt: skip
        found = trace(function, specs_of([a, x])).evaluate([a, x])[0][0]
        np.testing.assert_allclose(found, truth(exact_a, exact_x), rtol=tolerance, atol=1e-12)


def test_derivatives_of_incomplete_gamma_functions_of_large_parameters():
    choose = np.random.default_rng(2)
    a = np.exp(choose.uniform(np.log(150), np.log(1e7), 400))
    x = a * (1 + choose.normal(size=400) * 2 / np.sqrt(a))
    step = 1e-4 * np.sqrt(a)
    near, far = (
        scipy_special.gammainc(a + h, x) - scipy_special.gammainc(a - h, x)
        for h in (step, 2 * step)
    )
    wanted = (8 * near - far) / (12 * step)
    density = np.exp(-x + (a - 1) * np.log(x) - scipy_special.gammaln(a))
    given = [a, x]

    def both(a, x):
        return RAW.IgammaGradA(a=a, x=x), RAW.RandomGammaGrad(alpha=a, sample=x)

    slope, sample = trace(both, specs_of(given)).evaluate(given)[0]
    np.testing.assert_allclose(slope * np.sqrt(a), wanted * np.sqrt(a), atol=1e-8)
    inside = np.abs(x - a) < 3 * np.sqrt(a)
    np.testing.assert_allclose(sample[inside], (-wanted / density)[inside], rtol=1e-6)


def test_the_inverse_of_erf_has_the_digits_of_f32():
    choose = np.random.default_rng(0)
    near_one, near_zero = (
        1 - np.exp(choose.uniform(-16.6, 0, 500)),
        np.exp(choose.uniform(-80, 0, 500)),
    )
    y = np.concatenate([choose.uniform(-1, 1, 500), near_one, near_zero, [1, -1, 0, np.nan, 2]])
    y = y.astype(np.float32)
    found, wanted = (
        trace(tf.math.erfinv, specs_of([given])).evaluate([given])[0][0]
        for given in (y, y.astype(np.float64))
    )
    finite = np.isfinite(wanted) & (wanted != 0)
    ulps = np.abs(found - wanted)[finite] / np.spacing(np.abs(wanted[finite]).astype(np.float32))
    assert np.max(ulps) < 2
    assert np.mean(ulps) < 0.6
    np.testing.assert_array_equal(found[~finite], wanted[~finite].astype(np.float32))
