# SPDX-License-Identifier: Apache-2.0
"""Factorizations and solutions of odd sizes, batches of nothing, NaN and infinity: as JAX has them.

A case is a Python file with one function of `jnp.linalg` or `lax.linalg`. What is unique is
compared as it is; of what is not (the signs of eigenvectors and of orthogonal factors), what the
factors give when they are put together. Where the input is not finite, only whether each result
is: LAPACKs differ in what they do with it.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from tests.fuzz.target import Target

_HEAD = """\
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.scipy import linalg
"""
_SYMMETRIC = "symmetric"
_SQUARE = "square"
_ANY = "any"
# What `x` must be, and lines that make `results` of it (`y` is another matrix of as many rows).
_FUNCTIONS: tuple[tuple[str, str], ...] = (
    (_SYMMETRIC, "[jnp.linalg.cholesky(definite(x))]"),
    (_SYMMETRIC, "[linalg.solve_triangular(definite(x), y, lower=True)]"),
    (_SYMMETRIC, "[linalg.solve_triangular(definite(x), y, lower=False, trans=1)]"),
    (_SYMMETRIC, "[linalg.cho_solve((jnp.linalg.cholesky(definite(x)), True), y)]"),
    (_SYMMETRIC, "[jnp.linalg.eigvalsh(symmetric(x))]"),
    (_SYMMETRIC, "[(v * w[..., None, :]) @ v.swapaxes(-1, -2).conj() "
                 "for w, v in [jnp.linalg.eigh(symmetric(x))]]"),
    (_SQUARE, "[jnp.linalg.solve(x + far(x), y)]"),
    (_SQUARE, "[jnp.linalg.inv(x + far(x)), jnp.linalg.det(x)]"),
    (_SQUARE, "[*jnp.linalg.slogdet(x + far(x))]"),
    (_SQUARE, "[linalg.expm(x / 8)]"),
    (_ANY, "[jnp.vectorize(together, signature='(m,n)->(m,n)')(x)]"),
    (_ANY, "[lax.linalg.lu(x)[0]]"),
    (_ANY, "[q @ r for q, r in [jnp.linalg.qr(x)]]"),
    (_ANY, "[q @ r for q, r in [jnp.linalg.qr(x, mode='complete')]]"),
    (_ANY, "[jnp.abs(jnp.linalg.qr(x, mode='r'))]"),
    (_ANY, "[jnp.linalg.svd(x, compute_uv=False)]"),
    (_ANY, "[(u * s[..., None, :]) @ v for u, s, v in [jnp.linalg.svd(x, full_matrices=False)]]"),
)  # fmt: skip
_HELPERS = """\
def far(x):
    return 4 * x.shape[-1] * jnp.eye(x.shape[-1], dtype=x.dtype)
def symmetric(x):
    return x + x.swapaxes(-1, -2).conj()
def together(x):
    p, l, u = linalg.lu(x)
    return p @ l @ u
def definite(x):
    return x @ x.swapaxes(-1, -2).conj() + x.shape[-1] * jnp.eye(x.shape[-1], dtype=x.dtype)
"""
_SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 33)
_WRONG = ("np.nan", "np.inf", "-np.inf")
# What a product of infinite complex numbers is depends on how its parts are added.
_WRONG_OF_COMPLEX = _WRONG[:1]


def generate(choose: random.Random) -> bytes:
    """Return a program."""
    form, results = choose.choice(_FUNCTIONS)
    rows = choose.choice(_SIZES)
    columns = rows if form != _ANY else choose.choice(_SIZES)
    batch = choose.choice(((), (), (1,), (3,), (0,), (2, 2)))
    element = choose.choice(("np.float32", "np.float32", "np.complex64"))
    imaginary = " * (1 + 0.5j)" if "complex" in element else ""
    lines = [
        f"draw = np.random.default_rng({choose.getrandbits(20)})",
        f"x = (draw.normal(size={(*batch, rows, columns)}){imaginary}).astype({element})",
        f"y = (draw.normal(size={(*batch, rows, choose.choice((1, 3)))})).astype({element})",
    ]
    if choose.random() < 0.15:
        wrong = choose.choice(_WRONG_OF_COMPLEX if imaginary else _WRONG)
        lines.append(f"x.reshape(-1)[:{choose.randint(1, 2)}] = {wrong}")
    if choose.random() < 0.1:
        lines.append("x[..., -1, :] = 0")
    body = f"def RUN(x, y):\n    return {results}\n"
    return (_HEAD + _HELPERS + body + "\n".join([*lines, "INPUTS = [x, y]", ""])).encode()


def check(data: bytes) -> str:
    """Compare Ingot with JAX's CPU backend."""
    import jax

    names: dict[str, Any] = {}
    exec(compile(data, "<case>", "exec"), names)
    x, y = names["INPUTS"]
    found: list[list[np.ndarray[Any, Any]]] = []
    # On infinities JAX's own SVD may not return.
    hangs = b"svd" in data and bool(np.isinf(x).any())
    for platform in ("ingot", "ingot") if hangs else ("cpu", "ingot"):
        with jax.default_device(jax.devices(platform)[0]):
            made = jax.jit(names["RUN"])(x, y)
            found.append([np.asarray(leaf) for leaf in jax.tree.leaves(made)])
    want, got = found
    for number, (mine, other) in enumerate(zip(got, want, strict=True)):
        text = _difference(mine, other, bool(np.isfinite(x).all()))
        if text:
            return f"leaf {number} {text}"
    return ""


def _difference(
    mine: np.ndarray[Any, Any], other: np.ndarray[Any, Any], compares_numbers: bool
) -> str:
    if (mine.shape, mine.dtype) != (other.shape, other.dtype):
        return f"is {mine.dtype}{list(mine.shape)}, not {other.dtype}{list(other.shape)}"
    if not mine.size:
        return ""
    if not compares_numbers:
        same = np.isfinite(mine).all() == np.isfinite(other).all()
        return "" if same else "is finite on one side only"
    finite = np.abs(other[np.isfinite(other)])
    scale = float(finite.max(initial=1.0))
    near = np.isclose(mine, other, rtol=1e-3, atol=1e-3 * scale, equal_nan=True)
    return "" if near.all() else f"differs by {np.nanmax(np.abs(mine - other))} of {scale}"


TARGET = Target(
    "linear_algebra",
    ".py",
    generate,
    check,
    seconds=60.0,
    memory=48 << 30,
    environment=(("JAX_PLATFORMS", "cpu,ingot"),),
)
