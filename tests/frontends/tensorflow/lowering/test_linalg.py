# SPDX-License-Identifier: Apache-2.0
"""Linear algebra against TensorFlow: what is unique, or factors put together again."""

from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops
from tests.frontends.tensorflow.lowering.checking import check, numbers, trace

import ingot.client.compilation  # noqa: F401  (registers the custom-call targets for the evaluator)
from ingot.support.diagnostics import ExecutionError

TYPES = [np.float32, np.float64, np.complex64, np.complex128]
each_type = pytest.mark.parametrize("dtype", TYPES)
LOOSE = {np.float32: 2e-4, np.complex64: 2e-4, np.float64: 1e-10, np.complex128: 1e-10}


def matrices(dtype, *dims):
    x = numbers(*dims).astype(dtype)
    return x + 1j * numbers(*dims, seed=5).astype(dtype) if np.dtype(dtype).kind == "c" else x


def positive(dtype, n=4):
    x = matrices(dtype, 2, n, n)
    return (x @ np.conj(np.swapaxes(x, -1, -2)) + n * np.eye(n)).astype(dtype)


def assert_same(function, dtype, *operands, **more):
    check(function, *operands, tolerance=LOOSE[dtype], **more)


@each_type
@pytest.mark.parametrize("n", [1, 2, 5, 17, 37])
def test_square_root(dtype, n):
    assert_same(tf.linalg.sqrtm, dtype, positive(dtype, n))
    if n > 5:
        # Eigenvalues are complex, and 2x2 blocks of the real Schur form lie across its halves.
        assert_same(
            tf.linalg.sqrtm, dtype, matrices(dtype, 2, n, n) + 2 * n * np.eye(n, dtype=dtype)
        )


@each_type
@pytest.mark.parametrize("n", [3, 20])
def test_square_root_of_singular_matrices(dtype, n):
    """Two eigenvalues of 0 have no root by the Schur form: NaN, for that matrix alone."""
    twice, once = (np.diag([0] * count + [4] * (n - count)) for count in (n - 1, 1))
    assert_same(tf.linalg.sqrtm, dtype, np.stack([once, twice]).astype(dtype))


@each_type
def test_square_root_of_what_has_complex_eigenvalues(dtype):
    turn = np.kron(np.eye(2), [[0.6, -0.8], [0.8, 0.6]]) + np.triu(np.full((4, 4), 0.3), 2)
    assert_same(tf.linalg.sqrtm, dtype, np.stack([turn, turn.T]).astype(dtype))


@each_type
def test_square_root_of_what_has_negative_eigenvalues(dtype):
    """A real matrix with a negative real eigenvalue has no real root: all NaN, for it alone."""
    turn = np.array([[0.6, -0.8, 0], [0.8, 0.6, 0], [0, 0, 2]])
    flipped = turn * np.array([1, 1, -1])[:, None]
    general = turn @ np.diag([2.0, -1.0, 3.0]) + 0.1
    assert_same(tf.linalg.sqrtm, dtype, np.stack([turn, flipped, general]).astype(dtype))
    assert_same(tf.linalg.sqrtm, dtype, np.array([[[-4.0]], [[4.0]]], dtype))


@each_type
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_banded_triangular_solve(dtype, count, lower, adjoint):
    bands = matrices(dtype, 3, count, 6)
    bands[:, 0 if lower else -1] += 3
    assert_same(
        lambda a, b: tf.linalg.banded_triangular_solve(a, b, lower=lower, adjoint=adjoint),
        dtype, bands, matrices(dtype, 6, 2),
    )  # fmt: skip


def test_banded_matrices_that_are_singular():
    program = trace(
        tf.linalg.banded_triangular_solve,
        [tf.TensorSpec([2, 4], tf.float32), tf.TensorSpec([4, 1], tf.float32)],
    )
    with pytest.raises(ExecutionError, match="not invertible"):
        program.evaluate([np.zeros((2, 4), np.float32), np.ones((4, 1), np.float32)])


@each_type
def test_cholesky(dtype):
    assert_same(tf.linalg.cholesky, dtype, positive(dtype))
    if np.dtype(dtype).kind == "f":  # TensorFlow gives whatever memory held for complex numbers
        # ... and above the diagonal.
        assert_same(
            lambda a: tf.linalg.band_part(tf.linalg.cholesky(a), -1, 0), dtype, -positive(dtype)
        )


