# SPDX-License-Identifier: Apache-2.0
"""Unroll and jam: short axes of the grid become results side by side.

Suppose a long fold runs once for each position of a short axis, and much of its work does not vary
along that axis. One fold for all positions does that work once and reads memory once: for the nine
elements of a depthwise filter's gradient, say, or both coordinates of a sum of forces. Each result
is folded in the order that it had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from ingot.hlo import dim
from ingot.kernel import expr as ex
from ingot.kernel.analysis.lane_counts import folds_lanes
from ingot.kernel.analysis.vector_axis import grid_vector_axis
from ingot.kernel.analysis.work import NO_WORK, weight
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, LoopKernel, Pass, Reduction
from ingot.kernel.rewrite import AxisSubstitution
from ingot.support.records import replace

MOST_RESULTS = 9
"""Accumulators side by side at most: two registers of each are there on every target with 32."""

LEAST_POINTS = 64
"""Points of a fold at least: for fewer, the loop costs more than the sharing saves."""

MOST_WORK = 200
"""Weighted ops at a point at most, with all results: code grows with them."""


def unroll_and_jam(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with short axes of its grid as further reductions of its one long fold."""
    if kernel.serial or kernel.local_buffers or not kernel.passes:
        return kernel
    fold, *rest = kernel.passes
    if not _is_long_fold(fold) or any(item.axes or item.reductions for item in rest):
        return kernel
    axes = _short_axes(kernel)
    if not axes:
        return kernel
    positions = list(product(*(range(extent) for _, extent in axes)))
    names = [axis.name for axis, _ in axes]
    copies = [
        _Copy(dict(zip(names, position, strict=True)), len(positions), number)
        for number, position in enumerate(positions)
    ]
    jammed = Pass(fold.axes, tuple(each for copy in copies for each in copy.folds(fold)))
    together, alone = (weight(item.exprs) - NO_WORK for item in (jammed, fold))
    if together > MOST_WORK or 4 * together > 3 * len(copies) * alone:
        return kernel
    grid = tuple(axis for axis in kernel.grid if axis.name not in names)
    return replace(kernel, grid=grid, passes=(jammed, *(_stores(item, copies) for item in rest)))


def _is_long_fold(fold: Pass) -> bool:
    """Whether a pass only folds, many elements in any order of lanes."""
    if not fold.axes or not fold.reductions or fold.stores or fold.is_running:
        return False
    points = dim.product(axis.extent for axis in fold.axes)
    return folds_lanes(fold) and not (isinstance(points, int) and points < LEAST_POINTS)


def _short_axes(kernel: LoopKernel) -> list[tuple[Axis, int]]:
    """Return axes of the grid that lanes do not run along, with their extents, innermost first."""
    vector, found, results = grid_vector_axis(kernel), list[tuple[Axis, int]](), 1
    for axis in reversed(kernel.grid):
        extent = axis.extent
        if axis is vector or not isinstance(extent, int) or extent <= 1:
            continue
        if results * extent * len(kernel.passes[0].reductions) <= MOST_RESULTS:
            results *= extent
            found.append((axis, extent))
    return found


def _stores(item: Pass, copies: Sequence[_Copy]) -> Pass:
    return Pass((), (), tuple(store for copy in copies for store in copy.stores(item.stores)))


class _Copy(AxisSubstitution):
    """Puts one position in place of the short axes; reductions get numbers of their own."""

    def __init__(self, position: Mapping[str, int], copies: int, number: int) -> None:
        super().__init__(position)
        self.copies = copies
        self.own = number

    def folds(self, fold: Pass) -> tuple[Reduction, ...]:
        """Return the reductions of a pass at the position."""
        return tuple(
            replace(self.reduction(each), number=self._of(each.number)) for each in fold.reductions
        )

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression; a finished reduction is the position's own."""
        if item.op != "reduced":
            return super().node(item, args)
        number, part, axes = item.payload
        return ex.make(
            "reduced", item.dtype, (), (self._of(number), part, axes.difference(self.values))
        )

    def _of(self, number: int) -> int:
        return number * self.copies + self.own
