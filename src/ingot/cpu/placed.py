# SPDX-License-Identifier: Apache-2.0
"""A module after buffer assignment: what host programs are made of.

Kernels are emitted, and values have places; `host`, `steps` and `register_loops` write out what
calls the kernels.

Invariant: the schedule does not change any more.
"""

from __future__ import annotations

from ingot.cpu.kernels import KernelSet
from ingot.cpu.sizes import SizePlan
from ingot.hlo.module import Module
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.support.records import record


@record
class PlacedModule:
    """A module whose values have places.

    Attributes:
        module: the scheduled module.
        assignment: where values live.
        kernels: emitted kernels of its fusions.
        plan: size names in ABI order, and what regions demand of sizes.
    """

    module: Module
    assignment: BufferAssignment
    kernels: KernelSet
    plan: SizePlan
