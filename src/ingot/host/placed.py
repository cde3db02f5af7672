# SPDX-License-Identifier: Apache-2.0
"""A module after buffer assignment: what host programs are made of.

Values have places; what calls the kernels is written out by the host program or, on the CPU, by
`cpu.steps` and `cpu.register_loops`.

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
    """A module whose values have places.

    Attributes:
        module: the scheduled module.
        assignment: where values live.
        plan: size names in ABI order, and what regions demand of sizes.
        info: the ABI description.
    """

    module: Module
    assignment: BufferAssignment
    plan: SizePlan
    info: ProgramInfo
