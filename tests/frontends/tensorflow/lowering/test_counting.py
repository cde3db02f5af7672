# SPDX-License-Identifier: Apache-2.0
"""Counts, histograms, differences and stitches whose sizes the data decides, against TensorFlow."""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_library
from tests.frontends.tensorflow.lowering.checking import check, numbers, specs_of, trace

from ingot.support.diagnostics import ExecutionError

RAW = tf.raw_ops
COUNTED = np.array([3, 0, 7, 3, 3, 1, 12, 0], np.int32)
WEIGHTS = numbers(8)
TABLE = np.array([[3, 0, 7, 3], [2, 2, 9, 1]], np.int64)
VALUES = np.array([0.5, -1.0, 2.5, 7.0, -0.0, 5.0, np.inf, -np.inf, 4.999], np.float32)
NAN = np.array([1.0, np.nan, -0.0, 2.0, np.nan, 1.0, np.inf], np.float32)
SOME = np.array([np.nan, 0.0, 2.0], np.float32)
EDGES = np.concatenate([[29, 42], np.linspace(29, 42, 24), np.linspace(29, 42, 400)])
"""A range, and numbers at the edges of its bins."""


def dense(size, binary=False, weights=None):
    return lambda x: RAW.DenseBincount(
        input=x, size=tf.constant(size, x.dtype), binary_output=binary,
        weights=tf.zeros([0]) if weights is None else weights,
    )  # fmt: skip


SPLITS = np.array([0, 3, 3, 7, 8], np.int64)
CELLS = np.array([[0, 1], [0, 3], [1, 0], [3, 0], [3, 1], [3, 2], [3, 4], [4, 0]], np.int64)


def ragged(size, binary=False):
    return lambda splits, x, weights: RAW.RaggedBincount(
        splits=splits, values=x, size=tf.constant(size, x.dtype), weights=weights,
        binary_output=binary,
    )  # fmt: skip


def sparse(size, binary=False, dims=(5, 5)):
    return lambda cells, x, weights: RAW.SparseBincount(
        indices=cells, values=x, dense_shape=tf.constant(dims, tf.int64),
        size=tf.constant(size, x.dtype), weights=weights, binary_output=binary,
    )  # fmt: skip


def computed(x):
    return tf.math.bincount(x, minlength=tf.reduce_min(x), maxlength=tf.reduce_max(x))


def histogram(kind=tf.float32, dtype=tf.int32, bins=5):
    return lambda x: tf.histogram_fixed_width(
        tf.cast(x, kind), tf.constant([0, 5], kind), bins, dtype
    )


def stitched(x):
    """Rows of both signs are computed apart and put back."""
    flags = tf.cast(x > 0, tf.int32)
    rows = tf.range(tf.size(x))
    parts, places = tf.dynamic_partition(x, flags, 2), tf.dynamic_partition(rows, flags, 2)
    return tf.dynamic_stitch(places, [parts[0] * 2, parts[1] + 1])


def stitched_rows(x, places):
    return RAW.ParallelDynamicStitch(indices=[places + 0, places[:2] + 3], data=[x, x[:2] * 2])


def stitch_gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(stitched(x) ** 2)
    return tape.gradient(y, x)


