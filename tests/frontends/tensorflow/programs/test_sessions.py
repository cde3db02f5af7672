# SPDX-License-Identifier: Apache-2.0
"""Compiled functions in graphs that a session runs, and the words in which they refuse values."""

import numpy as np
import pytest
import tensorflow as tf

RAW = tf.raw_ops


def test_random_ops_go_on_from_run_to_run_in_each_session(compiled):
    def runs(jit_compile):
        with tf.Graph().as_default():
            tf.compat.v1.set_random_seed(3)
            drawn = tf.function(
                lambda x: x + tf.random.normal([3], seed=5), jit_compile=jit_compile
            )(tf.constant(1.0))
            found = []
            for _ in range(2):
                with tf.compat.v1.Session() as session:
                    found.append([session.run(drawn) for _ in range(3)])
            return np.array(found)

    found = runs(True)
    assert compiled
    np.testing.assert_allclose(found, runs(None), rtol=1e-5)
    np.testing.assert_array_equal(found[0], found[1])
    assert len(np.unique(found[0])) == 9


REFUSED = {
    "weights` must be the same shape": lambda: RAW.Bincount(arr=6, size=9, weights=[52, 351]),
    "sparse_values has incorrect shape \\[3\\], should be \\[\\] or \\[2\\]": (
        lambda: RAW.SparseToDense(
            sparse_indices=[1, 3], output_shape=[5], sparse_values=[1, 2, 3], default_value=-1
        )
    ),
    "default_value should be a scalar": lambda: RAW.SparseToDense(
        sparse_indices=[1, 3], output_shape=[5], sparse_values=[1, 2], default_value=[0]
    ),
    "seq_dim must be >=0": lambda: RAW.ReverseSequence(
        input=[[1, 2], [3, 4]], seq_lengths=[2, 2], seq_dim=-1
    ),
}


REDUCTION_AXES = {
    "Invalid reduction dim.*-33": [-33],
    "Invalid reduction dim.*2 for": [2],
    "Axes contains duplicate dimension": [0, -2],
}


@pytest.mark.parametrize("words", REDUCTION_AXES)
def test_axes_that_no_reduction_has_are_refused_when_they_are_known(words):
    function = tf.function(lambda x, axes: tf.reduce_sum(x, axes), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        function(tf.ones([2, 3]), tf.constant(REDUCTION_AXES[words]))


@pytest.mark.parametrize("words", REFUSED)
def test_a_value_that_does_not_fit_is_refused_in_the_words_of_tensorflows_xla(words):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=words):
        tf.function(REFUSED[words], jit_compile=True)()


def test_a_shape_that_is_not_the_promised_one_is_refused():
    function = tf.function(
        lambda x: tf.ensure_shape(x, [None, 3, 3]),
        jit_compile=True,
        input_signature=[tf.TensorSpec(None, tf.int32)],
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="not compatible with expected shape"):
        function(tf.ones([3, 3], tf.int32))


def test_host_ops_in_branches_and_loops_of_a_compiled_function():
    """A session's graph has a library of its own: what a body calls must be in it."""

    def sorted_by_numpy(x):
        return tf.ensure_shape(tf.numpy_function(np.sort, [x], tf.float32), x.shape)

    @tf.function(jit_compile=True)
    def function(x):
        y = tf.cond(x[0] > 0, lambda: sorted_by_numpy(x) * 2, lambda: x - 1)
        return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, sorted_by_numpy(-y)), [0, y])

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [3], "x")
        y = tf.identity(function(x)[1], "y")
        with tf.compat.v1.Session() as session:
            np.testing.assert_array_equal(session.run(y, {x: [3, 1, 2]}), [2, 4, 6])
            np.testing.assert_array_equal(session.run(y, {x: [-3, 1, 2]}), [-4, 0, 1])
    exported = graph.as_graph_def()
    assert not [item for item in exported.library.function if "_ingot_" in item.signature.name]
    with tf.Graph().as_default():
        tf.import_graph_def(exported, name="")
        with tf.compat.v1.Session() as session:
            np.testing.assert_array_equal(session.run("y:0", {"x:0": [3, 1, 2]}), [2, 4, 6])
