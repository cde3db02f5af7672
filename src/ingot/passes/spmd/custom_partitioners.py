# SPDX-License-Identifier: Apache-2.0
"""Ops that a host partitions itself: custom calls `CustomSPMDPartitioning`.

The host's function (`spmd.own_partitions`) returns the program of one device, which takes the place
of the call. The call's config says for which of its ops.

Source: xla/python/custom_partition_callback.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.inline import copy_into
from ingot.passes.simplify.calls import call_inliner
from ingot.passes.spmd.reshard import Channels
from ingot.support.records import replace

TARGET = "CustomSPMDPartitioning"


def place_program(
    into: Computation, module: Module, operands: Sequence[Instruction], channels: Channels
) -> Instruction:
    """Copy the program of one device into a computation; return its result.

    Its collectives get numbers of their own among those of `channels`. Each result is a value of
    its own, since it may be divided otherwise than the operand that it is.
    """
    call_inliner.run(module, PassContext())
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