CASES = {
    "bincount": (lambda x: RAW.Bincount(arr=x, size=9, weights=tf.zeros([0])), [COUNTED]),
    "bincount_weights": (lambda x, w: RAW.Bincount(arr=x, size=9, weights=w), [COUNTED, WEIGHTS]),
    "computed_size": (computed, [COUNTED]),
    "tf_bincount": (tf.math.bincount, [COUNTED]),
    "dense": (dense(9), [TABLE[0]]),
    "dense_binary": (dense(9, True), [TABLE[0]]),
    "dense_rows": (dense(9), [TABLE]),
    "dense_rows_binary": (dense(9, True), [TABLE]),
    "dense_rows_weights": (dense(9, weights=numbers(2, 4)), [TABLE]),
    "dense_no_rows": (dense(9), [TABLE[:0]]),
    "dense_no_columns": (dense(3), [TABLE[:, :0]]),
    "rows_axis": (lambda x: tf.math.bincount(x, axis=-1), [TABLE]),
    **{
        f"{name}_{size}_{len(weights)}{'_binary' * binary}": (
            kind(size, binary), [places, COUNTED, weights]
        )
        for name, kind, places in (("ragged", ragged, SPLITS), ("sparse", sparse, CELLS))
        for size in (9, 3)
        for weights in (WEIGHTS, WEIGHTS[:0])
        for binary in (False, True)
    },
    "ragged_none": (ragged(3), [SPLITS[:1], COUNTED[:0], WEIGHTS[:0]]),
    "ragged_empty_rows": (ragged(3), [np.zeros(4, np.int64), COUNTED[:0], WEIGHTS[:0]]),
    "ragged_tensor": (
        lambda splits, x: tf.math.bincount(tf.RaggedTensor.from_row_splits(x, splits), axis=-1),
        [SPLITS, COUNTED],
    ),
    "sparse_vector": (sparse(9, dims=(99,)), [CELLS[:, :1] + 5, COUNTED, WEIGHTS]),
    "sparse_tensor": (
        lambda cells, x: tf.math.bincount(
            tf.SparseTensor(cells, x, [5, 5]), minlength=4, maxlength=6, axis=-1
        ),
        [CELLS, COUNTED],
    ),
    "histogram": (histogram(), [VALUES]),
    "histogram_long": (histogram(tf.float64, tf.int64, 4), [VALUES]),
    "histogram_integers": (histogram(tf.int32), [np.array([[3, -7, 99], [0, 5, 4]], np.int32)]),
    "histogram_empty": (histogram(), [VALUES[:0]]),
    **{
        f"histogram_edges_{kind.name}": (
            lambda x: tf.histogram_fixed_width(x, x[:2], 23), [EDGES.astype(kind.as_numpy_dtype)]
        )
        for kind in (tf.float32, tf.float64, tf.int32, tf.int64)
    },
    "histogram_widest": (
        lambda x: tf.histogram_fixed_width(x, x[:2], 7),
        [np.array([-3e38, 3e38, 0, 100, -1e38, 2e38], np.float32)],
    ),
    "histogram_widest_integers": (
        lambda x: tf.histogram_fixed_width(x, x[:2], 7),
        [np.array([-(2**31), 2**31 - 1, 0, 5, -7, 2**30], np.int32)],
    ),
    "difference": (lambda x, y: RAW.ListDiff(x=x, y=y), [COUNTED, COUNTED[[0, 6]]]),
    "difference_floats": (lambda x, y: RAW.ListDiff(x=x, y=y, out_idx=tf.int64), [NAN, SOME]),
    "difference_of_none": (lambda x, y: RAW.ListDiff(x=x, y=y), [NAN[:0], SOME]),
    "difference_to_none": (lambda x, y: RAW.ListDiff(x=x, y=y), [NAN, SOME[:0]]),
    "stitch": (stitched, [WEIGHTS]),
    "stitch_one_side": (stitched, [np.abs(WEIGHTS)]),
    "stitch_none": (stitched, [WEIGHTS[:0]]),
    "stitch_gradient": (stitch_gradient, [WEIGHTS]),
    "stitch_rows": (stitched_rows, [numbers(3, 2), np.array([4, 0, 1], np.int32)]),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CASES))
def test_counts_and_stitches(name):
    function, operands = CASES[name]
    check(function, *operands, tolerance=1e-5)
    if name not in ("dense_no_columns", "difference_of_none", "difference_to_none"):
        check(function, *operands, open_sizes=True, tolerance=1e-5)


@pytest.mark.parametrize(
    ("function", "x", "message"),
    [
        (lambda x: RAW.Bincount(arr=x, size=9, weights=tf.zeros([0])), -COUNTED, "non-negative"),
        (histogram(), NAN, "must not contain NaN"),
        (lambda x: ragged(9)(SPLITS, x, WEIGHTS), -COUNTED, "Input must be non-negative"),
        (lambda x: ragged(9)(SPLITS + 1, x, WEIGHTS), COUNTED, "Splits must start with 0"),
        (lambda x: ragged(9)(SPLITS[:-1], x, WEIGHTS), COUNTED, "Splits must end with"),
        (lambda x: sparse(9)(CELLS, x, WEIGHTS), -COUNTED, "Input arr must be non-negative"),
        (lambda x: sparse(9, dims=(4, 5))(CELLS, x, WEIGHTS), COUNTED, "is out of bounds"),
    ],
)
def test_what_cannot_be_counted_is_an_error(function, x, message):
    program = trace(function, specs_of([x]))
    with pytest.raises(ExecutionError, match=message):
        program.evaluate([x])


