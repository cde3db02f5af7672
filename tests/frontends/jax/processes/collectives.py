# SPDX-License-Identifier: Apache-2.0
"""A program of several processes: checks what each computes, prints "done" at the end.

Called with the number of this process, how many there are, and the coordinator's address.
"""

from __future__ import annotations

import re
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import parallel
from jax.experimental import control_deps, multihost_utils
from jax.sharding import AxisType, NamedSharding, PartitionSpec

P = PartitionSpec
INDEX, COUNT = int(sys.argv[1]), int(sys.argv[2])
LOCAL = 2

jax.config.update("jax_num_cpu_devices", LOCAL)
jax.distributed.initialize(sys.argv[3], COUNT, INDEX)
assert "ingot" in jax.devices()[0].client.platform_version
DEVICES = COUNT * LOCAL
MESH = jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Auto,))


def spread(value: np.ndarray[Any, Any]) -> jax.Array:
    """Divide the first dimension among all devices."""
    return jax.make_array_from_callback(
        value.shape, NamedSharding(MESH, P("x")), lambda part: value[part]
    )


def gathered(value: jax.Array) -> np.ndarray[Any, Any]:
    """Return the whole of a divided array."""
    return np.asarray(multihost_utils.process_allgather(value, tiled=True))


def devices() -> None:
    assert len(jax.devices()) == DEVICES
    assert [device.id for device in jax.local_devices()] == [2 * INDEX, 2 * INDEX + 1]
    assert [device.process_index for device in jax.devices()] == [
        n // LOCAL for n in range(DEVICES)
    ]
    assert [device.local_hardware_id for device in jax.local_devices()] == [0, 1]
    assert (jax.process_index(), jax.process_count()) == (INDEX, COUNT)


def partitioned() -> None:
    """Sums over all devices: small ones; large ones that exchange parts, over their operands."""
    for rows in (1, 40_000):
        x = np.arange(DEVICES * rows * 3, dtype=np.float32).reshape(-1, 3) % 7
        total = jax.jit(lambda x: (2 * x).sum(), out_shardings=NamedSharding(MESH, P()))
        assert float(total(spread(x))) == 2 * x.sum()
        product = jax.jit(lambda x: x.T @ x, out_shardings=NamedSharding(MESH, P()))
        np.testing.assert_array_equal(np.asarray(product(spread(x))), x.T @ x)
    wide = np.arange(DEVICES * 5 * 301, dtype=np.float32).reshape(-1, 301) % 7
    np.testing.assert_array_equal(np.asarray(product(spread(wide))), wide.T @ wide)


def by_hand() -> None:
    """Each collective, along other dimensions too, where parts do not lie in one piece."""
    x = np.arange(DEVICES * DEVICES * 6, dtype=np.int32).reshape(DEVICES * DEVICES, 6)
    around = [(n, (n + 1) % DEVICES) for n in range(DEVICES)]

    def local(v: jax.Array) -> Any:
        return (
            lax.psum(v, "x"),
            lax.all_gather(v, "x", axis=1, tiled=True),
            lax.psum_scatter(v, "x", scatter_dimension=0, tiled=True),
            lax.all_to_all(v, "x", 0, 1, tiled=True),
            lax.ppermute(v, "x", around),
            lax.axis_index("x")[None],
        )

    specs = (P(), P(), P("x"), P("x"), P("x"), P("x"))
    shard = jax.shard_map(local, mesh=MESH, in_specs=P("x"), out_specs=specs, check_vma=False)
    whole, wide, parts, mixed, moved, indices = jax.jit(shard)(spread(x))
    blocks = x.reshape(DEVICES, DEVICES, 6)
    np.testing.assert_array_equal(whole.addressable_data(0), blocks.sum(0))
    np.testing.assert_array_equal(wide.addressable_data(0), np.concatenate(list(blocks), 1))
    np.testing.assert_array_equal(gathered(parts), blocks.sum(0))
    np.testing.assert_array_equal(
        gathered(mixed), np.concatenate([np.concatenate(list(blocks[:, n : n + 1]), 1) for n in
                                         range(DEVICES)])
    )  # fmt: skip
    np.testing.assert_array_equal(gathered(moved), np.roll(blocks, 1, 0).reshape(x.shape))
    np.testing.assert_array_equal(gathered(indices), np.arange(DEVICES))


