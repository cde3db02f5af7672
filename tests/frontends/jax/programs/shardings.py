# SPDX-License-Identifier: Apache-2.0
"""Shardings that Shardy propagates: explicit and partly manual axes, what needs no communication.

Each program compiled here says in its text that it has no collective where none is needed.
"""

import re

import jax

jax.config.update("jax_num_cpu_devices", 8)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax._src.lax import parallel  # noqa: E402
from jax.experimental import control_deps  # noqa: E402
from jax.sharding import AxisType, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

AUTO = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
CUBE = jax.make_mesh((2, 2, 2), ("x", "y", "z"), axis_types=(AxisType.Auto,) * 3)
TURNED = jax.sharding.Mesh(
    np.array(jax.devices())[[3, 6, 1, 0, 7, 2, 5, 4]].reshape(4, 2), ("x", "y")
)
DEVICE = jax.devices()[0]
A = np.random.default_rng(0).standard_normal((8, 16), np.float32)
B = np.random.default_rng(1).standard_normal((16, 8), np.float32)
MEETS = re.compile(r"\b(all[-_](gather|reduce|to[-_]all)|collective[-_]permute)")


def put(value, mesh, *axes):
    return jax.device_put(value, NamedSharding(mesh, P(*axes)))


def apart(f, *arguments):
    """Compile `f`, see that devices do not meet and have no whole value, and run it."""
    compiled = jax.jit(f).lower(*arguments).compile()
    text, whole = compiled.as_text(), "[" + ",".join(map(str, arguments[0].shape)) + "]"
    # XLA gathers for some of them.
    assert "ingot" not in DEVICE.device_kind or not MEETS.search(text)
    assert "ingot" not in DEVICE.device_kind or whole not in text
    return compiled(*arguments)


def case_explicit_axes():
    with jax.set_mesh(EXPLICIT):
        a, b = jax.device_put(A, P("x", "y")), jax.device_put(B, P("y", None))
        made = jax.jit(lambda a, b: jnp.tanh(jnp.matmul(a, b, out_sharding=P("x"))).sum(0))(a, b)
        turned = jax.jit(lambda a: jax.sharding.reshard(a, P("y", "x")) * 2)(a)
        assert turned.sharding.spec == P("y", "x")
        return made, turned


def case_what_shardy_propagates():
    def f(a):
        return jnp.zeros((8, 16)) + jnp.arange(16.0), jnp.sin(a)

    zeros, sines = jax.jit(f, out_shardings=NamedSharding(AUTO, P("x", "y")))(A)
    assert sines.sharding.spec == P("x", "y")
    return zeros, sines, [shard.data for shard in zeros.addressable_shards]


def case_partly_manual():
    def inside(a):
        return jnp.sin(a) @ a.T + jax.lax.psum(a, "x").sum() + jax.lax.axis_index("x")

    def meeting(a):
        rows = jax.lax.all_gather(a, "x", axis=0, tiled=True)
        turned = jax.lax.all_to_all(rows, "x", split_axis=0, concat_axis=0, tiled=True)
        return jax.lax.psum_scatter(turned * 2, "x", scatter_dimension=0, tiled=True) + a

    def doubled(mesh):
        part = {"in_specs": P("x"), "out_specs": P("x"), "axis_names": {"x"}}
        body = jax.shard_map(inside, mesh=mesh, **part)
        other = jax.shard_map(meeting, mesh=mesh, **part)
        return jax.jit(lambda a: (body(a) * 2, other(a)))(put(A, mesh, "x", "y"))

    return doubled(AUTO), doubled(TURNED)


def case_nested_shard_maps():
    def inner(a):
        return jax.lax.psum(jnp.sin(a), "y") * 2

    def outer(a):
        b = jnp.cos(a) + jax.lax.axis_index("x")
        return jax.shard_map(inner, in_specs=P(None, "y"), out_specs=P(), axis_names={"y"})(b)

    f = jax.shard_map(outer, mesh=CUBE, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})
    return jax.jit(f)(put(A, CUBE, "x", "z"))


def case_random_numbers_without_communication():
    made = apart(
        lambda a: jax.random.bits(jax.random.key(3), a.shape) + a,
        put(np.arange(128, dtype=np.uint32).reshape(8, 16), AUTO, "x", "y"),
    )
    whole = jax.random.bits(jax.random.key(3), (8, 16)) + jnp.arange(128).reshape(8, 16)
    assert np.array_equal(made, whole.astype(np.uint32))
    return made


