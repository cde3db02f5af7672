# SPDX-License-Identifier: Apache-2.0
"""Short loops written out: rows of few elements, and windows that move along rows.

Where lanes hold rows side by side (`kernel.schedule.decide`), the load of one column is a gather,
and each pass over the row would gather it again. Written out, passes share every load and every
result: a softmax over ten classes has no loops.

A window that moves along the innermost axis reads each element several times, with masks at the
edges. Written out it is a sum of loads, and the grid is cut where the masks change
(`kernel.schedule.pieces`). The fold keeps its order.
"""

from __future__ import annotations

from collections.abc import Collection

from ingot.hlo import dim
from ingot.kernel.analysis.vector_axis import chooses, has_short_rows
from ingot.kernel.expr import Expr, is_expensive, make, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import LoopKernel, Pass, Store
from ingot.kernel.rewrite import ExprSubstitution, applied, at_positions
from ingot.support.records import replace

MAX_NODES = 500
"""Expression nodes at most, written out."""

MAX_EXPENSIVE = 32
"""Expensive ops at most, written out: the code of each is a few dozen instructions."""

MAX_TAPS = 25
"""Elements of a window at most, written out."""

MAX_STEP = 4
"""Elements at most from one window, and from one element of it, to the next: lanes that are further
apart would be gathered."""

MAX_GATHERED = 3
"""Elements of a gathered run at most that are written out. Against lanes along the runs distances
of points in two dimensions took 0.68 of the time, in three 0.79, from large arrays 0.76 and 0.83,
lengths of 64 tours of 50 cities 0.36; in four dimensions 1.04 to 1.16, products of rows 1.39
(AMD EPYC with AVX-512, one thread, 2026-11-28)."""


def unroll_windows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel without the loop over a small window along its innermost axis."""
    inner = [item for item in kernel.passes if item.axes]
    if kernel.serial or not kernel.grid or len(inner) != 1 or inner[0].is_running:
        return kernel
    taps = dim.product(axis.extent for axis in inner[0].axes)
    if not isinstance(taps, int) or taps > MAX_TAPS:
        return kernel
    gathers = taps <= MAX_GATHERED and _gathers(inner[0])
    if not (gathers or _moves(inner[0], kernel.grid[-1].name) or chooses(inner[0])):
        return kernel
    return _without_loops(kernel) if _fits(inner) else kernel


def _moves(item: Pass, name: str) -> bool:
    """Whether a pass reads by small steps along axis `name` and along an axis of its own."""
    near = range(1, MAX_STEP + 1)
    indices = [load.payload.index for load in walk(item.exprs) if load.op == "load"]
    return any(
        coefficient(index, name) in near
        and any(coefficient(index, axis.name) in near for axis in item.axes)
        for index in indices
    )


def _gathers(item: Pass) -> bool:
    """Whether a pass reads short runs that begin where values of the grid say.

    Lanes along it would be few; those along the grid gather, one of them for each element.
    """
    loads = [load for load in walk(item.exprs) if load.op == "load" and not load.payload.masked]
    return any(any(value.axes for value in load.args) for load in loads)


def unroll_short_rows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel without loops over rows, if they are short and read more than once."""
    inner = [item for item in kernel.passes if item.axes]
    if kernel.serial or not kernel.grid or len(inner) < 2 or not has_short_rows(kernel, inner):
        return kernel
    if any(len(item.axes) != 1 or item.is_running for item in inner) or not _fits(inner):
        return kernel
    return _without_loops(kernel)


def _without_loops(kernel: LoopKernel) -> LoopKernel:
    stores: list[Store] = []
    finished = ExprSubstitution({})
    for item in kernel.passes:
        stores += _written_out(item, kernel, finished)
    return replace(kernel, passes=(Pass((), (), tuple(stores)),))


def is_short(nodes: Collection[Expr]) -> bool:
    """Whether expressions may be written out."""
    return len(nodes) <= MAX_NODES and sum(map(is_expensive, nodes)) <= MAX_EXPENSIVE


def _fits(inner: list[Pass]) -> bool:
    """Whether passes may be written out; they share equal expressions."""
    nodes = expensive = 0
    seen = set[Expr]()
    for item in inner:
        extent = dim.product(axis.extent for axis in item.axes)
        assert isinstance(extent, int), "short loops have known lengths"
        own = [node for node in walk(item.exprs) if node not in seen]
        seen.update(own)
        nodes += extent * len(own)
        expensive += extent * sum(map(is_expensive, own))
    return nodes <= MAX_NODES and expensive <= MAX_EXPENSIVE


def _written_out(item: Pass, kernel: LoopKernel, finished: ExprSubstitution) -> list[Store]:
    """Return a pass's stores at each of its points; its reductions go to `finished`."""
    points = list(at_positions(item, item.axes))
    stores = [finished.store(store) for point in points for store in point.stores]
    names = frozenset(axis.name for axis in kernel.grid)
    for number, reduction in enumerate(item.reductions):
        values = finished.exprs(reduction.inits)
        for point in points:
            inputs = finished.exprs(point.reductions[number].inputs)
            values = applied(reduction.combiner, (*values, *inputs))
        for position, value in enumerate(values):
            leaf = make("reduced", value.dtype, (), (reduction.number, position, names))
            finished.add(leaf, value)
    return stores
