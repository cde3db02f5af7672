"""Short rows written out: a softmax over ten classes has no loops, so each element is read once.

Where rows lie side by side in lanes (`kernel.schedule`), a load of one column gathers. Passes over
the same row would gather it again each; written out they share every load and every result.
"""

from __future__ import annotations

from dataclasses import replace

from ingot.hlo.opdef import Trait, find
from ingot.kernel.collapse import Renamer
from ingot.kernel.expr import LEAVES, Expr, make, substitute, walk
from ingot.kernel.ir import LoopKernel, Pass, Reduction, Store
from ingot.kernel.schedule import has_short_rows

MAX_NODES = 500
"""Expression nodes at most, written out."""

MAX_EXPENSIVE = 32
"""Expensive ops at most, written out: the code of each is a few dozen instructions."""


def unroll_short_rows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel without loops over rows, if they are short and read more than once."""
    inner = [item for item in kernel.passes if item.axes]
    if kernel.serial or not kernel.grid or len(inner) < 2 or not has_short_rows(kernel, inner):
        return kernel
    if any(len(item.axes) != 1 or item.is_running for item in inner) or _size(inner) is None:
        return kernel
    stores: list[Store] = []
    finished: dict[Expr, Expr] = {}
    for item in kernel.passes:
        stores += _written_out(item, kernel, finished)
    return replace(kernel, passes=(Pass((), (), tuple(stores)),))


def _size(inner: list[Pass]) -> int | None:
    """Return how many nodes there will be, None if too many."""
    nodes = expensive = 0
    for item in inner:
        extent = item.axes[0].extent
        assert isinstance(extent, int), "short rows have known lengths"
        own = list(walk(item.exprs))
        nodes += extent * len(own)
        costly = (n for n in own if n.op not in LEAVES and find(n.op).has(Trait.EXPENSIVE))
        expensive += extent * sum(1 for _ in costly)
    return nodes if nodes <= MAX_NODES and expensive <= MAX_EXPENSIVE else None


def _written_out(item: Pass, kernel: LoopKernel, finished: dict[Expr, Expr]) -> list[Store]:
    """Return a pass's stores at each of its points; its reductions go to `finished`."""
    points = [item] if not item.axes else _points(item)
    stores = [_finished(store, finished) for point in points for store in point.stores]
    names = frozenset(axis.name for axis in kernel.grid)
    for number, reduction in enumerate(item.reductions):
        values = tuple(substitute(init, finished) for init in reduction.inits)
        for point in points:
            values = _step(point.reductions[number], values, finished)
        for place, value in enumerate(values):
            leaf = make("reduced", value.dtype, (), (reduction.number, place, names))
            finished[leaf] = value
    return stores


def _points(item: Pass) -> list[Pass]:
    """Return the pass as it is at each position of its axis."""
    (axis,) = item.axes
    assert isinstance(axis.extent, int), "short rows have known lengths"
    return [Renamer({axis.name: place}, {}).sweep(item) for place in range(axis.extent)]


def _step(
    reduction: Reduction, values: tuple[Expr, ...], finished: dict[Expr, Expr]
) -> tuple[Expr, ...]:
    """Return the accumulators after one more element."""
    inputs = tuple(substitute(value, finished) for value in reduction.inputs)
    given = (*values, *inputs)
    results = reduction.combiner.results
    arguments: dict[Expr, Expr] = {
        leaf: given[leaf.payload] for leaf in walk(results) if leaf.op == "argument"
    }
    return tuple(substitute(result, arguments) for result in results)


def _finished(store: Store, finished: dict[Expr, Expr]) -> Store:
    mask = substitute(store.mask, finished) if store.mask is not None else None
    values = tuple(substitute(value, finished) for value in store.values)
    return replace(store, value=substitute(store.value, finished), values=values, mask=mask)