def ragged() -> None:
    """Rows of any number to each device: device d sends d + t rows to device t."""
    numbers = np.arange(DEVICES)
    sizes = (numbers[:, None] + numbers).astype(np.int32)
    starts = np.cumsum(sizes, 1) - sizes
    targets = np.cumsum(sizes, 0) - sizes
    length = int(sizes.sum(1).max()) + 1
    rows = np.arange(DEVICES * length * 3, dtype=np.float32).reshape(-1, 3)
    before = np.full((DEVICES * length, 3), -1, np.float32)
    wanted = before.copy()
    for giver in range(DEVICES):
        for taker in range(DEVICES):
            size = sizes[giver, taker]
            here, there = giver * length + starts[giver, taker], taker * length
            there += targets[giver, taker]
            wanted[there : there + size] = rows[here : here + size]
    moved = jax.shard_map(
        lambda *given: lax.ragged_all_to_all(*given, axis_name="x"),
        mesh=MESH, in_specs=(P("x"),) * 6, out_specs=P("x"), check_vma=False,
    )  # fmt: skip
    vectors = [spread(part.reshape(-1).astype(np.int32)) for part in
               (starts, sizes, targets, sizes.T)]  # fmt: skip
    found = jax.jit(moved)(spread(rows), spread(before), *vectors)
    np.testing.assert_array_equal(gathered(found), wanted)


def ordered() -> None:
    """The weights of a layer are gathered while the layer before it runs, and not earlier."""
    layers, size = 3, 64 * DEVICES
    rows = np.arange(DEVICES * 8 * size, dtype=np.float32).reshape(-1, size) % 5
    weights = np.arange(layers * size * size, dtype=np.float32).reshape(layers, size, size) % 3 - 1

    def local(x: jax.Array, parts: jax.Array) -> jax.Array:
        order: list[Any] = []
        for n in range(layers):
            started = parallel.all_gather_start(parts[n], "x", tiled=True)
            whole = started.done()
            order += [started.x, *([x] if n else []), whole]
            x = x @ whole
        control_deps.schedule(order)
        return x

    shard = jax.shard_map(
        local, mesh=MESH, in_specs=(P("x"), P(None, "x")), out_specs=P("x"), check_vma=False
    )
    parts = jax.make_array_from_callback(
        weights.shape, NamedSharding(MESH, P(None, "x")), lambda part: weights[part]
    )
    compiled = jax.jit(shard).lower(spread(rows), parts).compile()
    wanted = rows.astype(np.float64)
    for each in weights.astype(np.float64):
        wanted = wanted @ each
    found = gathered(compiled(spread(rows), parts))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())
    text = str(compiled.as_text())
    made = re.findall(r"^  (?:ROOT )?%(dot|all-gather(?!-done))", text[text.index("ENTRY") :], re.M)
    assert made == ["all-gather", "all-gather", "dot", "all-gather", "dot", "dot"], text


def training() -> None:
    """A loop with a collective in it, donated arguments: the losses of one device."""
    key = jax.random.key(0)
    x = np.asarray(jax.random.normal(key, (DEVICES * 8, 5)))
    y = np.sin(x.sum(1))

    def loss(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return jnp.mean((jnp.tanh(x @ w) @ jnp.ones(w.shape[1]) - y) ** 2)

    def step(w: jax.Array, x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, slope = jax.value_and_grad(loss)(w, x, y)
        return w - 0.1 * slope, value

    start = np.asarray(jax.random.normal(key, (5, 4)))
    alone, wanted = jnp.asarray(start), []
    for _ in range(5):
        alone, value = jax.jit(step)(alone, x, y)
        wanted.append(float(value))
    together = jax.jit(step, donate_argnums=0)
    w = jax.device_put(start, NamedSharding(MESH, P()))
    found = []
    for _ in range(5):
        w, value = together(w, spread(x), spread(y))
        found.append(float(value))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def others_only() -> None:
    """A program whose devices are all of another process: nothing runs here."""
    first = jax.make_mesh((LOCAL,), ("x",), devices=jax.devices()[:LOCAL],
                          axis_types=(AxisType.Auto,))  # fmt: skip
    x = jax.make_array_from_callback(
        (4,), NamedSharding(first, P("x")), lambda part: np.float32([0, 1, 2, 3])[part], np.float32
    )
    doubled = jax.jit(lambda x: x * 2 + x.sum())(x)
    if INDEX == 0:
        np.testing.assert_array_equal(np.asarray(doubled), np.arange(4.0) * 2 + 6)
    else:
        assert not doubled.addressable_shards


for check in (devices, partitioned, by_hand, ragged, ordered, training, others_only):
    check()
multihost_utils.sync_global_devices("end")
print("done")
