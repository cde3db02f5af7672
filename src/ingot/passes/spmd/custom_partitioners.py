# SPDX-License-Identifier: Apache-2.0
"""Ops that a host partitions itself: custom calls `CustomSPMDPartitioning`.

The host registers a function that is asked, while a program is partitioned, for the program of one
device and for the shardings that it takes and gives. The call's config says for which of its ops.
Invariant: it is called on the thread that compiles, perhaps more than once for a call.

Source: xla/python/custom_partition_callback.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.shape import Shape
from ingot.passes.simplify.calls import CallInliner
from ingot.passes.simplify.inline import copy_into
from ingot.passes.spmd.reshard import Channels
from ingot.passes.spmd.sharding import Sharding
from ingot.support.records import record, replace

TARGET = "CustomSPMDPartitioning"

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


def place_program(
    into: Computation, module: Module, operands: Sequence[Instruction], channels: Channels
) -> Instruction:
    """Copy the program of one device into a computation; return its result.

    Its collectives get numbers of their own among those of `channels`. Each result is a value of
    its own, since it may be divided otherwise than the operand that it is.
    """
    CallInliner().run(module, PassContext())
    build = Builder(module.entry, module.entry.root.metadata)
    root = module.entry.root
    results = [build.copy(value) for value in build.elements_of(root)]
    module.entry.set_root(build.value_of(results, root.shape))
    for computation in module.post_order():
        for item in computation.instructions:
            if getattr(item.attributes, "channel_id", None):
                numbered = replace(item.attributes, channel_id=channels.next())
                computation.set_attributes(item, numbered)
    order = module.entry.post_order()
    for item in order:
        for called in item.called_computations:
            channels.module.take(called)
    copies = dict(zip(module.entry.parameters, operands, strict=True))
    return copy_into(into, order, copies)[module.entry.root]