@each_type
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_solve(dtype, lower, adjoint):
    assert_same(
        lambda a, b: tf.linalg.triangular_solve(a, b, lower=lower, adjoint=adjoint),
        dtype, positive(dtype), matrices(dtype, 2, 4, 3),
    )  # fmt: skip


def test_triangular_solve_broadcasts():
    assert_same(
        tf.linalg.triangular_solve, np.float32, positive(np.float32)[:1, None], numbers(3, 4, 2)
    )


@each_type
@pytest.mark.parametrize("adjoint", [False, True])
def test_solve_and_inverse(dtype, adjoint):
    a = matrices(dtype, 2, 4, 4)
    assert_same(lambda a, b: tf.linalg.solve(a, b, adjoint), dtype, a, matrices(dtype, 2, 4, 3))
    assert_same(lambda a: tf.linalg.inv(a, adjoint), dtype, a)


def rows_of(x):
    return x[..., 0]


@each_type
def test_lu_and_determinants(dtype):
    def together(a):
        # LAPACK and Eigen call other complex numbers the greatest, so pivots may differ.
        lu, rows = tf.linalg.lu(a)
        lower = tf.linalg.set_diag(tf.linalg.band_part(lu, -1, 0), tf.ones_like(rows_of(lu)))
        product = lower @ tf.linalg.band_part(lu, 0, -1)
        return tf.gather(product, tf.argsort(rows), batch_dims=1)

    a = matrices(dtype, 3, 5, 5)
    assert_same(together, dtype, a)
    if np.dtype(dtype).kind == "f":
        assert_same(tf.linalg.lu, dtype, a)
    assert_same(tf.linalg.det, dtype, a)
    assert_same(tf.linalg.slogdet, dtype, a)


def test_determinant_of_a_singular_matrix():
    assert_same(tf.linalg.det, np.float64, np.ones((2, 3, 3)))


@each_type
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dims", [(5, 3), (3, 5), (4, 4)])
def test_qr(dtype, full, dims):
    def together(a):
        q, r = tf.linalg.qr(a, full_matrices=full)
        return q @ r, tf.matmul(q, q, adjoint_a=True), tf.abs(q), tf.abs(r)

    assert_same(together, dtype, matrices(dtype, 2, *dims))


@each_type
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("dims", [(5, 3), (3, 5)])
def test_svd(dtype, full, dims):
    def together(a):
        s, u, v = tf.linalg.svd(a, full_matrices=full)
        least = min(dims)
        product = u[..., :least] * tf.cast(s, u.dtype)[..., None, :]
        return s, tf.matmul(product, v[..., :least], adjoint_b=True), tf.shape(u), tf.shape(v)

    a = matrices(dtype, 2, *dims)
    assert_same(together, dtype, a)
    assert_same(lambda a: tf.linalg.svd(a, compute_uv=False), dtype, a)