def to_sparse(kind, **settings):
    """Return what counts the operands of an op: the last two are the numbers and the weights."""

    def run(*given):
        named = dict(zip(kind.split(), given, strict=True))
        op = "Sparse" if "indices" in named else "Ragged" if "splits" in named else "Dense"
        return tuple(
            getattr(RAW, f"{op}CountSparseOutput")(**{"binary_output": False, **settings, **named})
        )

    return run


NONE = np.zeros(0, np.float32)
DENSE, RAGGED, SPARSE = "values weights", "splits values weights", "indices values weights"
SPARSE_COUNTS = {
    "rows": (to_sparse(DENSE), [TABLE, numbers(2, 4)]),
    "rows_up_to": (to_sparse(DENSE, maxlength=4), [TABLE.astype(np.int32), TABLE]),
    "rows_at_least": (to_sparse(DENSE, minlength=20), [TABLE, TABLE.astype(np.float64)]),
    "rows_binary": (to_sparse(DENSE, binary_output=True, maxlength=3), [TABLE, numbers(2, 4)]),
    "vector": (to_sparse(DENSE), [COUNTED, NONE]),
    "vector_of_none": (to_sparse(DENSE, minlength=2, maxlength=1), [COUNTED + 1, WEIGHTS]),
    "ragged": (to_sparse(RAGGED), [SPLITS, COUNTED, NONE]),
    "ragged_up_to": (to_sparse(RAGGED, maxlength=4), [SPLITS, COUNTED, WEIGHTS]),
    "sparse": (to_sparse(SPARSE, dense_shape=[5, 5]), [CELLS, COUNTED, NONE]),
    "sparse_up_to": (to_sparse(SPARSE, dense_shape=[5, 5], maxlength=2), [CELLS, COUNTED, WEIGHTS]),
    "sparse_vector": (to_sparse(SPARSE, dense_shape=[9]), [SPLITS[:, None], SPLITS, NONE]),
}


@pytest.mark.parametrize("name", SPARSE_COUNTS)
def test_sparse_counts_are_those_of_tensorflow(name):
    function, inputs = SPARSE_COUNTS[name]
    check(function, *inputs)


def test_what_has_no_sparse_counts_is_an_error():
    for function, inputs, message in (
        (to_sparse(DENSE), [COUNTED - 1, NONE], "Input values must all be non-negative"),
        (to_sparse(RAGGED), [SPLITS + 1, COUNTED, NONE], "Splits must start with 0"),
        (to_sparse(RAGGED), [SPLITS[:3], COUNTED, NONE], "Splits must end with"),
        (to_sparse(SPARSE, dense_shape=[3, 5]), [CELLS, COUNTED, NONE], "out of bounds"),
    ):
        program = trace(function, specs_of(inputs))
        with pytest.raises(ExecutionError, match=message):
            program.evaluate(inputs)


@pytest.mark.parametrize("kind", [tf.int8, tf.int16, tf.int32])
@pytest.mark.parametrize("source", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
def test_casts_at_random(source, kind):
    def cast(x):
        key, counter = RAW.StatelessRandomGetKeyCounter(seed=[7, 3])
        return op_def_library.apply_op(
            "StochasticCastToInt",
            input=tf.cast(x, source), key=key, counter=counter, alg=1, Tout=kind,
        )  # fmt: skip

    x = np.array([3.0, -4.0, 0.0, np.nan, -np.inf, -1e30], np.float32)
    check(cast, x)
    if float(tf.cast(kind.max, source).numpy()) == float(kind.max):
        # Where the greatest integer is no number of the source, TensorFlow's kernel overflows.
        check(cast, -x)
    (most,), _ = trace(cast, specs_of([x])).evaluate([-x])
    np.testing.assert_array_equal(most, [-3, 4, 0, 0, kind.max, kind.max])
    x = np.repeat(np.array([2.25, -2.25], np.float32), 2000)
    (got,), _ = trace(cast, specs_of([x])).evaluate([x])
    assert set(got[:2000]) == {2, 3}
    assert set(got[2000:]) == {-3, -2}
    np.testing.assert_allclose(got.reshape(2, 2000).mean(1), [2.25, -2.25], atol=0.05)
