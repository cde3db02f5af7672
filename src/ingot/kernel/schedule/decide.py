# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop kernels: vector axis, lanes, units of parallel work, and the strategy.

A *unit* is what one thread does without interruption: one grid point, or one block of a vector grid
axis at one point of the others. Units are dealt out in chunks of `grain`. All sizes depend on the
kernel and its extents alone, never on the number of threads, so results do not either.

The strategies are asked in the order in which they stand here: rows that are special whatever axis
lanes run along, then the axis (`vector_axis`), then what fits lanes along a grid axis or along the
passes' own axes. Each says why it does not take a kernel, and `decide_loops` keeps that.
"""

from __future__ import annotations

import math

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.loop.short_rows import lanes_of_rows
from ingot.kernel.schedule.gathers import (
    bits_of_gathers,
    bits_of_places,
    block_of_rows,
    gathers,
    lanes_loaded,
    lanes_of_short_row,
)
from ingot.kernel.schedule.lane_counts import (
    Vectors,
    is_chain,
    lanes_of_row,
    most_lanes,
    pass_lanes,
    results_of_register,
    widest_in_memory,
)
from ingot.kernel.schedule.large_buffers import large_buffers
from ingot.kernel.schedule.loop_schedule import (
    GatheredRows,
    InLanes,
    JoinedRows,
    LoopSchedule,
    Pieces,
    SplitReduction,
    SquareTiles,
    StagedUpdates,
    Strategy,
    TransposedRows,
)
from ingot.kernel.schedule.pieces import cut_axes
from ingot.kernel.schedule.row_folds import rows_together
from ingot.kernel.schedule.serial import bits_of_updates, lanes_may_meet, staged_lanes, staged_rows
from ingot.kernel.schedule.shares import IN_ORDER, block_of
from ingot.kernel.schedule.splits import split_of
from ingot.kernel.schedule.streams import streamed_rows
from ingot.kernel.schedule.tiles import LANE_BITS, SIDE_TILES, tiles_of
from ingot.kernel.schedule.transposed_rows import UNIT_BLOCKS, transposed_rows
from ingot.kernel.schedule.vector_axis import grid_vector_axis, is_column_reduction
from ingot.kernel.schedule.work import (
    block_points,
    ceil_div,
    chunks_of,
    computes_little,
    share,
    streams,
    unit_work,
)
from ingot.support.records import record, replace

Refusal = tuple[str, str]
"""The name of a strategy, and why it does not take a kernel."""


@record
class Decision:
    """The schedule of a kernel, and why the strategies that were asked before its own refused."""

    schedule: LoopSchedule
    refused: tuple[Refusal, ...]


def decide_loops(kernel: LoopKernel, vectors: Vectors) -> Decision:
    """Return the schedule of a kernel for a target's vectors, with its reasons."""
    refused: list[Refusal] = []
    schedule = _decide(kernel, vectors, refused)
    return Decision(schedule, tuple(refused))


def schedule_loops(kernel: LoopKernel, vectors: Vectors) -> LoopSchedule:
    """Return the schedule of a kernel for a target's vectors."""
    return _decide(kernel, vectors, [])


def _decide(kernel: LoopKernel, vectors: Vectors, refused: list[Refusal]) -> LoopSchedule:
    """Return the schedule; strategies that are asked in vain are added to `refused`."""
    transposed = transposed_rows(kernel, vectors)
    if not isinstance(transposed, str):
        return _transposed(kernel, transposed)
    refused.append((TransposedRows.name, transposed))
    has_registers = vectors.bits >= LANE_BITS * 4
    rows = block_of_rows(kernel) if has_registers else "the target's registers are too short"
    if not isinstance(rows, str):
        return _gathered(kernel, rows)
    refused.append((GatheredRows.name, rows))
    axis = None if kernel.serial and kernel.grid == () else grid_vector_axis(kernel)
    if axis is None:
        return _along_passes(kernel, vectors, refused)
    return _along_grid(kernel, axis, vectors, refused)


def _transposed(kernel: LoopKernel, strategy: TransposedRows) -> LoopSchedule:
    axis, lanes = kernel.grid[-1], strategy.lanes
    block = lanes * UNIT_BLOCKS
    units, points = _units_of(kernel.grid, (axis,), block)
    return LoopSchedule(
        axis,
        (lanes,) * len(kernel.passes),
        block,
        units,
        *chunks_of(kernel, units, points),
        strategy,
    )


def _gathered(kernel: LoopKernel, block: int) -> LoopSchedule:
    """Return the schedule of a kernel that gathers short rows, a block of them at a time."""
    *outer, rows, axis = kernel.grid
    assert isinstance(axis.extent, int), "short rows have known lengths"
    units = dim.product([ceil_div(rows.extent, block), *(item.extent for item in outer)])
    return LoopSchedule(
        axis,
        (lanes_of_short_row(axis.extent),) * len(kernel.passes),
        block,
        units,
        *chunks_of(kernel, units, axis.extent * block),
        GatheredRows(),
        gather_bits=bits_of_gathers(kernel, gathers(kernel.exprs, kernel.grid), kernel.grid),
    )


