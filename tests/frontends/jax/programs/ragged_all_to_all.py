# SPDX-License-Identifier: Apache-2.0
"""`ragged_all_to_all` on four devices, beside a gather of all rows: JAX's CPU has no such op."""

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

IS_INGOT = "ingot" in jax.devices()[0].client.platform_version
DEVICES = 4
MESH = jax.make_mesh((DEVICES,), ("x",), axis_types=(AxisType.Auto,))
GRID = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
ROWS, ROOM = 13, 17
GROUPS = [[0, 2], [3, 1]]


def slices(seed, groups, least=0):
    """Return offsets, sizes and targets of slices, a row for each device, and where rows come from.

    Args:
        seed: of the sizes.
        groups: the devices that exchange.
        least: the least rows of a slice.
    """
    rng = np.random.default_rng(seed)
    count = len(groups[0])
    devices = sum(map(len, groups))
    starts, sizes, targets, taken = (np.zeros((devices, count), np.int32) for _ in range(4))
    source = -np.ones((devices, ROOM), np.int32)
    for group in groups:
        sent = rng.integers(least, 4, (count, count))
        begin = np.concatenate([np.zeros((count, 1), int), np.cumsum(sent + 1, 1)[:, :-1]], 1)
        target = np.concatenate([np.zeros((1, count), int), np.cumsum(sent + 1, 0)[:-1]], 0)
        for giver, device in enumerate(group):
            sizes[device], starts[device] = sent[giver], begin[giver] % (ROWS - 3)
            targets[device], taken[device] = target[giver], sent[:, giver]
            for taker, other in enumerate(group):
                for row in range(sent[giver, taker]):
                    place = device * ROWS + starts[device, taker] + row
                    source[other, target[giver, taker] + row] = place
    return [part.ravel() for part in (starts, sizes, targets, taken)], source.ravel()


def exchange(seed, groups=None, mesh=MESH, least=0, batch=0):
    """Return the exchange of slices as a function of rows and of what is there before.

    With a `batch` it is mapped over dimension 1: JAX's rule wants one in every operand.
    """
    everyone = groups or [list(range(mesh.shape["x"]))]
    vectors, source = slices(seed, everyone, least)

    def local(rows, before, *given):
        return jax.lax.ragged_all_to_all(
            rows, before, *given, axis_name="x", axis_index_groups=groups
        )

    moved = jax.shard_map(
        local, mesh=mesh, in_specs=(P("x"),) * 6, out_specs=P("x"), axis_names={"x"},
        check_vma=False,
    )  # fmt: skip

    if batch:
        moved = jax.vmap(moved, in_axes=1, out_axes=1)
        vectors = [np.stack([vector] * batch, 1) for vector in vectors]

    def gathered(rows, before):
        found = (source >= 0).reshape(-1, *[1] * (rows.ndim - 1))
        return jnp.where(found, rows[np.maximum(source, 0)], before)

    return (lambda rows, before: moved(rows, before, *vectors)) if IS_INGOT else gathered


def values(seed, rows, dtype, *more):
    array = np.random.default_rng(seed).standard_normal((rows, *more)) * 5
    return jnp.asarray(array).astype(dtype)


def moved(seed, dtype, *more, devices=DEVICES, **how):
    rows, before = (values(n, devices * r, dtype, *more) for n, r in ((1, ROWS), (2, ROOM)))
    return jax.jit(exchange(seed, **how))(rows, before)


def case_element_types():
    dtypes = ("float32", "bfloat16", "int8", "bool", "complex64", "uint32")
    return [moved(n, dtype, 3) for n, dtype in enumerate(dtypes)]


def case_shapes():
    return [moved(n, "float32", *more) for n, more in enumerate([(), (1,), (7,), (2, 5), (0,)])]


def case_special_values():
    special = np.array([np.nan, -np.inf, np.inf, -0.0, 1e-42], np.float32)
    rows = jnp.asarray(np.resize(special, DEVICES * ROWS))
    found = jax.jit(exchange(3))(rows, jnp.full(DEVICES * ROOM, -0.0, np.float32))
    return jax.lax.bitcast_convert_type(found, jnp.uint32)


def case_groups():
    return moved(4, "float32", 3, groups=GROUPS)


def case_another_axis_is_automatic():
    return moved(5, "float32", 4, devices=2, mesh=GRID)


def case_in_a_loop():
    step = exchange(6)
    rows, before = values(1, DEVICES * ROWS, "float32"), values(2, DEVICES * ROOM, "float32")

    def body(_, state):
        kept = state.reshape(DEVICES, ROOM)[:, :ROWS].reshape(-1)
        return step(rows + kept, state * 0.5)

    return jax.jit(lambda v: jax.lax.fori_loop(0, 5, body, v))(before)


def case_vmap():
    rows, before = (values(n, 6 * DEVICES * r, "float32", 2).reshape(-1, 6, 2) for n, r in
                    ((1, ROWS), (2, ROOM)))  # fmt: skip
    return jax.jit(exchange(7, batch=6))(rows, before)


def case_gradients():
    # JAX's own rule for what was there before is wrong for empty slices.
    step = exchange(8, least=1)
    rows, before = (values(n, DEVICES * r, "float32", 3) for n, r in ((1, ROWS), (2, ROOM)))
    weights = values(3, DEVICES * ROOM, "float32", 3)

    def loss(rows, before):
        return jnp.sum(jnp.sin(step(rows, before)) * weights)

    return jax.jit(jax.value_and_grad(loss, (0, 1)))(rows, before)
