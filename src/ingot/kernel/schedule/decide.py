# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop kernels: the strategies in the order in which they are asked.

Strategies for special rows come first (they do not depend on the vector axis), then those with
lanes along the axes of passes, then those with lanes along an axis of the grid. Each strategy
returns a schedule or the reason why it does not take the kernel; `decide_loops` keeps the reasons.
The last one takes every kernel.

A *unit* is what one thread does without interruption: one grid point, or one block of a vector grid
axis at one point of the others. A chunk is `grain` units. All sizes depend on the kernel and its
extents alone, never on the number of threads, so results do not either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ingot.hlo import dim
from ingot.kernel.analysis.gathers import (
    GathersAhead,
    bits_of_gathers,
    block_of_rows,
    gathers,
    lanes_of_short_row,
    large_buffers,
    rows_fetched,
)
from ingot.kernel.analysis.lane_counts import (
    LANE_BITS,
    elements_of_register,
    is_latency_bound,
    lanes_of_row,
    most_lanes,
    results_of_register,
)
from ingot.kernel.analysis.row_nests import row_nest
from ingot.kernel.analysis.work import block_of, chunks_of, computes_little, share, unit_work
from ingot.kernel.expr import walk
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import Effort, InLanes, LoopSchedule, LoopStrategy
from ingot.kernel.schedule.piece_loops import Pieces, bands_of, is_copied
from ingot.kernel.schedule.pieces import cut_axes
from ingot.kernel.schedule.request import LoopRequest, Units
from ingot.kernel.schedule.row_folds import (
    UNIT_BLOCKS,
    JoinedRows,
    TransposedRows,
    rows_together,
    streamed_rows,
    transposed_rows,
)
from ingot.kernel.schedule.serial import StagedUpdates, staged_updates
from ingot.kernel.schedule.short_rows import GatheredRows, RowNest
from ingot.kernel.schedule.splits import SplitReduction, plain_fold, runs_of, split_of
from ingot.kernel.schedule.tiles import SquareTiles, block_of_tiles, tiles_of
from ingot.llvm.machine_model import Vectors
from ingot.support.diagnostics import InternalError
from ingot.support.records import record, replace

LARGE_BODY = 100
"""Expressions of a kernel above which LLVM's time for a second, masked body is worth more than the
few cycles that masks cost in each block."""

ALONG_GRID = "lanes run along an axis of its grid"
ALONG_PASSES = "lanes run along the axes of its passes"

Refusal = tuple[str, str]
"""The name of a strategy, and why it does not take a kernel."""


@record
class Decision:
    """The schedule of a kernel, and why the strategies that were asked before its own refused."""

    schedule: LoopSchedule
    refused: tuple[Refusal, ...]


def decide_loops(kernel: LoopKernel, vectors: Vectors) -> Decision:
    """Return the schedule of a kernel for a target's vectors, with its reasons.

    Raises:
        InternalError: no strategy takes the kernel.
    """
    request = LoopRequest(kernel, vectors)
    refused: list[Refusal] = []
    for strategy, match in LOOP_STRATEGIES.items():
        found = match(request)
        if isinstance(found, LoopSchedule):
            return Decision(_with_code(found, kernel), tuple(refused))
        refused.append((strategy.name, found))
    raise InternalError("no strategy takes the loops", notes=tuple(map(": ".join, refused)))


def schedule_loops(kernel: LoopKernel, vectors: Vectors) -> LoopSchedule:
    """Return the schedule of a kernel for a target's vectors."""
    return decide_loops(kernel, vectors).schedule


def _with_code(schedule: LoopSchedule, kernel: LoopKernel) -> LoopSchedule:
    is_large = len(tuple(walk(kernel.exprs))) > LARGE_BODY
    return replace(schedule, masks_all_blocks=True) if is_large else schedule


def _match_transposed(request: LoopRequest) -> LoopSchedule | str:
    kernel = request.kernel
    strategy = transposed_rows(kernel, request.vectors)
    if isinstance(strategy, str):
        return strategy
    axis, lanes = kernel.grid[-1], strategy.lanes
    chunked = request.chunked(request.units((axis,), lanes * UNIT_BLOCKS))
    return LoopSchedule(axis, (lanes,) * len(kernel.passes), *chunked, strategy)


