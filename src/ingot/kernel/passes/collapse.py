# SPDX-License-Identifier: Apache-2.0
"""Collapsing of axes: neighbours that every index walks as one become one axis.

A product of axes, row-major, is cut into runs. In a run every index has the outer axis's
coefficient equal to the inner's times the inner's extent, so the run is one axis. So an elementwise
kernel of any rank becomes one flat loop. Where elements are only moved, masks of rows become masks
of elements (`RowMasks`), so that concatenation along outer axes is flat too.

Example:
    >>> a, b = Axis("@a", 3), Axis("@b", 4)
    >>> i, j = Dim.symbol("@a"), Dim.symbol("@b")
    >>> len(runs_of((a, b), [i * 4 + j])), len(runs_of((a, b), [i]))
    (1, 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from ingot.hlo import dim
from ingot.hlo.dim import Dim, product, symbols_of
from ingot.kernel import expr as ex
from ingot.kernel.expr import MOVING_OPS, Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.rewrite import AxisSubstitution, Rewriter

Run = tuple[Axis, ...]


def indices_in(exprs: Iterable[Expr]) -> list[int | Dim]:
    """Return every index that expressions use."""
    found: list[int | Dim] = []
    for item in walk(tuple(exprs)):
        if item.op == "load":
            found.append(item.payload.index)
        elif item.op == "index":
            found.append(item.payload)
    return found


def walks_as_one(index: int | Dim, outer: Axis, inner: Axis) -> bool:
    """Whether an index walks two neighbouring axes as if they were one."""
    names = symbols_of((index,))
    if outer.name not in names and inner.name not in names:
        return True
    first, second = coefficient(index, outer.name), coefficient(index, inner.name)
    return first is not None and second is not None and first == second * inner.extent


def runs_of(axes: Sequence[Axis], indices: Sequence[int | Dim]) -> list[Run]:
    """Return the axes cut into as few runs as `indices` allow; extents of 1 join any run."""
    runs: list[Run] = []
    for axis in axes:
        joins = runs and all(walks_as_one(index, runs[-1][-1], axis) for index in indices)
        if joins:
            runs[-1] = (*runs[-1], axis)
        else:
            runs.append((axis,))
    return runs


def merged(run: Run) -> Axis:
    """Return the one axis of a run, under the name of its innermost."""
    return Axis(run[-1].name, product(axis.extent for axis in run))


def zeros(runs: Iterable[Run]) -> dict[str, int | Dim]:
    """Return the substitution that leaves each run only its innermost axis."""
    return {axis.name: 0 for run in runs for axis in run[:-1]}


def positions(runs: Sequence[Run], name: str) -> dict[str, int | Dim]:
    """Return the substitution of the runs' axes by positions along the flat axis `name`."""
    values = zeros(runs)
    flat: int | Dim = Dim.symbol(name)
    behind: int | Dim = 1
    for number, run in reversed(list(enumerate(runs))):
        axis = merged(run)
        index = dim.floordiv(flat, behind)
        values[axis.name] = index if number == 0 else dim.mod(index, axis.extent)
        behind = behind * axis.extent
    return values