@pytest.mark.parametrize("dims", [(2, 0, 3), (2, 3, 0), (0, 3, 2)])
@pytest.mark.parametrize("is_open", [False, True])
def test_svd_of_nothing(dims, is_open):
    specs = [tf.TensorSpec([None, None, None])] if is_open else None
    svd = partial(tf.linalg.svd, full_matrices=True)
    assert_same(svd, np.float32, np.zeros(dims, np.float32), specs=specs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_svd_of_infinities_and_nan(dtype, wrong):
    a = np.array([[[1, wrong], [0, 1]], [[2, 0], [0, 1]]], dtype)
    assert_same(lambda a: [tf.abs(part) for part in tf.linalg.svd(a)], dtype, a)


def test_triangular_solve_of_singular_matrices():
    a = np.array([[[1, 0], [2, 0]], [[1, 0], [2, 1]]], np.float32)
    assert_same(tf.linalg.triangular_solve, np.float32, a, numbers(2, 2, 1))


@each_type
def test_hermitian_eigenvalues(dtype):
    def together(a):
        w, v = tf.linalg.eigh(a)
        return w, tf.matmul(v * tf.cast(w, v.dtype)[..., None, :], v, adjoint_b=True)

    assert_same(together, dtype, positive(dtype))
    assert_same(tf.linalg.eigvalsh, dtype, positive(dtype))


@pytest.mark.parametrize("lower", [False, True])
def test_xlas_own_op(lower):
    a = positive(np.float32)

    def function(a):
        return gen_xla_ops.xla_self_adjoint_eig(a, lower=lower, max_iter=9, epsilon=1e-6)

    program = trace(function, [tf.TensorSpec(a.shape)])
    (w, v), _ = program.evaluate([np.tril(a) if lower else np.triu(a)])
    np.testing.assert_allclose((v * w[:, None]) @ np.swapaxes(v, -1, -2), a, atol=1e-4)
    a[0, 0, 0] = np.nan
    (w, v), _ = program.evaluate([a])
    assert np.isnan(w[0]).all()
    assert np.isnan(v[0]).all()
    assert np.isfinite(w[1]).all()


@each_type
def test_eigenvalues(dtype):
    def together(a):
        w, v = tf.linalg.eig(a)
        return tf.sort(tf.abs(w)), tf.abs(tf.cast(a, v.dtype) @ v - v * w[..., None, :])

    assert_same(together, dtype, matrices(dtype, 2, 4, 4))
    assert_same(lambda a: tf.sort(tf.abs(tf.linalg.eigvals(a))), dtype, matrices(dtype, 2, 4, 4))


@each_type
def test_tridiagonal(dtype):
    diagonals = matrices(dtype, 2, 3, 5)
    diagonals[:, 1] += 5
    assert_same(tf.linalg.tridiagonal_solve, dtype, diagonals, matrices(dtype, 2, 5, 3))
    assert_same(tf.linalg.tridiagonal_matmul, dtype, diagonals, matrices(dtype, 2, 5, 3))


def test_gradients():
    def run(a, b):
        with tf.GradientTape() as tape:
            tape.watch((a, b))
            factor = tf.linalg.cholesky(a)
            total = tf.reduce_sum(tf.linalg.solve(a, b) ** 2) + tf.reduce_sum(factor)
            total += tf.reduce_sum(tf.linalg.slogdet(a)[1]) + tf.reduce_sum(tf.linalg.inv(a))
            total += tf.reduce_sum(tf.linalg.eigvalsh(a)) + tf.reduce_sum(tf.linalg.svd(a)[0])
        return tape.gradient(total, (a, b))

    assert_same(run, np.float64, positive(np.float64), numbers(2, 4, 2).astype(np.float64))


@pytest.mark.parametrize("pivots", [False, True])
def test_tridiagonal_solves_of_open_sizes(pivots):
    def solve(diagonals, right):
        return tf.linalg.tridiagonal_solve(diagonals, right, partial_pivoting=pivots)

    specs = [tf.TensorSpec([None, 3, None]), tf.TensorSpec([None, None, None])]
    diagonals = numbers(2, 3, 5) + np.array([[0.0], [9.0], [0.0]], np.float32)
    assert_same(solve, np.float32, diagonals, numbers(2, 5, 3), specs=specs)


def test_open_sizes():
    specs = [tf.TensorSpec([None, None, None]), tf.TensorSpec([None, None, 2])]
    a = positive(np.float32)
    assert_same(tf.linalg.solve, np.float32, a, numbers(2, 4, 2), specs=specs)
    assert_same(tf.linalg.cholesky, np.float32, a, specs=specs[:1])
    assert_same(lambda a: tf.matmul(*tf.linalg.qr(a)), np.float32, a, specs=specs[:1])
    assert_same(lambda a: tf.linalg.svd(a, compute_uv=False), np.float32, a, specs=specs[:1])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (tf.linalg.inv, "Input is not invertible"),
        (tf.linalg.lu, "Input is not invertible"),
        (lambda a: tf.linalg.solve(a, a), "Input matrix is not invertible"),
    ],
)
@pytest.mark.parametrize("first", [0.0, np.nan])
def test_what_tensorflow_refuses(function, message, first):
    a = np.zeros((3, 3), np.float32)
    a[0, 0] = first
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        function(tf.constant(a))
    with pytest.raises(ExecutionError, match=message):
        trace(function, [tf.TensorSpec([3, 3])]).evaluate([a])


