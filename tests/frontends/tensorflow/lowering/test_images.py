"""Convolutions, pools and their gradients against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import check, numbers

IMAGE = numbers(2, 7, 8, 4)
FILTER = numbers(3, 2, 4, 6, seed=1)
OPEN = [tf.TensorSpec([None, 7, 8, 4])]


def with_gradients(function):
    """Return a function that gives the value and the gradients for each operand."""

    def run(*operands):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            y = function(*operands)
            total = tf.reduce_sum(y * y)
        return y, *tape.gradient(total, operands)

    return run


@pytest.mark.parametrize("padding", ["SAME", "VALID", [[0, 0], [2, 1], [0, 3], [0, 0]]])
@pytest.mark.parametrize("strides", [1, 2, (3, 1)])
def test_convolution_and_its_gradients(padding, strides):
    check(
        with_gradients(lambda x, k: tf.nn.conv2d(x, k, strides, padding)),
        IMAGE, FILTER, tolerance=2e-4,
    )  # fmt: skip


def test_convolution_with_open_batch_and_dilation():
    specs = [*OPEN, tf.TensorSpec(FILTER.shape)]
    check(
        lambda x, k: tf.nn.conv2d(x, k, 1, "SAME", dilations=2),
        IMAGE, FILTER, specs=specs, tolerance=1e-4,
    )  # fmt: skip
    check(
        with_gradients(lambda x, k: tf.nn.conv2d(x, k, 2, "VALID")),
        IMAGE, FILTER, specs=specs, tolerance=2e-4,
    )  # fmt: skip


def test_grouped_convolution():
    check(lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), IMAGE, numbers(3, 3, 2, 6), tolerance=1e-4)


@pytest.mark.parametrize("strides", [[1, 1, 1, 1], [1, 2, 2, 1]])
def test_depthwise_convolution_and_its_gradients(strides):
    check(
        with_gradients(lambda x, k: tf.nn.depthwise_conv2d(x, k, strides, "SAME")),
        IMAGE, numbers(3, 3, 4, 2), tolerance=2e-4,
    )  # fmt: skip


def test_convolution_of_volumes():
    check(
        with_gradients(lambda x, k: tf.nn.conv3d(x, k, [1, 2, 1, 1, 1], "SAME")),
        numbers(1, 4, 5, 3, 2), numbers(2, 3, 2, 2, 3), tolerance=2e-4,
    )  # fmt: skip


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("op", [tf.nn.max_pool2d, tf.nn.avg_pool2d])
@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 2), (3, 1)])
def test_pools_and_their_gradients(op, size, stride, padding):
    function = with_gradients(lambda x: op(x, size, stride, padding))
    check(function, IMAGE, tolerance=1e-5)
    check(function, IMAGE, specs=OPEN, tolerance=1e-5)


def test_ties_in_a_max_pool_give_the_gradient_to_the_first():
    check(with_gradients(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID")), np.round(IMAGE))
