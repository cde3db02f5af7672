# SPDX-License-Identifier: Apache-2.0
"""When each grid point has a thread of its own: whenever points are independent."""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import GpuSchedule, Threads, one_stage
from ingot.hlo.dim import ceil_div
from ingot.kernel.ir import Kernel, LoopKernel


def match_threads(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return a thread per point, or why not."""
    if not isinstance(kernel, LoopKernel):
        return "it is no loop"
    if kernel.serial:
        return "its points must run in order"
    blocks = ceil_div(kernel.grid_size, machine.threads)
    return one_stage(kernel, Threads(), blocks, machine.threads)
