# SPDX-License-Identifier: Apache-2.0
"""LAPACK targets on batches of small matrices, which are computed in lanes.

What they give back is compared with the matrices, to a few times the unit roundoff; values with
those of NumPy in f64.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.calls import call, matrices

from ingot.hlo.dtype import dtype
from ingot.runtime.foreign.lapack.lanes.groups import IN_LANES, MOST_ROWS
from ingot.runtime.native import num_threads, set_num_threads

BATCH = 21
"""A group and a part of one in f32, two groups and a part in f64."""

pytestmark = pytest.mark.fast_share(6)
each_element = pytest.mark.parametrize("element", ["f32", "f64"])
each_size = pytest.mark.parametrize(
    "size", [(1, 1), (2, 2), (3, 3), (5, 3), (3, 5), (8, 8), (17, 17), (24, 7), (7, 24), (32, 32)]
)


def code(text: str) -> str:
    """Return the attribute value of a character."""
    return f"{ord(text)} : ui8"


def transposed(x: Any) -> Any:
    return x.swapaxes(-1, -2)


def assert_near(element: str, found: Any, wanted: Any, scale: Any = 1.0) -> None:
    """Assert a difference of some units roundoff of the scale, a number or one for each matrix."""
    epsilon = np.finfo(dtype(element).numpy).eps
    difference = np.abs(found.astype(np.float64) - wanted).reshape(len(found), -1)
    assert (difference <= 60 * epsilon * np.reshape(scale, (-1, 1))).all()


def assert_orthogonal(element: str, q: Any) -> None:
    assert_near(element, transposed(q).astype(np.float64) @ q, np.eye(q.shape[-1]))


def norms(x: Any) -> Any:
    """Return the largest singular value of each matrix."""
    return np.linalg.svd(x.astype(np.float64), compute_uv=False)[:, 0]


def singular(element: str, x: Any, mode: str) -> tuple[Any, ...]:
    """Return singular values, left and right vectors, and statuses."""
    (batch, m, n), k = x.shape, min(x.shape[1:])
    u, vt = ((m, m), (n, n)) if mode == "A" else ((m, k), (k, n))
    shapes = [(element, (batch, *dims)) for dims in ((m, n), (k,), u, vt)]
    config = f"{{mode = {code(mode)}}}"
    _, s, *rest = call("gesdd", element, config, x, None, *shapes, ("s32", (batch,)))
    return s, *rest


def eigen(element: str, x: Any, mode: str = "V", uplo: str = "L") -> tuple[Any, Any, Any]:
    """Return eigenvectors, eigenvalues and statuses."""
    config = f"{{mode = {code(mode)}, uplo = {code(uplo)}}}"
    shapes = ((element, x.shape), (element, x.shape[:2]), ("s32", x.shape[:1]))
    found = call("syevd", element, config, x, None, *shapes)
    return found[0], found[1], found[2]


def check_singular(element: str, x: Any, mode: str) -> None:
    """Check that a decomposition is one of `x`, with values in order."""
    s, u, vt, info = singular(element, x, mode)
    k = s.shape[1]
    size = np.maximum(norms(x), np.finfo(np.float64).tiny)
    assert_near(element, s, np.linalg.svd(x.astype(np.float64), compute_uv=False), size)
    assert (np.diff(s) <= 0).all()
    assert not info.any()
    if mode != "N":
        product = (u[..., :k].astype(np.float64) * s[:, None]) @ vt[:, :k]
        assert_near(element, product, x, size)
        assert_orthogonal(element, u)
        assert_orthogonal(element, transposed(vt))


@each_element
@each_size
@pytest.mark.parametrize("mode", "ASN")
def test_singular_values(element: str, size: tuple[int, int], mode: str) -> None:
    check_singular(element, matrices(element, (BATCH, *size)), mode)


@each_element
@pytest.mark.parametrize("size", [(4, 4), (9, 5), (5, 9)])
def test_singular_vectors_of_matrices_without_full_rank(
    element: str, size: tuple[int, int]
) -> None:
    x = matrices(element, (BATCH, *size))
    x[0] = 0
    x[1, :, 1:] = 0
    x[2] = x[2, :, :1] * np.arange(1, size[1] + 1)
    x[3] = np.eye(*size)
    x[4] = 1
    x[5, :2] = 0
    check_singular(element, x, "A")


@each_element
def test_numbers_near_the_ends_of_the_range(element: str) -> None:
    info = np.finfo(dtype(element).numpy)
    x = matrices(element, (BATCH, 5, 5))
    largest = np.abs(x).max(axis=(1, 2), keepdims=True)
    for scale in (float(info.max) / 8, float(info.tiny) * 4, float(info.smallest_subnormal) * 64):
        scaled = (x / largest * scale).astype(x.dtype)
        wanted = np.linalg.svd(scaled.astype(np.longdouble).astype(np.float64), compute_uv=False)
        values = singular(element, scaled, "S")[0].astype(np.float64)
        small = float(info.smallest_subnormal)
        assert (np.abs(values - wanted) <= 40 * info.eps * wanted[:, :1] + 2 * small).all()
        packed, tau = call(
            "geqrf", element, "", scaled, None, (element, x.shape), (element, (BATCH, 5))
        )
        (q,) = call("orgqr", element, "", packed, tau, None, (element, x.shape))
        assert_orthogonal(element, q)
        product = q.astype(np.float64) @ np.triu(packed)
        bound = 40 * info.eps * np.abs(scaled).max() + 8 * small
        assert np.abs(product - scaled).max() <= bound


@each_element
@each_size
def test_qr(element: str, size: tuple[int, int]) -> None:
    (m, n), k = size, min(size)
    x = matrices(element, (BATCH, m, n))
    x[1, :, 0] = 0
    x[2, 1:] = 0
    packed, tau = call("geqrf", element, "", x, None, (element, x.shape), (element, (BATCH, k)))
    (q,) = call("orgqr", element, "", packed[..., :k].copy(), tau, None, (element, (BATCH, m, k)))
    assert_orthogonal(element, q)
    assert_near(element, q.astype(np.float64) @ np.triu(packed)[:, :k], x, norms(x))


@each_element
@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 32, 48])
@pytest.mark.parametrize("uplo", "LU")
def test_eigenvectors(element: str, n: int, uplo: str) -> None:
    x = matrices(element, (BATCH, n, n))
    x = x + transposed(x)
    x[0] = 0
    x[1] = np.eye(n) * 3
    x[2] = 1
    x[3] = np.diag(np.arange(n)[::-1] - n // 2)
    half = np.tril(x) if uplo == "L" else np.triu(x)
    vectors, values, info = eigen(element, half, uplo=uplo)
    size = norms(x)
    assert_near(element, values, np.linalg.eigvalsh(x.astype(np.float64)), size)
    assert (np.diff(values) >= 0).all()
    assert_orthogonal(element, vectors)
    wide = vectors.astype(np.float64)
    assert_near(element, x @ wide - wide * values[:, None], np.zeros(x.shape), size)
    assert not info.any()
    np.testing.assert_array_equal(eigen(element, half, "N", uplo)[1], values)


@each_element
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_matrix_that_is_not_finite_changes_no_other(element: str, bad: float) -> None:
    x = matrices(element, (BATCH, 6, 6))
    x = x + transposed(x)
    good = [eigen(element, x)[:2], singular(element, x, "S")[:3]]
    x[4, 2, 2] = bad
    vectors, values, info = eigen(element, x)
    s, u, vt, status = singular(element, x, "S")
    others = np.arange(BATCH) != 4
    for found, before in zip((vectors, values, s, u, vt), itertools.chain(*good), strict=True):
        np.testing.assert_array_equal(found[others], before[others])
    assert np.isnan(values[4]).all()
    assert np.flatnonzero(info).tolist() == np.flatnonzero(status).tolist() == [4]
    assert status[4] == -4


@each_element
@each_size
def test_lu(element: str, size: tuple[int, int]) -> None:
    (m, n), k = size, min(size)
    x = matrices(element, (BATCH, m, n))
    x[1] = 0
    x[2, :, -1] = x[2, :, 0]
    shapes = ((element, x.shape), ("s32", (BATCH, k)), ("s32", (BATCH,)))
    packed, pivots, info = call("getrf", element, "", x, None, *shapes)
    lower = np.tril(packed[..., :k], -1) + np.eye(m, k)
    product = lower.astype(np.float64) @ np.triu(packed)[:, :k]
    for number in range(BATCH):
        rows = np.arange(m)
        for row, other in enumerate(pivots[number]):
            rows[[row, other - 1]] = rows[[other - 1, row]]
        assert_near(element, product[number, rows.argsort()][None], x[number], norms(x)[number])
        assert (np.abs(np.tril(packed[number], -1)) <= 1).all()
    assert info[1] == 1
    assert not info[3:].any()


@each_element
@pytest.mark.parametrize("n", [1, 3, 8, 32, 48])
@pytest.mark.parametrize("uplo", "LU")
def test_cholesky(element: str, n: int, uplo: str) -> None:
    x = matrices(element, (BATCH, n, n))
    x = (x @ transposed(x) + n * np.eye(n)).astype(x.dtype)
    x[3, -1, -1] = -1
    config = f"{{uplo = {code(uplo)}}}"
    found, info = call("potrf", element, config, x, None, (element, x.shape), ("s32", (BATCH,)))
    factor = np.tril(found) if uplo == "L" else transposed(np.triu(found))
    good = np.arange(BATCH) != 3
    wide = factor[good].astype(np.float64)
    assert_near(element, wide @ transposed(wide), x[good], norms(x[good]))
    assert info.tolist() == [0, 0, 0, n, *[0] * (BATCH - 4)]
    other = np.triu_indices(n, 1) if uplo == "L" else np.tril_indices(n, -1)
    np.testing.assert_array_equal(found[:, other[0], other[1]], x[:, other[0], other[1]])


@each_element
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("turned", "NTC")
@pytest.mark.parametrize("diag", "NU")
def test_triangular_solutions(element: str, side: str, uplo: str, turned: str, diag: str) -> None:
    n = 7 if side == "L" else 4
    t = matrices(element, (BATCH, n, n)) / 8 + np.eye(n, dtype=dtype(element).numpy)
    y = matrices(element, (BATCH, 7, 4))
    config = (
        f"{{side = {code(side)}, uplo = {code(uplo)}, trans_x = {code(turned)}, "
        f"diag = {code(diag)}}}"
    )
    (x,) = call("trsm", element, config, t.astype(y.dtype), y, None, (element, y.shape))
    a = (np.tril if uplo == "L" else np.triu)(t.astype(np.float64))
    if diag == "U":
        a[:, range(n), range(n)] = 1
    a = a if turned == "N" else transposed(a)
    product = a @ x if side == "L" else x @ a
    assert_near(element, product, y, 8 * np.abs(x).max(axis=(1, 2)))


def run(routine: str, x: Any) -> tuple[Any, ...]:
    """Return all results of a routine on square symmetric positive definite matrices."""
    batch, n = x.shape[:2]
    if routine == "gesdd":
        return singular("f64", x, "A")
    if routine == "syevd":
        return eigen("f64", x)
    if routine == "trsm":
        config = (
            f"{{side = {code('L')}, uplo = {code('L')}, trans_x = {code('N')}, diag = {code('N')}}}"
        )
        return call("trsm", "f64", config, x, x, None, ("f64", x.shape))
    if routine == "geqrf":
        return call("geqrf", "f64", "", x, None, ("f64", x.shape), ("f64", (batch, n)))
    if routine == "orgqr":
        packed, tau = run("geqrf", x)
        return call("orgqr", "f64", "", packed, tau, None, ("f64", x.shape))
    more = [("s32", (batch, n))] if routine == "getrf" else []
    config = "" if routine == "getrf" else f"{{uplo = {code('L')}}}"
    return call(routine, "f64", config, x, None, ("f64", x.shape), *more, ("s32", (batch,)))


@pytest.mark.parametrize("routine", sorted(IN_LANES))
@pytest.mark.parametrize("n", [6, MOST_ROWS])
def test_a_result_depends_on_its_matrix_alone(routine: str, n: int) -> None:
    """Not on the other matrices of its group, nor on the number of threads."""
    x = matrices("f64", (200, n, n))
    x = x @ transposed(x) + n * np.eye(n)
    before = num_threads()
    set_num_threads(1)
    try:
        whole = run(routine, x)
    finally:
        set_num_threads(before)
    for some in (np.arange(200), np.arange(3, 14), np.arange(199, 100, -7), np.full(8, 111)):
        for found, expected in zip(run(routine, x[some].copy()), whole, strict=True):
            np.testing.assert_array_equal(found, expected[some])


@pytest.mark.parametrize("size", [(0, 3), (3, 0), (0, 0)])
def test_empty_matrices(size: tuple[int, int]) -> None:
    x = matrices("f32", (BATCH, *size))
    s, u, vt, info = singular("f32", x, "A")
    assert (s.size, info.any()) == (0, False)
    np.testing.assert_array_equal(u, np.broadcast_to(np.eye(size[0]), u.shape))
    np.testing.assert_array_equal(vt, np.broadcast_to(np.eye(size[1]), vt.shape))


@pytest.mark.parametrize("batch", [BATCH, 1], ids=["in lanes", "one by one"])
def test_a_part_has_the_bits_of_the_whole(batch: int):
    """A divided call says how many matrices all parts have."""
    x = np.random.default_rng(0).normal(size=(BATCH, 5, 5)).astype(np.float32)[:batch]
    shapes = (("f32", x.shape), ("f32", x.shape[:2]))
    whole = call("geqrf", "f32", "{}", x, None, *shapes)
    parts = [("f32", (1, *dims[1:])) for _, dims in shapes]
    for row in range(batch):
        part = call(
            "geqrf", "f32", f"{{whole_batch = {batch} : i64}}", x[row : row + 1], None, *parts
        )
        for found, wanted in zip(part, whole, strict=True):
            np.testing.assert_array_equal(found[0], wanted[row])
