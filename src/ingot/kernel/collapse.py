"""Collapsing of axes: neighbours that every index walks as one become one axis.

A pair (outer, inner) collapses when, in every index that has them, the outer's coefficient is the
inner's times the inner's extent. An elementwise kernel over any rank becomes one flat loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.expr import Access, Expr, walk
from ingot.kernel.ir import Axis, LoopKernel, Pass, Reduction, Store
from ingot.kernel.parts import walks_as_one

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


def _merge(kernel: LoopKernel, outer: Axis, inner: Axis) -> LoopKernel:
    merged = Axis(inner.name, outer.extent * inner.extent)
    values: dict[str, int | Dim] = {outer.name: 0}

    def axes(old: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(merged if axis == inner else axis for axis in old if axis != outer)

    rename = Renamer(values, {outer.name: inner.name})
    passes = tuple(replace(rename.sweep(item), axes=axes(item.axes)) for item in kernel.passes)
    return replace(kernel, grid=axes(kernel.grid), passes=passes)


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
