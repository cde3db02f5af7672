# SPDX-License-Identifier: Apache-2.0
"""Ops that change the indices of sparse tensors, against TensorFlow's kernels: all are compiled."""

import numpy as np
import pytest
import tensorflow as tf

import ingot.tensorflow

RAW = tf.raw_ops


def drawn(dims, count, element=np.float32, seed=0):
    """Return a sparse tensor of `count` random values."""
    random = np.random.default_rng([seed, count, *dims])
    flat = np.sort(random.choice(int(np.prod(dims)), count, replace=False))
    indices = np.stack(np.unravel_index(flat, dims), 1).astype(np.int64).reshape(-1, len(dims))
    values = random.integers(-9, 9, count) / (1 if np.issubdtype(element, np.integer) else 4)
    return tf.SparseTensor(indices, values.astype(element), dims)


TENSORS = {
    "matrix": drawn((5, 7), 13),
    "cube": drawn((3, 4, 5), 17),
    "full": drawn((2, 3), 6),
    "empty": drawn((4, 3), 0),
    "one": drawn((1, 1), 1),
    "doubles": drawn((5, 7), 11, np.float64),
    "integers": drawn((6, 5), 9, np.int32),
    "vector": drawn((9,), 4),
}


def with_gradient(function):
    def both(s, t):
        with tf.GradientTape() as tape:
            tape.watch(s.values)
            made = function(s, t)
            total = tf.reduce_sum(
                made.values**2 * tf.range(1, 1 + tf.size(made.values), dtype=made.dtype)
            )
        return made, tape.gradient(total, s.values)

    return both


