# SPDX-License-Identifier: Apache-2.0
"""Activations, losses, normalisation, scans, diagonals, blocks, sorting, special functions."""

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.lowering.checking import (
    check,
    gradient_of,
    numbers,
    specs_of,
    trace,
)

from ingot.support.diagnostics import ExecutionError

RAW = tf.raw_ops
X = numbers(4, 6)
LABELS = np.array([0, 5, 2, 2], np.int32)
IMAGE = numbers(2, 4, 6, 4)


ACTIVATIONS = {
    "relu": tf.nn.relu,
    "relu6": lambda x: tf.nn.relu6(x * 5),
    "elu": tf.nn.elu,
    "selu": tf.nn.selu,
    "leaky_relu": lambda x: tf.nn.leaky_relu(x, 0.3),
    "softplus": lambda x: tf.nn.softplus(x * 30),
    "softsign": tf.nn.softsign,
    "gelu": tf.nn.gelu,
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "silu": tf.nn.silu,
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "l2_loss": tf.nn.l2_loss,
    "l2_normalize": lambda x: tf.nn.l2_normalize(x, -1),
    "erf": tf.math.erf,
}


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_and_their_gradients(name):
    check(ACTIVATIONS[name], X, tolerance=1e-5)
    check(gradient_of(ACTIVATIONS[name]), X, tolerance=1e-5)


def test_cross_entropies_and_their_gradients():
    def dense(x):
        return tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(LABELS, 6), x)

    def sparse(x):
        return tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, x)

    def sigmoid(x):
        return tf.nn.sigmoid_cross_entropy_with_logits(tf.one_hot(LABELS, 6), x)

    for loss in (dense, sparse, sigmoid):
        check(loss, X * 9, tolerance=1e-5)
        check(gradient_of(loss), X * 9, tolerance=1e-5)


def test_a_label_that_is_no_class_gives_nan():
    program = check(
        lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x), X, LABELS, tolerance=1e-5
    )
    (losses,), _ = program.evaluate([X, np.array([0, 6, -1, 2], np.int32)])
    np.testing.assert_array_equal(np.isnan(losses), [False, True, True, False])


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layout", ["NHWC"])
def test_batch_norm_and_its_gradient(training, layout):
    def norm(x, scale):
        return RAW.FusedBatchNormV3(
            x=x, scale=scale, offset=scale * 2, mean=scale * 0.1, variance=tf.abs(scale),
            epsilon=1e-3, exponential_avg_factor=0.9, is_training=training, data_format=layout,
        )  # fmt: skip

    scale = np.abs(numbers(4)) + 0.5
    check(lambda x, s: tuple(norm(x, s))[:3], IMAGE, scale, tolerance=2e-5)

    def gradient(x, s):
        with tf.GradientTape() as tape:
            tape.watch([x, s])
            y = tf.reduce_sum(norm(x, s).y ** 3)
        return tape.gradient(y, [x, s])

    check(gradient, IMAGE, scale, tolerance=2e-3)


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
def test_scans(exclusive, reverse):
    flags = {"exclusive": exclusive, "reverse": reverse}
    for op in (tf.cumsum, tf.math.cumprod, tf.math.cumulative_logsumexp):
        for axis, sizes in ((1, (3, 11)), (0, (5, 3)), (1, (3, 0)), (0, (1, 2))):
            check(lambda x, op=op, axis=axis: op(x, axis, **flags), numbers(*sizes), tolerance=1e-5)
        check(lambda x, op=op: op(x, 1, **flags), numbers(3, 11), open_sizes=True, tolerance=1e-5)
    check(lambda x: tf.cumsum(x, 0, **flags), numbers(7, 2, dtype=np.int32))


