# SPDX-License-Identifier: Apache-2.0
"""jit, grad, vmap, loops, branches, custom derivatives."""

import jax
import jax.numpy as jnp
import numpy as np

X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def case_jit():
    return jax.jit(lambda x: jnp.sin(x) @ jnp.cos(x).T + x.sum())(X)


def case_eager():
    x = jnp.asarray(X)
    return x + 1, x.T, x[1:, ::2], jnp.exp(x).mean(0), x > 0, jnp.argsort(x, axis=1)


def case_grad():
    return jax.grad(lambda x: jnp.tanh(x * x).sum())(X), jax.value_and_grad(jnp.sum)(X)


def case_hessian():
    return jax.hessian(lambda x: (jnp.sin(x) * x[::-1]).sum())(X[0])


def case_jacobians():
    f = lambda x: jnp.cumsum(x) * x  # noqa: E731
    return jax.jacfwd(f)(X[0]), jax.jacrev(f)(X[0])


def case_vmap():
    return jax.vmap(lambda a, b: jnp.dot(a, b))(X, X + 1), jax.vmap(jnp.linalg.norm)(X)


def case_scan():
    def step(carry, x):
        carry = jnp.tanh(carry + x)
        return carry, carry * 2

    return jax.lax.scan(step, jnp.zeros(6), X)


def case_scan_gradient():
    def loss(w):
        return jax.lax.scan(lambda c, x: (jnp.tanh(c @ w + x), None), jnp.zeros(6), X)[0].sum()

    return jax.grad(loss)(np.eye(6, dtype=np.float32) * 0.3)


def case_while():
    return jax.lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 3, c[1] * 2), (0, 1.0))


def case_fori():
    return jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, s: s + i * i, 0))(7)


def case_cond():
    f = jax.jit(lambda p, x: jax.lax.cond(p, jnp.sin, jnp.cos, x))
    return f(True, X), f(False, X)


def case_switch():
    f = jax.jit(lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x))
    return [f(i, X) for i in (-1, 0, 1, 2, 5)]


def case_custom_derivative():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (3 * g * x,))
    return jax.grad(lambda x: f(x).sum())(X)


def case_checkpoint():
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    return jax.grad(lambda x: f(x).sum())(X)


def case_associative_scan():
    return jax.lax.associative_scan(jnp.multiply, X, axis=1)


def case_map_reduce():
    return jax.lax.map(lambda row: jnp.sort(row)[::-1], X), jnp.cumprod(X, axis=0)


def case_pytrees():
    tree = {"a": X, "b": [X[0], {"c": np.int32(3)}]}
    return jax.jit(lambda t: jax.tree.map(lambda leaf: leaf * 2, t))(tree)


def case_closures_and_constants():
    big = np.arange(1000, dtype=np.float32)
    return jax.jit(lambda i: jnp.asarray(big)[i] + jnp.ones((3, 4)))(5)


def case_empty():
    return jnp.zeros((0, 3)) @ jnp.zeros((3, 2)), jnp.zeros((3, 0)).sum(1), jax.jit(lambda: ())()


def case_training():
    key = jax.random.key(0)
    w = [jax.random.normal(k, (8, 8)) * 0.3 for k in jax.random.split(key, 3)]
    x = jax.random.normal(jax.random.key(1), (32, 8))
    y = jnp.sin(x.sum(1, keepdims=True)) * jnp.ones((1, 8))

    def loss(w):
        h = x
        for layer in w:
            h = jnp.tanh(h @ layer)
        return ((h - y) ** 2).mean()

    @jax.jit
    def update(w):
        value, g = jax.value_and_grad(loss)(w)
        return value, jax.tree.map(lambda a, b: a - 0.5 * b, w, g)

    values = []
    for _ in range(20):
        value, w = update(w)
        values.append(value)
    return values, w
