# SPDX-License-Identifier: Apache-2.0
"""Schedules of loop kernels: vector axis, lanes, units of parallel work, split reductions.

A *unit* is what one thread does without interruption: one grid point, or one block of a vector grid
axis at one point of the others. Units are dealt out in chunks of `grain`. All sizes depend on the
kernel and its extents alone, never on the number of threads, so results do not either.

The vector axis is a pass axis (`by_pass`: rows are reduced across lanes, then folded) or a grid
axis (lanes are independent points), whichever the kernel's loads walk with stride one.
"""

from __future__ import annotations

import math
from collections import Counter

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.loop.short_rows import lanes_of_rows
from ingot.kernel.schedule.far import far_buffers
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
    is_expensive,
    lanes_of_row,
    most_lanes,
    pass_lanes,
    results_of_register,
    widest_in_memory,
)
from ingot.kernel.schedule.lane_folds import folds_lanes
from ingot.kernel.schedule.loop_schedule import LoopSchedule, Split
from ingot.kernel.schedule.pieces import cut_axes
from ingot.kernel.schedule.row_folds import rows_together
from ingot.kernel.schedule.serial import bits_of_updates, lanes_may_meet, staged_lanes, staged_rows
from ingot.kernel.schedule.shares import IN_ORDER, LARGE_SHARE, block_of, grain_of, share_of
from ingot.kernel.schedule.streams import streamed_rows
from ingot.kernel.schedule.tiles import LANE_BITS, SIDE_TILES, tiling_of
from ingot.kernel.schedule.turned_rows import UNIT_BLOCKS, Turning, turning_of
from ingot.support.records import replace

EXPENSIVE_WEIGHT = 12
SHORT_ROW, MANY_ROWS = 12, 64
"""Rows up to this length are computed side by side, a lane each, where there are so many."""

GATHER_PENALTY = 4
"""A gathered load costs as much as this many loads in one piece gain."""

COMPUTED_AGAIN = 4
"""Weight of an update's place and value that are sooner computed again than fetched from the stack:
loads and conversions."""

ENOUGH_UNITS = 16
"""Kernels of as many units are shared out as they are."""

MAX_SPLITS = 256


STREAMED_BYTES, STREAMED_NODES = 64 << 20, 12
"""From so many bytes on a kernel of so few expressions waits for memory."""


def schedule_loops(kernel: LoopKernel, vectors: Vectors) -> LoopSchedule:
    """Return the schedule of a kernel for a target's vectors."""
    turning = turning_of(kernel, vectors)
    if turning is not None:
        return _turned(kernel, turning)
    rows = block_of_rows(kernel) if vectors.bits >= LANE_BITS * 4 else 0
    return _gathered(kernel, rows) if rows else _in_lanes(kernel, vectors)


def _in_lanes(kernel: LoopKernel, vectors: Vectors) -> LoopSchedule:
    """Return the schedule of a kernel whose lanes run along one axis as it lies."""
    axis = None if kernel.serial and kernel.grid == () else grid_vector_axis(kernel)
    waits = _waits_for_memory(kernel, axis)
    if waits:
        vectors = replace(vectors, most=1)
    staged, row = 0, None
    if axis is not None:
        lanes = most_lanes(kernel, vectors, axis.extent, _is_column_reduction(kernel))
        lanes = lanes_of_rows(kernel, axis, lanes, vectors.lanes(widest_in_memory(kernel), 1))
        rows = staged_rows(kernel, axis, lanes)
        if rows:
            staged, row, axis = rows, axis, kernel.grid[-2]
        elif lanes_may_meet(kernel, axis):
            staged = staged_lanes(kernel, lanes)
            lanes = 1
        per_pass = (lanes,) * len(kernel.passes)
    else:
        per_pass = tuple(pass_lanes(kernel, item, vectors) for item in kernel.passes)
        lanes = 1
    places = bits_of_places(kernel, axis, per_pass)
    lanes, per_pass = lanes_loaded(places, lanes), tuple(lanes_loaded(places, n) for n in per_pass)
    together = results_of_register(kernel, vectors)
    rows = rows_together(kernel, per_pass[0], together) if axis is None else None
    if rows is not None:
        per_pass = (lanes_of_row(kernel.passes[0].axes[-1], per_pass[0], together), *per_pass[1:])
    block = lanes if rows is None else together
    per_element = _unit_work(kernel)
    tile, overlaps = None, False
    if axis is not None:
        has_inner = any(item.axes for item in kernel.passes)
        if kernel.serial:
            block = IN_ORDER
        elif not has_inner and isinstance(per_element, int):
            block = block_of(axis.extent, per_element, _share(kernel), max(lanes, staged))
        tiling = tiling_of(kernel, axis, vectors.bits) if lanes > 1 and not staged else None
        if tiling is not None:
            tile, side, overlaps = tiling.axis, tiling.side, tiling.overlaps
            per_pass, block = (side,) * len(kernel.passes), SIDE_TILES * side
    blocked = [item for item in (axis, tile, rows) if item is not None]
    units = dim.product(
        _ceil(item.extent, block) if item in blocked else item.extent
        for item in kernel.grid
        if item is not row
    )
    points = math.prod(_block_work(item, block) for item in blocked)
    grain, chunks = (units, 1) if kernel.serial else _chunks_of(kernel, units, points)
    in_turn = streamed_rows(kernel, axis, lanes) if rows is None and not (staged or places) else 0
    split = _split(kernel, units, points, in_turn) if rows is None else None
    waits = waits and tile is None
    in_pieces = tile is None and lanes > 1 and lanes.bit_count() == 1 and not staged
    cuts = cut_axes(kernel, axis) if axis is not None and in_pieces else ()
    return LoopSchedule(
        axis,
        per_pass,
        block,
        units,
        grain,
        chunks,
        split=split,
        tile=tile,
        waits=waits,
        cuts=cuts,
        staged=staged,
        row=row,
        computes_again=row is not None or (staged > 0 and _computes_little(kernel)),
        far=far_buffers(kernel),
        rows=rows,
        places=bits_of_updates(kernel) if staged else places if tile is None else 0,
        overlaps=overlaps,
        chain=in_pieces and axis is not None and cuts == () and is_chain(kernel, vectors),
    )


