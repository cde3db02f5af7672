# SPDX-License-Identifier: Apache-2.0
"""Rows that the data decides: what is done with them holds also where there are none, or one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import ingot.tensorflow  # noqa: E402


@pytest.fixture(autouse=True)
def _strict():
    ingot.tensorflow.enable(strict=True)
    yield
    ingot.tensorflow.disable()


def sparse(x: Any) -> Any:
    return tf.sparse.from_dense(tf.nn.relu(x))


def count(rows: Any) -> Any:
    return tf.shape(rows)[0]


MATRICES: dict[str, Callable[[Any], Any]] = {
    "to dense": lambda x: tf.sparse.to_dense(sparse(x), default_value=-1.0),
    "concatenated": lambda x: tf.sparse.to_dense(tf.sparse.concat(0, [sparse(x), sparse(x)])),
    "reshaped": lambda x: tf.sparse.to_dense(tf.sparse.reshape(sparse(x), [-1])),
    "filled": lambda x: tf.sparse.to_dense(tf.sparse.fill_empty_rows(sparse(x), 9.0)[0]),
    "product": lambda x: tf.sparse.sparse_dense_matmul(sparse(x), tf.ones([3, 2])),
}
ROWS: dict[str, Callable[[Any], Any]] = {
    "segments of one": lambda r: tf.math.segment_sum(r, tf.range(count(r))),
    "segments of two": lambda r: tf.math.segment_mean(r, tf.range(count(r)) // 2),
    "greatest in a segment": lambda r: tf.math.segment_max(r, tf.zeros([count(r)], tf.int32)),
    "sparse segments": lambda r: tf.sparse.segment_sum(
        tf.ones([7, 2]), tf.range(count(r)), tf.range(count(r)) // 2
    ),
    "order": lambda r: tf.argsort(r, 0),
    "unique": lambda r: tf.unique_with_counts(r[:, 0]),
    "sums": lambda r: tf.cumsum(r, exclusive=True, reverse=True),
    "factor": lambda r: tf.linalg.cholesky(tf.matmul(r, r, transpose_b=True) + tf.eye(count(r))),
    "loop": lambda r: tf.scan(lambda a, v: a + v, r, initializer=tf.zeros([3])),
    "padded": lambda r: tf.pad(r, [[1, 2], [0, 1]], constant_values=3.0),
    "convolution": lambda r: tf.nn.conv1d(r[None], tf.ones([2, 3, 2]), 1, "SAME"),
    "greatest": lambda r: tf.reduce_max(r, 0),
}


def positive(x: Any) -> Any:
    return tf.boolean_mask(x, x[:, 0] > 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*MATRICES, *ROWS])
def test_any_number_of_rows(name: str) -> None:
    def function(x: Any) -> Any:
        return MATRICES[name](x) if name in MATRICES else ROWS[name](positive(x))

    drawn = np.abs(np.random.default_rng(0).normal(size=(5, 3))).astype(np.float32)
    compiled, plain = tf.function(function, jit_compile=True), tf.function(function)
    for number in (0, 1, 5):
        given = np.where(np.arange(5)[:, None] < number, drawn, -drawn)
        for have, want in zip(*map(tf.nest.flatten, (compiled(given), plain(given))), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("indices", "text"), [([2, 1], "an index is out of order"), ([1, 1], "an index is repeated")]
)
def test_indices_that_do_not_ascend_are_an_error(indices: list[int], text: str) -> None:
    @tf.function(jit_compile=True)
    def dense(indices: Any) -> Any:
        return tf.raw_ops.SparseToDense(
            sparse_indices=indices, output_shape=[4], sparse_values=1.0, default_value=0.0
        )

    np.testing.assert_array_equal(dense(tf.constant([0, 3])), [1, 0, 0, 1])
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        dense(tf.constant(indices))
