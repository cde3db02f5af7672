# SPDX-License-Identifier: Apache-2.0
"""The single ops of `op_programs` in JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

MILLION = 1 << 20
_IMAGE_LAYOUTS = ("NHWC", "HWIO", "NHWC")


def convolution(images, taps, stride=1, groups=1):
    """Convolve with padding that keeps the size (by the stride)."""
    return lax.conv_general_dilated(
        images,
        taps,
        (stride, stride),
        "SAME",
        dimension_numbers=_IMAGE_LAYOUTS,
        feature_group_count=groups,
    )


def input_gradient(gradient, taps):
    """Gradient of a 3x3 convolution by its images."""
    return jax.vjp(lambda images: convolution(images, taps), jnp.zeros_like(gradient))[1](gradient)


def strided_input_gradient(gradient, taps):
    """Gradient of a 3x3 convolution of stride 2 by its images."""
    batch, height, width, _ = gradient.shape
    images = jnp.zeros((batch, 2 * height, 2 * width, taps.shape[2]))
    return jax.vjp(lambda images: convolution(images, taps, 2), images)[1](gradient)


def filter_gradient(images, gradient):
    """Gradient of a 3x3 convolution by its taps."""
    taps = jnp.zeros((3, 3, images.shape[-1], gradient.shape[-1]))
    return jax.vjp(lambda taps: convolution(images, taps), taps)[1](gradient)


def roll(x):
    """The Laplacian on a torus."""
    return sum(jnp.roll(x, step, axis) for step in (1, -1) for axis in (0, 1)) - 4 * x


def max_pool(x):
    """Windows of 3x3, every second."""
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")


def philox(key):
    """Bits of the Philox generator."""
    algorithm = lax.RandomAlgorithm.RNG_PHILOX
    return lax.rng_bit_generator(key, (MILLION,), dtype=jnp.uint32, algorithm=algorithm)[1]


def update_loop(x):
    """Write row after row."""
    return lax.fori_loop(0, x.shape[0], lambda i, c: c.at[i].set(c[i] * 2 + 1), x)


def while_loop(x):
    """A scalar body, a hundred thousand times."""
    return lax.fori_loop(0, 100_000, lambda i, c: c * 0.999 + i.astype(jnp.float32), x)


FUNCTIONS = {
    "convolution 3x3": convolution,
    "convolution 3x3, bias, relu": lambda x, w, b: jax.nn.relu(convolution(x, w) + b),
    "convolution 3x3 NCHW": lambda x, w: lax.conv(x, w, (1, 1), "SAME"),
    "convolution 1x1 stride 2": lambda x, w: convolution(x, w, 2),
    "convolution 3x3 stride 2": lambda x, w: convolution(x, w, 2),
    "convolution 1x1": convolution,
    "convolution 7x7 stride 2": lambda x, w: convolution(x, w, 2),
    "convolution of 32 groups": lambda x, w: convolution(x, w, groups=32),
    "convolution depthwise": lambda x, w: convolution(x, w, groups=x.shape[-1]),
    "input gradient": input_gradient,
    "input gradient of stride 2": strided_input_gradient,
    "filter gradient": filter_gradient,
    "max pool": max_pool,
    "transpose 201": lambda x: x.transpose(2, 0, 1) + 0.5,
    "transpose 0213": lambda x: x.transpose(0, 2, 1, 3) + 0.5,
    "concatenate": lambda x, y: jnp.concatenate([x, y * 2, x[:, :3]], 1),
    "pad, slice": lambda x: jnp.pad(x, ((1, 1), (2, 2)))[:-1, 1:] * 2,
    "roll": roll,
    "reverse": lambda x: x[:, ::-1] * 2,
    "gather rows": lambda x, i: x[i],
    "gather": lambda x, i: x[i],
    "segment sum": lambda x, i: jax.ops.segment_sum(x, i, 1000),
    "bincount": lambda i: jnp.bincount(i, length=256),
    "sort": lambda x: jnp.sort(x, axis=-1),
    "argsort": jnp.argsort,
    "top 100": lambda x: lax.top_k(x, 100),
    "top 10": lambda x: lax.top_k(x, 10),
    "cumulative sum": jnp.cumsum,
    "cumulative sum of rows": lambda x: jnp.cumsum(x, axis=1),
    "cumulative sum of columns": lambda x: jnp.cumsum(x, axis=0),
    "cumulative maximum": lambda x: lax.cummax(x, axis=0),
    "window sum 64": lambda x: lax.reduce_window(x, 0.0, lax.add, (64,), (1,), "VALID"),
    "fft": jnp.fft.fft,
    "real fft": jnp.fft.rfft,
    "threefry bits": lambda k: jax.random.bits(jax.random.wrap_key_data(k), (MILLION,)),
    "philox bits": philox,
    "normal numbers": lambda k: jax.random.normal(jax.random.wrap_key_data(k), (MILLION,)),
    "sum over all": jnp.sum,
    "sum over 0": lambda x: x.sum(0),
    "sum over 1": lambda x: x.sum(1),
    "sum over 2": lambda x: x.sum(2),
    "sum over 01": lambda x: x.sum((0, 1)),
    "sum over 02": lambda x: x.sum((0, 2)),
    "sum over 12": lambda x: x.sum((1, 2)),
    "argmax": jnp.argmax,
    "argmax of rows": lambda x: jnp.argmax(x, axis=1),
    "argmax of columns": lambda x: jnp.argmax(x, axis=0),
    "while loop": while_loop,
    "updates in a loop": update_loop,
}