def collapse(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with as few axes as its indices allow, named in order.

    Kernels that become the same loops are then equal, whatever the rank they came from.
    """
    changed = True
    while changed:
        changed = False
        for axes in (kernel.grid, *(item.axes for item in kernel.passes)):
            pair = _collapsible(kernel, axes)
            if pair is not None:
                kernel = _Merger(*pair).kernel(kernel)
                changed = True
                break
        if not changed:
            kernel, changed = _without_row_masks(kernel)
    return _named_in_order(kernel)


def _named_in_order(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with its axes named @0, @1, @2 …, the grid's first."""
    old_names = dict.fromkeys(axis.name for axis in kernel.axes)
    names = {old: f"@{number}" for number, old in enumerate(old_names)}
    if all(old == new for old, new in names.items()):
        return kernel
    return _Namer({old: Dim.symbol(new) for old, new in names.items()}, names).kernel(kernel)


class _Namer(AxisSubstitution):
    """Gives axes other names."""

    def axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Return the axes under their new names."""
        return tuple([Axis(self.names[axis.name], axis.extent) for axis in axes])


def indices_of(kernel: LoopKernel) -> list[int | Dim]:
    """Return every index of the kernel: loads, stores, index values."""
    return [*(store.index for store in kernel.stores), *indices_in(kernel.exprs)]


def _collapsible(kernel: LoopKernel, axes: tuple[Axis, ...]) -> tuple[Axis, Axis] | None:
    if len(axes) < 2:
        return None
    indices = indices_of(kernel)
    for outer, inner in pairwise(axes):
        if all(walks_as_one(index, outer, inner) for index in indices):
            return outer, inner
    return None


def _without_row_masks(kernel: LoopKernel) -> tuple[LoopKernel, bool]:
    """Return the kernel with two axes of the grid merged that only row masks kept apart."""
    if len(kernel.grid) < 2 or kernel.serial or not is_move(kernel):
        return kernel, False
    for outer, inner in pairwise(kernel.grid):
        asked = RowMasks(outer, inner)
        if all(walks_as_one(index, outer, inner) for index in asked.others(kernel)):
            return _Merger(outer, inner).kernel(asked.kernel(kernel)), True
    return kernel, False


class _Merger(AxisSubstitution):
    """Makes two neighbouring axes one, under the name of the inner one."""

    def __init__(self, outer: Axis, inner: Axis) -> None:
        super().__init__({outer.name: 0}, {outer.name: inner.name})
        self.outer, self.inner = outer, inner
        self.merged = Axis(inner.name, outer.extent * inner.extent)

    def axes(self, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        """Return the axes without the outer one."""
        outer, inner, merged = self.outer, self.inner, self.merged
        return tuple([merged if axis == inner else axis for axis in axes if axis != outer])


def is_move(kernel: LoopKernel) -> bool:
    """Whether a kernel chooses elements and computes nothing, under masks."""
    exprs = kernel.exprs
    return (
        not kernel.has_loops
        and any(item.op == "compare" for item in walk(exprs))
        and all(item.op in MOVING_OPS for item in walk(exprs))
    )


class RowMasks(Rewriter):
    """Asks comparisons of an outer axis with a number of the axis that it makes with the inner one.

    `row + c < n` is `row * extent + column < (n - c) * extent`, likewise `>=`.
    """

    def __init__(self, outer: Axis, inner: Axis) -> None:
        """Rewrite comparisons of `outer`, whose elements are rows of `inner.extent` elements."""
        super().__init__()
        self.row = Dim.symbol(outer.name)
        self.extent = inner.extent
        self.element = self.row * inner.extent + Dim.symbol(inner.name)

    def is_mask(self, item: Expr) -> bool:
        """Whether an expression is such a comparison."""
        if item.op != "compare" or item.payload.direction not in ("LT", "GE"):
            return False
        left, right = item.args
        is_row = left.op == "index" and isinstance(left.payload - self.row, int)
        return is_row and right.op == "index" and isinstance(right.payload, int)

    def others(self, kernel: LoopKernel) -> list[int | Dim]:
        """Return every index of the kernel but those of such comparisons."""
        found = [store.index for store in kernel.stores]
        roots = kernel.exprs
        used = {item for item in roots if item.op == "index"}
        for item in walk(roots):
            if item.op == "load":
                found.append(item.payload.index)
            if not self.is_mask(item):
                used |= {arg for arg in item.args if arg.op == "index"}
        return [*found, *(item.payload for item in used)]

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an expression with such comparisons asked of elements."""
        if not self.is_mask(item):
            return super().node(item, args)
        left, right = (arg.payload for arg in item.args)
        limit = ex.index((right - (left - self.row)) * self.extent)
        return ex.make("compare", item.dtype, (ex.index(self.element), limit), item.payload)
