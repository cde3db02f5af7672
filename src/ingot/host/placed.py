# SPDX-License-Identifier: Apache-2.0
"""A module after buffer assignment, from which host programs are emitted.

It says where each value lives. The code that calls the kernels is emitted by `host.program` or, on
the CPU, by `cpu.steps` and `cpu.register_loops`.

Invariant: the schedule does not change any more.
"""

from __future__ import annotations

from ingot.artifact.abi import ProgramInfo
from ingot.hlo.module import Module
from ingot.host.sizes import SizePlan
from ingot.passes.buffers.buffer_table import BufferAssignment
from ingot.support.records import record


@record
class PlacedModule:
    """A module whose values have buffers.

    Attributes:
        module: the scheduled module.
        assignment: where values live.
        plan: size names in ABI order, and what regions demand of sizes.
        info: the program as the execution ABI describes it.
    """

    module: Module
    assignment: BufferAssignment
    plan: SizePlan
    info: ProgramInfo
