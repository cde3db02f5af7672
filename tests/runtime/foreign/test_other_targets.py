# SPDX-License-Identifier: Apache-2.0
"""Targets beside LAPACK's that JAX emits on CPU: perturbed tridiagonal systems, CSR products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.calls import ELEMENTS, assert_close, dtype_name, matrices, shape

import ingot.client
from ingot.runtime.foreign.builtin import register_builtin_targets
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite
from ingot.support.diagnostics import UnsupportedError

pytestmark = pytest.mark.fast_share(8)


def evaluate(name: str, operands: tuple[Any, ...], result: Any, columns: int = 0) -> Any:
    """Run a target; arrays of rank `columns` are column-major matrices."""
    shapes = [shape(dtype_name(o), o.shape, columns=o.ndim == columns) for o in (*operands, result)]
    site = CallSite(name, tuple(shapes[:-1]), (shapes[-1],))
    register_builtin_targets()
    target = custom_calls.find(name)
    assert target is not None
    assert target.evaluate is not None
    (found,) = target.evaluate(site, *operands)
    return found


def tridiagonal(dl: Any, d: Any, du: Any) -> Any:
    n = d.shape[-1]
    dense = np.zeros((*d.shape, n), d.dtype)
    for place in range(n):
        dense[..., place, place] = d[..., place]
        if place:
            dense[..., place, place - 1] = dl[..., place]
            dense[..., place - 1, place] = du[..., place - 1]
    return dense


def diagonals(element: str, batch: tuple[int, ...], n: int) -> tuple[Any, Any, Any]:
    dl, d, du = (matrices(element, (*batch, n), seed) for seed in range(3))
    dl[..., :1] = 0
    du[..., -1:] = 0
    return dl, d, du


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("batch", [(), (3,), (2, 0)], ids=str)
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_perturbed_tridiagonal_systems(element: str, batch: tuple[int, ...], n: int) -> None:
    dl, d, du = diagonals(element, batch, n)
    b = matrices(element, (*batch, n, 2), 5)
    name = "tridiagonal_solve_perturbed_ffi"
    x = evaluate(name, (dl, d, du, b), b, columns=b.ndim)
    assert_close(element, tridiagonal(dl, d, du) @ x, b)


@pytest.mark.parametrize("element", ELEMENTS)
def test_singular_systems_have_finite_solutions(element: str) -> None:
    zero = np.zeros(5, matrices(element, (1,)).dtype)
    b = np.ones((5, 1), zero.dtype)
    for d in (zero, np.eye(1, 5, dtype=zero.dtype)[0]):
        x = evaluate("tridiagonal_solve_perturbed_ffi", (zero, d, zero, b), b, columns=2)
        assert np.isfinite(x).all()


@pytest.mark.parametrize("element", ELEMENTS)
def test_jaxlib_agrees(element: str) -> None:
    lapack = pytest.importorskip("jaxlib.cpu._lapack")
    name = "tridiagonal_solve_perturbed_ffi"
    ingot.register_custom_call_target("test.perturbed", lapack.registrations()[name], api="ffi")
    for seed, small in ((0, 1.0), (1, 1e-30), (2, 0.0)):
        dl, d, du = diagonals(element, (), 6)
        d, dl = d * np.where(np.arange(6) % 3 == seed, small, 1).astype(d.dtype), dl * small
        dl, d, du = (x.astype(matrices(element, (1,)).dtype) for x in (dl, d, du))
        b = matrices(element, (6, 2), seed)
        ours, theirs = (evaluate(n, (dl, d, du, b), b, columns=2) for n in (name, "test.perturbed"))
        np.testing.assert_allclose(ours, theirs, rtol=2e-3)


@pytest.mark.parametrize("element", [*ELEMENTS, "s32"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("width", [(), (1,), (3,), (0,)], ids=str)
def test_sparse_times_dense(element: str, index: Any, width: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    dense = np.where(generator.random((5, 4)) < 0.4, matrices("f64", (5, 4)) * 8, 0)
    dense[2] = 0
    element_dtype = np.int32 if element == "s32" else matrices(element, (1,)).dtype
    dense = dense.astype(element_dtype)
    rows, columns = np.nonzero(dense)
    starts = np.searchsorted(rows, np.arange(6)).astype(index)
    right = (matrices("f64", (4, *width)) * 8).astype(element_dtype)
    operands = (dense[rows, columns], starts, columns.astype(index), right)
    result = np.zeros((5, *width), element_dtype)
    found = evaluate("cpu_csr_sparse_dense_ffi", operands, result)
    if element == "s32":
        np.testing.assert_array_equal(found, dense @ right)
    else:
        assert_close(element, found, dense @ right)


def test_elements_that_do_not_fit() -> None:
    d, b = np.zeros(3), np.zeros((3, 1))
    with pytest.raises(UnsupportedError, match="f32, f64"):
        evaluate("tridiagonal_solve_perturbed_ffi", (d, d, d, b.astype(np.float32)), b)
    with pytest.raises(UnsupportedError, match=r"of \(f64\[3\]\{0\}, f64\[3\]"):
        evaluate("cpu_csr_sparse_dense_ffi", (d, d, d, b), b)


def test_a_sink_keeps_what_only_it_uses() -> None:
    text = """HloModule m
    ENTRY e { x = f32[3] parameter(0) y = f32[3] exponential(x)
      s = () custom-call(y), custom_call_target="dce_sink", custom_call_has_side_effect=true
      ROOT r = f32[3] negate(x) }"""
    program = ingot.client.compile(ingot.parse_hlo(text))
    assert "dce_sink" in program.as_text("hlo")
    assert "exponential" in program.as_text("hlo")
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(program(x), -x)