def _match_gathered(request: LoopRequest) -> LoopSchedule | str:
    """Schedule a kernel that gathers short rows, a block of them at a time."""
    kernel = request.kernel
    if request.vectors.bits < LANE_BITS * 4:
        return "the target's registers are too short"
    block = block_of_rows(kernel)
    if isinstance(block, str):
        return block
    *outer, rows, axis = kernel.grid
    units = dim.product([dim.ceil_div(rows.extent, block), *(item.extent for item in outer)])
    found = gathers(kernel.exprs, kernel.grid)
    ahead = GathersAhead(bits_of_gathers(kernel, found, kernel.grid), (found,))
    return LoopSchedule(
        axis,
        (lanes_of_short_row(axis.known_extent),) * len(kernel.passes),
        block,
        units,
        *chunks_of(kernel, units, axis.known_extent * block),
        GatheredRows(ahead=ahead),
    )


def _match_joined(request: LoopRequest) -> LoopSchedule | str:
    if request.axis is not None:
        return ALONG_GRID
    kernel, lanes = request.kernel, request.pass_lanes.lanes
    together = results_of_register(kernel, request.used_vectors)
    rows = rows_together(kernel, lanes[0], together)
    if isinstance(rows, str):
        return rows
    first = lanes_of_row(kernel.passes[0].axes[-1], lanes[0], together)
    strategy = JoinedRows(rows, ahead=request.pass_lanes.ahead)
    units = request.units((rows,), together)
    return _scheduled(request, strategy, (first, *lanes[1:]), units, request.effort)


def _match_staged(request: LoopRequest) -> LoopSchedule | str:
    """Schedule updates along an axis that are made one after the other."""
    if request.axis is None:
        return ALONG_PASSES
    kernel, found = request.kernel, request.grid_lanes
    if not found.staged:
        return found.not_staged
    axis, row = found.axis, found.row
    recomputes = row is not None or computes_little(kernel)
    block = request.block(axis, max(found.lanes, found.staged))
    grid = tuple(item for item in kernel.grid if item is not row)
    strategy = staged_updates(kernel, found.staged, row, recomputes=recomputes)
    units = request.units((axis,), block, grid)
    made = _scheduled(request, strategy, found.lanes, units, request.effort)
    return replace(made, vector_axis=axis)


def _match_tiles(request: LoopRequest) -> LoopSchedule | str:
    if request.axis is None:
        return ALONG_PASSES
    kernel, axis = request.kernel, request.axis
    if request.grid_lanes.lanes == 1:
        return "it has one lane"
    strategy = tiles_of(kernel, axis, request.vectors.bits)
    if isinstance(strategy, str):
        return strategy
    block = block_of_tiles(strategy)
    units = request.units_of({strategy.axis: strategy.rows, axis: block}, block)
    return _scheduled(request, strategy, strategy.side, units, Effort.FULL)


def _match_pieces(request: LoopRequest) -> LoopSchedule | str:
    if request.axis is None:
        return ALONG_PASSES
    cuts = cut_axes(request.kernel, request.axis) if request.has_whole_registers else ()
    if not cuts:
        return "no cuts would take its masks away"
    lanes, ahead = request.grid_lanes.lanes, request.grid_lanes.ahead
    pieces = Pieces(cuts, bands_of(request.kernel, cuts, lanes, ahead))
    copies = all(loop.copies for loop in pieces.loops)
    return _in_lanes(request, pieces, Effort.MEMORY_BOUND if copies else request.effort)


