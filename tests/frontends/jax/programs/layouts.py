# SPDX-License-Identifier: Apache-2.0
"""Layouts that the user chooses of arrays, parameters and results.

Each case returns values with the layouts that they have, so that both backends must agree in both.
"""

import jax

jax.config.update("jax_num_cpu_devices", 4)
jax.config.update("jax_enable_x64", True)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental.layout import Format, Layout  # noqa: E402
from jax.sharding import NamedSharding, SingleDeviceSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

MESH = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
HERE = SingleDeviceSharding(jax.devices()[0])
DTYPES = ("bool", "int8", "bfloat16", "float16", "float32", "float64", "complex64", "uint32")


def values(shape, dtype="float32"):
    made = np.random.default_rng(0).standard_normal(shape) * 9
    return made.astype(jnp.dtype(dtype)) if dtype != "complex64" else (made + 1j).astype(dtype)


def fixed(*order, sharding=HERE):
    return Format(Layout(major_to_minor=order), sharding)


def told(*arrays):
    """Return arrays, the order of their dimensions, and what lies on each device."""
    return [
        (one, np.array(one.format.layout.major_to_minor), [p.data for p in one.addressable_shards])
        for one in arrays
    ]


def case_arrays_in_any_layout():
    sizes = ((3, 5), (1, 7), (0, 4), (2, 3, 5), (13,))
    made = []
    for dtype in DTYPES:
        for shape in sizes:
            order = tuple(range(len(shape)))
            made += told(jax.device_put(values(shape, dtype), fixed(*order[1:], *order[:1])))
    return made


def case_special_numbers():
    odd = np.array([[np.nan, -0.0, np.inf], [1e-45, -np.inf, 3]], np.float32)
    a = jax.device_put(odd, fixed(1, 0))
    return told(a, jax.jit(lambda a: (a, -a))(a)[1]), np.signbit(np.asarray(a))


def case_parameters_and_results():
    def f(a, b):
        return a @ b, a.T, jnp.sin(a), a.sum(0), a.reshape(-1)

    a, b = values((6, 4)), values((4, 3))
    out = (fixed(1, 0), fixed(0, 1), fixed(1, 0), fixed(0), fixed(0))
    g = jax.jit(f, in_shardings=(fixed(1, 0), fixed(0, 1)), out_shardings=out)
    stored = jax.device_put(a, fixed(1, 0))
    return told(*g(stored, b)), told(*jax.jit(f)(stored, jax.device_put(b, fixed(1, 0))))


def case_results_that_the_compiler_chooses():
    auto = Format(Layout.AUTO)
    made = []
    for f in (
        lambda a: a.transpose(2, 0, 1),
        lambda a: jnp.sin(a.T) * 2,
        lambda a: a + 1,
        lambda a: a.sum(),
        lambda a: a.T.astype(jnp.bfloat16),
    ):
        made += told(jax.jit(f, out_shardings=auto)(values((4, 2, 3))))
    compiled = (
        jax.jit(lambda a: a.T, in_shardings=auto, out_shardings=auto)
        .lower(jax.ShapeDtypeStruct((5, 3), jnp.float32))
        .compile()
    )
    (given,), _ = compiled.input_formats
    return made, [np.array(one.layout.major_to_minor) for one in (given, compiled.output_formats)]


def case_divided_arrays():
    constrain = jax.lax.with_sharding_constraint
    whole = values((8, 4))
    made = []
    for spec in (P("x"), P("x", "y"), P(None, ("x", "y"))):
        stored = fixed(1, 0, sharding=NamedSharding(MESH, spec))
        a = jax.device_put(whole, stored)
        made += told(a, jax.jit(lambda a: a @ a.T)(a))
        made += told(jax.jit(lambda a: a * 2, in_shardings=stored, out_shardings=stored)(a))
        made += told(jax.jit(lambda a, to=stored: constrain(a + 1, to))(whole))
    return made


def case_donated_arrays():
    stored = fixed(1, 0)
    a = jax.device_put(values((16, 8)), stored)
    made = jax.jit(lambda a: a * 2, donate_argnums=0, in_shardings=stored, out_shardings=stored)(a)
    assert a.is_deleted()
    b = jax.device_put(values((16, 8)), stored)
    other = jax.jit(lambda a: a * 2, donate_argnums=0, out_shardings=fixed(0, 1))(b)
    return told(made, other)


def case_copies_keep_the_layout():
    a = jax.device_put(values((3, 5)), fixed(1, 0))
    there = jax.device_put(a, jax.devices()[1])
    pinned = jax.device_put(a, fixed(1, 0, sharding=HERE))
    return told(there, pinned, a.copy()), np.asarray(jax.device_get(a))


def case_memory_of_others():
    a = jax.dlpack.from_dlpack(jax.device_put(values((4, 3)), fixed(1, 0)))
    columns = jax.dlpack.from_dlpack(np.asfortranarray(values((3, 5))))
    return told(a), np.from_dlpack(a), columns


def case_short_integers():
    a = jax.device_put(values((3, 4), "int8").astype(jnp.int4), fixed(1, 0))
    return jax.jit(lambda a: a + jnp.int4(1))(a).astype(jnp.int8), a.astype(jnp.int8)


def case_a_layout_that_jit_did_not_expect():
    f = jax.jit(lambda a: a * 2, in_shardings=fixed(1, 0)).lower(values((3, 5))).compile()
    try:
        f(jax.device_put(values((3, 5)), HERE))
    except ValueError as error:
        return np.array("layouts" in str(error))
    raise AssertionError("an array in another layout was taken")
