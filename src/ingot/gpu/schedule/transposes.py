# SPDX-License-Identifier: Apache-2.0
"""Which kernels read across the axis of their stores, and are better off with tiles.

Where stores walk one grid axis with stride one and a load another, each thread of a warp would
fetch a sector of memory for one element. A block reads a square tile along the load's axis into
shared memory, and computes along the stores' axis from there.
"""

from __future__ import annotations

import math

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import GpuSchedule, TransposeTiles, one_stage
from ingot.hlo import dim
from ingot.hlo.dim import ceil_div
from ingot.kernel.analysis.vector_axis import grid_vector_axis
from ingot.kernel.ir import Axis, Kernel, LoopKernel
from ingot.kernel.schedule.tiles import transposed_loads

SIDE = 32
"""Elements along both sides of a tile: a warp's."""

LEAST_SIDE = 8
"""Axes of fewer elements leave most of a tile empty."""


def match_transposes(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the schedule of a kernel with transposed loads, or why it has none."""
    if not isinstance(kernel, LoopKernel) or kernel.serial:
        return "it is no loop over independent points"
    if any(item.axes or item.reductions for item in kernel.passes) or kernel.local_buffers:
        return "its points have loops of their own"
    axis = grid_vector_axis(kernel)
    if axis is None or _is_short(axis):
        return "it has no long axis that stores are dense along"
    others = [other for other in kernel.grid if other is not axis and not _is_short(other)]
    loads = {other: transposed_loads(kernel.exprs, axis.name, other.name) for other in others}
    best = max(others, key=lambda other: len(loads[other]), default=None)
    if best is None or not loads[best]:
        return "no load is dense along another axis"
    room = sum(SIDE * (SIDE + 1) * math.ceil(load.dtype.bits / 8) for load in loads[best])
    if room > machine.shared_bytes:
        return f"tiles of {len(loads[best])} loads do not fit shared memory"
    rest = dim.product(other.extent for other in kernel.grid if other not in (axis, best))
    tiles = ceil_div(axis.extent, SIDE) * ceil_div(best.extent, SIDE)
    return one_stage(kernel, TransposeTiles(axis, best, loads[best]), rest * tiles, machine.threads)


def _is_short(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and axis.extent < LEAST_SIDE
