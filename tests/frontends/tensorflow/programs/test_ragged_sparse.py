# SPDX-License-Identifier: Apache-2.0
"""Ragged and sparse tensors in compiled functions: what TensorFlow gives, structure included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import ingot.tensorflow  # noqa: E402

ROWS = tf.ragged.constant([[1.0, 2.0, 3.0], [], [4.0, 5.0]])
DEEP = tf.ragged.constant([[[1, 2], [3]], [], [[4], [], [5, 6, 7]]])
PAIRS = tf.RaggedTensor.from_row_splits(tf.reshape(tf.range(12.0), (6, 2)), [0, 2, 2, 6])
NONE = tf.RaggedTensor.from_row_splits(tf.zeros([0]), tf.zeros([1], tf.int64))
CHOICES = tf.ragged.constant([[1, 2], [0], [2, 1]])
MATRIX = tf.sparse.SparseTensor([[0, 1], [1, 0], [2, 3]], [1.0, 2.0, 3.0], [3, 4])
CUBE = tf.sparse.SparseTensor([[1, 0, 2], [0, 1, 1], [1, 0, 0]], [1.5, -2.0, 3.0], [2, 2, 3])
EMPTY = tf.sparse.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0]), [3, 4])
COMPLEX = tf.sparse.map_values(lambda v: tf.complex(v, v * v), MATRIX)
DENSE = tf.reshape(tf.range(12.0), (3, 4))
WORDS = tf.sparse.SparseTensor([[0, 0], [0, 2], [2, 1]], tf.constant([4, 1, 2], tf.int64), [3, 3])


def lookup(combiner: str) -> Callable[[Any], Any]:
    table = tf.sin(tf.reshape(tf.range(15.0), (5, 3)))
    return lambda words: tf.nn.embedding_lookup_sparse(table, words, None, combiner=combiner)


def looked_up_gradient(combiner: str) -> Callable[[Any], Any]:
    def run(table: Any) -> Any:
        found = tf.nn.embedding_lookup_sparse(table, WORDS, None, combiner=combiner)
        return tf.convert_to_tensor(tf.gradients(found**2, table)[0])

    return run


def segments(kind: str, gradient: bool) -> Callable[[Any], Any]:
    function = getattr(tf.sparse, f"segment_{kind}")

    def run(data: Any) -> Any:
        counted = function(data, [0, 2, 2], [0, 2, 2], num_segments=5)
        made = function(data, [0, 2, 2], [0, 2, 2])
        if not gradient:
            return made, counted
        raw = getattr(
            tf.raw_ops, f"SparseSegment{ {'sum': 'Sum', 'mean': 'Mean'}.get(kind, 'SqrtN') }Grad"
        )
        return raw(grad=made, indices=[0, 2, 2], segment_ids=[0, 2, 2], output_dim0=4)

    return run


COMPILED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "ragged argument": (lambda r: r.values * 2, ROWS),
    "ragged result": (lambda r: r * 2, ROWS),
    "deep result": (lambda r: r + 1, DEEP),
    "ragged sum": (lambda r: tf.reduce_sum(r, 1), ROWS),
    "ragged column sums": (lambda r: tf.reduce_sum(r, 0), ROWS),
    "ragged mean": (lambda r: tf.reduce_mean(r, 1), PAIRS),
    "ragged maximum": (lambda r: tf.reduce_max(r, 1), DEEP),
    "ragged sum of all": (lambda r: tf.reduce_sum(r), DEEP),
    "to tensor": (lambda r: r.to_tensor(), ROWS),
    "to tensor of another shape": (lambda r: r.to_tensor(9.0, shape=[None, 2]), ROWS),
    "to tensor of more rows": (lambda r: r.to_tensor(-1.0, shape=[5, 4]), ROWS),
    "deep to tensor": (lambda r: r.to_tensor(), DEEP),
    "deep to tensor, cut": (lambda r: r.to_tensor(7, shape=[2, None, 2]), DEEP),
    "pairs to tensor": (lambda r: r.to_tensor(), PAIRS),
    "pairs to tensor of a vector": (lambda r: r.to_tensor(tf.constant([1.0, 2.0])), PAIRS),
    "nothing to tensor": (lambda r: r.to_tensor(), NONE),
    "row numbers to tensor": (
        lambda i: tf.RaggedTensor.from_value_rowids(tf.range(4.0), i, nrows=6).to_tensor(),
        tf.constant([0, 0, 1, 3]),
    ),
    "deep row numbers to tensor": (
        lambda i: tf.RaggedTensor.from_nested_value_rowids(
            tf.range(4.0), [[0, 1, 1, 3], i], [5, 4]
        ).to_tensor(),
        tf.constant([0, 0, 1, 3]),
    ),
    "from tensor": (lambda x: tf.RaggedTensor.from_tensor(x, padding=0.0), DENSE),
    "from tensor of lengths": (lambda x: tf.RaggedTensor.from_tensor(x, lengths=[1, 0, 3]), DENSE),
    "gather rows": (lambda r: tf.gather(ROWS, r), CHOICES),
    "gather deep rows": (lambda i: tf.gather(DEEP, i), tf.constant([2, 0, 1, 2])),
    "gather matrices of rows": (lambda i: tf.gather(DEEP, i), tf.constant([[2, 0], [1, 2]])),
    "gather pairs": (lambda i: tf.gather(PAIRS, i), tf.constant([2, 1, 0], tf.int64)),
    "gather from nothing": (lambda i: tf.gather(NONE, i), tf.zeros([0], tf.int32)),
    "gather one row": (lambda i: tf.gather(ROWS, i), tf.constant(2)),
    "gather one deep row": (lambda i: tf.gather(DEEP, i), tf.constant(2)),
    "gather nothing": (lambda i: tf.gather(DEEP, i), tf.zeros([0], tf.int32)),
    "row": (lambda r: r[2], ROWS),
    "columns": (lambda r: r[:, 1:], ROWS),
    "last columns": (lambda r: r[:, -2:], DEEP),
    "range": (lambda i: tf.ragged.range(i, i * 2), tf.constant([0, 3, 1, 2])),
    "range with steps": (
        lambda i: tf.ragged.range(i, 10, i - 2),
        tf.constant([0, 3, 1, 12, 4], tf.int64),
    ),
    "range of floats": (
        lambda x: tf.ragged.range(x, 4.0, 0.75),
        tf.constant([0.0, 3.5, 4.0, -1.2]),
    ),
    "one range": (lambda n: tf.ragged.range(n), tf.constant(4)),
    "concat columns": (lambda r: tf.concat([r, r * 2], 1), ROWS),
    "concat rows": (lambda r: tf.concat([r, r * 2], 0), DEEP),
    "stack": (lambda r: tf.ragged.stack([r, r]), ROWS),
    "ragged mask": (lambda r: tf.ragged.boolean_mask(r, r > 2), ROWS),
    "broadcast": (lambda r: r + tf.constant([[1.0], [2.0], [3.0]]), ROWS),
    "choice": (lambda r: tf.where(r > 2, r, -r), ROWS),
    "ragged softmax": (lambda r: tf.nn.softmax(r), ROWS),
    "reverse": (lambda r: tf.reverse(r, [1]), ROWS),
    "to sparse": (lambda r: r.to_sparse(), ROWS),
    "deep to sparse": (lambda r: r.to_sparse(), DEEP),
    "pairs to sparse": (lambda r: r.to_sparse(), PAIRS),
    "from sparse": (
        lambda s: tf.RaggedTensor.from_sparse(s),
        tf.sparse.from_dense([[1.0, 2], [3, 0]]),
    ),
    "ragged gradient": (
        lambda x: tf.gradients(ROWS.with_values(x).to_tensor() ** 3, x),
        tf.range(5.0),
    ),
    "gather gradient": (
        lambda x: tf.gradients(tf.gather(PAIRS.with_values(x), CHOICES).flat_values ** 3, x),
        PAIRS.values,
    ),
    "sparse argument": (lambda s: tf.sparse.to_dense(s), MATRIX),
    "sparse result": (lambda s: s.with_values(s.values * 2), MATRIX),
    "from dense": (lambda x: tf.sparse.from_dense(tf.where(x > 5, x, 0.0)), DENSE),
    "product": (lambda s: tf.sparse.sparse_dense_matmul(s, tf.sin(DENSE), adjoint_b=True), MATRIX),
    "product of the adjoint": (
        lambda s: tf.sparse.sparse_dense_matmul(s, tf.sin(DENSE), adjoint_a=True),
        MATRIX,
    ),
    "complex product": (
        lambda s: tf.sparse.sparse_dense_matmul(
            s, tf.complex(DENSE, DENSE), adjoint_a=True, adjoint_b=False
        ),
        COMPLEX,
    ),
    "empty product": (lambda s: tf.sparse.sparse_dense_matmul(s, DENSE, adjoint_b=True), EMPTY),
    "product's gradients": (
        lambda v: tf.gradients(
            tf.sparse.sparse_dense_matmul(MATRIX.with_values(v), tf.sin(DENSE), adjoint_b=True)
            ** 2,
            v,
        ),
        MATRIX.values,
    ),
    **{
        f"{name} over {axes}": (
            lambda s, f=function, a=axes: (f(s, a), f(s, a, keepdims=True)),
            CUBE,
        )
        for name, function in (("sum", tf.sparse.reduce_sum), ("maximum", tf.sparse.reduce_max))
        for axes in (None, 0, -1, [0, 2], [0, 1, 2])
    },
    "sum of nothing": (lambda s: tf.sparse.reduce_sum(s, 0), EMPTY),
    "reorder": (lambda s: tf.sparse.reorder(s), CUBE),
    "transpose": (lambda s: tf.sparse.transpose(s, [2, 0, 1]), CUBE),
    "sparse and dense sum": (lambda s: tf.sparse.add(s, tf.ones((3, 4))), MATRIX),
    "sparse times number": (lambda s: s * 2.0, MATRIX),
    "sparse times row": (lambda s: s * tf.range(4.0), MATRIX),
    "sparse over dense": (lambda s: s / (tf.ones((3, 4)) * 3), MATRIX),
    "retained": (lambda s: tf.sparse.retain(s, s.values > 1), MATRIX),
    **{
        f"segments {kind}{' gradient' * gradient}": (segments(kind, gradient), DENSE)
        for kind in ("sum", "mean", "sqrt_n")
        for gradient in (False, True)
    },
    **{f"lookup {kind}": (lookup(kind), WORDS) for kind in ("sum", "mean", "sqrtn")},
    **{
        f"lookup gradient {kind}": (looked_up_gradient(kind), tf.sin(tf.ones((5, 3))))
        for kind in ("sum", "mean", "sqrtn")
    },
}
ON_HOST: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "columns": (lambda s: tf.sparse.cross_hashed([s, s], 100), WORDS),
    "map": (lambda r: tf.map_fn(tf.reduce_sum, r, fn_output_signature=tf.float32), ROWS),
}


def check(name: str, function: Callable[[Any], Any], given: Any) -> None:
    have = tf.function(function, jit_compile=True)(given)
    want = tf.function(function)(given)
    assert type(have) is type(want)
    pairs = zip(*(tf.nest.flatten(x, expand_composites=True) for x in (have, want)), strict=True)
    for one, other in pairs:
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


@pytest.fixture
def strict():
    ingot.tensorflow.enable(strict=True)
    yield
    ingot.tensorflow.disable()


@pytest.fixture
def enabled():
    ingot.tensorflow.enable()
    yield
    ingot.tensorflow.disable()


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPILED)
def test_compiled(strict: None, name: str) -> None:
    check(name, *COMPILED[name])


@pytest.mark.parametrize("name", ["deep to tensor", "gather deep rows", "product", "sum over None"])
def test_some_are_compiled(strict: None, name: str) -> None:
    check(name, *COMPILED[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_HOST)
def test_on_the_host(enabled: None, name: str) -> None:
    check(name, *ON_HOST[name])


def test_lengths_are_data(strict: None) -> None:
    """One program for rows of any lengths."""

    @tf.function(jit_compile=True, input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)])
    def dense(r: Any) -> Any:
        return r.to_tensor()

    for rows in ([[1.0], [2.0, 3.0]], [[], [1.0, 2.0, 3.0], [4.0]], [[]]):
        given = tf.ragged.constant(rows, ragged_rank=1, dtype=tf.float32)
        np.testing.assert_array_equal(dense(given), given.to_tensor())


def test_a_range_without_steps_is_an_error(strict: None) -> None:
    steps = tf.function(lambda d: tf.ragged.range(0, 9, d), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Requires delta != 0"):
        steps(tf.constant([1, 0]))


def test_a_row_that_is_not_there_is_an_error(strict: None) -> None:
    rows = tf.function(lambda i: tf.gather(DEEP, i), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices are not in \[0, 3\)"):
        rows(tf.constant([1, 3]))


RAGGED_RANGES = {
    "distances of more than 31 bits": ([1136033460], [-2110457150], [-1849827689], tf.int32),
    "from end to end": ([-(2**31), 5], [2**31 - 1, 5], [2**31 - 1, -1], tf.int32),
    "distances of 64 bits": ([-(2**63)], [2**63 - 1], [2**62], tf.int64),
    "backwards": ([2**63 - 1, 0], [-(2**63), 0], [-(2**62), -1], tf.int64),
    "the other direction": ([0, 5, 5], [3, 7, 9], [-1, 1, -3], tf.int32),
    "none": ([], [], [], tf.int32),
    "fractions": ([0.0, 3.0, 5.0], [3.75, 4.0, -1.0], [0.25, 1.5, -0.5], tf.float32),
}


@pytest.mark.parametrize("name", RAGGED_RANGES)
def test_ragged_ranges(strict: None, name: str) -> None:
    *bounds, dtype = RAGGED_RANGES[name]

    def ranges(given: Any) -> Any:
        starts, limits, deltas = given
        return tf.raw_ops.RaggedRange(starts=starts, limits=limits, deltas=deltas, Tsplits=tf.int64)

    check(name, ranges, [tf.constant(item, dtype) for item in bounds])


REFUSED = {
    "longer than an integer": (
        lambda: tf.ragged.range(0.1, tf.constant(1e10), tf.constant(1e-10)),
        r"Requires \(\(limit - start\) / delta\) <= 9223372036854775807",
    ),
    "no number": (lambda: tf.ragged.range([0.0, 0.0], [3.0, np.nan]), r"Requires \(\(limit"),
    "longer altogether": (
        lambda: tf.raw_ops.RaggedRange(
            starts=[0, 0], limits=[2**31 - 1, 1], deltas=[1, 1], Tsplits=tf.int32
        ),
        "The total range size overflowed",
    ),
    "first split": (lambda: sparse_of([2, 3], [1, 2, 3]), "First value of ragged splits must be 0"),
    "last split": (lambda: sparse_of([0, 5], [1]), "Final value of ragged splits must match"),
    "order": (lambda: sparse_of([0, 2, 1, 3], [1, 2, 3]), "should be non decreasing"),
    "gathered order": (lambda: gathered([0, 2, 1]), "Ragged splits must be sorted"),
    "gathered front": (lambda: gathered([-1, 2, 3]), "Ragged splits must be non-negative"),
    "gathered end": (lambda: gathered([0, 2, 4]), "Ragged splits must not point past values"),
}


def sparse_of(splits: list[int], values: list[int]) -> Any:
    return tf.RaggedTensor.from_row_splits(values, splits, validate=False).to_sparse()


def gathered(splits: list[int]) -> Any:
    ragged = tf.RaggedTensor.from_row_splits([1, 2, 3], splits, validate=False)
    return tf.gather(ragged, [0])


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_kernel_takes_is_tensorflows_error(strict: None, name: str) -> None:
    function, words = REFUSED[name]
    for jit in (None, True):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            tf.function(function, jit_compile=jit, autograph=False)()


NOT_DENSE = {
    "rank": ([0, 3], [3, 3, 3], {}, r"rt_input\.rank = 2 but shape\.rank = 3"),
    "row": (
        [0, 1],
        [1, 1, 4],
        {"values": [[1, 2, 3]]},
        r"rt_input\.shape\[2\] = 3 but shape\[2\] = 4",
    ),
    "default": ([0, 3], -1, {"default": [0]}, r"default_value\.rank = 1  must be less than"),
    "splits": ([0, 3, 1, 3], -1, {}, "Invalid row split size"),
    "rows": ([0, 1, 2], -1, {"parts": [[0, 1, 2, 3]]}, "Row partition size is greater than output"),
    "row numbers": (2, -1, {"parts": [[0, 1, 2]]}, "which is not less than 2"),
}


@pytest.mark.parametrize("name", NOT_DENSE)
def test_rows_that_no_dense_tensor_has(strict: None, name: str) -> None:
    """TensorFlow does not know the shapes when it traces the function."""
    first, shape, more, words = NOT_DENSE[name]
    given = [more.get("values", [1, 2, 3]), more.get("default", 0)]
    parts = [tf.constant(part, tf.int64) for part in more.get("parts", [])]
    kinds = ["ROW_SPLITS"] * (1 + len(parts))
    if isinstance(first, int):
        kinds = ["FIRST_DIM_SIZE"] + ["VALUE_ROWIDS"] * len(parts)

    def dense(first: Any, shape: Any, values: Any, default: Any) -> Any:
        return tf.raw_ops.RaggedTensorToTensor(
            shape=shape, values=values, default_value=default, row_partition_types=kinds,
            row_partition_tensors=[first, *parts],
        )  # fmt: skip

    specs = [tf.TensorSpec(None, kind) for kind in (tf.int64, tf.int64, tf.int32, tf.int32)]
    for jit in (None, True):
        run = tf.function(dense, jit_compile=jit, input_signature=specs)
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            run(first, shape, *given)


def test_no_rows_of_an_unknown_number(strict: None) -> None:
    """The last of no rows is none, not an error."""

    def dense(ids: Any) -> Any:
        kept = tf.boolean_mask(ids, ids > 5)
        ragged = tf.RaggedTensor.from_value_rowids(tf.cast(kept, tf.float32), kept)
        return ragged.nrows(), ragged.to_tensor(shape=[0, None])

    check("no rows", dense, tf.zeros([5], tf.int64))


def test_a_computed_size_that_an_op_does_not_take_is_found_before_a_graph_runs() -> None:
    """Images of a ragged tensor are resized by TensorFlow, in a function that a graph calls."""
    images = [np.random.default_rng(0).random((n, n + 1, 3), np.float32) for n in (2, 5)]
    ragged = tf.ragged.stack(
        [tf.RaggedTensor.from_tensor(image, ragged_rank=2) for image in images]
    )
    spec = [tf.RaggedTensorSpec([None, None, None, None], tf.float32)]

    def program(jit: Any) -> Any:
        resize = tf.function(
            lambda x: tf.image.resize(x, (4, 4)), jit_compile=jit, input_signature=spec
        )
        return tf.function(lambda x: resize(x) * 2.0)(ragged)

    np.testing.assert_allclose(program(True), program(None), rtol=1e-5)
