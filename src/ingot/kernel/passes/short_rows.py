# SPDX-License-Identifier: Apache-2.0
"""Short rows laid end to end: two axes become one where the innermost is too short for lanes.

If a result has three columns, lanes along a row leave most of a register empty, and lanes along a
column write one element at a time. Lanes along both axes, row after row, write whole registers. The
elements that they read repeat a pattern with the rows: neighbours, each several times, or a few
distant runs of neighbours (a transpose). They are picked out of whole registers
(`kernel.analysis.lane_offsets`). Where a row is stacked from several arrays, each lane reads them
all and chooses.

A transpose that reads short runs is the mirror image: `join_short_runs`.

Masked loads that are made at one position of an axis need neither the axis nor the mask. The last
dimension of `stack([a, b, c], axis=-1)` chooses between arrays, so each load has a mask that holds
at one position along it. Such a load is in its buffer at every other position too, if its index is
taken at that one.

Invariants: a joined axis is walked with stride one, by stores or by the loads of a transpose. Only
loads that their masks make at exactly one position of the axis, whatever the other axes are, are
pinned; where a mask is off, the loaded value is not chosen.
"""

from __future__ import annotations

from itertools import permutations
from math import lcm

from ingot.hlo import dim
from ingot.hlo.dim import Atom, Dim, symbols_of
from ingot.kernel import expr as ex
from ingot.kernel.analysis.ranges import RangeSimplifier
from ingot.kernel.expr import Expr, is_expensive, loads_of, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.passes.collapse import walks_as_one
from ingot.kernel.rewrite import AxisSubstitution, Rewriter

LONGEST = 8
"""Elements of a row that is joined with the next, at most."""

MANY_ROWS = 16
"""Least rows that are joined."""

MOST_STACKED = 6
"""Most elements of a row if each reads all arrays that the row is stacked from. Against lanes along
the columns stacks of five are 1.3 to 1.8 times as fast, stacks of eight are not faster."""

GATHERED_ROWS = (2, 4)
"""Elements of rows, each gathered, that are joined because functions are computed of them: 16000 of
2 took 0.34 to 0.41 of the time, of 4 0.66 to 0.81 (AVX-512 and AVX2), of 3 1.6 to 2.0, of 8 1.3
(AVX-512, one thread, 2026-11-29)."""

SHORTEST_RUN = 16
"""Elements that are read in one piece by a transpose whose runs stay apart: a tile's side."""

FARTHEST = 8
"""Elements at most between neighbours that are picked out of one stretch of memory."""


def join_short_rows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with short innermost rows end to end, where that makes lanes of them."""
    if len(kernel.grid) < 2 or not _computes_elements(kernel):
        return kernel
    *_, outer, inner = kernel.grid
    if not isinstance(inner.extent, int) or not 1 < inner.extent <= LONGEST:
        return kernel
    if not isinstance(outer.extent, int) or outer.extent < MANY_ROWS:
        return kernel
    stores = kernel.stores
    are_dense = all(
        store.is_once
        and coefficient(store.index, inner.name) == 1
        and walks_as_one(store.index, outer, inner)
        for store in stores
    )
    is_cheap = not any(map(is_expensive, walk(kernel.exprs)))
    read = pin_loads(kernel, inner) if is_cheap and inner.extent <= MOST_STACKED else kernel
    if not are_dense or not _are_loads_near(read, outer, inner):
        return kernel
    return joined_rows(read)


def joined_rows(kernel: LoopKernel) -> LoopKernel:
    """Return a kernel that computes elements with the last two axes of its grid as one."""
    *others, outer, inner = kernel.grid
    joined = Axis(inner.name, outer.extent * inner.extent)
    rename = _Joiner(outer, inner)
    passes = tuple(map(rename.sweep, kernel.passes))
    return LoopKernel((*others, joined), passes, kernel.buffers, parameters=kernel.parameters)


def join_short_runs(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with short runs that a transpose reads end to end, so that tiles fill.

    A filter `[features, channels, 2, 2]` that gets its features last is read in runs of four, which
    make no square tiles (`schedule.tiles`); along channels and taps it is read in one piece. What
    is written then leaves a run at its end and begins another, once for each row of a tile.
    """
    if len(kernel.grid) < 3 or not _computes_elements(kernel):
        return kernel
    stores = kernel.stores
    lanes = kernel.grid[-1]
    if not all(store.is_simple and coefficient(store.index, lanes.name) == 1 for store in stores):
        return kernel
    loads = loads_of(kernel.exprs)
    across = [
        load.payload.index
        for load in loads
        if not load.args and coefficient(load.payload.index, lanes.name) not in (None, 0, 1)
    ]
    for inner, outer in permutations(kernel.grid[:-1], 2):
        is_short = isinstance(inner.extent, int) and 1 < inner.extent < SHORTEST_RUN
        if across and is_short and all(_is_run(where, outer, inner) for where in across):
            joined = Axis(inner.name, outer.extent * inner.extent)
            rename = _Joiner(outer, inner)
            grid = tuple(joined if axis == inner else axis for axis in kernel.grid if axis != outer)
            passes = tuple(map(rename.sweep, kernel.passes))
            return LoopKernel(grid, passes, kernel.buffers, parameters=kernel.parameters)
    return kernel


