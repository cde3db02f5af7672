# SPDX-License-Identifier: Apache-2.0
"""The grid axis that a kernel's lanes run along: the one that its loads walk with stride one.

If there is none, lanes run along each pass's last axis (rows are reduced across lanes, then
folded).
"""

from __future__ import annotations

import math
from collections import Counter

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.analysis.lane_counts import folds_lanes
from ingot.kernel.expr import Expr, is_expensive, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.llvm.machine_model import L2_BYTES

SHORT_ROW, MANY_ROWS = 12, 64
"""Rows up to this length are computed side by side, a lane each, if there are MANY_ROWS."""

SCANNED_ROWS = 4
"""Rows from which on scans whose steps are functions run side by side: running sums of logarithms
of 500 f32 took 0.31 of the time in 4 rows, 0.18 in 8, 0.11 in 16, 0.08 in 64, and 1.3 in 2 (Emerald
Rapids, one thread, 2026-11-30)."""

ODD_ROWS = (3, 5)
"""Lengths of rows that lanes along them leave half empty: read more than once, rows of three took
0.32 to 0.8 of the time side by side, of five 0.8, of six and seven 0.53 to 1.04, of nine 3.2 (AVX2,
one thread, 2026-11-29)."""

NARROW = 4
"""The most neighbouring columns that are gathered one after the other by all lanes: sums of three
take a third of the time of a lane for each."""

GATHER_PENALTY = 4
"""A gathered load costs as much as this many loads in one piece gain."""

MUCH_LESS = 4
"""Lanes along a grid axis gather much less if it is this part of what lanes along passes do."""


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
    if _is_narrow(axis, inner) and not needs_order:
        return None
    if count > along_pass or (needs_order and not small and count == along_pass):
        return axis
    least = L2_BYTES if count < along_pass else 1
    if not needs_order and (found := _least_gathered(kernel, inner, least)):
        return found
    # Steps that wait for one another: rows side by side wait together, though their loads gather.
    scans = [item for item in inner if item.is_running]
    waits = all(map(_is_slow_step, scans))
    rows = SCANNED_ROWS if scans else MANY_ROWS
    return kernel.grid[-1] if needs_order and waits and _has_rows(kernel, rows) else None


def _is_slow_step(item: Pass) -> bool:
    """Whether a step of a scan computes a function, which takes longer than to gather and store."""
    folded = (node for fold in item.reductions for node in walk(fold.combiner.results))
    return any(map(is_expensive, folded))


def _least_gathered(kernel: LoopKernel, inner: list[Pass], least: int) -> Axis | None:
    """Return the grid axis along which lanes gather little, if along the passes they gather much.

    Much is `least` bytes. Loads that gather from an array in no near cache wait for a line each,
    whose other elements are gone by the time that they are read.
    """
    along_passes = sum(_gathered_bytes(kernel, item, item.axes[-1]) for item in inner)
    if along_passes < least:
        return None
    wide = [axis for axis in kernel.grid if not isinstance(axis.extent, int) or axis.extent >= 8]
    along = {axis: sum(_gathered_bytes(kernel, item, axis) for item in inner) for axis in wide}
    axis = min(wide, key=lambda each: along[each], default=None)
    return None if axis is None or along[axis] * MUCH_LESS > along_passes else axis


def _gathered_bytes(kernel: LoopKernel, item: Pass, axis: Axis) -> int:
    """Return the bytes of arrays that lanes along `axis` gather in a pass, as far as known."""
    extents = {each.name: each.extent for each in (*kernel.grid, *item.axes)}
    total = 0
    for load in walk(item.exprs):
        if load.op == "load" and _step(load, axis.name) not in (0, 1):
            used = [size for name, size in extents.items() if _step(load, name) != 0]
            total += math.prod(size for size in used if isinstance(size, int)) * load.dtype.bits
    return total // 8


def _is_narrow(axis: Axis, inner: list[Pass]) -> bool:
    """Whether lanes along an axis would be few, and passes read its positions close together.

    Lanes along the passes then gather each position from a few cache lines.
    """
    if not isinstance(axis.extent, int) or axis.extent > NARROW:
        return False
    return all(
        _step(load, item.axes[-1].name) in (0, axis.extent)
        for item in inner
        for load in walk(item.exprs)
        if load.op == "load" and _step(load, axis.name) != 0
    )


def _has_rows(kernel: LoopKernel, least: int = MANY_ROWS) -> bool:
    """Whether rows fill lanes; where their number is not known it is taken for granted."""
    last = kernel.grid[-1].extent
    return not isinstance(last, int) or last >= least


def has_short_rows(kernel: LoopKernel, inner: list[Pass]) -> bool:
    """Whether rows would leave lanes empty, and there are rows enough to fill them instead."""
    lengths = [dim.product(axis.extent for axis in item.axes) for item in inner]
    short = all(isinstance(length, int) and length <= SHORT_ROW for length in lengths)
    if not short or not _has_rows(kernel):
        return False
    if len(inner) > 1 and all(length in ODD_ROWS for length in lengths):
        return True
    values = (node for item in inner for node in walk(item.exprs))
    return any(map(is_expensive, values)) or any(map(chooses, inner))


def chooses(item: Pass) -> bool:
    """Whether a pass chooses between values by its position, as along a stack it does."""
    names = {axis.name for axis in item.axes}
    compared = [node.axes for node in walk(item.exprs) if node.op == "compare"]
    return any(axes and axes <= names for axes in compared)


def _best_store_axis(kernel: LoopKernel) -> Axis:
    stores = kernel.stores
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
    """Return the step of a load along an axis; None where it is unknown or varies."""
    values = load.args[1:] if load.payload.masked else load.args
    is_by_value = any(name in value.axes for value in values)
    return None if is_by_value else coefficient(load.payload.index, name)


def is_column_reduction(kernel: LoopKernel) -> bool:
    """Whether lanes along the grid fold a column each."""
    return any(item.axes and item.reductions for item in kernel.passes)
