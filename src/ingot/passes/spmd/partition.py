# SPDX-License-Identifier: Apache-2.0
"""Partitioning as other packages ask for it: the partitioner is imported for several devices."""

from __future__ import annotations

from ingot.hlo.module import Module
from ingot.passes.spmd.sharding import Partitioned, replicated


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