UNUSUAL = {
    "nothing first": [-np.inf, -np.inf, -200.0, 1.0, 2.0],
    "far apart": [1000.0, 2.0, -1000.0, 1e38, 3.0],
    "far below": [-1e38, -1e38, 5.0, -3e38, 3e38],
    "infinity": [1.0, -np.inf, np.inf, 3.0, np.inf],
    "NaN": [1.0, np.inf, np.nan, -np.inf, 2.0],
    "rising": [-90.0, 88.0, 89.0, 200.0, 201.0],
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_cumulative_log_sums_of_unusual_numbers(name):
    """TensorFlow's kernel drops NaN and makes NaN of two infinities; here sums are what they are.

    Source of what is wanted: NumPy, in f64.
    """
    x = np.array([UNUSUAL[name]], np.float32)
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.accumulate(x.astype(np.float64), 1).astype(np.float32)
    (found,), _ = trace(
        lambda x: tf.math.cumulative_logsumexp(x, 1), [tf.TensorSpec(x.shape)]
    ).evaluate([x])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    backwards, _ = trace(
        lambda x: tf.math.cumulative_logsumexp(x, 1, reverse=True), [tf.TensorSpec([None, None])]
    ).evaluate([x[:, ::-1]])
    np.testing.assert_allclose(backwards[0][:, ::-1], wanted, rtol=1e-6)


DIAGONALS = {
    "diag": lambda x: tf.linalg.tensor_diag(x[0]),
    "diag_part": lambda x: tf.linalg.tensor_diag_part(x[:, :4]),
    "matrix_diag": tf.linalg.diag,
    "matrix_diag_k": lambda x: tf.linalg.diag(x, k=-1, padding_value=7.0),
    "matrix_diag_band": lambda x: tf.linalg.diag(x[:3], k=(-1, 1), num_rows=6, num_cols=6),
    "matrix_diag_part": tf.linalg.diag_part,
    "matrix_diag_part_k": lambda x: tf.linalg.diag_part(x, k=2),
    "matrix_diag_part_band": lambda x: tf.linalg.diag_part(x, k=(-2, 3), padding_value=9.0),
    "matrix_diag_part_left": lambda x: tf.linalg.diag_part(x, k=(-2, 1), align="LEFT_RIGHT"),
    "set_diag": lambda x: tf.linalg.set_diag(x, x[:, 0]),
    "set_diag_band": lambda x: tf.linalg.set_diag(x, tf.ones([3, 4]), k=(0, 2)),
    "band_part": lambda x: tf.linalg.band_part(x, 1, 2),
    "band_part_all": lambda x: tf.linalg.band_part(x, -1, 0),
    "trace": tf.linalg.trace,
    "cross": lambda x: tf.linalg.cross(x[:, :3], x[:, 3:]),
    "eye": lambda x: tf.eye(4, 6) + x,
    "one_hot": lambda x: tf.one_hot(tf.cast(x * 2, tf.int32), 4, on_value=2.0, off_value=-1.0),
    "one_hot_axis": lambda x: tf.one_hot(tf.cast(x * 2, tf.int32), 4, axis=1),
}


@pytest.mark.parametrize("name", sorted(DIAGONALS))
def test_diagonals(name):
    check(DIAGONALS[name], X)


BLOCKS = {
    "depth_to_space": lambda x: tf.nn.depth_to_space(x, 2),
    "space_to_depth": lambda x: tf.nn.space_to_depth(x, 2),
    "space_to_batch": lambda x: tf.space_to_batch(x, [2, 3], [[1, 1], [0, 0]]),
    "batch_to_space": lambda x: tf.batch_to_space(x, [1, 2], [[0, 1], [1, 0]]),
}


@pytest.mark.parametrize("name", sorted(BLOCKS))
def test_blocks(name):
    check(BLOCKS[name], IMAGE)


SORTING = {
    "top_k": lambda x: tf.math.top_k(x, 3),
    "top_k_ties": lambda x: tf.math.top_k(tf.round(x) + 0.0, 4),
    "sort": lambda x: tf.sort(x, axis=-1),
    "sort_down": lambda x: tf.sort(x, axis=0, direction="DESCENDING"),
    "argsort": lambda x: tf.argsort(x, axis=1, stable=True),
    "in_top_k": lambda x: tf.math.in_top_k(LABELS, x, 2),
    "searchsorted": lambda x: tf.searchsorted(tf.sort(x), x * 0.5),
    "searchsorted_right": lambda x: tf.searchsorted(tf.sort(x), x, side="right"),
    "bucketize": lambda x: RAW.Bucketize(input=x, boundaries=[-1.0, 0.0, 0.5]),
    "bincount": lambda x: RAW.DenseBincount(
        input=LABELS, size=7, weights=tf.zeros([0], tf.float32) + x[0, :0]
    ),
}


@pytest.mark.parametrize("name", sorted(SORTING))
def test_sorting(name):
    check(SORTING[name], X)


SPECIAL = {
    "lgamma": lambda x: tf.math.lgamma(x * 4 + 0.013),
    "digamma": lambda x: tf.math.digamma(x * 4 + 0.013),
    "erfinv": lambda x: tf.math.erfinv(tf.tanh(x)),
    "ndtri": lambda x: tf.math.ndtri(tf.sigmoid(x * 3)),
    "nextafter": lambda x: tf.math.nextafter(x, tf.sign(x) * 0.5),
    "nextafter_zero": lambda x: tf.math.nextafter(x * 0, x),
}


@pytest.mark.parametrize("name", sorted(SPECIAL))
def test_special_functions(name):
    check(SPECIAL[name], X, tolerance=0.0 if name.startswith("next") else 2e-5)


INDEXING = {
    "gather": lambda x: tf.gather(x, [[3, 1], [0, 0]]),
    "gather_axis": lambda x: tf.gather(x, [5, 0, 1], axis=1),
    "gather_batch": lambda x: tf.gather(
        x, tf.constant([[1, 0], [2, 2], [5, 4], [0, 3]]), batch_dims=1
    ),
    "gather_batch_axis": lambda x: tf.gather(
        tf.stack([x, -x], 1), tf.constant([[1], [2], [5], [0]]), axis=2, batch_dims=1
    ),
    "gather_nd": lambda x: tf.gather_nd(x, [[0, 1], [3, 5]]),
    "gather_nd_rows": lambda x: tf.gather_nd(x, [[[2]], [[0]]]),
    "gather_nd_batch": lambda x: tf.gather_nd(x, [[1], [2], [3], [0]], batch_dims=1),
    "scatter_nd": lambda x: tf.scatter_nd([[1], [6], [1], [0]], x, [8, 6]),
    "tensor_update": lambda x: tf.tensor_scatter_nd_update(x, [[0, 1], [2, 2]], [9.0, 8.0]),
    "tensor_add": lambda x: tf.tensor_scatter_nd_add(x, [[0, 1], [0, 1]], [9.0, 8.0]),
    "tensor_sub": lambda x: tf.tensor_scatter_nd_sub(x, [[3]], x[:1]),
    "tensor_max": lambda x: tf.tensor_scatter_nd_max(x, [[3]], x[:1]),
    "tensor_min": lambda x: tf.tensor_scatter_nd_min(x, [[3]], x[:1]),
    "segment_sum": lambda x: tf.math.unsorted_segment_sum(x, [2, 0, 2, -1], 4),
    "segment_max": lambda x: tf.math.unsorted_segment_max(x, [2, 0, 2, 1], 4),
    "segment_min": lambda x: tf.math.unsorted_segment_min(x, [2, 0, 2, 1], 4),
    "segment_prod": lambda x: tf.math.unsorted_segment_prod(x, [2, 0, 2, 1], 4),
    "segment_mean": lambda x: tf.math.unsorted_segment_mean(x, [2, 0, 2, 1], 4),
    "embedding": lambda x: tf.nn.embedding_lookup(x, [[1, 2], [3, 0]]),
}


@pytest.mark.parametrize("name", sorted(INDEXING))
def test_indexing(name):
    check(INDEXING[name], X, tolerance=1e-5)


def test_gradient_of_an_embedding():
    check(gradient_of(lambda x: tf.convert_to_tensor(tf.gather(x, [1, 1, 3])) ** 2), X)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64])