def _match_nest(request: LoopRequest) -> LoopSchedule | str:
    if request.axis is None:
        return ALONG_PASSES
    if request.grid_lanes.lanes == 1 or request.streams:
        return "it has one lane, or does nothing but wait for memory"
    if request.peeled:
        return "its rows are long enough to be aligned to cache lines"
    kernel, axis = request.kernel, request.axis
    lanes = most_lanes(kernel, request.vectors, axis.extent, wide=False)
    nest = row_nest(kernel, axis, lanes)
    if isinstance(nest, str):
        return nest
    strategy = RowNest(nest.axes, nest.parts, nest.written)
    first, *inner = (*strategy.axes, axis)
    points = math.prod(item.extent for item in inner if isinstance(item.extent, int))
    work = unit_work(kernel)
    assert isinstance(work, int), "points without loops are a known number of ops"
    rows = block_of(first.extent, work * points, share(kernel), 1)
    others = [item for item in kernel.grid if item == first or item not in strategy.axes]
    units = request.units((first,), rows, tuple(others[:-1]))
    units = replace(units, points=units.points * points)
    return _scheduled(request, strategy, lanes, units, request.effort)


def _match_split(request: LoopRequest) -> LoopSchedule | str:
    axis, in_turn = request.axis, 0
    if axis is not None and not request.grid_lanes.ahead.bits:
        in_turn = streamed_rows(request.kernel, axis, request.grid_lanes.lanes)
    units = request.lane_units
    split = split_of(request.kernel, units.count, units.points, in_turn)
    if isinstance(split, str):
        return split
    if axis is None:
        split = replace(split, fold=plain_fold(request.kernel))
    made = _in_lanes(request, split, request.effort)
    if axis is not None or made.ahead.bits:
        return made
    lanes, register = made.lanes[0], results_of_register(request.kernel, request.vectors)
    runs = runs_of(request.kernel.passes[0], lanes, register)
    # Vectors of bytes are whole registers too: in quarters of them sums of 512x512 took 1.8 times
    # as long, maxima likewise (Sapphire Rapids, one thread, 2026-12-01).
    whole = elements_of_register(request.kernel, request.vectors) if runs > 1 else 1
    in_runs = (max(lanes // runs, whole), *made.lanes[1:])
    return replace(made, lanes=in_runs, strategy=replace(split, runs=runs))


def _match_lanes(request: LoopRequest) -> LoopSchedule:
    kernel, axis, effort = request.kernel, request.axis, request.effort
    if axis is None:
        return _in_lanes(request, InLanes(peeled=request.peeled), effort)
    copies = isinstance(axis.extent, int) and is_copied(kernel.passes, axis.name, axis.extent)
    if copies:
        effort = Effort.MEMORY_BOUND
    elif effort is Effort.FULL and request.has_whole_registers:
        effort = Effort.LATENCY_BOUND if is_latency_bound(kernel, request.used_vectors) else effort
    strategy = InLanes(copies, rows_fetched(kernel, axis), request.peeled)
    return _in_lanes(request, strategy, effort)


def _in_lanes(
    request: LoopRequest, strategy: InLanes | Pieces | SplitReduction, effort: Effort
) -> LoopSchedule:
    """Return a schedule whose units have lanes along an axis of the grid, or along their passes."""
    along = request.pass_lanes if request.axis is None else request.grid_lanes
    strategy = replace(strategy, ahead=along.ahead)
    return _scheduled(request, strategy, along.lanes, request.lane_units, effort)


def _scheduled(
    request: LoopRequest,
    strategy: LoopStrategy,
    lanes: int | tuple[int, ...],
    units: Units,
    effort: Effort,
) -> LoopSchedule:
    """Return a schedule along the request's axis; `lanes` of all passes, or of each."""
    kernel = request.kernel
    if isinstance(lanes, int):
        lanes = (lanes,) * len(kernel.passes)
    large, chunked = large_buffers(kernel), request.chunked(units)
    return LoopSchedule(request.axis, lanes, *chunked, strategy, large_buffers=large, effort=effort)


LOOP_STRATEGIES: Mapping[type[LoopStrategy], Callable[[LoopRequest], LoopSchedule | str]] = {
    TransposedRows: _match_transposed,
    GatheredRows: _match_gathered,
    JoinedRows: _match_joined,
    StagedUpdates: _match_staged,
    SquareTiles: _match_tiles,
    RowNest: _match_nest,
    Pieces: _match_pieces,
    SplitReduction: _match_split,
    InLanes: _match_lanes,
}
"""In priority order: each returns the schedule of a kernel, or why it does not take it."""
