# SPDX-License-Identifier: Apache-2.0
"""Axes along which every second or third position is another value: one point for a whole period.

Interior padding leaves `mod(@1,2)` in masks: `x` and `y` in turn are two padded arrays added, a
gradient of a strided slice is zero between its elements. Each row then asks which phase it is in,
and computes all of them under masks. Written out, a point has a row of each phase, no phase has
masks, and what phases share is computed once. Lanes run along another axis.

Invariant: each element is stored once, by the expression that it had. Where the last period is not
whole, its missing rows are neither read nor stored.
"""

from __future__ import annotations

import math
from functools import reduce

from ingot.hlo.dim import Atom, Dim, symbols_of
from ingot.kernel import expr as ex
from ingot.kernel.analysis.ranges import RangeSimplifier, ranges_of
from ingot.kernel.analysis.vector_axis import grid_vector_axis
from ingot.kernel.expr import Expr, compare, walk
from ingot.kernel.index_math import dim_of
from ingot.kernel.ir import Axis, LoopKernel, Pass, Store
from ingot.kernel.passes.split_axes import resolved
from ingot.kernel.passes.unroll import MAX_NODES
from ingot.kernel.rewrite import AxisSubstitution
from ingot.support.records import replace

MOST_PHASES = 8
"""Positions of a period at most. Sums of two interior-padded arrays of 512x256 took 0.98 to 1.02 of
the time with periods of 2 to 8, `exp` of them 0.89 to 0.98; with periods of 12, 16 and 24 the sums
1.06 to 1.09, `exp` 0.81 to 0.9 (Sapphire Rapids, one thread, 2026-12-01)."""


def unroll_phases(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with one point for each period of the axes that masks take apart."""
    if kernel.serial or kernel.local_buffers or len(kernel.passes) != 1 or len(kernel.grid) < 2:
        return kernel
    (item,) = kernel.passes
    if item.axes or item.reductions or not all(store.is_simple for store in item.stores):
        return kernel
    for axis in kernel.grid:
        period = _period(kernel, axis)
        if period > 1 and axis is not grid_vector_axis(kernel):
            kernel = _written_out(kernel, axis, period)
    return kernel


def _period(kernel: LoopKernel, axis: Axis) -> int:
    """Return after how many positions of an axis masks repeat; 1 where none of them do."""
    if not isinstance(axis.extent, int):
        return 1
    masks = [node for node in walk(kernel.exprs) if node.op == "compare"]
    indices = [side.payload for node in masks for side in node.args if side.op == "index"]
    cycles = {_cycle(dim_of(atom), 1, axis.name) for at in indices for atom in _remainders(at)}
    period = reduce(math.lcm, (one for one in cycles if one <= MOST_PHASES), 1)
    return period if period <= MOST_PHASES and 2 * period <= axis.extent else 1


def _remainders(index: int | Dim) -> list[Atom]:
    terms = () if isinstance(index, int) else index.terms
    return [atom for key, _ in terms for atom in key if atom.function == "mod"]


def _cycle(index: int | Dim, divisor: int, name: str) -> int:
    """Return after how many positions of an axis an index is the same, up to whole divisors.

    More than are written out if that is not known.
    """
    found = 1
    for key, factor in () if isinstance(index, int) else index.terms:
        if name not in symbols_of(map(dim_of, key)):
            continue
        (atom, *more), rest = key, divisor // math.gcd(divisor, factor)
        inner = atom.right
        if not atom.function:
            cycle = rest
        elif isinstance(inner, int) and atom.function in ("mod", "floordiv"):
            cycle = _cycle(atom.left, inner if atom.function == "mod" else rest * inner, name)
        else:
            cycle = MOST_PHASES + 1
        if more:
            return MOST_PHASES + 1
        found = math.lcm(found, cycle)
    return found


def _written_out(kernel: LoopKernel, axis: Axis, period: int) -> LoopKernel:
    """Return the kernel with a point for each period of an axis, itself if that is much code."""
    (item,) = kernel.passes
    whole, rest = divmod(axis.known_extent, period)
    shorter = Axis(axis.name, whole + bool(rest))
    grid = tuple(shorter if each is axis else each for each in kernel.grid)
    position = Dim.symbol(axis.name)
    is_whole = compare("LT", ex.index(position), ex.index(whole))
    ranges = ranges_of(grid)
    stores: list[Store] = []
    for phase in range(period):
        there = is_whole if 0 < rest <= phase else None
        own = _Phase(grid, axis.name, position * period + phase, there).sweep(item)
        stores += RangeSimplifier(ranges).sweep(own).stores
    together = Pass((), (), tuple(stores))
    is_long = len(walk(together.exprs)) > MAX_NODES
    return kernel if is_long else replace(kernel, grid=grid, passes=(together,))


class _Phase(AxisSubstitution):
    """Rewrites a pass for one position of each period."""

    def __init__(
        self, grid: tuple[Axis, ...], name: str, at: int | Dim, there: Expr | None
    ) -> None:
        """Know the position, and the mask of the periods that have it if not all do."""
        super().__init__({name: at})
        self.extents = {each.name: each.extent for each in grid}
        self.there = there

    def index(self, where: int | Dim) -> int | Dim:
        """Return the index of a load or of a store at the position."""
        return resolved(where, self.values, self.extents)

    def position(self, value: int | Dim) -> int | Dim:
        """Return an index that is used as a value, likewise."""
        return resolved(value, self.values, self.extents)

    def store(self, old: Store) -> Store:
        """Return a store at the position."""
        made = super().store(old)
        return replace(made, mask=ex.conjunction(self.there, made.mask))

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression at the position; loads have the mask of the stores."""
        found = super().node(item, args)
        if self.there is None or found.op != "load" or self.values.keys().isdisjoint(found.axes):
            return found
        access, masked = found.payload, found.payload.masked
        mask = ex.conjunction(self.there, found.args[0] if masked else None)
        return ex.load(access.buffer, access.index, found.dtype, found.args[masked:], mask)
