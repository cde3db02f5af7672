# SPDX-License-Identifier: Apache-2.0
"""Short axes that results are stacked along are written out: common parts are computed once.

A stack chooses, at each position of its axis, between values that often have much in common: the
rows of a rotation matrix, the elements of a sorted row. One point for each position computes the
common part again and again; one point for all positions computes it once. If lanes run along the
short axis itself, there are few of them or the common part is computed for one row at a time;
written out, there are rows for lanes to run along.

Invariant: each element is stored once, by the expression that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.kernel.analysis.ranges import RangeSimplifier
from ingot.kernel.analysis.vector_axis import MANY_ROWS, NARROW, grid_vector_axis
from ingot.kernel.analysis.work import weighted
from ingot.kernel.expr import Expr, loads_of, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.passes.unroll import is_short
from ingot.kernel.rewrite import AxisSubstitution, at_positions
from ingot.support.records import replace

MOST_POSITIONS = 16
"""Positions of short axes at most, together."""

SHARED_OF_FOUR = 3
"""Quarters of the ops of separate positions that the unrolled ones may have at most."""

WORK_OF_ELEMENT = 4
"""Weighted ops for each element from which on it pays to share them, and from which on rows side by
side are faster than lanes along them that compute the same, or that are few: loads and stores then
go lane by lane."""


BLOCKS = (8, 4)
"""Positions of a long axis that are written out together."""

WORK_OF_BLOCK = 16
"""Weighted ops that all positions of a long axis share, at least.

Channels of a sampled image share coordinates and weights: PyTorch's `grid_sample` of 4x32x64x64
takes 0.85 of the time in blocks, of 3 channels the same time (AVX-512, one thread, 2026-11-30).
"""

_AT_HAND = frozenset({"constant", "index", "load"})


def unroll_stacks(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with one point for all positions of short axes, where they share work."""
    if kernel.serial or kernel.local_buffers or len(kernel.passes) != 1 or len(kernel.grid) < 2:
        return kernel
    (item,) = kernel.passes
    if item.axes or not all(store.is_once for store in item.stores):
        return kernel
    vector = grid_vector_axis(kernel)
    for axes in _short_axes(kernel, vector):
        made = _written_out(kernel, item, axes, vector)
        if made is not None:
            return made
    return _in_blocks(kernel, item, vector)


def _short_axes(kernel: LoopKernel, vector: Axis | None) -> list[tuple[Axis, ...]]:
    """Return the axes to write out: with that of lanes, and else without it."""
    found: list[tuple[Axis, ...]] = []
    for allowed in (kernel.grid, (axis for axis in kernel.grid if axis is not vector)):
        chosen, positions = list[Axis](), 1
        for axis in reversed(tuple(allowed)):
            extent = axis.extent
            if isinstance(extent, int) and extent > 1 and positions * extent <= MOST_POSITIONS:
                chosen.append(axis)
                positions *= extent
        if chosen and tuple(chosen) not in found and len(chosen) < len(kernel.grid):
            found.append(tuple(chosen))
    return found


def _written_out(
    kernel: LoopKernel, item: Pass, axes: Sequence[Axis], vector: Axis | None
) -> LoopKernel | None:
    """Return the kernel with `axes` written out, None where that does not pay."""
    is_across = vector is not None and vector in axes
    if vector is not None and is_across and not _is_row_work(kernel, item, axes, vector):
        return None
    copies = _copies(item, axes)
    together = _joined(copies)
    nodes = walk(together.exprs)
    if not is_short(nodes):
        return None
    apart, shared = sum(_work(walk(copy.exprs)) for copy in copies), _work(nodes)
    is_little = apart < WORK_OF_ELEMENT * len(copies)
    if not is_across and (is_little or 4 * shared >= SHARED_OF_FOUR * apart):
        return None
    if not is_across:
        axes = _that_share(item, axes, shared)
        together = _joined(_copies(item, axes))
    grid = tuple(axis for axis in kernel.grid if axis not in axes)
    return replace(kernel, grid=grid, passes=(together,))


def _that_share(item: Pass, axes: Sequence[Axis], shared: int) -> Sequence[Axis]:
    """Return the axes along which positions have work in common; `shared` is that of all of them.

    Copies that share nothing only crowd the registers.
    """
    kept = list(axes)
    for axis in axes:
        rest = [other for other in kept if other is not axis]
        work = _work(walk(_joined(_copies(item, rest)).exprs)) if rest else 0
        if rest and 4 * shared >= SHARED_OF_FOUR * work * axis.known_extent:
            kept, shared = rest, work
    return kept


def _copies(item: Pass, axes: Sequence[Axis]) -> list[Pass]:
    """Return a pass at each position of axes, where masks and choices are known."""
    return [RangeSimplifier({}).sweep(copy) for copy in at_positions(item, axes)]


def _joined(copies: Iterable[Pass]) -> Pass:
    """Return one point with the stores of several."""
    return Pass((), (), tuple(store for copy in copies for store in copy.stores))


def _in_blocks(kernel: LoopKernel, item: Pass, vector: Axis | None) -> LoopKernel:
    """Return the kernel with blocks of a long axis written out, where that saves half of the work.

    The channels of an image that is sampled share the coordinates, and all that follows from them.
    """
    for number, axis in enumerate(kernel.grid):
        extent = axis.extent
        if axis is vector or not isinstance(extent, int) or extent <= MOST_POSITIONS:
            continue
        block = next((size for size in BLOCKS if extent % size == 0), 0)
        shared = [node for node in walk(item.exprs) if axis.name not in node.axes]
        if not block or _work(shared) < WORK_OF_BLOCK:
            continue
        here = Dim.symbol(axis.name) * block
        copies = (AxisSubstitution({axis.name: here + at}).sweep(item) for at in range(block))
        together = _joined(copies)
        nodes = walk(together.exprs)
        if is_short(nodes) and 2 * _work(nodes) <= block * _work(walk(item.exprs)):
            grid = [*kernel.grid]
            grid[number] = Axis(axis.name, extent // block)
            return replace(kernel, grid=tuple(grid), passes=(together,))
    return kernel


def _is_row_work(kernel: LoopKernel, item: Pass, axes: Sequence[Axis], vector: Axis) -> bool:
    """Whether lanes along an axis are wasted on much work, and there are rows to fill them.

    Rows of a gather are read in one piece by lanes along them.
    """
    *_, rows = (axis.extent for axis in kernel.grid if axis not in axes)
    if not isinstance(rows, int) or rows < MANY_ROWS:
        return False
    loads = loads_of(item.exprs)
    gathers = [load for load in loads if any(arg.axes for arg in load.args[load.payload.masked :])]
    if any(coefficient(load.payload.index, vector.name) == 1 for load in gathers):
        return False
    lanes, positions = vector.known_extent, prod(axis.known_extent for axis in axes)
    wasted = [node for node in walk(item.exprs) if lanes <= NARROW or vector.name not in node.axes]
    return positions // lanes * _work(wasted) >= WORK_OF_ELEMENT * positions


def _work(nodes: Iterable[Expr]) -> int:
    """Return the weighted ops of expressions, loads, masks and plain indices left out."""
    return weighted(one for one in nodes if not _is_index(one) and one.dtype is not PRED)


def _is_index(node: Expr) -> bool:
    """Whether a value is read, or is an index in any type: it costs nothing in loops."""
    return node.op in _AT_HAND or (node.op == "convert" and node.args[0].op == "index")
