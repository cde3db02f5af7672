# SPDX-License-Identifier: Apache-2.0
"""JAX programs for a GPU, run by `tests/frontends/jax/run_cases.py` there and on JAX's CPU.

Invariant: results do not depend on the device, but for rounding.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
POSITIVE = X @ X.T + 6 * np.eye(6, dtype=np.float32)


def case_devices():
    wanted = 0 if jax.default_backend() == "cpu" else 1
    count = sum(device.platform == "gpu" for device in jax.devices())
    assert count == wanted
    assert jax.devices("cpu")[0].platform == "cpu"
    return ()


def case_training():
    def loss(w, x, y):
        return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)

    @jax.jit
    def step(w, x, y):
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w, x, y))

    step = jax.jit(step, donate_argnums=0)
    keys = jax.random.split(jax.random.key(1), 3)
    w = {"a": jax.random.normal(keys[0], (6, 16)), "b": jax.random.normal(keys[1], (16, 1))}
    x = jax.random.normal(keys[2], (32, 6))
    for _ in range(10):
        w = step(w, x, x[:, :1])
    return w, loss(w, x, x[:, :1])


def case_control_flow():
    x = jnp.asarray(X)
    doubled = jax.lax.while_loop(lambda v: v.sum() < 1000, lambda v: v * 2 + 1, jnp.abs(x))
    chosen = jax.lax.cond(x.sum() > 0, lambda v: v + 1, lambda v: v - 1, x)
    scanned = jax.lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), jnp.zeros(6), x)
    return doubled, chosen, scanned


def case_indices():
    x, places = jnp.asarray(X), jnp.array([1, 3, 1])
    return x[places][:, places], x.at[places].add(2.0), jnp.cumsum(x, 0), jnp.argmax(x, 1)


def case_linear_algebra():
    a, x = jnp.asarray(POSITIVE), jnp.asarray(X)
    values = jnp.abs(jnp.linalg.svd(x)[1])
    return jnp.linalg.cholesky(a), jnp.linalg.solve(a, x), jnp.linalg.eigvalsh(a), values


def case_convolution():
    image, kernel = jnp.asarray(X)[None, None], jnp.ones((2, 1, 3, 3))
    return jax.lax.conv_general_dilated(image, kernel, (1, 1), "SAME")


def case_callback():
    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return jax.jit(lambda x: jax.pure_callback(np.sin, shape, x) + 1)(X)


def case_donation():
    add = jax.jit(lambda a, b: (a + b, a * b), donate_argnums=0)
    a = jnp.ones(1000)
    for _ in range(5):
        before = a.unsafe_buffer_pointer()
        a, product = add(a, jnp.ones(1000))
        assert a.unsafe_buffer_pointer() == before
    return a, product


def case_transfers():
    cpu, default = jax.devices("cpu")[0], jax.devices()[0]
    there = jax.device_put(np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1), default)
    here = jax.device_put(there, cpu)
    back = jax.device_put(here + 1, default)
    assert back.devices() == {default}
    return there, here, back, jax.device_put(np.zeros((0, 3), np.float32), default)


def case_an_error_in_a_callback():
    def fail(x):
        raise ValueError("not today")

    shape = jax.ShapeDtypeStruct(X.shape, X.dtype)
    with pytest.raises(Exception, match="not today"):
        jax.block_until_ready(jax.jit(lambda x: jax.pure_callback(fail, shape, x))(X))
    return ()


def case_deleted_arrays():
    x = jnp.ones(10)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1
    return ()
