# SPDX-License-Identifier: Apache-2.0
"""Axes that are walked as one: how few axes the indices of some expressions need.

A product of axes, row-major, is cut into runs; in a run every index has the outer axis's
coefficient equal to the inner's times the inner's extent, so the run is one axis.

Example:
    >>> a, b = Axis("@a", 3), Axis("@b", 4)
    >>> i, j = Dim.symbol("@a"), Dim.symbol("@b")
    >>> len(runs_of((a, b), [i * 4 + j])), len(runs_of((a, b), [i]))
    (1, 2)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ingot.hlo import dim
from ingot.hlo.dim import Dim, product, symbols_of
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis

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