def _along_passes(kernel: LoopKernel, vectors: Vectors, refused: list[Refusal]) -> LoopSchedule:
    """Return the schedule of a kernel whose passes have lanes along their own axes, if any."""
    waits = streams(kernel, None)
    if waits:
        vectors = replace(vectors, most=1)
    lanes = tuple(pass_lanes(kernel, item, vectors) for item in kernel.passes)
    gather_bits = bits_of_places(kernel, None, lanes)
    lanes = tuple(lanes_loaded(gather_bits, count) for count in lanes)
    together = results_of_register(kernel, vectors)
    rows = rows_together(kernel, lanes[0], together)
    strategy: Strategy
    if isinstance(rows, str):
        refused.append((JoinedRows.name, rows))
        block = 1
        units, points = _units_of(kernel.grid, (), block)
        strategy = _split_or_lanes(split_of(kernel, units, points, 0), refused)
    else:
        strategy, block = JoinedRows(rows), together
        lanes = (lanes_of_row(kernel.passes[0].axes[-1], lanes[0], together), *lanes[1:])
        units, points = _units_of(kernel.grid, (rows,), block)
    return LoopSchedule(
        None,
        lanes,
        block,
        units,
        *chunks_of(kernel, units, points),
        strategy,
        large_buffers=large_buffers(kernel),
        gather_bits=gather_bits,
        streams=waits,
    )


def _split_or_lanes(
    split: SplitReduction | str, refused: list[Refusal]
) -> SplitReduction | InLanes:
    if isinstance(split, str):
        refused.append((SplitReduction.name, split))
        return InLanes()
    return split


def _along_grid(
    kernel: LoopKernel, axis: Axis, vectors: Vectors, refused: list[Refusal]
) -> LoopSchedule:
    """Return the schedule of a kernel whose lanes run along an axis of its grid."""
    waits = streams(kernel, axis)
    if waits:
        vectors = replace(vectors, most=1)
    lanes = most_lanes(kernel, vectors, axis.extent, is_column_reduction(kernel))
    lanes = lanes_of_rows(kernel, axis, lanes, vectors.lanes(widest_in_memory(kernel), 1))
    staged, row = staged_rows(kernel, axis, lanes), None
    why = "it makes no updates that may meet"
    if staged:
        row, axis = axis, kernel.grid[-2]
    elif lanes_may_meet(kernel, axis):
        staged, lanes = staged_lanes(kernel, lanes), 1
        why = "its updates are few, read results or are more than one store"
    gather_bits = bits_of_places(kernel, axis, (lanes,) * len(kernel.passes))
    lanes = lanes_loaded(gather_bits, lanes)
    if staged:
        return _staged(kernel, axis, lanes, _updates(kernel, staged, row), waits=waits)
    refused.append((StagedUpdates.name, why))
    tiles = tiles_of(kernel, axis, vectors.bits) if lanes > 1 else "it has one lane"
    if not isinstance(tiles, str):
        return _tiled(kernel, axis, tiles)
    refused.append((SquareTiles.name, tiles))
    block = _block(kernel, axis, lanes)
    units, points = _units_of(kernel.grid, (axis,), block)
    in_turn = 0 if gather_bits else streamed_rows(kernel, axis, lanes)
    in_vectors = lanes > 1 and lanes.bit_count() == 1
    cuts = cut_axes(kernel, axis) if in_vectors else ()
    strategy: Strategy = Pieces(cuts)
    if not cuts:
        refused.append((Pieces.name, "no cuts would take its masks away"))
        strategy = _split_or_lanes(split_of(kernel, units, points, in_turn), refused)
    return LoopSchedule(
        axis,
        (lanes,) * len(kernel.passes),
        block,
        units,
        *chunks_of(kernel, units, points),
        strategy,
        large_buffers=large_buffers(kernel),
        gather_bits=gather_bits,
        streams=waits,
        is_chain=in_vectors and not cuts and is_chain(kernel, vectors),
    )


def _updates(kernel: LoopKernel, count: int, row: Axis | None) -> StagedUpdates:
    recomputes = row is not None or computes_little(kernel)
    return StagedUpdates(count, row, recomputes, bits_of_updates(kernel))


def _staged(
    kernel: LoopKernel, axis: Axis, lanes: int, strategy: StagedUpdates, *, waits: bool
) -> LoopSchedule:
    """Return the schedule of updates along `axis` that are made one after the other."""
    block = _block(kernel, axis, max(lanes, strategy.count))
    grid = tuple(item for item in kernel.grid if item is not strategy.row)
    units, points = _units_of(grid, (axis,), block)
    return LoopSchedule(
        axis,
        (lanes,) * len(kernel.passes),
        block,
        units,
        *chunks_of(kernel, units, points),
        strategy,
        large_buffers=large_buffers(kernel),
        streams=waits,
    )


def _tiled(kernel: LoopKernel, axis: Axis, strategy: SquareTiles) -> LoopSchedule:
    side = strategy.side
    block = SIDE_TILES * side
    units, points = _units_of(kernel.grid, (axis, strategy.axis), block)
    return LoopSchedule(
        axis,
        (side,) * len(kernel.passes),
        block,
        units,
        *chunks_of(kernel, units, points),
        strategy,
        large_buffers=large_buffers(kernel),
    )


def _block(kernel: LoopKernel, axis: Axis, lanes: int) -> int:
    """Return how many positions of the vector axis a unit has."""
    if kernel.serial:
        return IN_ORDER
    work = unit_work(kernel)
    if any(item.axes for item in kernel.passes) or not isinstance(work, int):
        return lanes
    return block_of(axis.extent, work, share(kernel), lanes)


def _units_of(
    grid: tuple[Axis, ...], blocked: tuple[Axis, ...], block: int
) -> tuple[int | Dim, int]:
    """Return the number of units, and the points of one, where some axes are in blocks."""
    units = dim.product(
        ceil_div(item.extent, block) if item in blocked else item.extent for item in grid
    )
    return units, math.prod(block_points(item, block) for item in blocked)
