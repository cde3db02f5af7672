# SPDX-License-Identifier: Apache-2.0
"""Folds that several threads share: which may, and whether along rows or along columns.

Threads share a fold by taking its elements in turn, each starting from the identity; their results
are joined at the end. So it must be one op with an identity, or an argmax or argmin. Lanes of a
warp are neighbours in memory: along the pass's own axis (rows) or along an axis of the grid
(columns), whichever the CPU's lanes would run along (`kernel.analysis.vector_axis`).
"""

from __future__ import annotations

import math

from ingot.gpu.machine import GpuMachine, array_bytes
from ingot.gpu.schedule.strategies import (
    BlockRows,
    Columns,
    GpuSchedule,
    Strategy,
    WarpRows,
    one_stage,
)
from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div
from ingot.kernel.analysis.lane_counts import starts_from_identity
from ingot.kernel.analysis.vector_axis import grid_vector_axis
from ingot.kernel.ir import Axis, Kernel, LoopKernel, Pass
from ingot.kernel.loop.argminmax import arg_fold

LEAST_ROW = 32
"""Elements of a fold that are worth a warp; fewer are folded by one thread."""

MOST_OF_WARP = 1024
"""Elements of a row that a warp folds; of more, a block."""

COLUMN_PARTS = 8
"""Warps of a block that share the rows of a column reduction."""


def match_warp_rows(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return a warp per grid point, or why not."""
    length = _row_length(kernel)
    if isinstance(length, str):
        return length
    assert isinstance(kernel, LoopKernel), "only its rows have a length"
    return warp_rows(kernel, length, machine)


def warp_rows(kernel: LoopKernel, length: int | Dim, machine: GpuMachine) -> GpuSchedule | str:
    """Return a warp per grid point, for rows of `length` elements, or why not."""
    if isinstance(length, Dim):
        return "the length of its rows is not known"
    if length > MOST_OF_WARP:
        return f"a row has {length} elements, more than {MOST_OF_WARP}"
    rows = machine.threads // machine.warp
    if _local_bytes(kernel) * rows > machine.shared_bytes:
        return "the rows that it keeps do not fit shared memory"
    return _rows(kernel, WarpRows(), ceil_div(kernel.grid_size, rows), machine)


def match_block_rows(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return a block per grid point, or why not."""
    length = _row_length(kernel)
    if isinstance(length, str):
        return length
    assert isinstance(kernel, LoopKernel), "only its rows have a length"
    return block_rows(kernel, machine)


def block_rows(kernel: LoopKernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return a block per grid point, for rows of any length, or why not."""
    exchanged = _exchanged_bytes(kernel, machine.threads // machine.warp)
    if _local_bytes(kernel) + exchanged > machine.shared_bytes:
        return "the rows that it keeps and its folds do not fit shared memory"
    return _rows(kernel, BlockRows(), kernel.grid_size, machine)


def match_columns(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return a block per 32 columns, or why not."""
    length = shared_length(kernel)
    if isinstance(length, str):
        return length
    assert isinstance(kernel, LoopKernel), "only its folds have a length"
    axis = grid_vector_axis(kernel)
    if axis is None:
        return "its loads are dense along rows"
    return columns(kernel, axis, machine)


def columns(kernel: LoopKernel, axis: Axis, machine: GpuMachine) -> GpuSchedule | str:
    """Return a block per 32 columns along a grid axis, or why not."""
    if kernel.local_buffers:
        return "it keeps rows"
    threads = COLUMN_PARTS * machine.warp
    if _exchanged_bytes(kernel, threads) > machine.shared_bytes:
        return "its folds do not fit shared memory"
    others = dim.product(other.extent for other in kernel.grid if other is not axis)
    blocks = others * ceil_div(axis.extent, machine.warp)
    return one_stage(kernel, Columns(axis), blocks, threads)


def _rows(
    kernel: LoopKernel, strategy: Strategy, blocks: int | Dim, machine: GpuMachine
) -> GpuSchedule:
    return one_stage(kernel, strategy, blocks, machine.threads)


def _row_length(kernel: Kernel) -> int | Dim | str:
    """Return the elements of the longest row, or why threads do not share rows."""
    length = shared_length(kernel)
    if isinstance(length, str):
        return length
    assert isinstance(kernel, LoopKernel), "only its folds have a length"
    if grid_vector_axis(kernel) is not None:
        return "its loads are dense along the grid"
    return length


def _local_bytes(kernel: LoopKernel) -> int:
    return sum(
        array_bytes(math.ceil(buffer.dtype.bits / 8), buffer.size)
        for buffer in kernel.local_buffers
        if isinstance(buffer.size, int)
    )


def _exchanged_bytes(kernel: LoopKernel, slots: int) -> int:
    """Return the bytes of shared memory of exchanges with `slots` slots for each accumulator."""
    folds = [fold for item in kernel.passes if item.axes for fold in item.reductions]
    parts = [init.dtype for fold in folds for init in fold.inits]
    return sum(array_bytes(math.ceil(element.bits / 8), slots) for element in parts)


def shared_length(kernel: Kernel) -> int | Dim | str:
    """Return the elements of the longest fold that threads may share, or why they may not."""
    if not isinstance(kernel, LoopKernel):
        return "it is no loop"
    if kernel.serial:
        return "its points must run in order"
    inner = [item for item in kernel.passes if item.axes]
    if not any(item.reductions for item in inner):
        return "it has no folds along axes"
    if not all(map(_may_share, inner)):
        return "its folds take their elements in order"
    lengths = [dim.product(axis.extent for axis in item.axes) for item in inner]
    known = [length for length in lengths if isinstance(length, int)]
    if len(known) < len(lengths):
        return next(length for length in lengths if isinstance(length, Dim))
    longest = max(known)
    return longest if longest >= LEAST_ROW else f"a fold has {longest} elements, less than a warp"


def _may_share(item: Pass) -> bool:
    """Whether threads may take the elements of a pass in turn."""
    return not item.is_running and all(
        starts_from_identity(fold) or arg_fold(item, fold) is not None for fold in item.reductions
    )