def case_batches_without_communication():
    squares = np.einsum("bij,bkj->bik", *[np.stack([A[:, :8] + n for n in range(8)])] * 2)
    squares += 9 * np.eye(8, dtype=np.float32)
    batch = put(squares, AUTO, "x")
    take = jax.vmap(lambda m, i: m[i].sum(-1))
    indices = put(np.arange(16, dtype=np.int32).reshape(8, 2) % 8, AUTO, "x")
    return (
        apart(jnp.linalg.cholesky, batch),
        apart(jax.grad(lambda m: jnp.linalg.slogdet(m)[1].sum()), batch),
        apart(lambda m: jax.vmap(jnp.linalg.solve)(m, m[:, :, :2]), batch),
        apart(take, batch, indices),
        apart(jax.grad(lambda m, i: (take(m, i) ** 2).sum()), batch, indices),
        apart(lambda m: jax.lax.top_k(m, 3), batch),
        apart(lambda m: jax.lax.reduce_window(m, 0.0, jax.lax.add, (1, 2, 2), (1, 2, 2), "SAME"),
              batch),
    )  # fmt: skip


def case_divided_batches_of_matrices_are_the_bits_of_the_whole():
    """How many matrices a device has chooses nothing that vectors' signs or sums depend on."""
    same = []
    for count, size in ((8, 3), (16, 16), (32, 4), (8, 24)):
        x = jnp.asarray(np.random.default_rng(0).normal(size=(count, size, size)), jnp.float32)
        divided = jax.device_put(x, NamedSharding(AUTO, P(("x", "y"))))
        for function in (
            lambda x: jnp.linalg.eigh(x + jnp.swapaxes(x, 1, 2)),
            jnp.linalg.svd,
            jnp.linalg.qr,
            lambda x: jnp.linalg.solve(x, x[:, :, :1]),
        ):
            pairs = zip(*(jax.tree.leaves(jax.jit(function)(y)) for y in (x, divided)), strict=True)
            same += [bool((one == other).all()) for one, other in pairs]
    return same


def case_rematerialization_without_communication():
    f = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x) * 2))
    return apart(jax.grad(lambda x: f(x).sum(), 0), put(A, AUTO, "x"))


def case_sizes_that_devices_do_not_divide():
    a = put(A, AUTO, "x", "y")
    wish = NamedSharding(AUTO, P(("y", "x"), None))

    def f(a):
        odd = jnp.concatenate([a, a[:3] * 2])
        return jax.lax.with_sharding_constraint(odd, wish).sum(1), jnp.pad(a, ((0, 1), (2, 3)))[1:]

    return jax.jit(f)(a)


def case_exchanges():
    def f(a):
        turned = jax.lax.with_sharding_constraint(a * 2, NamedSharding(AUTO, P(None, ("x", "y"))))
        return jax.lax.with_sharding_constraint(turned + 1, NamedSharding(AUTO, P("y", "x")))

    a, b = put(A, AUTO, ("x", "y")), put(B, AUTO, "x")
    rows = jax.jit(jnp.matmul, out_shardings=NamedSharding(AUTO, P("x")))(
        put(A, AUTO, None, "x"), b
    )
    return jax.jit(f)(a), rows


def case_asynchronous_collectives_in_an_order():
    def inside(a, b):
        started = parallel.all_gather_start(b, "x", tiled=True)
        made = jnp.sin(a)
        whole = started.done()
        control_deps.schedule([started.x, made, whole])
        return made @ whole, parallel.psum_start(a, "x").done()

    f = jax.shard_map(
        inside, mesh=AUTO, in_specs=(P("x"), P("x")), out_specs=(P("x"), P()), check_vma=False
    )
    return jax.jit(f)(A, B)


def case_order():
    def products(a, is_turned):
        first, second = jnp.sin(a) @ a.T, jnp.cos(a) @ a.T
        control_deps.schedule([second, first] if is_turned else [first, second])
        return first, second

    def inside(a):
        total, made = jax.lax.psum(a, "x"), jnp.sin(a) @ jnp.ones((a.shape[1],) * 2)
        control_deps.control_dep(total, made)
        return total + made

    parts = jax.shard_map(
        inside, mesh=AUTO, in_specs=P("x", "y"), out_specs=P("x", "y"), check_vma=False
    )
    found = []
    for f in (lambda a: products(a, False), lambda a: products(a, True), parts):
        made = jax.jit(f).lower(A).compile()
        found += [made(A), "control-predecessors" in str(made.as_text())]
    return found


def case_donated_and_kept():
    a = jax.device_put(A, NamedSharding(AUTO, P()))
    made = jax.jit(lambda x: x, donate_argnums=0, out_shardings=a.sharding)(a)
    assert a.is_deleted()
    return made
