# SPDX-License-Identifier: Apache-2.0
"""The programs in JAX. Their HLO is what Ingot compiles too."""

from __future__ import annotations

import jax
import jax.numpy as jnp

RATE = 0.1


def map_reduce(x, y, z):
    """Sum of x + y * z."""
    return jnp.sum(x + y * z)


def layernorm(x):
    """Rows to mean 0 and variance 1."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    centred = x - mean
    variance = jnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred * jax.lax.rsqrt(variance + 1e-5)


def loss(parameters, images, labels):
    """Mean cross-entropy of a network with one hidden layer."""
    hidden_weights, hidden_bias, out_weights, out_bias = parameters
    hidden = jax.nn.relu(images @ hidden_weights + hidden_bias)
    logits = hidden @ out_weights + out_bias
    chosen = jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, 10), axis=-1)
    return -jnp.mean(chosen)


def train_step(images, labels, *parameters):
    """Loss, and parameters after one step of gradient descent."""
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    return value, *(p - RATE * g for p, g in zip(parameters, gradients, strict=True))


FUNCTIONS = {
    "sum(x+y*z)": map_reduce,
    "x+y*z": lambda x, y, z: x + y * z,
    "softmax": lambda x: jax.nn.softmax(x, axis=-1),
    "layernorm": layernorm,
    "gelu tanh": lambda x: jax.nn.gelu(x, approximate=True),
    "gelu erf": lambda x: jax.nn.gelu(x, approximate=False),
    "exp": jnp.exp,
    "column sums": lambda x: jnp.sum(x, axis=0),
    "transpose": lambda x: x.T + 1.0,
    "matmul": jnp.matmul,
    "matmul+bias+gelu": lambda x, w, b: jax.nn.gelu(x @ w + b, approximate=True),
    "batched matmul": jnp.matmul,
    "gemv": jnp.matmul,
    "matvec": jnp.matmul,
    "complex chain": lambda x, y: ((x * y + x) * y - x) * y,
    "complex exp": jnp.exp,
    "complex matmul": jnp.matmul,
    "MLP train step": train_step,
    "tiny call": lambda x, y: x + y,
}
