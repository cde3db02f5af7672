# SPDX-License-Identifier: Apache-2.0
"""Every LAPACK target, in four element types: what it computes gives back what it was given."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.calls import (
    ELEMENTS,
    adjoint,
    assert_close,
    call,
    complex_of,
    matrices,
    real_of,
    shape,
)

import ingot.client.compilation  # noqa: F401  (registers the targets)
from ingot.hlo.dtype import dtype
from ingot.runtime.foreign.errors import take_error
from ingot.runtime.foreign.lapack.lanes.groups import MOST_ROWS
from ingot.runtime.foreign.lapack.one_thread import thread_imports
from ingot.runtime.foreign.lapack.routines import ROUTINES
from ingot.runtime.foreign.lapack.targets import target_name
from ingot.runtime.native import native_runtime
from ingot.runtime.records import CALL_FRAME
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite
from ingot.support.diagnostics import ExecutionError

pytestmark = pytest.mark.fast_share(24)

BATCHES = ((3,), *(pytest.param(b, marks=pytest.mark.slow) for b in ((), (2, 0), (2, 2))))
each_element = pytest.mark.parametrize("element", ELEMENTS)
each_batch = pytest.mark.parametrize("batch", BATCHES, ids=str)


def code(text: str) -> str:
    """Return the attribute value of a character."""
    return f"{ord(text)} : ui8"


def positive(element: str, batch: tuple[int, ...], n: int) -> Any:
    """Return positive definite matrices."""
    x = matrices(element, (*batch, n, n))
    return (x @ adjoint(x) + n * np.eye(n)).astype(x.dtype)


def test_there_is_a_target_for_each_of_jaxlibs() -> None:
    lapack = pytest.importorskip("jaxlib.cpu._lapack")
    known = set(custom_calls.names())
    missing = [name for name in lapack.registrations() if name not in known]
    assert missing == []
    ours = {"laswp", "trsyl"}
    assert len([row for row in ROUTINES if row.name not in ours]) * len(ELEMENTS) == 60


@each_element
@each_batch
@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("uplo", "LU")
def test_potrf(element: str, batch: tuple[int, ...], n: int, uplo: str) -> None:
    a = positive(element, batch, n)
    config = f"{{uplo = {code(uplo)}}}"
    x, info = call("potrf", element, config, a, None, (element, a.shape), ("s32", batch))
    if uplo == "L":
        factor = np.tril(x)
        assert_close(element, factor @ adjoint(factor), a)
    else:
        factor = np.triu(x)
        assert_close(element, adjoint(factor) @ factor, a)
    assert not info.any()


@each_element
def test_potrf_says_which_minor_is_not_positive(element: str) -> None:
    a = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0])]).astype(dtype(element).numpy)
    config = f"{{uplo = {code('L')}}}"
    _, info = call("potrf", element, config, a, None, (element, a.shape), ("s32", (2,)))
    assert info.tolist() == [0, 2]


@each_element
@each_batch
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 5), (4, 4), (1, 1), (0, 3)])
def test_getrf(element: str, batch: tuple[int, ...], m: int, n: int) -> None:
    a = matrices(element, (*batch, m, n))
    k = min(m, n)
    shapes = ((element, a.shape), ("s32", (*batch, k)), ("s32", batch))
    x, pivots, info = call("getrf", element, "", a, None, *shapes)
    lower = np.tril(x[..., :k], -1) + np.eye(m, k)
    product = lower @ np.triu(x[..., :k, :])
    for index in np.ndindex(*batch):
        rows = np.arange(m)
        for place, other in enumerate(pivots[index]):
            rows[[place, other - 1]] = rows[[other - 1, place]]
        assert_close(element, product[index], a[index][rows])
    assert not info.any()


@each_element
@each_batch
@pytest.mark.parametrize(("m", "n", "k"), [(5, 3, 5), (4, 1, 2), (1, 4, 1), (3, 0, 3), (0, 2, 0)])
def test_laswp(element: str, batch: tuple[int, ...], m: int, n: int, k: int) -> None:
    """Exchanges in order, and the same backward, which gives the matrix back."""
    x = matrices(element, (*batch, m, n))
    pivots = np.random.default_rng(1).integers(1, max(m, 1) + 1, (*batch, k)).astype(np.int32)
    wanted = x.copy()
    for index in np.ndindex(*batch):
        for place, other in enumerate(pivots[index]):
            wanted[index][[place, other - 1]] = wanted[index][[other - 1, place]]
    config = f"{{order = {code('F')}}}"
    (made,) = call("laswp", element, config, x, pivots, None, (element, x.shape))
    np.testing.assert_array_equal(made, wanted)
    config = f"{{order = {code('B')}}}"
    (back,) = call("laswp", element, config, made, pivots, None, (element, x.shape))
    np.testing.assert_array_equal(back, x)


def test_getrf_of_a_singular_matrix() -> None:
    a = np.ones((2, 2))
    shapes = (("f64", (2, 2)), ("s32", (2,)), ("s32", ()))
    _, _, info = call("getrf", "f64", "", a, None, *shapes)
    assert info == 2


@each_element
@each_batch
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 5), (4, 4), (1, 1)])
def test_geqrf_orgqr_ormqr(element: str, batch: tuple[int, ...], m: int, n: int) -> None:
    a = matrices(element, (*batch, m, n))
    k = min(m, n)
    shapes = ((element, a.shape), (element, (*batch, k)))
    packed, tau = call("geqrf", element, "", a, None, *shapes)
    thin = np.ascontiguousarray(packed[..., :k])
    (q,) = call("orgqr", element, "", thin, tau, None, (element, thin.shape))
    assert_close(element, q @ np.triu(packed[..., :k, :]), a)
    assert_close(element, adjoint(q) @ q, np.broadcast_to(np.eye(k), (*batch, k, k)))
    c = matrices(element, (*batch, m, 2), 1)
    wide = np.broadcast_to(np.eye(m), (*batch, m, m)).astype(c.dtype)
    config = "{left = true, transpose = false}"
    (full,) = call("ormqr", element, config, thin, tau, wide, None, (element, wide.shape))
    config = "{left = true, transpose = true}"
    (product,) = call("ormqr", element, config, thin, tau, c, None, (element, c.shape))
    assert_close(element, product, adjoint(full) @ c)
    rows = np.ascontiguousarray(np.swapaxes(c, -1, -2))
    config = "{left = false, transpose = false}"
    (product,) = call("ormqr", element, config, thin, tau, rows, None, (element, rows.shape))
    assert_close(element, product, rows @ full)


@each_element
@each_batch
def test_geqp3(element: str, batch: tuple[int, ...]) -> None:
    a = matrices(element, (*batch, 5, 3))
    free = np.zeros((*batch, 3), np.int32)
    shapes = ((element, a.shape), ("s32", free.shape), (element, (*batch, 3)))
    packed, pivots, tau = call("geqp3", element, "", a, free, None, *shapes)
    (q,) = call("orgqr", element, "", packed, tau, None, (element, a.shape))
    r = np.triu(packed[..., :3, :])
    for index in np.ndindex(*batch):
        assert_close(element, q[index] @ r[index], a[index][:, pivots[index] - 1])


@each_element
@each_batch
@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
@pytest.mark.parametrize(("m", "n"), [(5, 3), (3, 5), (1, 1)])
@pytest.mark.parametrize("mode", "ASN")
def test_svd(element: str, batch: tuple[int, ...], routine: str, m: int, n: int, mode: str) -> None:
    a = matrices(element, (*batch, m, n))
    k = min(m, n)
    columns, rows = (m, n) if mode == "A" else (k, k)
    shapes = (
        (element, a.shape), (real_of(element), (*batch, k)), (element, (*batch, m, columns)),
        (element, (*batch, rows, n)), ("s32", batch),
    )  # fmt: skip
    config = f"{{mode = {code(mode)}}}"
    _, s, u, vt, info = call(routine, element, config, a, None, *shapes)
    assert_close(element, s, np.linalg.svd(a, compute_uv=False))
    assert not info.any()
    if mode == "N":
        assert not u.any()
        assert not vt.any()
        return
    assert_close(element, (u[..., :k] * s[..., None, :]) @ vt[..., :k, :], a)
    assert_close(
        element, adjoint(u) @ u, np.broadcast_to(np.eye(columns), (*batch, columns, columns))
    )


@pytest.mark.parametrize("routine", ["gesdd", "gesvd"])
def test_svd_of_an_infinity_ends(routine: str) -> None:
    """LAPACK may not return: the second matrix is not given to it."""
    a = matrices("f32", (2, 7, 8))
    a[1, 0, 0] = -np.inf
    shapes = (("f32", a.shape), ("f32", (2, 7)), ("f32", (2, 7, 7)), ("f32", (2, 7, 8)))
    info = call(routine, "f32", f"{{mode = {code('S')}}}", a, None, *shapes, ("s32", (2,)))[-1]
    assert info.tolist() == [0, -4]


@each_element
@each_batch
@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("mode", "NV")
def test_syevd(element: str, batch: tuple[int, ...], n: int, uplo: str, mode: str) -> None:
    a = positive(element, batch, n)
    shapes = ((element, a.shape), (real_of(element), (*batch, n)), ("s32", batch))
    config = f"{{mode = {code(mode)}, uplo = {code(uplo)}}}"
    triangle = np.tril(a) if uplo == "L" else np.triu(a)
    v, w, info = call("syevd", element, config, triangle, None, *shapes)
    assert_close(element, w, np.linalg.eigvalsh(a))
    assert not info.any()
    if mode == "V":
        assert_close(element, (v * w[..., None, :]) @ adjoint(v), a)


@each_element
@each_batch
@pytest.mark.parametrize("n", [0, 1, 2, 6])
@pytest.mark.parametrize("left", "NV")
def test_geev(element: str, batch: tuple[int, ...], n: int, left: str) -> None:
    a = matrices(element, (*batch, n, n), 3)
    values = [(element, (*batch, n))] * (1 if element.startswith("c") else 2)
    vectors = (complex_of(element), a.shape)
    config = f"{{compute_left = {code(left)}, compute_right = {code('V')}}}"
    found = call("geev", element, config, a, None, *values, vectors, vectors, ("s32", batch))
    *w, vl, vr, info = found
    w = w[0] if len(w) == 1 else w[0] + 1j * w[1]
    assert not info.any()
    assert_close(element, a @ vr, vr * w[..., None, :])
    if left == "V":
        assert_close(element, adjoint(vl) @ a, w[..., None] * adjoint(vl))
    else:
        assert not vl.any()


@each_element
def test_geev_refuses_infinities_and_nan(element: str) -> None:
    a = np.stack([np.eye(3), np.full((3, 3), np.nan)]).astype(dtype(element).numpy)
    a[1] = 0
    a[1, 2, 0] = np.inf
    values = [(element, (2, 3))] * (1 if element.startswith("c") else 2)
    vectors = (complex_of(element), a.shape)
    config = f"{{compute_left = {code('N')}, compute_right = {code('V')}}}"
    found = call("geev", element, config, a, None, *values, vectors, vectors, ("s32", (2,)))
    assert found[-1].tolist() == [0, -4]


@each_element
@each_batch
@pytest.mark.parametrize("n", [1, 5])
def test_gees(element: str, batch: tuple[int, ...], n: int) -> None:
    a = matrices(element, (*batch, n, n))
    square, vector = (element, a.shape), (element, (*batch, n))
    values = [vector] * (1 if element.startswith("c") else 2)
    config = f"{{mode = {code('V')}, sort = {code('N')}}}"
    shapes = (square, square, *values, ("s32", batch), ("s32", batch))
    t, z, *_, info = call("gees", element, config, a, None, *shapes)
    assert_close(element, z @ t @ adjoint(z), a)
    assert not info.any()


@each_element
@each_batch
@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 3)])
@pytest.mark.parametrize("sign", [1, -1])
def test_trsyl(element: str, batch: tuple[int, ...], m: int, n: int, sign: int) -> None:
    a, b = (np.triu(matrices(element, (*batch, size, size))) for size in (m, n))
    a = (a + 9 * np.eye(m)).astype(a.dtype)
    c = matrices(element, (*batch, m, n))
    config = f"{{sign = {sign} : i32, trans_a = {code('N')}, trans_b = {code('N')}}}"
    shapes = ((element, c.shape), (real_of(element), batch), ("s32", batch))
    x, scale, info = call("trsyl", element, config, a, b, c, None, *shapes)
    assert_close(element, a @ x + sign * (x @ b), c * scale[..., None, None])
    assert not info.any()


def test_trsyl_of_other_sizes_is_refused() -> None:
    config = f"{{sign = 1 : i32, trans_a = {code('N')}, trans_b = {code('N')}}}"
    shapes = (("f64", (5, 3)), ("f64", ()), ("s32", ()))
    with pytest.raises(ExecutionError, match="'b' must be matrices of 3 x 3"):
        call("trsyl", "f64", config, np.eye(5), np.eye(5), np.ones((5, 3)), None, *shapes)


@each_element
@each_batch
@pytest.mark.parametrize("n", [1, 5])
def test_gehrd(element: str, batch: tuple[int, ...], n: int) -> None:
    a = matrices(element, (*batch, n, n))
    shapes = ((element, a.shape), (element, (*batch, n - 1)), ("s32", batch))
    config = f"{{low = 1 : i32, high = {n} : i32}}"
    x, _, info = call("gehrd", element, config, a, None, *shapes)
    hessenberg = np.triu(x, -1)
    found = np.trace(hessenberg @ hessenberg, axis1=-2, axis2=-1)
    assert_close(element, found, np.trace(a @ a, axis1=-2, axis2=-1))
    assert not info.any()


@each_element
@each_batch
@pytest.mark.parametrize("uplo", "LU")
def test_sytrd(element: str, batch: tuple[int, ...], uplo: str) -> None:
    a = positive(element, batch, 5)
    real = real_of(element)
    shapes = (
        (element, a.shape), (real, (*batch, 5)), (real, (*batch, 4)), (element, (*batch, 4)),
        ("s32", batch),
    )  # fmt: skip
    config = f"{{uplo = {code(uplo)}}}"
    _, d, e, _, info = call("sytrd", element, config, a, None, *shapes)
    tridiagonal = np.zeros((*batch, 5, 5))
    for place in range(5):
        tridiagonal[..., place, place] = d[..., place]
    for place in range(4):
        tridiagonal[..., place, place + 1] = tridiagonal[..., place + 1, place] = e[..., place]
    assert_close(element, np.linalg.eigvalsh(tridiagonal), np.linalg.eigvalsh(a))
    assert not info.any()


@each_element
@each_batch
@pytest.mark.parametrize("columns", [0, 1, 3])
def test_gtsv(element: str, batch: tuple[int, ...], columns: int) -> None:
    dl, d, du = (matrices(element, (*batch, 5), seed) for seed in range(3))
    d = d + 5
    dl[..., 0] = 0
    du[..., -1] = 0
    b = matrices(element, (*batch, 5, columns), 4)
    shapes = [(element, array.shape) for array in (dl, d, du, b)]
    *_, x, info = call("gtsv", element, "", dl, d, du, b, None, *shapes, ("s32", batch))
    product = d[..., None] * x
    product[..., 1:, :] += dl[..., 1:, None] * x[..., :-1, :]
    product[..., :-1, :] += du[..., :-1, None] * x[..., 1:, :]
    assert_close(element, product, b)
    assert not info.any()


@each_element
@each_batch
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("trans", "NTC")
def test_trsm(element: str, batch: tuple[int, ...], side: str, uplo: str, trans: str) -> None:
    n, other = 4, 3
    a = matrices(element, (*batch, n, n)) + 4 * np.eye(n, dtype=dtype(element).numpy)
    b = matrices(element, (*batch, n, other) if side == "L" else (*batch, other, n), 1)
    for diagonal in "NU":
        attributes = {"side": side, "uplo": uplo, "trans_x": trans, "diag": diagonal}
        config = ", ".join(f"{name} = {code(value)}" for name, value in attributes.items())
        (x,) = call("trsm", element, f"{{{config}}}", a, b, None, (element, b.shape))
        matrix = np.tril(a) if uplo == "L" else np.triu(a)
        if diagonal == "U":
            matrix = matrix - matrix * np.eye(n) + np.eye(n)
        matrix = {"N": matrix, "T": np.swapaxes(matrix, -1, -2), "C": adjoint(matrix)}[trans]
        assert_close(element, matrix @ x if side == "L" else x @ matrix, b)


@each_element
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize(
    ("n", "other"), [(40, 31), (64, 64), (32, 33), (1, 2000), (130, 127), (4, 0)]
)
def test_trsm_of_larger_matrices(element: str, side: str, n: int, other: int) -> None:
    a = matrices(element, (n, n)) / n + 4 * np.eye(n, dtype=dtype(element).numpy)
    b = matrices(element, (n, other) if side == "L" else (other, n), 1)
    attributes = {"side": side, "uplo": "L", "trans_x": "N", "diag": "N"}
    config = ", ".join(f"{name} = {code(value)}" for name, value in attributes.items())
    (x,) = call("trsm", element, f"{{{config}}}", a.astype(b.dtype), b, None, (element, b.shape))
    matrix = np.tril(a).astype(b.dtype)
    assert_close(element, matrix @ x if side == "L" else x @ matrix, b)


def test_small_matrices_run_in_one_thread_and_leave_the_number_as_it_was() -> None:
    addresses = thread_imports()
    if not addresses:
        pytest.skip("SciPy's BLAS is not OpenBLAS")
    get = ctypes.CFUNCTYPE(ctypes.c_int)(addresses["blas_get_threads"])
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(addresses["blas_set_threads"])
    before = get()
    small, large = (matrices("f64", (count, n, n)) for count, n in ((200, 50), (1, 240)))

    def run(a: np.ndarray) -> None:
        results = [("f64", a.shape), ("f64", a.shape[:-1]), ("s32", a.shape[:-2])]
        call("syevd", "f64", MODES, a, None, *results)

    run(small)
    seen = set[int]()
    try:
        put(3)
        threads = [threading.Thread(target=run, args=(small,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            seen.add(get())
        assert 1 in seen
        assert get() == 3
        run(large)
        assert get() == 3
        put(1)
        run(small)
        assert get() == 1
    finally:
        put(before)


def test_what_does_not_fit_is_refused_when_it_runs() -> None:
    a = np.eye(3)
    config = "{uplo = 76 : ui8}"
    with pytest.raises(ExecutionError, match="attribute 'uplo'"):
        call("potrf", "f64", "", a, None, ("f64", (3, 3)), ("s32", ()))
    with pytest.raises(ExecutionError, match="gives 2 results"):
        call("potrf", "f64", config, a, None, ("f64", (3, 3)))
    with pytest.raises(ExecutionError, match="must be matrices of f64"):
        call("potrf", "f64", config, a.astype(np.float32), None, ("f64", (3, 3)), ("s32", ()))
    config = f"{{mode = {code('V')}, sort = {code('S')}}}"
    shapes = [("f64", (3, 3))] * 2 + [("f64", (3,))] * 2 + [("s32", ())] * 2
    with pytest.raises(ExecutionError, match="'sort' = 'S'"):
        call("gees", "f64", config, a, None, *shapes)


MODES = f"{{mode = {code('V')}, uplo = {code('L')}}}"


@pytest.mark.parametrize(
    ("routine", "config", "results", "message"),
    [
        ("getrf", "", [("f64", (3, 3)), ("s32", (2,)), ("s32", ())], "'ipiv' must have 3 elements"),
        ("getrf", "", [("f64", (3, 3)), ("f32", (3,)), ("s32", ())], "'ipiv' must be of s32"),
        ("getrf", "", [("f64", (3, 3)), ("s32", (3,)), ("s64", ())], "'info' must be of s32"),
        ("getrf", "", [("f64", (4, 3)), ("s32", (3,)), ("s32", ())], "'x_out' must be f64"),
        ("geqrf", "", [("f64", (3, 3)), ("f64", (2,))], "'tau' must have 3 elements"),
        ("syevd", MODES, [("f64", (3, 3)), ("f64", (2,)), ("s32", ())], "'w' must have 3 elements"),
        ("syevd", MODES, [("f64", (3, 3)), ("f32", (3,)), ("s32", ())], "'w' must be of f64"),
    ],
)
def test_arrays_that_lapack_would_write_past_are_refused(
    routine: str, config: str, results: list, message: str
) -> None:
    with pytest.raises(ExecutionError, match=message):
        call(routine, "f64", config, np.eye(3), None, *results)


def test_matrices_that_are_not_square_are_refused() -> None:
    shapes = [("f64", (2, 3)), ("f64", (3,)), ("s32", ())]
    with pytest.raises(ExecutionError, match="must be square"):
        call("syevd", "f64", MODES, np.ones((2, 3)), None, *shapes)


def test_names() -> None:
    assert target_name("orgqr", "c64") == "lapack_cungqr_ffi"
    assert target_name("sytrd", "f32") == "lapack_ssytrd_ffi"


def test_results_are_the_same_in_every_run() -> None:
    a = matrices("f32", (300, 300))
    shapes = (("f32", a.shape), ("s32", (300,)), ("s32", ()))
    first, *_ = call("getrf", "f32", "", a, None, *shapes)
    for _ in range(3):
        again, *_ = call("getrf", "f32", "", a, None, *shapes)
        assert np.array_equal(first, again)


@pytest.mark.parametrize("routine", ["potrf", "getrf", "syevd"])
def test_large_batches_are_cut_into_parts(routine: str) -> None:
    """The same to the bit as matrix by matrix, whatever the number of threads."""
    n, count = MOST_ROWS + 2, 300
    a = positive("f64", (count,), n)
    config = "" if routine == "getrf" else f"{{mode = {code('V')}, uplo = {code('L')}}}"
    shapes = {
        "potrf": [("s32", ())],
        "getrf": [("s32", (n,)), ("s32", ())],
        "syevd": [("f64", (n,)), ("s32", ())],
    }[routine]
    many = [(kind, (count, *dims)) for kind, dims in shapes]
    whole = call(routine, "f64", config, a, None, ("f64", a.shape), *many)
    for number in (0, 1, 177, count - 1):
        one = call(routine, "f64", config, a[number], None, ("f64", (n, n)), *shapes)
        for found, expected in zip(whole, one, strict=True):
            np.testing.assert_array_equal(found[number], expected)


@pytest.mark.parametrize(("element", "n"), [("f32", 23200), ("f64", 40000), ("c128", 32800)])
def test_a_workspace_that_32_bits_cannot_count_is_refused(element: str, n: int) -> None:
    """Nothing of these matrices exists: the call ends before it looks at them."""
    shapes = [(n, n), (n,), (n, n), (n, n), ()]
    names = [element, real_of(element), element, element, "s32"]
    results = tuple(
        shape(name, dims, columns=len(dims) == 2) for name, dims in zip(names, shapes, strict=True)
    )
    config = f"{{mode = {code('A')}}}"
    name = target_name("gesdd", element)
    site = CallSite(name, results[:1], results, config, "API_VERSION_TYPED_FFI")
    target = custom_calls.find(name)
    assert target is not None
    assert target.link is not None
    linked = target.link(site)
    memory = ctypes.create_string_buffer(64)
    data = (ctypes.c_void_p * 5)(*[ctypes.addressof(memory)] * 5)
    blocks = [(ctypes.c_int64 * 2)(*dims) for dims in shapes]
    dims = (ctypes.c_void_p * 5)(*map(ctypes.addressof, blocks))
    frame = CALL_FRAME.structure(
        native_runtime().record, *map(ctypes.addressof, (data, data, dims, dims))
    )
    call_it = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(linked.address)
    assert call_it(ctypes.addressof(frame)) != 0
    failure = take_error()
    assert failure is not None
    assert "32-bit" in failure.message
