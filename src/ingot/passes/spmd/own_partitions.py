# SPDX-License-Identifier: Apache-2.0
"""What a host says of ops that it partitions itself (`spmd.custom_partitioners`).

The host registers a function that is asked, while a program is partitioned, for the program of one
device and for the shardings that it takes and gives. It is registered before the first compilation
of a process, most of which partition nothing: so this module imports nothing of the partitioner.
Invariant: it is called on the thread that compiles, perhaps more than once for a call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.passes.spmd.sharding import Sharding
from ingot.support.records import record

Value = tuple[Shape, Sharding]
"""The whole shape of an operand or result, and how it is divided."""


@record
class OwnPartition:
    """The answer of a host.

    Attributes:
        module: the program of one device, on its parts of the operands.
        operands: how the operands must be divided.
        results: how the results are divided.
    """

    module: Module
    operands: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


Partitioner = Callable[[str, Sequence[Value], Sequence[Value]], OwnPartition]
"""Called with the config, the operands, and the results as Shardy or the user divides them."""

_partitioners: list[Partitioner] = []


def register_partitioner(partitioner: Partitioner) -> None:
    """Let a host partition its ops; the one registered last is called."""
    _partitioners[:] = [partitioner]


def find_partitioner() -> Partitioner | None:
    """Return the host's partitioner."""
    return _partitioners[0] if _partitioners else None
