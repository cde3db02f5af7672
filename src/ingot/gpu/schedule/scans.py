# SPDX-License-Identifier: Apache-2.0
"""Which scans a warp walks: long ones, dense in memory, of one op with an identity."""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import GpuSchedule, WarpScan, one_stage
from ingot.hlo.dim import ceil_div
from ingot.kernel.analysis.lane_counts import scans_lanes, starts_from_identity
from ingot.kernel.ir import Kernel, LoopKernel


def match_scan(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return a warp per scan, or why not."""
    if not isinstance(kernel, LoopKernel) or not any(item.is_running for item in kernel.passes):
        return "it has no running fold"
    (item, *others) = kernel.passes
    is_plain = len(item.axes) == len(item.reductions) == 1 and not others
    if not is_plain or not starts_from_identity(item.reductions[0]):
        return "its fold takes its elements in order"
    if not scans_lanes(item):
        return "its elements are few, or not dense, or rounded one by one"
    blocks = ceil_div(kernel.grid_size, machine.threads // machine.warp)
    return one_stage(kernel, WarpScan(), blocks, machine.threads)
