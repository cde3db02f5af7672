# SPDX-License-Identifier: Apache-2.0
"""`ragged_dot`, which Ingot is given whole: modes, gradients, batches, devices, exports."""

import jax

jax.config.update("jax_num_cpu_devices", 2)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import export  # noqa: E402
from jax.sharding import AxisType, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

IS_INGOT = "ingot" in jax.devices()[0].client.platform_version
ROWS, DEPTH, COLUMNS, GROUPS = 67, 96, 130, 5
SIZES = {
    "all": [10, 0, 31, 1, 25],
    "fewer": [10, 0, 31, 1, 0],
    "none": [0, 0, 0, 0, 0],
    "one": [0, 0, 67, 0, 0],
}


def operands(dtype="float32", groups=GROUPS):
    """Return rows and one matrix for each group."""
    rng = np.random.default_rng(0)
    lhs, rhs = rng.normal(size=(ROWS, DEPTH)), rng.normal(size=(groups, DEPTH, COLUMNS))
    scale = 4 if np.dtype(dtype).kind in "iu" else 0.25
    lhs, rhs = lhs * scale, rhs * scale
    return jnp.asarray(lhs.astype(np.float32), dtype), jnp.asarray(rhs.astype(np.float32), dtype)


def sizes(name="all", dtype="int32"):
    """Return the rows of each group."""
    return jnp.asarray(SIZES[name], dtype)


def case_sizes():
    lhs, rhs = operands()
    return [jax.jit(jax.lax.ragged_dot)(lhs, rhs, sizes(name)) for name in SIZES]


def case_types():
    return [
        jax.jit(jax.lax.ragged_dot)(*operands(dtype), sizes("all", count))
        for dtype, count in (("bfloat16", "int32"), ("int32", "uint32"), ("float32", "int16"))
    ]


def case_wider_result():
    return jax.jit(lambda *given: jax.lax.ragged_dot(*given, preferred_element_type=jnp.float32))(
        *operands("bfloat16"), sizes()
    )


def case_precisions():
    return [
        jax.jit(lambda *given, p=precision: jax.lax.ragged_dot(*given, precision=p))(
            *operands(), sizes()
        )
        for precision in ("highest", jax.lax.DotAlgorithmPreset.F32_F32_F32)
    ]


def _loss(lhs, rhs, counts):
    return jnp.sum(jnp.sin(jax.lax.ragged_dot(lhs, rhs, counts)))


def case_gradients():
    return [jax.jit(jax.grad(_loss, argnums=(0, 1)))(*operands(), sizes(name)) for name in SIZES]


def case_forward_mode():
    lhs, rhs = operands()
    return jax.jvp(lambda *given: jax.lax.ragged_dot(*given, sizes()), (lhs, rhs), (lhs, rhs))


def case_batches():
    """Each batch has groups of its own, which JAX writes out."""
    lhs, rhs = operands()
    counts = jnp.stack([sizes("all"), sizes("one"), sizes("fewer")])
    return jax.jit(jax.vmap(jax.lax.ragged_dot))(
        jnp.stack([lhs, lhs + 1, -lhs]), jnp.stack([rhs, rhs, -rhs]), counts
    )


def case_sums_of_groups():
    lhs, _ = operands()
    numbers = jax.lax.RaggedDotDimensionNumbers(
        dot_dimension_numbers=(((0,), (0,)), ((), ())),
        lhs_ragged_dimensions=[0],
        rhs_group_dimensions=[],
    )
    other = jnp.cos(lhs[:, :33])
    return [
        jax.jit(lambda *given: jax.lax.ragged_dot_general(*given, numbers))(lhs, other, sizes(name))
        for name in SIZES
    ]


def case_loop():
    lhs, rhs = operands()
    rhs = rhs[:, :, :DEPTH] / 5
    return jax.lax.scan(
        lambda x, counts: (jnp.tanh(jax.lax.ragged_dot(x, rhs, counts)), counts.sum()),
        lhs,
        jnp.stack([sizes("all"), sizes("one"), sizes("fewer")]),
    )


def _mesh():
    return jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))


def case_divided_by_the_partitioner():
    lhs, rhs = operands()
    columns = jax.device_put(rhs, NamedSharding(_mesh(), P(None, None, "x")))
    return jax.jit(jax.lax.ragged_dot)(lhs, columns, sizes())


def case_in_each_device():
    lhs, rhs = operands()
    part = jax.shard_map(
        jax.lax.ragged_dot,
        mesh=_mesh(),
        in_specs=(P(), P(None, None, "x"), P()),
        out_specs=P(None, "x"),
    )
    return jax.jit(part)(lhs, rhs, sizes())


def case_exported():
    given = (*operands(), sizes())
    program = export.export(jax.jit(jax.lax.ragged_dot))(*given)
    return export.deserialize(program.serialize()).call(*given)


def case_exported_with_symbolic_sizes():
    lhs, rhs = operands()
    (rows,) = export.symbolic_shape("rows")
    described = [
        jax.ShapeDtypeStruct(shape, dtype)
        for shape, dtype in (
            ((rows, DEPTH), lhs.dtype),
            (rhs.shape, rhs.dtype),
            ((GROUPS,), "int32"),
        )
    ]
    program = export.export(jax.jit(jax.lax.ragged_dot))(*described)
    return program.call(lhs, rhs, sizes()), program.call(lhs[:9], rhs, sizes())


def case_a_group_is_multiplied_by_its_own_rows():
    """What Ingot is given says so: masked rows times an infinity would be NaN."""
    lhs, rhs = operands()
    rhs = rhs.at[1].set(jnp.inf)  # a group without rows
    found = jax.jit(jax.lax.ragged_dot)(jnp.tile(lhs, (20, 1)), rhs, 20 * sizes())
    return bool(jnp.isfinite(found).all()) or not IS_INGOT
