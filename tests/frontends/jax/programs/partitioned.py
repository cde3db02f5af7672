# SPDX-License-Identifier: Apache-2.0
"""Sharded jit on four devices: what works on parts, what is gathered, callbacks, loops."""

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental import io_callback  # noqa: E402
from jax.sharding import AxisType, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

MESH = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
TURNED = jax.sharding.Mesh(np.array(jax.devices())[[3, 1, 0, 2]].reshape(2, 2), ("x", "y"))


def _normal(seed, *dims):
    return np.random.default_rng(seed).standard_normal(dims, np.float32)


A = _normal(0, 8, 12)
B = _normal(1, 12, 16)
V = _normal(2, 16)
IMAGE = _normal(3, 4, 6, 6, 4)
KERNEL = _normal(4, 3, 3, 4, 8)


def on(*axes, mesh=MESH):
    return NamedSharding(mesh, P(*axes))


def put(value, *axes, mesh=MESH):
    return jax.device_put(value, on(*axes, mesh=mesh))


def case_products():
    divided, rows = put(A, "x", "y"), put(A, "x")
    return (
        jax.jit(jnp.matmul)(divided, put(B, "y", "x")),
        jax.jit(jnp.matmul, out_shardings=on("y", "x"))(divided, put(B, "x")),
        jax.jit(jnp.matmul, out_shardings=on("x"))(rows, put(B, "x")),
        jax.jit(lambda a: a.sum(0))(put(A, "y", "x", mesh=TURNED)),
    )


def case_results_lie_where_they_are_wanted():
    made = jax.jit(lambda a: a * 2, out_shardings=on("y", "x"))(put(A, "x", "y"))
    assert made.sharding.is_equivalent_to(on("y", "x"), 2)
    return made, [shard.data for shard in made.addressable_shards]


def loss(w, x, v):
    return jnp.mean(jnp.tanh(x @ w + v) ** 2)


def case_training_step():
    step = jax.value_and_grad(loss, (0, 2))
    data = jax.jit(step)(B, put(A, "x"), V)
    both = jax.jit(step, out_shardings=(None, (on("x", "y"), on("y"))))(
        put(B, "x", "y"), put(A, "x", "y"), put(V, "x")
    )
    return data, both


def case_attention():
    q = _normal(5, 4, 5, 2, 6)

    def attend(q, k, v):
        scores = jax.nn.softmax(jnp.einsum("bthd,bshd->bhts", q, k) / 2)
        return jnp.einsum("bhts,bshd->bthd", scores, v)

    return jax.jit(attend)(*(put(q * s, "x", None, "y") for s in (1.0, 0.5, 2.0)))


def case_convolution():
    def total(x, k):
        labels = ("NHWC", "HWIO", "NHWC")
        made = jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=labels)
        return (made**2).mean()

    image, kernel = put(IMAGE, "x", None, None, "y"), put(KERNEL, None, None, None, "y")
    return jax.jit(jax.grad(total, (0, 1)))(image, kernel)


def case_embedding():
    places = put(np.arange(8, dtype=np.int32).reshape(4, 2) % 5, "x", "y")
    look = jax.jit(lambda t, i: jnp.take(t, i, axis=0).sum(-1))
    slope = jax.jit(jax.grad(lambda t, i: (jnp.take(t, i, axis=0) ** 2).sum()))
    return look(B, places), slope(B, places)


def case_sums_of_one_process_are_not_begun_early():
    w, x = _normal(5, 256, 256) / 16, _normal(6, 512, 256)

    def deep(w, x):
        return jnp.mean(jnp.tanh(jnp.tanh(x @ w[0]) @ w[1]) ** 2)

    step = jax.jit(jax.grad(deep)).lower([w, w], put(x, "x")).compile()
    assert " all-reduce" in step.as_text()
    assert "-start" not in step.as_text()
    return step([w, w], put(x, "x"))


def case_loops():
    def body(h, x):
        return jnp.tanh(h @ np.eye(12, dtype=np.float32) * 0.3 + x), h.sum()

    a, steps = put(A, "x", "y"), put(np.stack([A, -A, A]), None, "x", "y")
    scanned = jax.jit(lambda x: jax.lax.scan(body, jnp.zeros((8, 12)), x))(steps)
    grown = jax.jit(lambda a: jax.lax.while_loop(lambda s: s.sum() < 1e3, lambda s: s * 1.5 + 1, a))
    held = jax.jit(
        lambda a: jax.lax.fori_loop(
            0, 3, lambda i, c: jax.lax.with_sharding_constraint(c * 2 + 1, on("y", "x")), a
        )
    )
    nested = jax.jit(
        lambda a: jax.lax.fori_loop(
            0, 2, lambda i, c: jax.lax.fori_loop(0, 3, lambda j, d: jnp.sin(d) + a, c) * c.sum(0), a
        )
    )
    return scanned, grown(a), held(a), nested(a)


def case_branches():
    a = put(A, "x", "y")
    either = jax.jit(
        lambda a, p: jax.lax.cond(p, lambda z: (z + 1, z.T), lambda z: (z * 0, z.T), a)
    )
    three = (lambda z: z, lambda z: z[::-1], lambda z: jnp.sort(z, 0))
    return either(a, True), jax.jit(lambda i, a: jax.lax.switch(i, three, a))(2, a)


def case_gathered():
    a, rows = put(A, "x", "y"), put(A, "x")
    many = jax.jit(
        lambda a: (
            jnp.sort(a, 0), jnp.cumsum(a, 1), a[::-1, 2:9], jnp.argmax(a, 0), a.reshape(4, 24),
            jnp.linalg.cholesky(a @ a.T + 20 * jnp.eye(8)),
            (a * 1j + a) @ a.T.astype(jnp.complex64),
        )
    )  # fmt: skip
    odd = jax.jit(lambda a: jax.lax.with_sharding_constraint(a[:7] * 2, on("x")) + 1)
    return many(a), many(rows), odd(a)


def case_some_axes_by_hand():
    def inside(a):
        part = jax.lax.with_sharding_constraint(a, P(None, "y"))
        whole = jax.lax.all_gather(part, "x", tiled=True)
        return whole @ jnp.ones((12, 4)) + jax.lax.psum(a.sum(), "x") + jax.lax.axis_index("x")

    f = jax.shard_map(
        inside, mesh=MESH, in_specs=P("x"), out_specs=P("x"), axis_names={"x"}, check_vma=False
    )
    return jax.jit(lambda a: f(a) * 2)(put(A, "x", "y"))


def case_callbacks():
    calls = []

    def twice(x):
        calls.append("pure")
        return np.asarray(x) * 2

    def note(x):
        calls.append("io")

    def run(a):
        made = jax.pure_callback(twice, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
        io_callback(note, None, a.sum(), ordered=True)
        return made + 1

    made = jax.jit(run)(put(A, "x", "y"))
    jax.effects_barrier()
    assert sorted(calls) == ["io", "pure"]
    return made
