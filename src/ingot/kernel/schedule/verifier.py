# SPDX-License-Identifier: Apache-2.0
"""The verifier of loop schedules: which ones are legal for a kernel.

`decide` makes only legal schedules, and emitters rely on that. Runs on each schedule in debug mode
(`INGOT_DEBUG=4`) and in tests. A constraint has a label, which the error names.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> from ingot.kernel.ir import Axis, Buffer, Pass
    >>> kernel = LoopKernel((Axis("@0", 4),), (Pass(()),), (Buffer(F32, 4, True),))
    >>> schedule = LoopSchedule(kernel.grid[0], (8,), 8, 1, 1, 1)
    >>> verify_schedule(kernel, schedule)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.expr import Expr, walk
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import (
    GatheredRows,
    JoinedRows,
    LoopSchedule,
    Pieces,
    RowNest,
    SplitReduction,
    SquareTiles,
    StagedUpdates,
    Strategy,
    TransposedRows,
    unit_axes,
)
from ingot.support.diagnostics import InternalError

INDEX_BITS = (32, 64)
"""Bits of integers that hold indices."""


def verify_schedule(kernel: LoopKernel, schedule: LoopSchedule) -> None:
    """Check the schedule of a kernel.

    Raises:
        InternalError: INGOT0932, with the label of the constraint that does not hold.
    """
    broken = next(_broken(kernel, schedule), None)
    if broken is not None:
        raise InternalError(f"schedule of {schedule.strategy.name}: {broken}", code="INGOT0932")


Broken = Iterator[str]
"""Yields the label of a constraint that does not hold, and the reason."""


def _broken(kernel: LoopKernel, schedule: LoopSchedule) -> Broken:
    yield from _broken_lanes(kernel, schedule)
    missing = [n for n in schedule.large_buffers if not 0 <= n < len(kernel.buffers)]
    if missing:
        yield f"large-buffers: there is no buffer {missing[0]}"
    if schedule.ahead.bits not in (0, *INDEX_BITS):
        yield f"ahead: no index has {schedule.ahead.bits} bits"
    known = frozenset(walk(kernel.exprs))
    strange = [load for load in _loads(schedule) if load not in known]
    if strange:
        yield f"loads: the kernel has no {strange[0]}"
    check = _OF_STRATEGY.get(type(schedule.strategy))
    if check is not None:
        yield from check(kernel, schedule, schedule.strategy)
    yield from _broken_units(kernel, schedule)


def _loads(schedule: LoopSchedule) -> Iterator[Expr]:
    """Yield the loads that the strategy reads otherwise than where they are needed."""
    strategy = schedule.strategy
    if isinstance(strategy, SquareTiles | TransposedRows):
        yield from strategy.loads
    yield from (item.load for item in chain(*schedule.ahead.of_passes))


def _broken_lanes(kernel: LoopKernel, schedule: LoopSchedule) -> Broken:
    axis, lanes = schedule.vector_axis, schedule.lanes
    if len(lanes) != len(kernel.passes):
        yield f"lanes: {len(lanes)} numbers for {len(kernel.passes)} passes"
    if any(each < 1 for each in lanes):
        yield "lanes: a pass has none"
    if axis is not None and axis not in kernel.grid:
        yield f"vector-axis: {axis.name} is no axis of the grid"
    if axis is not None and len(set(lanes)) > 1:
        yield "vector-axis: passes have different lanes along it"


def _broken_units(kernel: LoopKernel, schedule: LoopSchedule) -> Broken:
    units, grain = schedule.units, schedule.grain
    axes, blocked = unit_axes(kernel, schedule)
    extents = [
        dim.ceil_div(axis.extent, schedule.block) if axis in blocked else axis.extent
        for axis in axes
    ]
    if dim.product(extents) != units:
        yield f"units: {units} are not the blocks of the grid, {dim.product(extents)}"
    if kernel.serial:
        if (grain, schedule.chunks) != (units, 1):
            yield "chunks: units that run in order are one chunk"
    elif dim.ceil_div(units, dim.maximum(grain, 1)) != schedule.chunks:
        yield f"chunks: {schedule.chunks} of {grain} units are not {units}"


def _broken_pieces(kernel: LoopKernel, schedule: LoopSchedule, strategy: Pieces) -> Broken:
    axes = [cut.axis for cut in strategy.cuts]
    if not axes or axes[-1] != schedule.vector_axis:
        yield "pieces: the last cut is not along the vector axis"
    if any(axis not in kernel.grid for axis in axes):
        yield "pieces: a cut is along no axis of the grid"
    if len(strategy.bands) != math.prod(len(cut.positions) + 1 for cut in strategy.cuts[:-1]):
        yield "pieces: not each combination of ranges is a band"
    for band in strategy.bands:
        total: int | Dim = 0
        for loop in band.loops:
            if loop.first != total:
                yield f"pieces: one begins at {loop.first}, not where the one before it ends"
            total = total + loop.length
        if axes and total != axes[-1].extent:
            yield f"pieces: they are {total} long together"


def _broken_tiles(kernel: LoopKernel, schedule: LoopSchedule, strategy: SquareTiles) -> Broken:
    if strategy.axis not in kernel.grid or strategy.axis == schedule.vector_axis:
        yield "tiles: both sides are along one axis, or along none of the grid"
    if strategy.side.bit_count() != 1 or any(each != strategy.side for each in schedule.lanes):
        yield "tiles: a side is not as long as a vector, a power of two"
    if isinstance(schedule.block, int) and schedule.block % strategy.side:
        yield "tiles: a block is not whole tiles"


def _broken_split(kernel: LoopKernel, schedule: LoopSchedule, strategy: SplitReduction) -> Broken:
    first, *rest = kernel.passes
    if not first.reductions or not first.axes or any(item.axes for item in rest):
        yield "split: it is not one reduction, with what follows it"
        return
    length, extent = strategy.length, first.axes[0].extent
    if dim.maximum(dim.ceil_div(extent, length), 1) != strategy.count:
        yield f"split: {strategy.count} parts of {length} are not {extent}"
    if strategy.rows and isinstance(length, int) and length % strategy.rows:
        yield "split: a part is not whole rows"
    if strategy.rows and strategy.runs > 1:
        yield "split: rows and runs"
    if strategy.runs < 1:
        yield "split: no runs"


def _broken_staged(kernel: LoopKernel, schedule: LoopSchedule, strategy: StagedUpdates) -> Broken:
    if not kernel.serial:
        yield "staged: updates are not made in order"
    if strategy.count < 1 or strategy.index_bits not in INDEX_BITS:
        yield "staged: no updates, or no integers for their indices"
    if any(strategy.count % rounds for rounds in (strategy.unroll, strategy.unroll_held)):
        yield "staged: updates are not whole rounds of a loop"
    if strategy.row is not None and strategy.row != kernel.grid[-1]:
        yield "staged: rows are not along the last axis"


def _broken_joined(kernel: LoopKernel, schedule: LoopSchedule, strategy: JoinedRows) -> Broken:
    if schedule.vector_axis is not None:
        yield "joined: lanes run along an axis of the grid, not along rows"
    if strategy.axis not in kernel.grid:
        yield f"joined: {strategy.axis.name} is no axis of the grid"
    if not kernel.passes[0].reductions:
        yield "joined: nothing is folded"


def _broken_gathered(kernel: LoopKernel, schedule: LoopSchedule, strategy: GatheredRows) -> Broken:
    if len(kernel.grid) < 2 or schedule.vector_axis != kernel.grid[-1]:
        yield "gathered: there are no rows along the last axis"
    if not any(strategy.ahead.of_passes):
        yield "gathered: nothing is gathered"


def _broken_transposed(
    kernel: LoopKernel, schedule: LoopSchedule, strategy: TransposedRows
) -> Broken:
    if not kernel.grid or schedule.vector_axis != kernel.grid[-1]:
        yield "transposed: rows are not along the last axis"
    if any(each != strategy.lanes for each in schedule.lanes):
        yield "transposed: lanes are not the rows of a block"
    extents = [axis.extent for item in kernel.passes for axis in item.axes]
    if any(not isinstance(extent, int) or extent > strategy.width for extent in extents):
        yield "transposed: a row is longer than what is read of it"


def _broken_nest(kernel: LoopKernel, schedule: LoopSchedule, strategy: RowNest) -> Broken:
    if not strategy.axes or not set(strategy.axes) < set(kernel.grid):
        yield "nest: there are no rows around"
    if not 0 <= strategy.written <= len(strategy.axes):
        yield "nest: more axes are written out than there are"
    end = 0
    for first, lanes in strategy.parts:
        if first > end or first + lanes <= end:
            yield "nest: parts leave elements of a row out"
        end = first + lanes
    if schedule.vector_axis is not None and end != schedule.vector_axis.extent:
        yield "nest: parts are not as long as a row"


_OF_STRATEGY: Mapping[type[Strategy], Callable[[LoopKernel, LoopSchedule, Any], Broken]] = {
    Pieces: _broken_pieces,
    SquareTiles: _broken_tiles,
    SplitReduction: _broken_split,
    StagedUpdates: _broken_staged,
    JoinedRows: _broken_joined,
    GatheredRows: _broken_gathered,
    TransposedRows: _broken_transposed,
    RowNest: _broken_nest,
}
"""What holds for the numbers of each strategy."""
