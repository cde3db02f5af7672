# SPDX-License-Identifier: Apache-2.0
"""Operands whose rank TensorFlow does not know when it traces: a wrong one is the user's error."""

import re

import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import check

# What is done with `x`, the shape of `x` at the call, and TensorFlow's words.
WRONG_RANKS = {
    "matmul": (lambda x: tf.matmul(x, x), [3], "ndims must be >= 2"),
    "concat": (lambda x: tf.concat([x, tf.ones([2])], 0), [2, 2], "Ranks of all input tensors"),
    "stack": (lambda x: tf.stack([x, tf.ones([2])]), [2, 2], "Shapes of all inputs must match"),
    "bias": (lambda x: tf.nn.bias_add(x, tf.ones([2])), [], "Input tensor must be at least 2D"),
    "top_k": (lambda x: tf.math.top_k(x, 2), [], "input must be >= 1-D"),
    "slice": (lambda x: tf.slice(x, [0, 0], [1, 1]), [2], "size 1"),
    "index": (lambda x: x[0, 0], [2], "[Ii]ndex out of range|strided"),
    "diagonal": (tf.linalg.diag_part, [2], "input must be at least 2-dim"),
    "unstack": (lambda x: tf.unstack(x, 2), [], "axis = 0 not in"),
    "blocks": (lambda x: tf.nn.space_to_depth(x, 2), [2], "Input rank should be"),
    "permutation": (
        lambda x: tf.math.invert_permutation(tf.cast(x, tf.int32)),
        [],
        "invert_permutation expects a 1D vector",
    ),
    "range": (tf.range, [2], "limit must be a scalar"),
    "transform": (tf.signal.rfft2d, [4], "rank of at least 2"),
    "bias_of_a_vector": (
        lambda x: tf.nn.bias_add(x, tf.ones([2])),
        [2],
        "Input tensor must be at least 2D",
    ),
    "folded": (lambda x: tf.raw_ops.ListDiff(x=x, y=[1.0]), [], "x should be a 1D vector"),
}


@pytest.mark.parametrize("name", WRONG_RANKS)
def test_a_wrong_rank_is_told_in_both_words(name):
    function, dims, words = WRONG_RANKS[name]
    spec = [tf.TensorSpec(None, tf.float32)]
    compiled = tf.function(function, jit_compile=True, autograph=False, input_signature=spec)
    with pytest.raises(tf.errors.InvalidArgumentError) as found:
        compiled(tf.ones(dims))
    text = str(found.value)
    theirs = re.search(words, text)
    ours = text.find("error[INGOT0312]")
    assert theirs is not None, text
    assert theirs.start() < ours, text


def test_a_wrong_rank_behind_a_node_of_unknown_rank():
    def function(x):
        return tf.matmul(tf.abs(x), tf.reshape(x, tf.shape(x)))

    spec = [tf.TensorSpec(None, tf.float32)]
    compiled = tf.function(function, jit_compile=True, autograph=False, input_signature=spec)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ndims must be >= 2"):
        compiled(tf.ones([3]))
    assert compiled(tf.ones([2, 2])).shape == (2, 2)


