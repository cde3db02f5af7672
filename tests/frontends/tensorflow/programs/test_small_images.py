# SPDX-License-Identifier: Apache-2.0
"""Windows over images that turn out too small: the error of TensorFlow's kernels, or no window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

FILTER = tf.ones([3, 3, 2, 4])
SIGNATURE = [tf.TensorSpec([1, None, None, 2], tf.float32)]
NEGATIVE = "Computed output size would be negative"

OPS: dict[str, Callable[[Any, int], Any]] = {
    "conv2d": lambda x, stride: tf.nn.conv2d(x, FILTER, stride, "VALID"),
    "depthwise": lambda x, stride: tf.nn.depthwise_conv2d(
        x, FILTER[..., :1], [1, stride, stride, 1], "VALID"
    ),
    "max_pool": lambda x, stride: tf.nn.max_pool2d(x, 3, stride, "VALID"),
    "average_pool": lambda x, stride: tf.nn.avg_pool2d(x, 3, stride, "VALID"),
    "argmax": lambda x, stride: tf.nn.max_pool_with_argmax(x, 3, stride, "VALID")[0],
    "patches": lambda x, stride: tf.image.extract_patches(
        x, [1, 3, 3, 1], [1, stride, stride, 1], [1, 1, 1, 1], "VALID"
    ),
    "dilation": lambda x, stride: tf.nn.dilation2d(
        x, FILTER[..., 0], [1, stride, stride, 1], "VALID", "NHWC", [1, 1, 1, 1]
    ),
}


def compiled(op: Callable[[Any, int], Any], stride: int) -> Any:
    return tf.function(lambda x: op(x, stride), input_signature=SIGNATURE, jit_compile=True)


@pytest.mark.parametrize("name", OPS)
def test_a_window_that_is_too_large(name: str) -> None:
    """Between, the same function runs: a refused call says nothing of others."""
    run = compiled(OPS[name], 1)
    assert run(tf.ones([1, 5, 4, 2])).shape[1:3] == (3, 2)
    for sizes in ((1, 1), (5, 1), (1, 4)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"(?s){NEGATIVE}: -1.*Ingot"):
            run(tf.ones([1, *sizes, 2]))
    assert run(tf.ones([1, 6, 3, 2])).shape[1:3] == (4, 1)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize(("stride", "size"), [(1, 2), (2, 2), (2, 1), (2, 0)])
def test_no_window(name: str, stride: int, size: int) -> None:
    """Less than two strides too small: TensorFlow's kernels without oneDNN give no window."""
    if (name, size) == ("argmax", 0):
        pytest.skip("TensorFlow refuses empty images there")
    assert compiled(OPS[name], stride)(tf.ones([1, size, size, 2])).shape[1:3] == (0, 0)


@pytest.mark.parametrize("pads", [0, 1, 2])
def test_explicit_padding(pads: int) -> None:
    """Seven taps on one pixel: with 2 pixels around it two too few are missing."""
    around = [[0, 0], [pads, pads], [pads, pads], [0, 0]]
    large = tf.ones([7, 7, 2, 4])
    run = compiled(lambda x, stride: tf.nn.conv2d(x, large, stride, around), 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{NEGATIVE}: {2 * pads - 5}"):
        run(tf.ones([1, 1, 1, 2]))
    assert run(tf.ones([1, 8 - 2 * pads, 8, 2])).shape[1] == 2


def test_a_size_that_the_data_decides() -> None:
    def chosen(x: Any) -> Any:
        rows = tf.boolean_mask(x, x[0, :, 0, 0] > 0.0, axis=1)
        return tf.nn.conv2d(rows, FILTER, 1, "VALID")

    run = tf.function(chosen, input_signature=SIGNATURE, jit_compile=True)
    image = tf.concat([tf.ones([1, 4, 5, 2]), -tf.ones([1, 2, 5, 2])], 1)
    assert run(image).shape == (1, 2, 3, 4)
    with pytest.raises(tf.errors.InvalidArgumentError, match=NEGATIVE):
        run(tf.concat([tf.ones([1, 1, 5, 2]), -tf.ones([1, 5, 5, 2])], 1))


def test_in_a_loop_a_variable_stays_as_it_was() -> None:
    total = tf.Variable(0.0)

    @tf.function(input_signature=SIGNATURE, jit_compile=True)
    def run(x: Any) -> None:
        for _ in tf.range(2):
            total.assign_add(tf.reduce_sum(tf.nn.max_pool2d(x, 3, 1, "VALID")))

    run(tf.ones([1, 4, 3, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=NEGATIVE):
        run(tf.ones([1, 4, 1, 2]))
    assert float(total) == 8.0
