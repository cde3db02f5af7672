# SPDX-License-Identifier: Apache-2.0
"""What partitioning says of a program: how the values at its boundary are divided."""

from __future__ import annotations

from ingot.hlo.module import Module
from ingot.passes.spmd.sharding import Sharding, replicated
from ingot.support.records import record


@record
class Partitioned:
    """How the parameters and results of the entry are divided.

    Attributes:
        inspected: for each `InspectSharding` its config, and how the value is divided.
        asks_host: whether the host partitioned an op itself, with a function of this process.
    """

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]
    inspected: tuple[tuple[str, Sharding], ...] = ()
    asks_host: bool = False


def partition(module: Module, num_partitions: int) -> Partitioned:
    """Rewrite `module` into the program of one of `num_partitions` devices; one has all of it.

    Raises:
        UnsupportedError: INGOT0360, an op or a value cannot be divided as the program asks.
    """
    if num_partitions > 1:
        from ingot.passes.spmd.partitioner import partition_among

        return partition_among(module, num_partitions)
    whole = replicated(1)
    results = module.result_shape.elements if module.result_shape.is_tuple else (None,)
    return Partitioned((whole,) * len(module.parameter_shapes), (whole,) * len(results))
