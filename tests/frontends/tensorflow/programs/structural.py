# SPDX-License-Identifier: Apache-2.0
"""Functions whose argument decides a size, an axis or a structure: what XLA takes as constants.

Each case is a function of data and of one integer tensor `n`, with two values of `n`. Results whose
shape depends on `n` may differ in shape from call to call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

_VECTOR = np.arange(1, 13, dtype=np.float32) / 7
_MATRIX = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6)
_CUBE = np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4)
_IMAGE = np.linspace(0, 1, 2 * 6 * 8 * 3, dtype=np.float32).reshape(2, 6, 8, 3)
_SQUARE = np.linspace(-2, 3, 25, dtype=np.float32).reshape(5, 5)
_INTEGERS = np.array([3, 1, 4, 1, 5, 2, 0, 4], np.int32)
_SEGMENTS = np.array([0, 0, 1, 3, 3, 1, 0, 2], np.int32)


@dataclass(frozen=True)
class Case:
    """A function of `(x, n)`, its data, and the values of `n` that it is called with."""

    name: str
    function: Callable[[Any, Any], Any]
    x: np.ndarray
    values: tuple[Any, ...] = (2, 3)


def _strided_gradient(x: Any, n: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(x[:n] ** 2)
    return tape.gradient(total, x)


def _random(draw: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, n: draw([n, 3]) + x[0]


CASES = (
    Case("range", lambda x, n: tf.range(n), _VECTOR),
    Case("range_step", lambda x, n: tf.range(10, 0, -n), _VECTOR),
    Case("range_float", lambda x, n: tf.range(0.0, tf.cast(n, tf.float32), 0.5), _VECTOR),
    Case("zeros", lambda x, n: tf.zeros([n]) + x[0], _VECTOR),
    Case("ones", lambda x, n: tf.ones([n, 2]) * x[0], _VECTOR),
    Case("fill", lambda x, n: tf.fill([2, n], x[1]), _VECTOR),
    Case("reshape", lambda x, n: tf.reshape(x, [n, -1]), _VECTOR),
    Case("reshape_both", lambda x, n: tf.reshape(x, [n, 12 // n]), _VECTOR),
    Case("head", lambda x, n: x[:n], _VECTOR),
    Case("tail", lambda x, n: x[n:], _VECTOR),
    Case("last", lambda x, n: x[-n:], _VECTOR),
    Case("between", lambda x, n: x[n : n * 3], _VECTOR),
    Case("stride", lambda x, n: x[1:11:n], _VECTOR),
    Case("backwards", lambda x, n: x[9:n:-2], _VECTOR),
    Case("outside", lambda x, n: x[n : n + 4], _VECTOR, (3, 10)),
    Case("slice", lambda x, n: tf.slice(x, [1], [n]), _VECTOR),
    Case("slice_of_column", lambda x, n: x[:, n], _MATRIX),
    Case("roll", lambda x, n: tf.roll(x, n, 0), _VECTOR, (2, -15)),
    Case("roll_axis", lambda x, n: tf.roll(x, 1, n), _CUBE, (0, 2)),
    Case("sum_axis", lambda x, n: tf.reduce_sum(x, n), _CUBE, (0, -1)),
    Case("max_axes", lambda x, n: tf.reduce_max(x, [0, n]), _CUBE, (1, 2)),
    Case("mean_kept", lambda x, n: tf.reduce_mean(x, n, keepdims=True), _CUBE, (1, 2)),
    Case("concat_axis", lambda x, n: tf.concat([x, x], n), _CUBE, (0, 2)),
    Case("split_axis", lambda x, n: tf.split(x, 2, n), _MATRIX, (0, 1)),
    Case("split_sizes", lambda x, n: tf.split(x, [n, 12 - n]), _VECTOR),
    Case("gather_axis", lambda x, n: tf.gather(x, [1, 0], axis=n), _CUBE, (0, 2)),
    Case("argmax_axis", lambda x, n: tf.argmax(x, n), _CUBE, (0, 2)),
    Case("argmin_axis", lambda x, n: tf.argmin(x, n), _CUBE, (1, 2)),
    Case("expand_dims", lambda x, n: tf.expand_dims(x, n), _MATRIX, (0, 2)),
    Case("cumsum_axis", lambda x, n: tf.cumsum(x, n), _CUBE, (0, 2)),
    Case("cumprod_axis", lambda x, n: tf.math.cumprod(x, n), _CUBE, (1, 2)),
    Case("reverse_axis", lambda x, n: tf.reverse(x, [n]), _CUBE, (0, 2)),
    Case("top_k", lambda x, n: tf.math.top_k(x, n), _MATRIX),
    Case("one_hot_depth", lambda x, n: tf.one_hot([0, 2, 1], n) * x[0], _VECTOR, (3, 5)),
    Case("transpose", lambda x, n: tf.transpose(x, [n, 3 - n, 0]), _CUBE, (1, 2)),
    Case("tile", lambda x, n: tf.tile(x, [n, 1]), _MATRIX),
    Case("pad", lambda x, n: tf.pad(x, [[n, 1], [0, n]]), _MATRIX),
    Case("mirror_pad", lambda x, n: tf.pad(x, [[0, n], [n, 0]], "REFLECT"), _MATRIX),
    Case("repeat", lambda x, n: tf.repeat(x, n, axis=0), _MATRIX),
    Case("linspace", lambda x, n: tf.linspace(0.0, x[3], n), _VECTOR, (4, 7)),
    Case("resize", lambda x, n: tf.image.resize(x, [n * 2, n]), _IMAGE, (3, 5)),
    Case("resize_nearest", lambda x, n: tf.image.resize(x, [n, n], "nearest"), _IMAGE, (3, 5)),
    Case("crop", lambda x, n: tf.image.crop_to_bounding_box(x, 1, n, 4, n), _IMAGE),
    Case("eye", lambda x, n: tf.eye(n) * x[0], _VECTOR),
    Case("sequence_mask", lambda x, n: tf.sequence_mask([1, 3, 2], n), _VECTOR, (4, 6)),
    Case("broadcast_to", lambda x, n: tf.broadcast_to(x, [n, 12]), _VECTOR),
    Case("squeeze_of_slice", lambda x, n: tf.squeeze(x[:, n - 2 : n - 1], [1]), _MATRIX, (2, 4)),
    Case("scatter_shape", lambda x, n: tf.scatter_nd([[0], [2]], x[:2], [n]), _VECTOR, (3, 6)),
    Case("scatter_update", lambda x, n: tf.tensor_scatter_nd_update(x[:n], [[1]], [9.0]), _VECTOR),
    Case("meshgrid", lambda x, n: tf.meshgrid(tf.range(n), tf.range(n + 1)), _VECTOR),
    Case("stateless_uniform", _random(lambda s: tf.random.stateless_uniform(s, [1, 2])), _VECTOR),
    Case("stateless_normal", _random(lambda s: tf.random.stateless_normal(s, [1, 2])), _VECTOR),
    Case("band_part", lambda x, n: tf.linalg.band_part(x, n, 1), _SQUARE, (0, 2)),
    Case("diag", lambda x, n: tf.linalg.diag(x, k=n), _MATRIX, (0, 1)),
    Case("diag_part", lambda x, n: tf.linalg.diag_part(x, k=n), _SQUARE, (0, -2)),
    Case("bincount", lambda x, n: tf.math.bincount(x, minlength=n), _INTEGERS, (3, 9)),
    Case(
        "segments",
        lambda x, n: tf.math.unsorted_segment_sum(x[:8], _SEGMENTS, n),
        _VECTOR,
        (4, 6),
    ),
    Case("frame", lambda x, n: tf.signal.frame(x, n, 2), _VECTOR, (4, 5)),
    Case("rfft_length", lambda x, n: tf.math.abs(tf.signal.rfft(x, [n])), _VECTOR, (8, 12)),
    Case("sort_axis", lambda x, n: tf.sort(tf.transpose(x, [n, 1 - n])), _MATRIX, (0, 1)),
    Case("tensordot", lambda x, n: tf.tensordot(x[:n], x[:n], 1), _VECTOR),
    Case("slice_gradient", _strided_gradient, _VECTOR),
    Case("arithmetic", lambda x, n: tf.zeros([tf.maximum(n * 2 - 3, 1), n // 2]) + x[0], _VECTOR),
    Case(
        "float_arithmetic",
        lambda x, n: x[: tf.cast(tf.math.ceil(tf.cast(n, tf.float32) * 1.5), tf.int32)],
        _VECTOR,
    ),
    Case("shape_vector", lambda x, n: tf.reshape(x, n), _VECTOR, ([3, 4], [2, 6])),
    Case("permutation", lambda x, n: tf.transpose(x, n), _CUBE, ([2, 0, 1], [1, 2, 0])),
    Case("axes", lambda x, n: tf.reduce_sum(x, n), _CUBE, ([0, 2], [0, 1])),
    Case("paddings", lambda x, n: tf.pad(x, n), _MATRIX, ([[1, 0], [0, 2]], [[0, 3], [1, 1]])),
)