@pytest.mark.parametrize("open_sizes", [False, True])
def test_an_index_out_of_range_is_an_error(open_sizes, dtype):
    program = check(lambda x, i: tf.gather(x, i), X, np.array([1, 2], dtype), open_sizes=open_sizes)
    for wrong in ([-1, 2], [0, 4]):
        with pytest.raises(ExecutionError, match="indices are not in"):
            program.evaluate([X, np.array(wrong, dtype)])


def test_short_indices_into_a_long_tensor():
    """TensorFlow's own kernel refuses it."""
    places = np.array([1, 32767], np.int16)
    program = trace(lambda i: tf.gather(tf.range(40000), i), specs_of([places]))
    np.testing.assert_array_equal(program.evaluate([places])[0][0], places)


def test_index_vectors_out_of_range():
    places = np.array([[0, 5], [3, 0]], np.int32)
    program = check(lambda x, i: tf.gather_nd(x, i), X, places)
    for wrong in ([[0, 6], [1, 1]], [[0, 0], [-1, 1]]):
        with pytest.raises(ExecutionError, match=r"do not index into param shape \[4,6\]"):
            program.evaluate([X, np.array(wrong, np.int32)])
    check(
        lambda x, i: tf.gather_nd(x, i, bad_indices_policy="IGNORE"),
        X,
        np.array([[0, 6], [1, 1], [-1, 0]], np.int32),
    )


