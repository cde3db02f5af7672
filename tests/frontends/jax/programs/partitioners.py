# SPDX-License-Identifier: Apache-2.0
"""Functions of `custom_partitioning`: the user's own partitioners make the program of a device.

Each body says that it was not divided as the function itself: on parts it computes something else.
"""

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.experimental.custom_partitioning import custom_partitioning  # noqa: E402
from jax.sharding import NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

MESH = jax.make_mesh((2, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
A = np.random.default_rng(0).standard_normal((8, 4), np.float32)


def put(value, *axes):
    return jax.device_put(value, NamedSharding(MESH, P(*axes)))


def divided(whole, on_part, rule, taken=None, given=None):
    """Make a function that computes `on_part` on the parts of several devices.

    `taken` and `given` are the specs of operands and results, where not those that are asked for.
    """
    made = custom_partitioning(whole)

    def partition(mesh, arg_shapes, result_shape):
        def own(shapes, specs):
            if specs is None:
                return jax.tree.map(lambda each: each.sharding, shapes)
            return jax.tree.map(lambda _, spec: NamedSharding(mesh, spec), shapes, specs)

        results, operands = own(result_shape, given), own(arg_shapes, taken)
        return mesh, on_part, results, operands

    made.def_partition(partition=partition, sharding_rule=rule)
    return made


def case_elementwise():
    f = divided(jnp.sin, lambda x: jnp.sin(x) + 100, "i j -> i j")
    made = jax.jit(f)(put(A, "x", "y"))
    assert made.sharding.is_equivalent_to(NamedSharding(MESH, P("x", "y")), 2)
    return made, jax.jit(f)(A)


def case_collectives_of_the_user():
    def part(x):
        total = jax.lax.psum(x.sum(0), "x")
        return total + jax.lax.psum(1.0, "x") + jax.lax.axis_index("y")

    f = divided(lambda x: x.sum(0), part, "i j -> j", (P("x", "y"),), P("y"))
    twice = jax.jit(lambda x: f(x) + f(x * 2))
    return twice(put(A, "x", "y")), twice(put(A, "x"))


def case_several_results():
    def part(x, y):
        return x @ y + 1, (y.T, x)

    specs = (P("x"), P()), (P("x"), (P(), P("x")))
    f = divided(lambda x, y: (x @ y, (y.T, x)), part, "i k, k j -> i j, j k, i k", *specs)
    return jax.jit(f)(put(A, "x", "y"), put(A[:4, :3], "x"))


def case_an_operand_as_a_result_divided_otherwise():
    f = divided(lambda x: x, lambda x: x, "i j -> i j", (P("x"),), P("y"))
    return jax.jit(f)(put(A, "x"))


def case_in_a_loop_and_beside_others():
    f = divided(jnp.cos, lambda x: jnp.cos(x) + 1, "i j -> i j")

    def g(x):
        return jax.lax.scan(lambda c, _: (f(c) * 2, c.sum()), x, length=3), f(x.T) @ x

    return jax.jit(g)(put(A, "x"))


def case_partitioners_that_fail():
    def short(x):
        return x[:1]

    messages = []
    for part in (short, lambda x: 1 / 0):
        f = divided(lambda x: x, part, "i j -> i j")
        try:
            jax.jit(f)(put(A, "x"))
        except Exception as error:
            text = str(error)
            messages.append("Mismatch in result shapes" in text or "division by zero" in text)
    return np.array(messages)


def case_on_one_device():
    f = divided(jnp.sin, lambda x: jnp.sin(x) + 100, "i j -> i j")
    return jax.jit(f)(jax.device_put(A, jax.devices()[0]))
