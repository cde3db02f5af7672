# SPDX-License-Identifier: Apache-2.0
"""Programs that real XLA compiles and dumps: a ResNet, a Transformer train step, an LSTM, algebra.

Run as a script in a process of its own, as XLA reads `XLA_FLAGS` once:

    XLA_FLAGS="--xla_dump_to=DIR --xla_dump_hlo_as_text" python xla_programs.py DIR

For each program DIR gets XLA's dumps and NAME.npz with the inputs and outputs, in order.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def _draw(*dims: int, seed: int = 0, scale: float = 0.3) -> Any:
    return (np.random.default_rng(seed).normal(size=dims) * scale).astype(np.float32)


def resnet() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a train step of a small residual network with batch norm and pooling."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def conv(x: Any, w: Any, stride: int = 1) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=numbers)

    def norm(x: Any) -> Any:
        mean = x.mean((0, 1, 2))
        return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean((0, 1, 2)) + 1e-5)

    def loss(weights: Any, x: Any, y: Any) -> Any:
        first, second, third, short, last = weights
        x = jax.nn.relu(norm(conv(x, first, 2)))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        h = jax.nn.relu(norm(conv(x, second, 2)))
        x = jax.nn.relu(norm(conv(h, third)) + conv(x, short, 2))
        logits = x.mean((1, 2)) @ last
        return -(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, 5)).sum(-1).mean()

    def step(weights: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, x, y)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)

    weights = (
        _draw(7, 7, 3, 8), _draw(3, 3, 8, 16, seed=1), _draw(3, 3, 16, 16, seed=2),
        _draw(1, 1, 8, 16, seed=3), _draw(16, 5, seed=4),
    )  # fmt: skip
    return step, (weights, _draw(2, 32, 32, 3, seed=5), np.array([1, 3], np.int32))


def transformer() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a train step of a causal Transformer with embeddings and Adam."""
    import jax
    import jax.numpy as jnp

    heads, width = 2, 16

    def norm(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def loss(weights: dict[str, Any], tokens: Any) -> Any:
        x = weights["embedding"][tokens[:, :-1]]
        batch, length, _ = x.shape
        x = x + weights["positions"][:length]
        for number in range(2):
            h = norm(x) @ weights[f"qkv{number}"]
            q, k, v = jnp.split(h.reshape(batch, length, heads, -1), 3, -1)
            scores = jnp.einsum("blhd,bmhd->bhlm", q, k) / np.sqrt(width / heads)
            mask = jnp.tril(jnp.ones((length, length), bool))
            scores = jax.nn.softmax(jnp.where(mask, scores, -1e9))
            mixed = jnp.einsum("bhlm,bmhd->blhd", scores, v).reshape(batch, length, width)
            x = x + mixed @ weights[f"out{number}"]
            x = x + jax.nn.gelu(norm(x) @ weights[f"up{number}"]) @ weights[f"down{number}"]
        logits = norm(x) @ weights["embedding"].T
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), tokens[:, 1:, None], -1)
        return -picked.mean()

    def step(weights: Any, moments: Any, tokens: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights, tokens)
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradients)
        second = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, moments[1], gradients)
        after = jax.tree.map(
            lambda w, m, v: w - 0.01 * m / (jnp.sqrt(v) + 1e-6), weights, first, second
        )
        return value, after, (first, second)

    weights = {"embedding": _draw(23, width), "positions": _draw(12, width, seed=1)}
    for number in range(2):
        weights[f"qkv{number}"] = _draw(width, 3 * width, seed=2 + number)
        weights[f"out{number}"] = _draw(width, width, seed=4 + number)
        weights[f"up{number}"] = _draw(width, 4 * width, seed=6 + number)
        weights[f"down{number}"] = _draw(4 * width, width, seed=8 + number)
    zeros = jax.tree.map(np.zeros_like, weights)
    ones = jax.tree.map(np.ones_like, weights)
    tokens = np.random.default_rng(0).integers(0, 23, (3, 12)).astype(np.int32)
    return step, (weights, (zeros, ones), tokens)


def lstm() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return the loss and gradients of an LSTM scanned over time, with dropout from a key."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def loss(weights: Any, xs: Any, key: Any) -> Any:
        kernel, bias, last = weights
        keep = jax.random.bernoulli(key, 0.8, xs.shape)
        xs = jnp.where(keep, xs / 0.8, 0)

        def cell(state: Any, x: Any) -> Any:
            c, h = state
            gates = jnp.concatenate([x, h], -1) @ kernel + bias
            i, f, g, o = jnp.split(gates, 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (c, h), h

        start = (jnp.zeros((xs.shape[1], 8)), jnp.zeros((xs.shape[1], 8)))
        _, hs = lax.scan(cell, start, xs)
        return jnp.sum((hs @ last) ** 2)

    weights = (_draw(14, 32), _draw(32, seed=1), _draw(8, 3, seed=2))
    key = np.array([0, 42], np.uint32)
    return jax.value_and_grad(loss), (weights, _draw(11, 4, 6, seed=3), key)


def algebra() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return solves, factors, sorts, an FFT and a fixed-point loop of small matrices."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    def program(a: Any, b: Any) -> Any:
        positive = a @ a.T + 4 * jnp.eye(a.shape[0])
        factor = jnp.linalg.cholesky(positive)
        solved = jax.scipy.linalg.solve_triangular(factor, b, lower=True)
        direct = jnp.linalg.solve(positive, b)
        values = jnp.linalg.eigvalsh(positive)
        ordered = jnp.sort(b, axis=0)
        spectrum = jnp.abs(jnp.fft.rfft(b[:, 0]))
        power = lax.fori_loop(
            0, 20, lambda _, v: (positive @ v) / jnp.linalg.norm(positive @ v), b[:, 0]
        )
        sums = jnp.cumsum(b, axis=0)
        return factor, solved, direct, values, ordered, spectrum, jnp.abs(power), sums

    return program, (_draw(6, 6), _draw(6, 4, seed=1))


PROGRAMS = {"resnet": resnet, "transformer": transformer, "lstm": lstm, "algebra": algebra}


def main(folder: Path) -> None:
    """Compile and run every program; write its inputs and outputs."""
    import jax

    for name, make in PROGRAMS.items():
        function, arguments = make()
        function.__name__ = name  # type: ignore[attr-defined]
        run = jax.jit(function, keep_unused=True)
        outputs = jax.tree.leaves(run(*arguments))
        inputs = jax.tree.leaves(arguments)
        arrays = {f"input{n:03}": np.asarray(v) for n, v in enumerate(inputs)}
        arrays |= {f"output{n:03}": np.asarray(v) for n, v in enumerate(outputs)}
        np.savez(folder / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
