# SPDX-License-Identifier: Apache-2.0
"""Element types, random numbers, 64 bits."""

import jax

jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

TYPES = [
    *(jnp.int8, jnp.int16, jnp.int32, jnp.int64, jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64),
    *(jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64, jnp.complex64, jnp.complex128),
]
SMALL = [
    *(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3b11fnuz),
    *(ml_dtypes.int4, ml_dtypes.uint4),
]


def case_arithmetic():
    found = []
    for dtype in TYPES:
        x = jnp.arange(1, 7).astype(dtype)
        found.append((x + x, x * x, x - 3, x // 2 if x.dtype.kind in "iu" else x / 3, x.sum()))
    return found


def case_comparisons():
    return [jnp.arange(5).astype(d) == jnp.array(3).astype(d) for d in TYPES]


def case_small_types():
    x = jnp.arange(6, dtype=jnp.float32)
    return [(x.astype(d).astype(jnp.float32), jax.device_put(np.ones(3, d))) for d in SMALL]


def case_small_types_keep_their_values():
    return [jnp.asarray(np.arange(5).astype(d)) for d in SMALL]


def case_booleans():
    p = jnp.array([True, False, True])
    return p & ~p, p | p, p.any(), p.all(), p.sum()


def case_conversions():
    x = jnp.array([-1.5, 0.0, 2.7, 300.0])
    return [x.astype(d) for d in (jnp.int32, jnp.int64, jnp.float16, jnp.bfloat16, jnp.complex64)]


def case_complex():
    z = jnp.array([1 + 2j, -3 + 0.5j])
    return z * z, jnp.abs(z), jnp.conj(z), z.real, z.imag, jnp.exp(z), z / (2 - 1j)


def case_random():
    key = jax.random.key(7)
    a, b, c, d, e = jax.random.split(key, 5)
    return (
        jax.random.bits(a, (5,)),
        jax.random.uniform(b, (3, 2)),
        jax.random.normal(c, (7,), jnp.float32),
        jax.random.randint(d, (4,), 0, 100),
        jax.random.permutation(e, 10),
        jax.random.choice(a, 5, (3,)),
        jax.random.bernoulli(b, 0.3, (6,)),
        jax.random.categorical(c, jnp.zeros((4, 3))),
    )


def case_random_distributions():
    key = jax.random.key(3)
    return (
        jax.random.gamma(key, 2.0, (4,), jnp.float32),
        jax.random.truncated_normal(key, -1, 1, (4,), jnp.float32),
        jax.random.exponential(key, (4,), jnp.float32),
        jax.random.laplace(key, (4,), jnp.float32),
        jax.random.gumbel(key, (4,), jnp.float32),
    )


def case_integers_wrap():
    return jnp.uint8(250) + jnp.uint8(10), jnp.int32(2**31 - 1) + jnp.int32(1)


def case_special_values():
    x = jnp.array([jnp.nan, jnp.inf, -jnp.inf, -0.0])
    return jnp.isnan(x), jnp.sign(x), jnp.maximum(x, 0), 1 / x, jnp.nan_to_num(x)
