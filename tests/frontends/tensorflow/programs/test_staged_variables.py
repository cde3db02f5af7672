# SPDX-License-Identifier: Apache-2.0
"""Variables of programs that compute sizes: updated in place, and never half written."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.bridge.test_variables import buffer_of

from ingot.client.executables.staged import StagedExecutable
from ingot.frontends.tensorflow.functions import replacement

SIZE = 3000


@pytest.fixture(params=["direct", "around"])
def access(request, monkeypatch):
    """Both ways to reach variables: inside the launch, and by TensorFlow's ops around it."""
    if request.param == "around":
        monkeypatch.setattr(replacement, "is_available", lambda: False)


@pytest.fixture
def state(access):
    return tf.Variable(tf.range(SIZE, dtype=tf.float32)), tf.Variable(tf.ones([SIZE]))


def data():
    return np.random.default_rng(0).normal(size=SIZE).astype(np.float32)


def test_new_values_and_old_ones_are_tensorflows(compiled, access):
    def run(jit):
        late, early = tf.Variable(tf.range(SIZE, dtype=tf.float32)), tf.Variable(tf.ones([SIZE]))

        @tf.function(jit_compile=jit)
        def step(x):
            before = late.read_value()
            early.assign_add(x)
            chosen = tf.boolean_mask(early.read_value(), early > 1)
            late.assign(late * 0.5 + tf.reduce_max(chosen))
            late.scatter_nd_sub([[1], [2]], tf.repeat(tf.reduce_max(chosen), 2))
            return before, tf.shape(chosen), late.read_value()

        found = [step(tf.constant(x)) for x in (data(), -data(), data())]
        return [np.asarray(item) for row in found for item in (*row, late, early)]

    for have, want in zip(run(True), run(None), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-6)
    assert all(isinstance(item.executable, StagedExecutable) for item in compiled)
    assert compiled


def test_a_variable_is_updated_in_place_unless_somebody_holds_its_value(compiled):
    v = tf.Variable(tf.zeros([SIZE]))

    @tf.function(jit_compile=True)
    def step(x):
        positive = tf.boolean_mask(x, x > 0)
        v.assign(v + tf.reduce_max(positive))
        return tf.reduce_sum(positive)

    x = tf.constant([1.0, -1.0] * (SIZE // 2))
    before = buffer_of(v)
    for _ in range(3):
        step(x)
    assert buffer_of(v) == before
    held = v.read_value()
    step(x)
    assert buffer_of(v) != before
    np.testing.assert_array_equal(held, np.full(SIZE, 3))
    np.testing.assert_array_equal(v, np.full(SIZE, 4))


def test_what_fails_leaves_every_variable_as_it_was(state):
    late, early = state

    @tf.function(jit_compile=True)
    def step(x):
        early.assign_add(x)
        late.assign(late * 2)
        sums = tf.boolean_mask(x, x > 1) + tf.boolean_mask(x, x < -1)
        return tf.boolean_mask(sums, sums > 0)

    before = [late.numpy(), early.numpy()]
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
            step(tf.constant(data()))
        np.testing.assert_array_equal(late, before[0])
        np.testing.assert_array_equal(early, before[1])
    fits = np.float32([2, 3, -2, -3] * (SIZE // 4))
    step(tf.constant(fits))
    np.testing.assert_array_equal(late, before[0] * 2)
    np.testing.assert_array_equal(early, before[1] + fits)