def test_index_vectors_into_nothing():
    empty = np.zeros([0, 3], np.float32)
    check(lambda x, i: tf.gather_nd(x, i), empty, np.zeros([0, 2], np.int32))
    check(lambda x, i: tf.gather_nd(x, i), empty, np.zeros([4, 0, 1], np.int32))
    wrong = np.zeros([1, 2], np.int32)
    program = trace(lambda x, i: tf.gather_nd(x, i), specs_of([empty, wrong]))
    with pytest.raises(ExecutionError, match="Requested more than 0 entries, but params is empty"):
        program.evaluate([empty, wrong])


SCATTERS = {
    "tensor": lambda i: tf.tensor_scatter_nd_add(X, i[:, None], X[:2]),
    "nd": lambda i: RAW.ScatterNd(
        indices=i[:, None], updates=X[:2], shape=[4, 6], bad_indices_policy="ERROR"
    ),
    "unsorted": lambda i: tf.math.unsorted_segment_sum(X[:2], i, 4),
    "sorted": lambda i: tf.math.segment_sum(X[:2], i),
    "sparse_sorted": lambda i: tf.sparse.segment_sum(X, [0, 1], i, num_segments=4),
    "sparse_gradient": lambda i: RAW.SparseSegmentSumGrad(
        grad=X[:2], indices=i, segment_ids=[0, 1], output_dim0=4
    ),
    "sparse_to_dense": lambda i: RAW.SparseToDense(
        sparse_indices=i, output_shape=[4], sparse_values=X[0, :2], default_value=0.0
    ),
    "partition": lambda i: tf.dynamic_partition(X[:2], i, 4)[1],
    "stitch": lambda i: tf.dynamic_stitch([i], [X[:2]]),
}
FITS = {"sorted": [[5, 4]], "sparse_sorted": [[2, 1], [1, 4]], "stitch": []}
"""Indices that are wrong besides negative ones; [1, 4] where nothing is said."""


@pytest.mark.parametrize("name", sorted(SCATTERS))
def test_a_scatter_to_an_index_out_of_range_is_an_error(name):
    program = check(SCATTERS[name], np.array([1, 2], np.int32), tolerance=1e-6)
    wrong = FITS.get(name, [[1, 4]]) + ([] if name == "unsorted" else [[-1, 2]])
    for indices in wrong:
        with pytest.raises(ExecutionError):
            program.evaluate([np.array(indices, np.int32)])
        with pytest.raises(tf.errors.InvalidArgumentError):
            SCATTERS[name](tf.constant(indices))


