# SPDX-License-Identifier: Apache-2.0
"""Four devices: placement, replicated programs, shard_map, pmap."""

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

MESH = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
GRID = jax.make_mesh((2, 2), ("i", "j"), axis_types=(AxisType.Auto,) * 2)
X = np.arange(32, dtype=np.float32).reshape(8, 4)


def case_devices():
    return len(jax.devices()), jax.local_device_count(), jax.devices()[3].id


def case_placement():
    x = jax.device_put(X, jax.devices()[2])
    y = jax.jit(lambda v: v * 2)(x)
    assert y.devices() == {jax.devices()[2]}
    z = jax.device_put(y, jax.devices()[1])
    assert z.devices() == {jax.devices()[1]}
    return y, z


def case_results_in_memories_of_the_host():
    host = jax.sharding.SingleDeviceSharding(jax.devices()[1], memory_kind="pinned_host")
    x = jax.device_put(X, jax.devices()[1])
    moved = jax.jit(lambda v: (v + 1, jax.device_put(v * 2, host)))(x)
    kinds = [value.sharding.memory_kind for value in moved]
    placed = jax.jit(lambda v: v * 3, out_shardings=host)(x)
    return moved, kinds, placed, placed.sharding.memory_kind


def case_sharded_array():
    x = jax.device_put(X, NamedSharding(MESH, P("i")))
    return x, [shard.data for shard in x.addressable_shards]


def case_donated_shards():
    step = jax.jit(lambda w, x: (w - 0.1 * x.sum(0), (x @ w).mean()), donate_argnums=0)
    w, x = jax.device_put((X[0], X), (NamedSharding(MESH, P()), NamedSharding(MESH, P("i"))))
    values = []
    for _ in range(3):
        before = w
        w, value = step(w, x)
        assert before.is_deleted()
        values.append(value)
    return w, values


def case_shard_map_psum():
    f = jax.shard_map(
        lambda x: jax.lax.psum(x, "i") + jax.lax.axis_index("i"),
        mesh=MESH, in_specs=P("i"), out_specs=P("i"),
    )  # fmt: skip
    return jax.jit(f)(X)


def case_shard_map_grid():
    f = jax.shard_map(
        lambda x: jax.lax.all_gather(x, "i", tiled=True) * jax.lax.pmean(x.sum(), "j"),
        mesh=GRID, in_specs=P("i", "j"), out_specs=P("i", "j"),
    )  # fmt: skip
    return jax.jit(f)(X)


def case_shard_map_permute():
    f = jax.shard_map(
        lambda x: jax.lax.ppermute(x, "i", [(k, (k + 1) % 4) for k in range(4)]),
        mesh=MESH, in_specs=P("i"), out_specs=P("i"),
    )  # fmt: skip
    return jax.jit(f)(X)


def case_shard_map_scatter():
    f = jax.shard_map(
        lambda x: jax.lax.psum_scatter(x, "i", tiled=True),
        mesh=MESH, in_specs=P(None, "i"), out_specs=P("i", None),
    )  # fmt: skip
    return jax.jit(f)(X[:4])


def case_shard_map_gradient():
    def loss(w, x):
        return jax.lax.pmean(jnp.tanh(x @ w).sum(), "i")

    f = jax.shard_map(loss, mesh=MESH, in_specs=(P(), P("i")), out_specs=P())
    return jax.jit(jax.grad(f))(np.ones((4, 3), np.float32), X)


def case_pmap():
    return jax.pmap(lambda x: jax.lax.psum(x * 2, "i"), axis_name="i")(X.reshape(4, 8))


def case_pmap_training():
    def step(w, x):
        g = jax.grad(lambda v: ((x @ v - 1) ** 2).mean())(w)
        return w - 0.001 * jax.lax.pmean(g, "i")

    w = jnp.broadcast_to(jnp.zeros((4,)), (4, 4))
    for _ in range(5):
        w = jax.pmap(step, axis_name="i")(w, X.reshape(4, 2, 4))
    return w


def case_replicated():
    x = jax.device_put(X, NamedSharding(MESH, P()))
    y = jax.jit(lambda v: jnp.cumsum(v, axis=0) @ v.T)(x)
    return y, len(y.sharding.device_set)


def case_elementwise_on_shards():
    x = jax.device_put(X, NamedSharding(MESH, P("i")))
    y = jax.jit(lambda v: jnp.sin(v) * 2 + 1)(x)
    return y, [shard.data.shape for shard in y.addressable_shards]


def case_memory_of_shards():
    x = jax.device_put(X, NamedSharding(GRID, P("j", "i")))
    return np.asarray(x), jax.device_put(x, jax.devices()[0])


def case_failure_on_one_device():
    def fail(x):
        if x[0, 0] == 16:
            raise ValueError("the third device's own words")
        return x

    shape = jax.ShapeDtypeStruct((2, 4), np.float32)
    f = jax.shard_map(
        lambda x: jax.pure_callback(fail, shape, x), mesh=MESH, in_specs=P("i"), out_specs=P("i")
    )
    try:
        jax.jit(f)(X).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        return "the third device's own words" in str(error)
    return False


def case_long_programs_on_all_devices():
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 20_000, lambda i, c: c * 0.99 + 0.01, x))
    results = [f(jax.device_put(X * k, device)) for k, device in enumerate(jax.devices())]
    first = jax.devices()[0]
    return sum(jax.device_put(result, first) for result in results)


def case_inspected_shardings():
    seen = []

    def see(x):
        jax.debug.inspect_array_sharding(x, callback=lambda s: seen.append(str(s.spec)))
        return x

    def constrained(x):
        return see(jax.lax.with_sharding_constraint(x * 2, NamedSharding(GRID, P(None, "j"))))

    x = jax.device_put(X, NamedSharding(GRID, P("j", "i")))
    y = jax.jit(lambda v: see(jnp.sin(v)))(x)
    return y, jax.jit(constrained)(X), np.array(seen)


def case_inspection_that_fails():
    def fail(_):
        raise ValueError("the inspector's own words")

    def program(x):
        jax.debug.inspect_array_sharding(x, callback=fail)
        return x + 1

    try:
        jax.jit(program)(jax.device_put(X, NamedSharding(MESH, P("i"))))
    except jax.errors.JaxRuntimeError as error:
        return "the inspector's own words" in str(error)
    return False