def _gathered(kernel: LoopKernel, block: int) -> LoopSchedule:
    """Return the schedule of a kernel that gathers short rows, a block of them at a time."""
    *outer, rows, axis = kernel.grid
    assert isinstance(axis.extent, int), "short rows have known lengths"
    units = dim.product([_ceil(rows.extent, block), *(item.extent for item in outer)])
    lanes = lanes_of_short_row(axis.extent)
    return LoopSchedule(
        axis,
        (lanes,) * len(kernel.passes),
        block,
        units,
        *_chunks_of(kernel, units, axis.extent * block),
        places=bits_of_gathers(kernel, gathers(kernel.exprs, kernel.grid), kernel.grid),
        gathers_rows=True,
    )


def _turned(kernel: LoopKernel, turning: Turning) -> LoopSchedule:
    """Return the schedule of a kernel whose rows are turned around."""
    axis, lanes = kernel.grid[-1], turning.lanes
    block = lanes * UNIT_BLOCKS
    units = dim.product(
        _ceil(item.extent, block) if item is axis else item.extent for item in kernel.grid
    )
    return LoopSchedule(
        axis,
        (lanes,) * len(kernel.passes),
        block,
        units,
        *_chunks_of(kernel, units, _block_work(axis, block)),
        turning=turning,
    )


def _share(kernel: LoopKernel) -> int:
    """Return the work of a share of a kernel."""
    return share_of(_unit_work(kernel) * dim.product(item.extent for item in kernel.grid))


def _chunks_of(kernel: LoopKernel, units: int | Dim, points: int) -> tuple[int | Dim, int | Dim]:
    """Return units per chunk, and the number of chunks; a unit has so many points."""
    grain = grain_of(units, _unit_work(kernel) * points, _share(kernel))
    return grain, _ceil(units, dim.maximum(grain, 1))