LAYOUTS = {
    "stitch": lambda x: tf.dynamic_stitch([[0, 3], [2, 1]], [x[:2], x[2:]]),
    "reverse_sequence": lambda x: tf.reverse_sequence(x, [3, 1, 6, 0], seq_axis=1, batch_axis=0),
    "reverse_sequence_time": lambda x: tf.reverse_sequence(
        tf.stack([x, -x], 2), [3, 1, 4, 0, 2, 1], seq_axis=0, batch_axis=1
    ),
    "inverse_permutation": lambda x: tf.math.invert_permutation(tf.argsort(x[1])),
    "conjugate_transpose": lambda x: tf.linalg.adjoint(tf.complex(x, x * 2)),
    "dim_map": lambda x: RAW.DataFormatDimMap(x=tf.cast(x, tf.int32) % 4 - 2),
    "vec_permute": lambda x: RAW.DataFormatVecPermute(x=tf.cast(x[:, 0] * 9, tf.int32)),
    "mirror_gradient": gradient_of(
        lambda x: tf.pad(x, [[1, 2], [3, 0]], mode="REFLECT") ** 2
    ),
    "symmetric_gradient": gradient_of(
        lambda x: tf.pad(x, [[1, 2], [3, 6]], mode="SYMMETRIC") ** 2
    ),
    "to_bool": lambda x: tf.cond(tf.cast(x[0, 0], tf.bool), lambda: x + 1, lambda: x - 1),
    "einsum_gradient": gradient_of(lambda x: tf.einsum("ij,kj->ik", x, x)),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_layouts(name):
    check(LAYOUTS[name], X, tolerance=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("element", [np.float32, np.float64, np.float16, np.int8, np.int64])
def test_the_nth_element_of_each_row(element, reverse):
    rows = np.random.default_rng(0).integers(-9, 9, (3, 2, 7)).astype(element)
    for n in (0, 3, 6):
        check(lambda x, n=n: RAW.NthElement(input=x, n=n, reverse=reverse), rows)
        check(lambda x, n=n: RAW.NthElement(input=x, n=n, reverse=reverse), rows, open_sizes=True)
    check(lambda x: RAW.NthElement(input=x, n=1, reverse=reverse), np.zeros((0, 3), element))
    check(lambda x: RAW.NthElement(input=x, n=2, reverse=reverse), rows[0, 0])


def test_the_gradient_of_the_nth_element():
    check(gradient_of(lambda x: RAW.NthElement(input=x, n=2, reverse=False)), X)


@pytest.mark.parametrize("kind", ["Sum", "Mean", "SqrtN"])
@pytest.mark.parametrize("element", [np.float16, np.float32, np.float64])
def test_gradients_of_chosen_rows_are_those_of_the_rows_alone(kind, element):
    def gradient(g, i, segments):
        return getattr(RAW, f"SparseSegment{kind}GradV2")(
            grad=g, indices=i, segment_ids=segments, dense_output_dim0=9
        )

    g, segments = numbers(3, 2, 5).astype(element), np.array([0, 0, 1, 2, 2, 2], np.int32)
    for i in ([4, 1, 4, 8, 1, 0], [3] * 6, [0, 1, 2, 3, 4, 5]):
        check(gradient, g, np.array(i, np.int64), segments)
    program = check(gradient, g, np.array([5, 5, 5, 8, 8, 0], np.int32), segments)
    with pytest.raises(ExecutionError):
        program.evaluate([g, np.array([9, 0, 0, 0, 0, 0], np.int32), segments])


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_the_gradient_of_a_sparse_embedding(combiner):
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 3, 1], tf.int64), [3, 4])

    def gradient(table):
        with tf.GradientTape() as tape:
            tape.watch(table)
            y = tf.nn.embedding_lookup_sparse(table, ids, None, combiner=combiner) ** 2
        return tape.gradient(y, table)

    check(gradient, X)