# The same, where TensorFlow's kernel ends the process or takes a vector that TensorFlow does not.
TOLD_BY_INGOT = {
    "condition": (
        lambda x: tf.cond(x > 0, lambda: 1.0, lambda: 2.0),
        [2],
        "must be a scalar.*rank 1",
    ),
    "conv2d": (lambda x: tf.nn.conv2d(x, tf.ones([3, 3, 3, 4]), 1, "SAME"), [3], "rank 4"),
    "conv3d": (
        lambda x: tf.nn.conv3d(x, tf.ones([3, 3, 3, 3, 4]), [1] * 5, "SAME"),
        [3],
        "rank 5",
    ),
    "depthwise": (
        lambda x: tf.nn.depthwise_conv2d(x, tf.ones([3, 3, 3, 4]), [1] * 4, "SAME"),
        [3],
        "rank 4",
    ),
    "filter": (lambda x: tf.nn.conv2d(tf.ones([1, 4, 4, 3]), x, 1, "SAME"), [3], "rank 4"),
    "gradient": (
        lambda x: tf.raw_ops.Conv2DBackpropInput(
            input_sizes=[1, 4, 4, 3],
            filter=tf.ones([3, 3, 3, 4]),
            out_backprop=x,
            strides=[1] * 4,
            padding="SAME",
        ),
        [3],
        "rank 4",
    ),
    "pool_gradient": (
        lambda x: tf.raw_ops.AvgPoolGrad(
            orig_input_shape=[1, 4, 4, 3],
            grad=x,
            ksize=[1, 2, 2, 1],
            strides=[1, 2, 2, 1],
            padding="SAME",
        ),
        [3],
        "rank 4",
    ),
    "pool3d": (lambda x: tf.nn.max_pool3d(x, 2, 2, "VALID"), [2, 2, 2, 2], "rank 5"),
    "normalized": (
        lambda x: tf.raw_ops.LRNGrad(
            input_grads=tf.ones([2] * 4), input_image=tf.ones([2] * 4), output_image=x
        ),
        [2],
        "rank 4",
    ),
    "scattered": (
        lambda x: tf.tensor_scatter_nd_max(x, tf.zeros([2, 2, 2], tf.int32), x[0]),
        [2, 2],
        "Must have updates.shape",
    ),
    "any_convolution": (
        lambda x: tf.raw_ops.Conv(
            input=tf.ones([1, 4, 4, 3]), filter=x, strides=[1] * 4, padding="SAME"
        ),
        [2, 2, 2, 2, 2],
        "do not fit Conv",
    ),
    "limits": (
        lambda x: tf.raw_ops.QuantizeAndDequantizeV3(
            input=tf.ones([2]), input_min=x, input_max=tf.ones([]), num_bits=8
        ),
        [2, 2],
        "at most rank 1",
    ),
    "quantized": (
        lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(
            x, tf.zeros([3]), tf.ones([3])
        ),
        [],
        "at least rank 1",
    ),
}


@pytest.mark.parametrize("name", TOLD_BY_INGOT)
def test_a_wrong_rank_does_not_end_the_process(name):
    function, dims, words = TOLD_BY_INGOT[name]
    spec = [tf.TensorSpec(None, tf.float32)]
    compiled = tf.function(function, jit_compile=True, autograph=False, input_signature=spec)
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"(?s)INGOT0312.*{words}"):
        compiled(tf.ones(dims))


def test_what_tensorflow_takes_for_a_scalar():
    spec = [tf.TensorSpec(None, tf.float32)]
    compiled = tf.function(tf.range, jit_compile=True, autograph=False, input_signature=spec)
    assert compiled(tf.constant([3.0])).numpy().tolist() == [0.0, 1.0, 2.0]
    assert compiled(tf.constant(2.0)).numpy().tolist() == [0.0, 1.0]


def test_gradients_of_branches_that_remember_values_of_unknown_rank():
    """What one branch remembers has a stand-in of unknown rank in the other; nobody reads it."""

    def program(jit):
        @tf.function(
            jit_compile=jit,
            input_signature=[tf.TensorSpec(None, tf.bool)] * 2 + [tf.TensorSpec(None)] * 2,
        )
        def slopes(outer, inner, x, y):
            def nested():
                return tf.cond(inner, lambda: tf.tanh(x) * y * 2.0, lambda: tf.exp(x) * 5.0)

            chosen = tf.cond(outer, lambda: tf.zeros_like(x), nested)
            return tf.gradients(chosen, [x, y], unconnected_gradients="zero")

        return [
            slopes(outer, inner, x, x + 1.0)
            for outer in (True, False)
            for inner in (True, False)
            for x in (tf.constant(0.5), tf.constant([0.5, -2.0]), tf.zeros([2, 0]))
        ]

    check(program)
