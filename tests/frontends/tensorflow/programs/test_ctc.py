# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding of CTC: ties, repetitions, blanks, NaN, empty sequences, sizes unknown."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import assert_same, check, run

TIME, BATCH, CLASSES = 9, 4, 4
LENGTHS = np.array([9, 4, 0, 6], np.int32)


def scores(dtype):
    """Return scores with many ties, and NaN in the first class and in others."""
    made = np.random.default_rng(0).integers(0, 6, (TIME, BATCH, CLASSES)).astype(dtype)
    made[3, 1], made[2, 0, 2], made[1, 3, 0] = np.nan, np.nan, np.nan
    made[5, 3], made[4, 0] = -np.inf, [-np.inf, np.nan, -np.inf, -np.inf]
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("merge", [True, False])
@pytest.mark.parametrize("blank", [None, 0, -2])
def test_labels_and_scores(dtype, merge, blank):
    def program(jit):
        decode = tf.function(tf.nn.ctc_greedy_decoder, jit_compile=jit)
        whole = decode(tf.constant(scores(dtype)), tf.constant(LENGTHS), merge, blank)
        return whole, decode(tf.constant(scores(dtype)), 0 * LENGTHS, merge, blank)

    check(program)


def test_open_sizes_and_dense_labels():
    def dense(x, lengths):
        (labels,), total = tf.nn.ctc_greedy_decoder(x, lengths)
        return tf.sparse.to_dense(labels, default_value=-1), total

    signature = [tf.TensorSpec([None, None, None]), tf.TensorSpec([None], tf.int32)]
    compiled = tf.function(dense, input_signature=signature, jit_compile=True)
    for rows in (4, 2):
        given = scores("float32")[:, :rows], LENGTHS[:rows]
        have, want = (run(lambda _, f=f, x=given: f(*x), None) for f in (compiled, dense))
        assert_same(have, want)
