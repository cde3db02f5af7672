# SPDX-License-Identifier: Apache-2.0
"""Functions of `custom_partitioning` on Ingot: their own partitioners make the program of a device.

On several devices JAX lowers them to a custom call that names a Python object of this process.
jaxlib would ask that object through an extension of the plugin; here JAX's own function is asked.

Source: jax/_src/custom_partitioning.py (_custom_partitioning_partition).
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from ingot.formats.hlo_proto.sharding import sharding_bytes
from ingot.formats.stablehlo import parse_stablehlo
from ingot.hlo.shape import Shape
from ingot.passes.spmd.own_partitions import OwnPartition, Value, register_partitioner
from ingot.passes.spmd.sharding import Sharding, parse_sharding, replicated
from ingot.support.diagnostics import UnsupportedError


def install_partitioning() -> None:
    """Let JAX partition the functions of `custom_partitioning`."""
    register_partitioner(_partition)


def _partition(config: str, operands: Sequence[Value], results: Sequence[Value]) -> OwnPartition:
    """Ask the user's partitioner.

    Raises:
        UnsupportedError: INGOT0360, its Python object is gone, or it fails.
    """
    library: Any = importlib.import_module("jax._src.custom_partitioning")
    client: Any = importlib.import_module("jax._src.lib").xla_client
    if config.encode() not in library._sharding_callbacks:
        raise _refused("it was lowered by another process, or its function is gone")

    def told(value: Value) -> tuple[Any, Any]:
        return _shape(client, value[0]), _sharding(client, value[1])

    shapes, shardings = zip(*map(told, operands), strict=True) if operands else ((), ())
    made_shapes, made_shardings = zip(*map(told, results), strict=True)
    shape, sharding = made_shapes[0], made_shardings[0]
    if len(results) > 1:
        shape = client.Shape.tuple_shape(made_shapes)
        sharding = client.HloSharding.tuple_sharding(shape, made_shardings)
    try:
        code, taken, given = library._custom_partitioning_partition(
            shapes, shardings, shape, sharding, config.encode()
        )
    except Exception as error:
        raise _refused(f"its partitioner failed: {error}") from error
    given = given.tuple_elements() if len(results) > 1 else [given]
    count = len((*operands, *results)[0][1].parts)
    return OwnPartition(
        parse_stablehlo(code),
        tuple(_read(each, count) for each in taken),
        tuple(_read(each, count) for each in given),
    )


def _shape(client: Any, shape: Shape) -> Any:
    return client.Shape.array_shape(shape.dtype.storage, shape.static_dims)


def _sharding(client: Any, sharding: Sharding) -> Any:
    message = client.OpSharding()
    message.ParseFromString(sharding_bytes(sharding.text()))
    return client.HloSharding.from_proto(message)


def _read(sharding: Any, count: int) -> Sharding:
    return parse_sharding(str(sharding), count) or replicated(count)


def _refused(why: str) -> UnsupportedError:
    return UnsupportedError(
        f"a function of custom_partitioning cannot be divided: {why}",
        code="INGOT0360",
        hint="see jax.experimental.custom_partitioning for what a partitioner returns",
    )
