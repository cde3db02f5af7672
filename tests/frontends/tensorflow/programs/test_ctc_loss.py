# SPDX-License-Identifier: Apache-2.0
"""The loss of CTC of sparse labels: lengths, repetitions, sequences that are too short, errors."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import COMPILED, check

TIME, CLASSES = 12, 6
LABELS = [[1, 2, 2, 4], [0], [2, 1], [3, 3, 1]]
WHOLE = [TIME] * 4


def scores(dtype="float32"):
    return tf.constant(np.random.default_rng(0).standard_normal((TIME, 4, CLASSES)), dtype) * 2


def loss(jit, lengths, labels=LABELS, blank=None, **settings):
    """Return loss and gradient: of TensorFlow's function, or of the op where there are settings."""
    ragged = tf.ragged.constant(labels, tf.int32).to_sparse()

    def plain(x, labels, lengths):
        if blank is not None:
            return tf.nn.ctc_loss(labels, x, None, lengths, blank_index=blank)
        return tf.raw_ops.CTCLoss(
            inputs=x, labels_indices=labels.indices, labels_values=labels.values,
            sequence_length=lengths, **settings,
        ).loss  # fmt: skip

    @tf.function(jit_compile=jit)
    def run(x, labels, lengths):
        with tf.GradientTape() as tape:
            tape.watch(x)
            made = plain(x, labels, lengths)
        return made, tape.gradient(made, x)

    return lambda x: run(x, ragged, tf.constant(lengths))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lengths", [WHOLE, [9, 5, 3, 12], [5, 1, 2, 4]])
def test_losses_and_gradients(dtype, lengths):
    check(lambda jit: loss(jit, lengths)(scores(dtype)))


@pytest.mark.parametrize("blank", [-1, 0, 3])
def test_blank_is_another_class(blank):
    labels = [[1, 2, 2, 4], [1], [2, 1], [4, 4, 1]]
    check(lambda jit: loss(jit, WHOLE, labels, blank)(scores()))


def test_sequences_that_are_too_short_may_be_ignored():
    short = [4, 5, 1, 3]
    check(lambda jit: loss(jit, short, ignore_longer_outputs_than_inputs=True)(scores()))


def test_blanks_end_a_sequence():
    check(lambda jit: loss(jit, WHOLE, [[1, 5, 5], [0, 5], [2, 1], [3, 7]])(scores()))


@pytest.mark.parametrize(
    ("lengths", "labels", "text"),
    [
        ([4, 5, 1, 12], LABELS, "Not enough time for target transition sequence"),
        ([12, 12, 12, 13], LABELS, "sequence_length"),
        (WHOLE, [[1], [2], [], [3]], "Labels length is zero"),
        (WHOLE, [[1], [2], [-1], [3]], "All labels must be nonnegative integers"),
        (WHOLE, [[1], [2], [5, 1], [3]], "Saw a non-null label"),
    ],
)
def test_errors_are_tensorflow_s(lengths, labels, text):
    for jit in (None, True):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            loss(jit, lengths, labels)(scores())
    assert COMPILED