def _is_run(where: int | Dim, outer: Axis, inner: Axis) -> bool:
    """Whether an index walks an axis with stride one and goes on with the other where it ends."""
    return coefficient(where, inner.name) == 1 and walks_as_one(where, outer, inner)


def _are_loads_near(kernel: LoopKernel, outer: Axis, inner: Axis) -> bool:
    """Whether the elements that rows end to end read lie in a few whole registers.

    Gathered elements (`kernel.analysis.gathers`) need not, but their indices must: they walk rows
    as one, unless functions of few elements outweigh the gathers.
    """
    loads = loads_of(kernel.exprs)
    plain = [item.payload.index for item in loads if _is_plain(item)]
    if len(plain) == len(loads):
        return all(_is_near(where, outer, inner) for where in plain)
    gathered = [item.payload for item in loads if not _is_plain(item)]
    calls = any(map(is_expensive, walk(kernel.exprs)))
    if calls and inner.extent in GATHERED_ROWS:
        is_masked = any(access.masked for access in gathered)
        return not is_masked and all(_is_near(where, outer, inner) for where in plain)
    return all(walks_as_one(where, outer, inner) for where in plain) and not any(
        access.masked or coefficient(access.index, inner.name) != 0 for access in gathered
    )


def _is_plain(load: Expr) -> bool:
    """Whether axes determine where a load reads, up to values that all points share."""
    return not load.payload.masked and not any(value.axes for value in load.args)


def _is_near(where: int | Dim, outer: Axis, inner: Axis) -> bool:
    """Whether rows end to end read neighbours, or as many runs of neighbours as a row is long."""
    along, across = coefficient(where, outer.name), coefficient(where, inner.name)
    if not isinstance(along, int) or not isinstance(across, int):
        return False
    return abs(along) <= 1 or (abs(along) <= FARTHEST and abs(across) <= FARTHEST)


class _Joiner(AxisSubstitution):
    """Puts indices in rows end to end for indices in rows."""

    def __init__(self, outer: Axis, inner: Axis) -> None:
        index = Dim.symbol(inner.name)
        super().__init__(
            {
                outer.name: dim.floordiv(index, inner.known_extent),
                inner.name: dim.mod(index, inner.known_extent),
            },
            {outer.name: inner.name},
        )
        self.outer, self.inner = outer, inner

    def index(self, where: int | Dim) -> int | Dim:
        """Return an index of rows end to end; what walks both axes as one goes on doing so."""
        if walks_as_one(where, self.outer, self.inner):
            return dim.substitute(where, {self.outer.name: 0})
        return super().index(where)


def lanes_of_rows(kernel: LoopKernel, axis: Axis, lanes: int, register: int) -> int:
    """Return the lanes along rows end to end: whole rows and whole registers, else `lanes`.

    Masks and gathers are for powers of two.
    """
    if not _reads_plainly(kernel):
        return lanes
    lengths = {
        atom.right
        for item in walk(kernel.exprs)
        if item.op in ("load", "index")
        for atom in _divisions(item.payload.index if item.op == "load" else item.payload, axis)
    }
    if len(lengths) != 1:
        return lanes
    (length,) = lengths
    if not isinstance(length, int) or length > LONGEST or lanes < register:
        return lanes
    return lcm(length, register) if lanes % length != 0 else lanes


def _reads_plainly(kernel: LoopKernel) -> bool:
    """Whether the kernel computes elements one by one, of loads at indices that axes determine."""
    loads = loads_of(kernel.exprs)
    return _computes_elements(kernel) and all(map(_is_plain, loads))


def _computes_elements(kernel: LoopKernel) -> bool:
    """Whether the kernel computes each element by itself."""
    return not kernel.serial and not kernel.has_loops


def _divisions(where: int | Dim, axis: Axis) -> list[Atom]:
    """Return the dividends in an index that vary with an axis."""
    terms = () if isinstance(where, int) else where.terms
    atoms = [atom for key, _ in terms for atom in key if atom.function]
    return [atom for atom in atoms if axis.name in symbols_of((atom.left, atom.right))]


def pin_loads(kernel: LoopKernel, axis: Axis) -> LoopKernel:
    """Return the kernel with loads that are made at one position of `axis` taken there.

    Args:
        kernel: computes each element by itself.
        axis: an axis of its grid, with a known extent.
    """
    return _Pinner(axis.name, axis.known_extent).kernel(kernel)


class _Pinner(Rewriter):
    """Puts a position in place of an axis in loads."""

    def __init__(self, axis: str, extent: int) -> None:
        super().__init__()
        self.axis = axis
        self.there = [RangeSimplifier({axis: (position, position)}) for position in range(extent)]

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are rewritten."""
        if item.op == "load" and item.payload.masked and len(args) == 1:
            where = self._only_position(args[0])
            if where is not None:
                index = dim.substitute(item.payload.index, {self.axis: where})
                return ex.load(item.payload.buffer, index, item.dtype)
        return super().node(item, args)

    def _only_position(self, mask: Expr) -> int | None:
        """Return the one position at which a mask holds, None if it depends on more than that."""
        if mask.axes != frozenset((self.axis,)):
            return None
        holds = [simplifier.is_true(mask) for simplifier in self.there]
        return holds.index(True) if holds.count(True) == 1 and None not in holds else None
