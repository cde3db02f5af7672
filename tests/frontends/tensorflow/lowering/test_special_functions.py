# SPDX-License-Identifier: Apache-2.0
"""Special functions of one to three operands against TensorFlow: over their domain and its ends."""

import numpy as np
import pytest
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
CASES = {
    "bessel_i0": (lambda x: RAW.BesselI0(x=x), [MODEST]),
    "bessel_i0e": (lambda x: RAW.BesselI0e(x=x), [np.concatenate([DRAWN[0], -DRAWN[1]])]),
    "bessel_i1": (lambda x: RAW.BesselI1(x=x), [MODEST]),
    "bessel_i1e": (lambda x: RAW.BesselI1e(x=x), [np.concatenate([DRAWN[0], -DRAWN[1]])]),
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
    check(function, *(item.astype(dtype) for item in operands), tolerance=tolerance)


def test_ranks_and_no_elements():
    check(tf.math.igamma, np.float32(2), np.array([[1, 2, 3]], np.float32), tolerance=1e-5)
    check(tf.math.igamma, np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32))
    check(tf.math.zeta, np.float32(2), np.float32(3), tolerance=1e-5)


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