def _waits_for_memory(kernel: LoopKernel, axis: Axis | None) -> bool:
    """Whether a kernel streams more than caches hold, and computes little on it.

    LLVM then compiles it without optimizing, in a third of the time: it runs no slower, if values
    fit a register each.
    """
    total = sum(b.size * b.dtype.bits // 8 for b in kernel.buffers if isinstance(b.size, int))
    if total < STREAMED_BYTES or kernel.serial or kernel.kept:
        return False
    names = [axis.name] if axis is not None else [i.axes[-1].name for i in kernel.passes if i.axes]
    nodes = list(walk(kernel.exprs))
    if len(nodes) > STREAMED_NODES or any(is_expensive(node) for node in nodes):
        return False
    loads = [node for node in nodes if node.op == "load"]
    steps = [coefficient(load.payload.index, name) for load in loads for name in names]
    return len(names) == 1 and not any(load.args for load in loads) and set(steps) <= {0, 1}


def _block_work(axis: Axis, block: int) -> int:
    return min(block, axis.extent) if isinstance(axis.extent, int) else block


def _ceil(value: int | Dim, divisor: int | Dim) -> int | Dim:
    return dim.floordiv(value + divisor - 1, divisor)


# ---- which axis


def grid_vector_axis(kernel: LoopKernel) -> Axis | None:
    """Return the grid axis for lanes, or None when passes vectorize their own axes."""
    if not kernel.grid:
        return None
    inner = [item for item in kernel.passes if item.axes]
    if not inner:
        return _best_store_axis(kernel)
    along_pass = sum(_walk_score(item.exprs, item.axes[-1].name) for item in inner)
    along_grid = Counter(
        {
            axis: sum(_walk_score(item.exprs, axis.name) for item in inner)
            for axis in kernel.grid
            if axis.extent != 1
        }
    )
    if not along_grid:
        return None
    if has_short_rows(kernel, inner):
        return kernel.grid[-1]
    needs_order = any(not folds_lanes(item) for item in inner)
    axis, count = along_grid.most_common(1)[0]
    small = isinstance(axis.extent, int) and axis.extent < 8
    if count > along_pass or (needs_order and not small and count == along_pass):
        return axis
    is_running = any(item.is_running for item in inner)
    # Steps that wait for one another: rows side by side wait together, though their loads gather.
    return kernel.grid[-1] if needs_order and not is_running and _has_many_rows(kernel) else None


def _has_many_rows(kernel: LoopKernel) -> bool:
    """Whether rows fill lanes; where their number is not known it is taken for granted."""
    last = kernel.grid[-1].extent
    return not isinstance(last, int) or last >= MANY_ROWS


def has_short_rows(kernel: LoopKernel, inner: list[Pass]) -> bool:
    """Whether rows would leave lanes empty, and there are rows enough to fill them instead."""
    lengths = [dim.product(axis.extent for axis in item.axes) for item in inner]
    short = all(isinstance(length, int) and length <= SHORT_ROW for length in lengths)
    return (
        _has_many_rows(kernel) and short and any(is_expensive(node) for node in walk(kernel.exprs))
    )


def _best_store_axis(kernel: LoopKernel) -> Axis:
    stores = [store for item in kernel.passes for store in item.stores]
    scores = {
        axis: sum(1 for store in stores if coefficient(store.index, axis.name) == 1)
        for axis in kernel.grid
    }
    return max(reversed(kernel.grid), key=lambda axis: scores[axis])


def _walk_score(exprs: tuple[Expr, ...], name: str) -> int:
    """Return how well lanes along `name` read: in one piece, the same element, or gathered."""
    steps = [_step(item, name) for item in walk(exprs) if item.op == "load"]
    gathered = sum(1 for step in steps if step not in (0, 1))
    return sum(1 for step in steps if step == 1) - GATHER_PENALTY * gathered


def _step(load: Expr, name: str) -> int | Dim | None:
    """Return how far a load moves with an axis; None where it is not known, or varies."""
    values = load.args[1:] if load.payload.masked else load.args
    is_by_value = any(name in value.axes for value in values)
    return None if is_by_value else coefficient(load.payload.index, name)


def _is_column_reduction(kernel: LoopKernel) -> bool:
    return any(item.axes and item.reductions for item in kernel.passes)


# ---- how much work


def _weight(exprs: tuple[Expr, ...]) -> int:
    return 1 + sum(
        EXPENSIVE_WEIGHT if is_expensive(node) else 1
        for node in walk(exprs)
        if node.op not in ("constant", "index")
    )


def _pass_work(item: Pass) -> int | Dim:
    return dim.product(axis.extent for axis in item.axes) * _weight(item.exprs)


def _computes_little(kernel: LoopKernel) -> bool:
    """Whether the place and the value of each update are little more than loads."""
    stores = [store for item in kernel.passes for store in item.stores]
    return all(_weight((*each.values, each.value)) <= COMPUTED_AGAIN for each in stores)


def _unit_work(kernel: LoopKernel) -> int | Dim:
    """Return the weighted ops at one grid point."""
    total: int | Dim = 0
    for item in kernel.passes:
        total = total + _pass_work(item)
    return total


def _split(kernel: LoopKernel, units: int | Dim, points: int, rows: int) -> Split | None:
    """Cut a reduction when there are too few units, of `points` grid points each, to share it out.

    Only kernels whose first pass is the only one with axes: then the parts are combined and the
    rest runs once. `rows`: how many are read from end to end before the next ones, if not 0.
    """
    if kernel.serial or not kernel.passes or not isinstance(units, int):
        return None
    if units >= ENOUGH_UNITS and not rows:
        return None
    first, *rest = kernel.passes
    if not first.axes or not first.reductions or first.stores or any(i.axes for i in rest):
        return None
    if not folds_lanes(first):
        return None
    outer = first.axes[0].extent
    per_step = _pass_work(first) * points
    if isinstance(per_step, int) and isinstance(outer, int):
        if per_step * units < LARGE_SHARE or outer < 2:
            return None
        step_work = max(1, per_step * units // outer)
        share = share_of(per_step * units)
        length = max(1, share // step_work, -(-outer // MAX_SPLITS))
        length = -(-length // rows) * rows if rows else _aligned(length, first)
        return Split(length, -(-outer // length), rows) if length < outer else None
    if isinstance(outer, int):
        return None
    inner = dim.product(axis.extent for axis in first.axes[1:])
    step_work = dim.maximum(inner * _weight(first.exprs) * units * points, 1)
    by_work = dim.maximum(dim.floordiv(LARGE_SHARE, step_work), 1)
    length = dim.maximum(by_work, _ceil(outer, MAX_SPLITS))
    if len(first.axes) == 1:
        length = _ceil(length, 64) * 64
    # Nothing to reduce is still one part: the last phase reads the first part's value.
    return Split(length, dim.maximum(_ceil(outer, length), 1), rows)


def _aligned(length: int, first: Pass) -> int:
    return -(-length // 64) * 64 if len(first.axes) == 1 else length
