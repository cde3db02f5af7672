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
    UNROLL_HELD,
    GatheredRows,
    InLanes,
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
    require(f"schedule of {schedule.strategy.name}", _constraints(kernel, schedule))


Constraints = Iterator[tuple[bool, str]]
"""Yields whether a constraint holds; its label, and what is wrong where it does not."""


def require(what: str, constraints: Constraints) -> None:
    """Check constraints of a schedule or plan.

    Raises:
        InternalError: INGOT0932, with the label of the first constraint that does not hold.
    """
    for holds, text in constraints:
        if not holds:
            raise InternalError(f"{what}: {text}", code="INGOT0932")


def _constraints(kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
    yield from _of_lanes(kernel, schedule)
    missing = [n for n in schedule.large_buffers if not 0 <= n < len(kernel.buffers)]
    yield not missing, f"large-buffers: there is no buffer {', '.join(map(str, missing))}"
    bits = schedule.ahead.bits
    yield bits in (0, *INDEX_BITS), f"ahead: no index has {bits} bits"
    known = frozenset(walk(kernel.exprs))
    for load in _loads(schedule):
        yield load in known, f"loads: the kernel has no {load}"
    of_strategy = _OF_STRATEGY.get(type(schedule.strategy))
    if of_strategy is not None:
        yield from of_strategy(kernel, schedule, schedule.strategy)
    yield from _of_units(kernel, schedule)


def _loads(schedule: LoopSchedule) -> Iterator[Expr]:
    """Yield the loads that the strategy does not read at the point where they are used."""
    strategy = schedule.strategy
    if isinstance(strategy, SquareTiles | TransposedRows):
        yield from strategy.loads
    if isinstance(strategy, InLanes):
        yield from strategy.fetched
    yield from (item.load for item in chain(*schedule.ahead.of_passes))


def _of_lanes(kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
    axis, lanes, passes = schedule.vector_axis, schedule.lanes, len(kernel.passes)
    yield len(lanes) == passes, f"lanes: {len(lanes)} numbers for {passes} passes"
    yield all(each >= 1 for each in lanes), "lanes: a pass has none"
    if axis is not None:
        yield axis in kernel.grid, f"vector-axis: {axis.name} is no axis of the grid"
        yield len(set(lanes)) <= 1, "vector-axis: passes have different lanes along it"


def _of_units(kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
    units, grain, chunks = schedule.units, schedule.grain, schedule.chunks
    axes, blocked = unit_axes(kernel, schedule)
    count = dim.product(
        dim.ceil_div(axis.extent, schedule.block_along(axis)) if axis in blocked else axis.extent
        for axis in axes
    )
    yield count == units, f"units: {units} are not the blocks of the grid, {count}"
    if kernel.serial:
        yield (grain, chunks) == (units, 1), "chunks: units that run in order are one chunk"
    else:
        have = dim.ceil_div(units, dim.maximum(grain, 1))
        yield have == chunks, f"chunks: {chunks} of {grain} units are not {units}"


def _of_in_lanes(kernel: LoopKernel, schedule: LoopSchedule, strategy: InLanes) -> Constraints:
    peeled, in_grid = strategy.peeled, schedule.vector_axis is not None
    stores = [kernel.stores] if in_grid else [item.stores for item in kernel.passes]
    is_for_each = len(peeled) in (0, len(stores))
    yield is_for_each, f"lanes: {len(peeled)} passes of {len(stores)} are peeled or not"
    do_store = all(made or not item for item, made in zip(peeled, stores, strict=False))
    yield do_store, "lanes: a pass is peeled that stores nothing"


def _of_pieces(kernel: LoopKernel, schedule: LoopSchedule, strategy: Pieces) -> Constraints:
    axes = [cut.axis for cut in strategy.cuts]
    is_last = axes[-1:] == [schedule.vector_axis]
    yield is_last, "pieces: the last cut is not along the vector axis"
    yield set(axes) <= set(kernel.grid), "pieces: a cut is along no axis of the grid"
    bands = math.prod(len(cut.positions) + 1 for cut in strategy.cuts[:-1])
    yield len(strategy.bands) == bands, "pieces: not each combination of ranges is a band"
    for band in strategy.bands:
        total: int | Dim = 0
        for loop in band.loops:
            is_next = loop.first == total
            yield is_next, f"pieces: one begins at {loop.first}, not where the one before it ends"
            total = total + loop.length
        yield total == axes[-1].extent, f"pieces: they are {total} long together"


def _of_tiles(kernel: LoopKernel, schedule: LoopSchedule, strategy: SquareTiles) -> Constraints:
    axis, side, block = strategy.axis, strategy.side, schedule.block
    is_other = axis in kernel.grid and axis != schedule.vector_axis
    yield is_other, "tiles: both sides are along one axis, or along none of the grid"
    is_vector = side.bit_count() == 1 and set(schedule.lanes) <= {side}
    yield is_vector, "tiles: a side is not as long as a vector, a power of two"
    is_whole = strategy.rows % side == 0 and (not isinstance(block, int) or block % side == 0)
    yield is_whole, "tiles: a block is not whole tiles"


def _of_split(kernel: LoopKernel, schedule: LoopSchedule, strategy: SplitReduction) -> Constraints:
    first, *rest = kernel.passes
    is_one = first.reductions and first.axes and not any(item.axes for item in rest)
    yield bool(is_one), "split: it is not one reduction, with what follows it"
    length, extent, rows = strategy.length, first.axes[0].extent, strategy.rows
    parts = dim.maximum(dim.ceil_div(extent, length), 1)
    yield parts == strategy.count, f"split: {strategy.count} parts of {length} are not {extent}"
    is_whole = not rows or not isinstance(length, int) or length % rows == 0
    yield is_whole, "split: a part is not whole rows"
    yield not rows or strategy.runs <= 1, "split: rows and runs"
    yield strategy.runs >= 1, "split: no runs"


def _of_staged(kernel: LoopKernel, schedule: LoopSchedule, strategy: StagedUpdates) -> Constraints:
    count, rounds = strategy.count, (strategy.unroll, UNROLL_HELD)
    yield kernel.serial, "staged: updates are not made in order"
    has_integers = count >= 1 and strategy.index_bits in INDEX_BITS
    yield has_integers, "staged: no updates, or no integers for their indices"
    is_whole = all(count % each == 0 for each in rounds)
    yield is_whole, "staged: updates are not whole rounds of a loop"
    yield strategy.row in (None, kernel.grid[-1]), "staged: rows are not along the last axis"


def _of_joined(kernel: LoopKernel, schedule: LoopSchedule, strategy: JoinedRows) -> Constraints:
    axis, is_along = strategy.axis, schedule.vector_axis is None
    yield is_along, "joined: lanes run along an axis of the grid, not along rows"
    yield axis in kernel.grid, f"joined: {axis.name} is no axis of the grid"
    yield bool(kernel.passes[0].reductions), "joined: nothing is folded"


def _of_gathered(kernel: LoopKernel, schedule: LoopSchedule, strategy: GatheredRows) -> Constraints:
    has_rows = len(kernel.grid) >= 2 and schedule.vector_axis == kernel.grid[-1]
    yield has_rows, "gathered: there are no rows along the last axis"
    yield any(strategy.ahead.of_passes), "gathered: nothing is gathered"


def _of_transposed(
    kernel: LoopKernel, schedule: LoopSchedule, strategy: TransposedRows
) -> Constraints:
    is_last = kernel.grid[-1:] == (schedule.vector_axis,)
    yield is_last, "transposed: rows are not along the last axis"
    has_lanes = set(schedule.lanes) <= {strategy.lanes}
    yield has_lanes, "transposed: lanes are not the rows of a block"
    extents = [axis.extent for item in kernel.passes for axis in item.axes]
    fits = all(isinstance(each, int) and each <= strategy.width for each in extents)
    yield fits, "transposed: a row is longer than what is read of it"


def _of_nest(kernel: LoopKernel, schedule: LoopSchedule, strategy: RowNest) -> Constraints:
    axes, axis = strategy.axes, schedule.vector_axis
    yield bool(axes) and set(axes) < set(kernel.grid), "nest: there are no rows around"
    is_there = 0 <= strategy.written <= len(axes)
    yield is_there, "nest: more axes are written out than there are"
    end = 0
    for first, lanes in strategy.parts:
        yield first <= end < first + lanes, "nest: parts leave elements of a row out"
        end = first + lanes
    yield axis is None or end == axis.extent, "nest: parts are not as long as a row"


_OF_STRATEGY: Mapping[type[Strategy], Callable[[LoopKernel, LoopSchedule, Any], Constraints]] = {
    InLanes: _of_in_lanes,
    Pieces: _of_pieces,
    SquareTiles: _of_tiles,
    SplitReduction: _of_split,
    StagedUpdates: _of_staged,
    JoinedRows: _of_joined,
    GatheredRows: _of_gathered,
    TransposedRows: _of_transposed,
    RowNest: _of_nest,
}
"""What holds for the numbers of each strategy."""
