# SPDX-License-Identifier: Apache-2.0
"""Collapsing of axes: neighbours that every index walks as one become one axis.

A pair (outer, inner) collapses when, in every index that has them, the outer's coefficient is the
inner's times the inner's extent. An elementwise kernel over any rank becomes one flat loop. Where
elements are only moved, whether a row is above another is asked of elements (`RowMasks`):
what is concatenated along outer axes becomes flat too.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.expr import Access, Expr, walk
from ingot.kernel.ir import Axis, LoopKernel, Pass, Reduction, Store
from ingot.kernel.loop.parts import walks_as_one
from ingot.support.records import replace

CHOICES = frozenset({"select", "load", "compare", "index", "constant", "and", "or"})
"""What a move of elements consists of, where nothing is computed."""

Substitution = Mapping[str, "int | Dim"]


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
                kernel = _merge(kernel, *pair)
                changed = True
                break
        if not changed:
            kernel, changed = _without_row_masks(kernel)
    return _named_in_order(kernel)


def _named_in_order(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with its axes named @0, @1, @2 …, the grid's first."""
    every = [*kernel.grid, *(axis for item in kernel.passes for axis in item.axes)]
    old_names = dict.fromkeys(axis.name for axis in every)
    names = {old: f"@{number}" for number, old in enumerate(old_names)}
    if all(old == new for old, new in names.items()):
        return kernel

    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(Axis(names[axis.name], axis.extent) for axis in old)

    rename = Renamer({old: Dim.symbol(new) for old, new in names.items()}, names)
    passes = tuple(replace(rename.sweep(item), axes=axes(item.axes)) for item in kernel.passes)
    return replace(kernel, grid=axes(kernel.grid), passes=passes)


def indices_of(kernel: LoopKernel) -> list[int | Dim]:
    """Return every index of the kernel: loads, stores, index values."""
    found: list[int | Dim] = [store.index for item in kernel.passes for store in item.stores]
    for item in walk(kernel.exprs):
        if item.op == "load":
            found.append(item.payload.index)
        elif item.op == "index":
            found.append(item.payload)
    return found


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
            passes = tuple(map(asked.sweep, kernel.passes))
            return _merge(replace(kernel, passes=passes), outer, inner), True
    return kernel, False


def _merge(kernel: LoopKernel, outer: Axis, inner: Axis) -> LoopKernel:
    merged = Axis(inner.name, outer.extent * inner.extent)
    values: dict[str, int | Dim] = {outer.name: 0}

    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(merged if axis == inner else axis for axis in old if axis != outer)

    rename = Renamer(values, {outer.name: inner.name})
    passes = tuple(replace(rename.sweep(item), axes=axes(item.axes)) for item in kernel.passes)
    return replace(kernel, grid=axes(kernel.grid), passes=passes)


def is_move(kernel: LoopKernel) -> bool:
    """Whether a kernel chooses elements and computes nothing, under masks."""
    exprs = kernel.exprs
    return (
        not any(item.axes for item in kernel.passes)
        and any(item.op == "compare" for item in walk(exprs))
        and all(item.op in CHOICES for item in walk(exprs))
    )


class Renamer:
    """Substitutes axes in everything that a pass holds."""

    def __init__(self, values: Substitution, names: Mapping[str, str]) -> None:
        """Replace axis names in indices by `values`; `names` says what reduced values vary with."""
        self.values = values
        self.names = names
        self._memo: dict[Expr, Expr] = {}

    def place(self, where: int | Dim) -> int | Dim:
        """Return the index of a load or store with axes substituted."""
        return dim.substitute(where, self.values)

    def sweep(self, item: Pass) -> Pass:
        """Return the pass with axes substituted (its own axes list is the caller's)."""
        return replace(
            item,
            reductions=tuple(self._reduction(reduction) for reduction in item.reductions),
            stores=tuple(self.store(store) for store in item.stores),
        )

    def _reduction(self, old: Reduction) -> Reduction:
        inits = tuple(map(self.expr, old.inits))
        return replace(old, inits=inits, inputs=tuple(map(self.expr, old.inputs)))

    def store(self, old: Store) -> Store:
        """Return the store with axes substituted."""
        return replace(
            old,
            index=self.place(old.index),
            value=self.expr(old.value),
            values=tuple(map(self.expr, old.values)),
            mask=self.expr(old.mask) if old.mask is not None else None,
        )

    def expr(self, root: Expr) -> Expr:
        """Return the expression with axes substituted."""
        for item in walk((root,)):
            if item not in self._memo:
                args = tuple(self._memo[arg] for arg in item.args)
                self._memo[item] = self.node(item, args)
        return self._memo[root]

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments with axes substituted."""
        payload = item.payload
        if item.op == "load":
            payload = Access(payload.buffer, self.place(payload.index), payload.masked)
        elif item.op == "index":
            payload = dim.substitute(payload, self.values)
        elif item.op == "reduced":
            varies = frozenset(self.names.get(name, name) for name in payload[2])
            payload = (payload[0], payload[1], varies)
        return ex.make(item.op, item.dtype, args, payload)


class RowMasks(Renamer):
    """Asks comparisons of an outer axis with a number of the axis that it makes with the inner one.

    `row < n` is `row * extent + column < n * extent`, likewise `>=`.
    """

    def __init__(self, outer: Axis, inner: Axis) -> None:
        super().__init__({}, {})
        self.row = Dim.symbol(outer.name)
        self.extent = inner.extent
        self.element = self.row * inner.extent + Dim.symbol(inner.name)

    def is_mask(self, item: Expr) -> bool:
        """Whether an expression is such a comparison."""
        if item.op != "compare" or item.payload.direction not in ("LT", "GE"):
            return False
        left, right = item.args
        is_row = left.op == "index" and left.payload == self.row
        return is_row and right.op == "index" and isinstance(right.payload, int)

    def others(self, kernel: LoopKernel) -> list[int | Dim]:
        """Return every index of the kernel but those of such comparisons."""
        found = [store.index for item in kernel.passes for store in item.stores]
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
        limit = ex.index(item.args[1].payload * self.extent)
        return ex.make("compare", item.dtype, (ex.index(self.element), limit), item.payload)
