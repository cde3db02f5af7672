# SPDX-License-Identifier: Apache-2.0
"""Complex programs as JAX writes them, compiled by Ingot, beside XLA's results."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.formats.hlo_text import parse

jax = pytest.importorskip("jax")
jnp, lax = jax.numpy, jax.lax

FUNCTIONS = (
    "sinh cosh arcsin arccos arctan arcsinh arccosh arctanh log2 log10 exp2 tanh sinc reciprocal "
    "isnan isfinite nan_to_num isreal min var cov corrcoef angle sign trace linalg.inv linalg.det "
    "linalg.slogdet linalg.norm linalg.pinv fft.fft fft.ifft2 fft.irfft fft.fftshift"
)
PROGRAMS: dict[str, Callable[..., Any]] = {
    **{name: attrgetter(name)(jnp) for name in FUNCTIONS.split()},
    "powers": lambda c: (c ** (1 / 3), c**5, c**-3),
    "order": lambda c: (jnp.max(c, axis=0), jnp.sort(c, axis=0), jnp.argsort(c, axis=1)),
    "choice": lambda c: (jnp.maximum(c, c.T), jnp.where(c.real > 0, c, c.T)),
    "cumulative": lambda c: (jnp.cumsum(c, axis=1), jnp.cumprod(c, axis=0)),
    "products": lambda c: (jnp.vdot(c, c.T), jnp.kron(c, c), jnp.tensordot(c, c, 2)),
    "einsum": lambda c: jnp.einsum("ij,kj,kl->il", c, c.conj(), c),
    "polynomial": lambda c: (jnp.polyval(c[:, 0], c), jnp.convolve(c[0], c[1])),
    "solve": lambda c: jnp.linalg.solve(c, c.T),
    "cholesky": lambda c: jnp.linalg.cholesky(c @ c.conj().T + 5 * jnp.eye(5, dtype=c.dtype)),
    "expm": lambda c: jax.scipy.linalg.expm(c / 8),
    "gradient": jax.grad(lambda c: jnp.sum(jnp.abs(c @ c) ** 2)),
    "derivative": jax.grad(lambda c: jnp.sin(c * c).sum(), holomorphic=True),
    "scan": lambda c: lax.scan(lambda a, x: (a * x + 1, a.real), jnp.ones(5, c.dtype), c),
    "associative": lambda c: lax.associative_scan(jnp.multiply, c),
    "mandelbrot": lambda c: lax.fori_loop(
        0, 30, lambda _, z: jnp.where(jnp.abs(z) < 4, z * z + c, z), jnp.zeros_like(c)
    ),
    "newton": lambda c: lax.while_loop(
        lambda s: s[1] < 8,
        lambda s: (s[0] - (s[0] ** 3 - 1) / (3 * s[0] * s[0]), s[1] + 1),
        (c, 0),
    )[0],
    "branches": lambda c: (
        lax.cond(c[0, 0].real > 0, lambda z: z * z, lambda z: -z, c),
        lax.switch(2, [jnp.sin, jnp.cos, jnp.tan], c),
    ),
    "updates": lambda c: c.at[1:3].mul(2j).at[0, 0].set(1j).at[jnp.array([1, 1])].add(c[:2]),
    "moves": lambda c: (jnp.roll(c, 2), jnp.pad(c, 2, mode="reflect"), jnp.repeat(c, 3, axis=0)),
    "take": lambda c: jnp.take_along_axis(c, jnp.array([[0], [1], [0], [4], [2]]), 1),
    "segments": lambda c: jax.ops.segment_prod(c, jnp.array([0, 1, 0, 2, 1]), 3),
    "phases": lambda c: jnp.angle(jnp.exp(1j * jnp.cumsum(c.real, axis=0))),
    "convolution": lambda c: lax.conv_general_dilated(
        c.reshape(1, 1, 5, 5), c[None, None, :3, :3], (1, 1), "SAME"
    ),
    "windows": lambda c: lax.reduce_window(c, c.dtype.type(0), lax.add, (2, 2), (1, 1), "VALID"),
    "conversions": lambda c: (
        c.real.astype(jnp.int32) + 0j,
        c.imag + c,
        lax.complex(c.imag, c.real),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_program(name: str) -> None:
    rng = np.random.default_rng(7)
    c = (rng.standard_normal((5, 5)) + 1j * rng.standard_normal((5, 5))).astype(np.complex64) / 2
    function = jax.jit(PROGRAMS[name])
    text = function.lower(c).compiler_ir("hlo").as_hlo_text()
    want = jax.tree.leaves(jax.tree.map(np.asarray, function(c)))
    got = ingot.compile(parse(text))(c)
    for one, other in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
        assert np.asarray(one).dtype == other.dtype
        size = max(1e-3, float(np.max(np.abs(other))))
        np.testing.assert_allclose(one, other, rtol=3e-4, atol=2e-4 * size)
