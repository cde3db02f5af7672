# SPDX-License-Identifier: Apache-2.0
"""Complex tensors through the families that are not elementwise, and Fourier transforms."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers

import ingot

CASES: dict[str, Any] = {
    "sum": lambda x, y: tf.reduce_sum(x, axis=1),
    "mean": lambda x, y: tf.reduce_mean(x),
    "product": lambda x, y: tf.reduce_prod(x, axis=0),
    "cumulative sum": lambda x, y: tf.cumsum(x, axis=1, exclusive=True),
    "cumulative product": lambda x, y: tf.math.cumprod(x, axis=1, reverse=True),
    "matmul": lambda x, y: tf.matmul(x, y, adjoint_a=True),
    "einsum": lambda x, y: tf.einsum("ij,ij->i", x, y),
    "segments": lambda x, y: tf.math.unsorted_segment_sum(x, [0, 2, 1, 2], 3),
    "scatter": lambda x, y: tf.tensor_scatter_nd_add(x, [[1], [1]], y[:2]),
    "adjoint": lambda x, y: tf.linalg.adjoint(x),
    "norm": lambda x, y: tf.norm(x),
    "band": lambda x, y: tf.linalg.band_part(x, 1, 0) + tf.eye(4, dtype=x.dtype),
    "polynomial": lambda x, y: tf.math.polyval([x, y], x),
    "loop": lambda x, y: tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * y), (0, x))[1],
    "branch": lambda x, y: tf.cond(tf.math.real(x[0, 0]) > 0, lambda: x * y, lambda: x - y),
    "gradient": lambda x, y: tf.gradients(tf.abs(x * y), [x, y]),
    "fft": lambda x, y: tf.signal.fft(x),
    "ifft2d": lambda x, y: tf.signal.ifft2d(x),
    "fft3d": lambda x, y: tf.signal.fft3d(tf.stack([x, y])),
    "rfft": lambda x, y: tf.signal.rfft(tf.math.real(x)),
    "rfft padded": lambda x, y: tf.signal.rfft(tf.math.real(x), [7]),
    "rfft2d cut": lambda x, y: tf.signal.rfft2d(tf.math.real(x), [3, 5]),
    "irfft": lambda x, y: tf.signal.irfft(x, [6]),
    "spectrum": lambda x, y: tf.abs(tf.signal.ifft(tf.signal.fft(x) * tf.signal.fft(y))),
}


@pytest.mark.parametrize("name", CASES)
def test_complex_families(name):
    x, y = numbers(4, 4, dtype=np.complex64), numbers(4, 4, dtype=np.complex64, seed=1)
    program = check(CASES[name], x, y, tolerance=2e-5)
    want = program.evaluate([x, y])[0]
    got = ingot.compile(program.lowered.module)(*program.arguments([x, y]))
    for have, wanted in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        np.testing.assert_allclose(have, wanted, rtol=2e-5, atol=2e-5)