@pytest.mark.parametrize(
    ("place", "wrong"),
    [((0, 0), np.nan), ((2, 2), np.nan), ((2, 0), np.nan), ((2, 2), np.inf), ((2, 0), np.inf)],
)
@pytest.mark.parametrize("n", [3, 26])
def test_eigenvalues_of_no_numbers(place, wrong, n):
    """As Eigen does, only the lower triangle counts; a matrix of one element is handed on."""
    a = np.eye(n, dtype=np.float32)
    a[place] = wrong
    for function in (tf.linalg.eigh, tf.linalg.eigvalsh):
        program = trace(function, [tf.TensorSpec([None, None])])
        with pytest.raises(tf.errors.InvalidArgumentError, match="Self-adjoint eigen decomp"):
            function(tf.constant(a))
        with pytest.raises(ExecutionError, match="Self-adjoint eigen decomp"):
            program.evaluate([a])
    upper = np.eye(n, dtype=np.float32)
    upper[0, 1] = wrong
    assert_same(tf.linalg.eigvalsh, np.float32, upper)
    assert_same(tf.linalg.eigvalsh, np.float32, np.full((2, 1, 1), wrong, np.float32))


@each_type
@pytest.mark.parametrize("function", [tf.linalg.inv, lambda a: tf.linalg.solve(a, a)])
def test_not_a_number_behind_the_first_element(function, dtype):
    a = positive(dtype)
    a[0, 3, 3] = np.nan
    assert_same(function, dtype, a)
    open_sizes = [tf.TensorSpec([None, None, None], dtype)]
    assert_same(function, dtype, a, specs=open_sizes)
    assert_same(function, dtype, a[:, :0, :0], specs=open_sizes)


def least_squares(a, b, weight=0.0, fast=True):
    return tf.raw_ops.MatrixSolveLs(
        matrix=a, rhs=b, l2_regularizer=tf.constant(weight, tf.float64), fast=fast
    )


@each_type
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("dims", [(5, 3), (3, 5), (4, 4), (2, 6, 2), (2, 1, 3), (2, 2, 5, 4)])
def test_least_squares(dtype, fast, dims):
    a, b = matrices(dtype, *dims), matrices(dtype, *dims[:-1], 2)
    for weight in (0.0, 0.3) if fast else (0.0,):
        # TensorFlow's own solutions of square systems by normal equations are as loose in f32.
        check(partial(least_squares, weight=weight, fast=fast), a, b, tolerance=20 * LOOSE[dtype])


def test_least_squares_of_deficient_and_of_strange_matrices():
    a = np.outer([1.0, 2, 3, 4], [1.0, -1, 2])
    check(partial(least_squares, fast=False), a, numbers(4, 2).astype(np.float64))
    nan = np.where(np.eye(4, 3) > 0, np.nan, 1.0)
    check(least_squares, nan, numbers(4, 2).astype(np.float64))
    check(least_squares, np.zeros((3, 0)), np.zeros((3, 2)))
    program = trace(least_squares, [tf.TensorSpec(a.shape, tf.float64)] * 2)
    with pytest.raises(ExecutionError, match="Input matrix was rank deficient"):
        program.evaluate([np.zeros((4, 3)), np.zeros((4, 3))])


def test_least_squares_without_equations():
    """TensorFlow gives whatever memory held."""
    specs = [tf.TensorSpec((2, 0, 3), tf.float64), tf.TensorSpec((2, 0, 2), tf.float64)]
    ((found,), _) = trace(least_squares, specs).evaluate([np.zeros((2, 0, 3)), np.zeros((2, 0, 2))])
    np.testing.assert_array_equal(found, np.zeros((2, 3, 2)))


@pytest.mark.parametrize("dims", [(5, 3), (3, 5)])
def test_gradients_of_least_squares(dims):
    def gradient(a, b):
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            y = tf.linalg.lstsq(a, b, l2_regularizer=0.1) ** 2
        return tape.gradient(y, [a, b])

    a, b = numbers(*dims).astype(np.float64), numbers(dims[0], 2).astype(np.float64)
    check(gradient, a, b, tolerance=1e-9)
