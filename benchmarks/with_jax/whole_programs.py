# SPDX-License-Identifier: Apache-2.0
"""Whole JAX programs, as JAX users run them: the table of names, functions and arguments.

Each row is one jitted function called again and again; `benchmarks.with_jax.whole` runs it once
with `JAX_PLATFORMS=ingot` and once with `JAX_PLATFORMS=cpu`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import lax

from benchmarks.common.programs import Samples
from benchmarks.with_jax import models

Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """One row.

    Attributes:
        name: of the row.
        function: what is jitted.
        arguments: makes its arguments, pytrees of NumPy arrays, from a generator.
        tolerance: largest difference of a result, relative to its largest element.
    """

    name: str
    function: Callable[..., Any]
    arguments: Callable[[Samples], Arguments]
    tolerance: float = 1e-4


def black_scholes(spot, strike, time, rate, volatility):
    """Prices of calls and puts."""
    deviation = volatility * jnp.sqrt(time)
    first = (jnp.log(spot / strike) + (rate + volatility**2 / 2) * time) / deviation
    second = first - deviation
    discounted = strike * jnp.exp(-rate * time)
    call = spot * jsp.stats.norm.cdf(first) - discounted * jsp.stats.norm.cdf(second)
    return call, call - spot + discounted


def n_body(positions, velocities, masses):
    """Ten steps of leapfrog under gravity, f32[bodies, 3]."""

    def accelerations(places):
        apart = places[None] - places[:, None]
        squared = jnp.sum(apart**2, -1) + 1e-2
        return jnp.einsum("ijk,ij->ik", apart, masses[None] * lax.rsqrt(squared) ** 3)

    def step(_, state):
        places, speeds = state
        speeds = speeds + 0.01 * accelerations(places)
        return places + 0.01 * speeds, speeds

    return lax.fori_loop(0, 10, step, (positions, velocities))


def stencil(field):
    """Ten steps of the heat equation on a periodic cube."""

    def step(_, cube):
        around = sum(jnp.roll(cube, by, axis) for axis in range(3) for by in (1, -1))
        return cube + 0.1 * (around - 6 * cube)

    return lax.fori_loop(0, 10, step, field)


def scanned_layers(tokens, layers):
    """Residual layers of an MLP whose weights are stacked, as large models are written."""

    def layer(x, weights):
        up, down = weights
        return x + jax.nn.gelu(x @ up) @ down, None

    return lax.scan(layer, tokens, layers)[0]


def signal_loss(kernels, signal, wanted):
    """Squared error of two convolutions with GELU, the first layers of a speech encoder."""
    for number, kernel in enumerate(kernels):
        signal = jax.nn.gelu(
            lax.conv_general_dilated(
                signal, kernel, (1 + number,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
            )
        )
    return jnp.mean((signal - wanted) ** 2)


def moments(points):
    """Second moments of points f32[count, size], as a sum of outer products."""
    return jnp.sum(points[:, :, None] * points[:, None, :], 0)


def solve(matrix, right):
    """Solve a positive definite system."""
    matrix = matrix @ matrix.T + matrix.shape[0] * jnp.eye(matrix.shape[0])
    return jsp.linalg.cho_solve(jsp.linalg.cho_factor(matrix), right)


def _mlp_parameters(make: Samples) -> list[tuple[np.ndarray, np.ndarray]]:
    sizes = (784, 512, 256, 10)
    pairs = itertools.pairwise(sizes)
    return [(make((m, n), m**-0.5), make((n,), 0.1)) for m, n in pairs]


def _images(make: Samples) -> Arguments:
    return (models.resnet_parameters(make), make((4, 64, 64, 3)))


def _gpt(make: Samples) -> Any:
    return models.gpt_parameters(make, words=1024, positions=128, size=128, layers=4)


def _decode(make: Samples) -> Arguments:
    parameters = models.gpt_parameters(make, words=4096, positions=512, size=256, layers=4)
    caches = [(make((4, 512, 64)), make((4, 512, 64))) for _ in range(4)]
    return parameters, caches, np.int32(7), np.int32(300)


def _lstm(make: Samples) -> Arguments:
    parameters = (make((64, 512), 0.1), make((128, 512), 0.1), make((512,), 0.1))
    return parameters, make((64, 32, 64)), make((32, 128))


def _mixture(make: Samples) -> Arguments:
    experts = (make((256, 8), 0.1), make((8, 256, 1024), 0.05), make((8, 1024, 256), 0.05))
    return experts, make((512, 256)), make((512, 256))


def _options(make: Samples) -> Arguments:
    size = 1 << 20
    return (
        make.uniform(10, 100, size),
        make.uniform(10, 100, size),
        make.uniform(0.1, 2, size),
        np.float32(0.03),
        make.uniform(0.1, 0.5, size),
    )


def _bodies(make: Samples) -> Arguments:
    return make((512, 3)), make((512, 3), 0.1), make.uniform(0.1, 1, 512)


def _segments(make: Samples) -> Arguments:
    return make((1 << 16, 16)), np.sort(make.integers(1024, 1 << 16))


def _matrices(make: Samples) -> Arguments:
    halves = jnp.bfloat16
    return make((512, 512)).astype(halves), make((512, 512)).astype(halves)


PROGRAMS: tuple[Whole, ...] = (
    Whole(
        "MLP train step: 128x784x512x256x10",
        models.training_step(models.mlp_loss),
        lambda make: (_mlp_parameters(make), make((128, 784)), make.integers(10, 128)),
    ),
    Whole("ResNet-18 inference: 4x64x64", models.resnet, _images, 1e-3),
    Whole(
        "ResNet-18 train step: 4x64x64",
        models.training_step(models.resnet_loss),
        lambda make: (*_images(make), make.integers(10, 4)),
        2e-2,
    ),
    Whole(
        "GPT train step: 4 layers, 4x128x128",
        models.training_step(models.gpt_loss),
        lambda make: (_gpt(make), make.integers(1024, (4, 129))),
    ),
    Whole(
        "GPT inference: 4 layers of 768, 1x64",
        models.gpt,
        lambda make: (
            models.gpt_parameters(make, words=1024, positions=64, size=768, layers=4),
            make.integers(1024, (1, 64)),
        ),
    ),
    Whole("GPT decode: 4 layers, 256, cache 512", models.gpt_decode, _decode),
    Whole(
        "scan over 8 layers of 512x2048: 8 rows",
        scanned_layers,
        lambda make: (
            make((8, 512)),
            (make((8, 512, 2048), 0.02), make((8, 2048, 512), 0.02)),
        ),
    ),
    Whole("LSTM train step: 64x32x128", models.training_step(models.lstm_loss), _lstm),
    Whole(
        "mixture of experts train step: 8 of 256x1024, 512 tokens",
        models.training_step(models.mixture_loss),
        _mixture,
    ),
    Whole(
        "speech layers train step: 3000x80 to 1500x384",
        models.training_step(signal_loss),
        lambda make: (
            [make((3, 80, 384), 0.06), make((3, 384, 384), 0.03)],
            make((1, 3000, 80)),
            make((1, 1500, 384)),
        ),
    ),
    Whole("moments: 16K of 64", moments, lambda make: (make((1 << 14, 64)),)),
    Whole("Black-Scholes: 1M", black_scholes, _options),
    Whole("n-body: 512, 10 steps", n_body, _bodies, 1e-3),
    Whole("stencil: 96^3, 10 steps", stencil, lambda make: (make((96, 96, 96)),)),
    Whole("sort: 1M", jnp.sort, lambda make: (make(1 << 20),)),
    Whole("segment sum: 64Kx16 to 1K", partial(jax.ops.segment_sum, num_segments=1024), _segments),
    Whole(
        "FFT 2-D: 512x512",
        jnp.fft.fft2,
        lambda make: ((make((512, 512)) + 1j * make((512, 512))).astype(np.complex64),),
    ),
    Whole("Cholesky solve: 512", solve, lambda make: (make((512, 512)), make((512, 16)))),
    Whole(
        "random normals: 1M",
        lambda key: jax.random.normal(jax.random.wrap_key_data(key), (1 << 20,)),
        lambda make: (np.array([1, 2], np.uint32),),
    ),
    Whole("bf16 matmul: 512", jnp.matmul, _matrices, 2e-2),
)
