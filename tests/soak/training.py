# SPDX-License-Identifier: Apache-2.0
"""A small training step in JAX, for the soak: imported after the platform was chosen."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

_X = jnp.sin(jnp.arange(512.0)).reshape(64, 8)
_Y = jnp.sum(_X**2, axis=1, keepdims=True)


def weights(seed: int) -> Any:
    """Return weights of two layers, f32[8,32] and f32[32,1]."""
    first, second = jax.random.split(jax.random.key(seed))
    return jax.random.normal(first, (8, 32)) * 0.3, jax.random.normal(second, (32, 1)) * 0.3


def _loss(state: Any) -> Any:
    first, second = state
    return jnp.mean((jax.nn.gelu(_X @ first) @ second - _Y) ** 2)


@jax.jit
def step(state: Any) -> Any:
    """Return weights after a step of gradient descent, and the loss before it."""
    loss, slopes = jax.value_and_grad(_loss)(state)
    return jax.tree.map(lambda w, g: w - 0.02 * g, state, slopes), loss
