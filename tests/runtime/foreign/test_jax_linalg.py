# SPDX-License-Identifier: Apache-2.0
"""JAX's linear algebra as JAX lowers it for CPU, compiled by Ingot, against JAX's own results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.calls import ELEMENTS, TOLERANCE, adjoint, matrices

import ingot

pytestmark = pytest.mark.slow
jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402
import jax.scipy.linalg as jsl  # noqa: E402
from jax._src.lax import linalg as lax_linalg  # noqa: E402


@pytest.fixture(autouse=True)
def _wide_types() -> Iterator[None]:
    """Let JAX have f64 and c128 here, and not in the other tests of this process."""
    with jax.enable_x64(True):
        yield


def thin_svd_product(a: Any) -> Any:
    u, s, vt = jnp.linalg.svd(a, full_matrices=False)
    return (u * s[..., None, :].astype(u.dtype)) @ vt


ANY: dict[str, Callable[[Any], Any]] = {
    "solve": lambda a: jnp.linalg.solve(a, a[..., :2]),
    "inverse": jnp.linalg.inv,
    "determinant": jnp.linalg.det,
    "log determinant": jnp.linalg.slogdet,
    "qr": jnp.linalg.qr,
    "svd": thin_svd_product,
    "eigenvalues": lambda a: jnp.sort(jnp.abs(jnp.linalg.eigvals(a))),
    "lu": lax_linalg.lu,
    "hessenberg": lambda a: lax_linalg.hessenberg(a)[0],
    "schur": lambda a: lax_linalg.schur(a)[0],
    "tridiagonal solve": lambda a: lax_linalg.tridiagonal_solve(
        a[..., 0], a[..., 1] + 5, a[..., 2], a
    ),
    "pseudoinverse": jnp.linalg.pinv,
    "pivoted qr": lambda a: jsl.qr(a, pivoting=True) if a.ndim == 2 else jnp.linalg.qr(a),
}
POSITIVE: dict[str, Callable[[Any], Any]] = {
    "cholesky": jnp.linalg.cholesky,
    "hermitian eigenvalues": lambda a: jnp.linalg.eigh(a)[0],
    "triangular solve": lambda a: jsl.solve_triangular(a, a[..., :2], lower=True),
    "tridiagonal": lambda a: lax_linalg.tridiagonal(a)[1],
}


def check(function: Callable[[Any], Any], element: str, x: Any) -> None:
    lowered = jax.jit(function).lower(x)
    wanted = jax.tree.leaves(jax.jit(function)(x))
    found = jax.tree.leaves(ingot.compile(ingot.parse_stablehlo(lowered.as_text()))(x))
    for one, other in zip(found, wanted, strict=True):
        tolerance = 10 * TOLERANCE[element]
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("batch", [(), (3,)], ids=str)
@pytest.mark.parametrize("name", [*ANY, *POSITIVE])
def test_same_as_jax(name: str, element: str, batch: tuple[int, ...]) -> None:
    x = matrices(element, (*batch, 4, 4))
    if name in POSITIVE:
        x = x @ adjoint(x) + 4 * np.eye(4, dtype=x.dtype)
    check((ANY | POSITIVE)[name], element, x)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_gradient(element: str) -> None:
    x = matrices(element, (4, 4))
    check(jax.grad(lambda a: jnp.linalg.slogdet(a)[1]), element, x)


def test_failures_are_nan_as_in_jax() -> None:
    x = np.stack([np.eye(3), -np.eye(3)])
    check(jnp.linalg.cholesky, "f64", x)
    check(lambda a: jnp.linalg.eigh(a)[0], "f64", np.full((3, 3), np.nan))
