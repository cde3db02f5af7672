# SPDX-License-Identifier: Apache-2.0
"""Buffers, donation, callbacks, DLPack, ahead-of-time: what lies between JAX and the device."""

import gc
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.experimental import io_callback
from jax.experimental.buffer_callback import buffer_callback
from jax.experimental.serialize_executable import deserialize_and_load, serialize

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def case_transfers():
    views = [X, X.T, X[:, ::2], X[::-1], np.broadcast_to(X[0], (2, 4)), X[:0], np.float32(3)]
    return [jax.device_put(view) for view in views]


def case_read_only_views():
    x = jnp.arange(10_000.0)
    view = np.asarray(x)
    del x
    gc.collect()
    return view.sum()


def case_donation():
    f = jax.jit(lambda a, b: (a + b, b * 2), donate_argnums=0)
    a, b = jnp.ones((100, 100)), jnp.full((100, 100), 2.0)
    results = f(a, b)
    return results, a.is_deleted(), b.is_deleted()


def case_donation_with_a_view():
    f = jax.jit(lambda a: a + 1, donate_argnums=0)
    a = jnp.zeros(1000)
    view = np.asarray(a)
    b = f(a)
    return view.sum(), b.sum(), a.is_deleted()


def case_donated_twice():
    f = jax.jit(lambda a, b: a + b, donate_argnums=(0, 1))
    a = jnp.ones(10)
    try:
        f(a, a)
    except (RuntimeError, ValueError) as error:
        return "donate" in str(error)
    return False


def case_deleted():
    a = jnp.ones(10)
    a.delete()
    try:
        jax.jit(lambda x: x + 1)(a)
    except (RuntimeError, ValueError) as error:
        return "deleted" in str(error)
    return False


def case_chain_of_donations():
    step = jax.jit(
        lambda s: jax.lax.fori_loop(0, 50, lambda i, v: v * 0.99 + 0.01, s), donate_argnums=0
    )
    state = jnp.zeros((200, 200))
    for _ in range(20):
        state = step(state)
    return state


def case_pure_callback():
    f = jax.jit(lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x) * 2)
    return f(X), jax.vmap(lambda r: jax.pure_callback(np.cos, r, r, vmap_method="expand_dims"))(X)


def case_io_callback():
    seen = []

    @jax.jit
    def f(x):
        for k in range(3):
            io_callback(lambda v: seen.append(float(v)), None, x + k, ordered=True)
        return x

    f(1.0).block_until_ready()
    jax.effects_barrier()
    return seen


def case_callback_runs_jax():
    f = jax.jit(lambda x: jax.pure_callback(lambda v: np.asarray(jnp.sin(v)), x, x))
    return f(X)


def case_debug_print_in_loop():
    jax.debug.print("x = {x}", x=X[0])
    out = jax.lax.fori_loop(0, 3, lambda i, s: (jax.debug.callback(lambda _: None, i), s + i)[1], 0)
    jax.effects_barrier()
    return out


def case_callback_errors():
    def fail(x):
        raise KeyError("the callback's own words")

    try:
        jax.jit(lambda x: jax.pure_callback(fail, x, x))(X).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        return "the callback's own words" in str(error)
    return False


def case_dlpack():
    x = jnp.arange(6.0).reshape(2, 3)
    return np.from_dlpack(x), jnp.from_dlpack(np.arange(8, dtype=np.int32)), jnp.from_dlpack(x)


def case_dlpack_of_another_order():
    rows = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    turned = jnp.from_dlpack(rows.transpose(2, 0, 1))
    return turned, jax.jit(jnp.cumsum)(turned), jnp.from_dlpack(rows.T, copy=True)


def case_a_copy_through_dlpack_is_a_copy():
    given = np.ones(1 << 14, np.float32)
    copy = jnp.from_dlpack(given, copy=True)
    if "ingot" in jax.devices()[0].client.platform_version:
        given[:] = 5  # jaxlib's own CPU client shares the memory all the same
    return copy


def case_ahead_of_time():
    lowered = jax.jit(lambda x: x @ x.T).lower(X)
    assert lowered.cost_analysis()["flops"] > 0
    compiled = lowered.compile()
    analysis, memory = compiled.cost_analysis(), compiled.memory_analysis()
    assert analysis["flops"] > 0
    assert memory.argument_size_in_bytes == X.nbytes
    assert "HloModule" in compiled.as_text()
    return compiled(X)


def case_serialized_executable():
    compiled = jax.jit(lambda x: jnp.sin(x) + 1).lower(X).compile()
    return deserialize_and_load(*serialize(compiled), execution_devices=jax.devices()[:1])(X)


def case_export():
    exported = export.export(jax.jit(lambda x: jnp.cos(x) * 2))(jax.ShapeDtypeStruct((3, 4), "f4"))
    return export.deserialize(exported.serialize()).call(X)


def case_persistent_cache():
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        first = jax.jit(lambda x: x * 3 + 1)(X)
        jax.clear_caches()
        second = jax.jit(lambda x: x * 3 + 1)(X)
        jax.config.update("jax_compilation_cache_dir", None)
    return first, second


def case_memory_kinds():
    device = jax.devices()[0]
    kinds = sorted(memory.kind for memory in device.addressable_memories())
    sharding = jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host")
    x = jax.device_put(X, sharding)
    return x, x.sharding.memory_kind == "pinned_host", len(kinds)


def case_threads():
    from concurrent.futures import ThreadPoolExecutor

    f = jax.jit(lambda x: (x @ x).sum())
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda k: f(jnp.full((64, 64), float(k))), range(16)))


def case_buffer_callback():
    def write(context, out, x, y):
        assert context.stage.name == "EXECUTE"
        assert (out.writeable, x.writeable, x.shape, x.ndim) == (True, False, (3, 4), 2)
        assert np.asarray(out).dtype == out.dtype
        np.asarray(out)[...] = np.asarray(x) + np.from_dlpack(y)

    def double(context, out, x):
        assert np.asarray(x).ctypes.data == np.asarray(out).ctypes.data
        np.asarray(out)[...] *= 2

    def fail(context, out, x):
        raise ValueError("not today")

    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    like = jax.ShapeDtypeStruct.like(x)
    made = jax.jit(buffer_callback(write, like))(x, x * 3)
    twice = jax.jit(buffer_callback(double, like, input_output_aliases={0: 0}))(x)
    said = ""
    try:
        jax.block_until_ready(jax.jit(buffer_callback(fail, like))(x))
    except jax.errors.JaxRuntimeError as error:
        said = str(error)
    assert "not today" in said
    return made, twice