def halves(s, t):
    begin = [size // 2 for size in s.shape]
    return tf.sparse.slice(s, begin, s.shape), tf.sparse.slice(s, [0] * len(begin), begin)


FUNCTIONS = {
    "add": tf.sparse.add,
    "add above a limit": lambda s, t: tf.sparse.add(s, t, 2),
    "concat": lambda s, t: tf.sparse.concat(0, [s, t, s]),
    "concat of columns": lambda s, t: tf.sparse.concat(-1, [s, t]),
    "concat, dense": lambda s, t: tf.sparse.to_dense(tf.sparse.concat(0, [s, t])),
    "fill": lambda s, t: tf.sparse.fill_empty_rows(s, 7),
    "maximum": tf.sparse.maximum,
    "minimum": tf.sparse.minimum,
    "reshape": lambda s, t: tf.sparse.reshape(s, [-1]),
    "reshape to columns": lambda s, t: tf.sparse.reshape(s, [1, -1, 1]),
    "reshape, dense": lambda s, t: tf.sparse.to_dense(tf.sparse.reshape(s, [-1, 1])),
    "slice": halves,
    "split": lambda s, t: tf.sparse.split(s, 1, 0) + tf.sparse.split(t, int(t.shape[-1]), -1),
}
OF_FLOATS = {
    "softmax": lambda s, t: tf.sparse.softmax(s),
    "softmax of nothing else": lambda s, t: tf.sparse.softmax(tf.sparse.retain(s, s.values > 0)),
    **{
        f"gradient of {name}": with_gradient(FUNCTIONS[name])
        for name in ("add", "add above a limit", "reshape")
    },
    "gradient of fill": with_gradient(lambda s, t: tf.sparse.fill_empty_rows(s, 7)[0]),
    "gradient of slice": with_gradient(
        lambda s, t: tf.sparse.slice(s, [size // 3 for size in s.shape], s.shape)
    ),
}


def flatten(results):
    return tf.nest.flatten(results, expand_composites=True)


def assert_same(function, *given):
    compiled, plain = tf.function(function, jit_compile=True), tf.function(function)
    for one, other in zip(flatten(compiled(*given)), flatten(plain(*given)), strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.fixture(autouse=True)
def strict():
    ingot.tensorflow.enable(strict=True)
    yield
    ingot.tensorflow.disable()


def other_of(s):
    """Return a sparse tensor of the same shape, some of whose indices are those of `s`."""
    half = s.values.shape[0] // 2
    kept = tf.SparseTensor(s.indices[:half], -s.values[:half], s.dense_shape)
    extra = drawn(tuple(s.shape), min(3, int(np.prod(s.shape))), s.dtype.as_numpy_dtype, seed=1)
    return tf.sparse.add(kept, extra)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("name", [*FUNCTIONS, *OF_FLOATS])
def test_all_tensors(name, kind):
    s = TENSORS[kind]
    if name in OF_FLOATS and not s.dtype.is_floating:
        pytest.skip("of floats alone")
    if "softmax" in name and kind == "vector":
        pytest.skip("TensorFlow's kernel takes no vectors")
    assert_same({**FUNCTIONS, **OF_FLOATS}[name], s, other_of(s))


@pytest.mark.parametrize(
    "name", ["add", "concat of columns", "fill", "softmax", "gradient of slice"]
)
def test_some(name):
    s = TENSORS["matrix"]
    assert_same({**FUNCTIONS, **OF_FLOATS}[name], s, other_of(s))


def test_rows_in_any_order_are_filled():
    s = TENSORS["matrix"]
    order = np.random.default_rng(0).permutation(s.indices.shape[0])
    assert_same(
        lambda i, v: RAW.SparseFillEmptyRows(
            indices=i, values=v, dense_shape=[8, 7], default_value=-1.0
        ),
        tf.gather(s.indices, order), tf.gather(s.values, order),
    )  # fmt: skip


def test_ragged_rows_are_filled():
    rows = tf.constant([0, 0, 3, 5, 5, 5], tf.int64)

    def filled(rows, values):
        with tf.GradientTape() as tape:
            tape.watch(values)
            found = RAW.RaggedFillEmptyRows(
                value_rowids=rows, values=values, nrows=7, default_value=9.0
            )
            squares = found.output_values**2
        return found, tape.gradient(squares, values)

    assert_same(filled, rows, tf.range(6.0))


def test_a_lookup_that_fills_empty_rows():
    table = tf.Variable(tf.sin(tf.reshape(tf.range(24.0), (8, 3))))

    def run(words, weights):
        with tf.GradientTape() as tape:
            found = tf.nn.safe_embedding_lookup_sparse(
                table, words, weights, combiner="mean", default_id=2
            )
            squares = found**2
        return found, tf.convert_to_tensor(tape.gradient(squares, table))

    words = tf.sparse.from_dense(tf.constant([[3, 1, 0], [0, 0, 0], [7, 0, 2]], tf.int64))
    assert_same(run, words, words.with_values(tf.constant([0.5, 1.0, 2.0, 0.25])))


def test_a_shape_that_the_call_gives():
    s = TENSORS["cube"]

    def run(s, shape, start):
        return tf.sparse.reshape(s, shape), tf.sparse.slice(s, start, s.dense_shape)

    for shape in ([-1, 5, 2], [60, 1, 1], [3, -1, 4]):
        assert_same(run, s, tf.constant(shape, tf.int64), tf.constant([1, 0, 2], tf.int64))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ([-1, -1], "only one output dimension may be -1"),
        ([-2, 5], "must be non-negative"),
        ([-1, 0], "cannot infer the missing input size"),
        ([4, -1], "dense values"),
        ([5, 5], "dense values"),
    ],
)
def test_shapes_that_do_not_fit(shape, text):
    run = tf.function(tf.sparse.reshape, jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        run(TENSORS["matrix"], tf.constant(shape, tf.int64))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        ([2**32, 2**31], "Encountered overflow when multiplying"),
        ([-1, 5], "Expected shape dimensions to be non-negative"),
        ([5], "Input should have rank >= 2"),
        ([5, 5, 5], "Order length must be SparseTensor rank"),
    ],
)
def test_a_softmax_of_no_shape(shape, text):
    s = TENSORS["matrix"]
    spec = [tf.TensorSpec(None, tf.int64)]
    for jit in (None, True):
        run = tf.function(
            lambda n: RAW.SparseSoftmax(sp_indices=s.indices, sp_values=s.values, sp_shape=n),
            jit_compile=jit, input_signature=spec,
        )  # fmt: skip
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            run(tf.constant(shape, tf.int64))


def test_sizes_that_no_integer_counts():
    def joined(n):
        s = TENSORS["matrix"]
        return tf.sparse.concat(0, [tf.SparseTensor(s.indices, s.values, n)] * 2).values

    for jit in (None, True):
        with pytest.raises(tf.errors.InternalError, match="overflow from large input shape"):
            tf.function(joined, jit_compile=jit)(tf.constant([2**32, 2**31], tf.int64))


def test_a_shape_of_another_rank_is_what_the_assertion_says():
    def shape_of(n):
        return tf.sparse.reset_shape(TENSORS["matrix"], n).dense_shape

    spec = [tf.TensorSpec([None], tf.int64)]
    for jit in (None, True):
        inner = tf.function(shape_of, jit_compile=jit, input_signature=spec)
        run = tf.function(lambda n, inner=inner: inner(n) + 1, input_signature=spec)
        with pytest.raises(tf.errors.InvalidArgumentError, match="x == y did not hold"):
            run(tf.constant([7, 8, 9], tf.int64))


def test_operands_of_different_shapes():
    add = tf.function(
        lambda s, t: RAW.SparseAdd(
            a_indices=s.indices, a_values=s.values, a_shape=s.dense_shape,
            b_indices=t.indices, b_values=t.values, b_shape=t.dense_shape + 1, thresh=0.0,
        ),
        jit_compile=True,
    )  # fmt: skip
    with pytest.raises(tf.errors.InvalidArgumentError, match="shapes do not match"):
        add(TENSORS["matrix"], TENSORS["matrix"])


@pytest.mark.parametrize("element", [tf.int32, tf.int64])
def test_coordinates_of_elements(element):
    dims = tf.constant([3, 4, 5], element)
    for numbers in ([0, 59, 17, 59], 23):
        assert_same(tf.unravel_index, tf.constant(numbers, element), dims)
    run = tf.function(tf.unravel_index, jit_compile=True)
    half = 2 ** (element.size * 4)
    for numbers, sizes, text in (
        ([3, 60], [3, 4, 5], "index is out of bound as with dims"),
        ([-1, -2], [half, half], "Input dims product is causing integer overflow"),
        ([-1, -2], [-2, -3], "Input dims cannot be negative"),
        ([-1, -2], [2, 0], "Input dims cannot contain a dim of zero"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            run(tf.constant(numbers, element), tf.constant(sizes, element))


OPEN = ("softmax", "reshape", "concat of columns", "add", "fill", "maximum", "slice of a corner")


@pytest.mark.parametrize("name", OPEN)
def test_tensors_of_any_size(name):
    """One program for all sizes and numbers of values."""
    corner = {"slice of a corner": lambda s, t: tf.sparse.slice(s, [1, 0], [2, 2])}
    function = {**FUNCTIONS, **OF_FLOATS, **corner}[name]
    specs = [tf.SparseTensorSpec([None, None], tf.float32)] * 2
    compiled = tf.function(function, input_signature=specs, jit_compile=True)
    for dims, count in (((3, 4), 5), ((6, 2), 4), ((5, 7), 0)):
        s, t = drawn(dims, count), drawn(dims, 3, seed=1)
        for one, other in zip(flatten(compiled(s, t)), flatten(function(s, t)), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
