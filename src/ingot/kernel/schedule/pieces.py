# SPDX-License-Identifier: Apache-2.0
"""Pieces of a grid in which masks are known: concatenate, pad and slices of them have such masks.

`x` beside `y` is, at each point, a choice between two loads. Along each axis the comparisons of a
kernel change at a few positions. Between two of these, every comparison is true or false, and the
expressions have no masks. `cut_axes` finds the positions; `narrowed` simplifies a pass for one
piece; `piece_loops` makes a kernel of each. Positions may be symbolic if their order is certain:
`x` of `n` elements beside `y` of `m` is cut at `n`.

Invariant: in its piece the narrowed pass stores what the whole pass stores. A piece of symbolic
length may be empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np

from ingot.hlo.dim import Dim, exact_quotient, never_negative, symbols_of
from ingot.hlo.opset.elementwise import INVERSE, CompareAttributes
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, varies, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass, Store
from ingot.kernel.passes.collapse import MOVING_OPS
from ingot.kernel.rewrite import Rewriter
from ingot.support.graphs import reachable
from ingot.support.records import record, replace

MAX_PIECES = 8
"""Pieces along the vector axis at most."""

MAX_MOVED_PIECES = 64
"""The same where elements are only moved: a piece is little code, and choosing one is much."""

MAX_BANDS = 4
"""Pieces along every other axis at most."""

PARTS_GROWTH = 2
"""Most nodes of pieces that are parts of their own, as a multiple of the kernel's nodes."""

MAX_MOVED_NODES = 4000
"""Nodes of all pieces together where elements are only moved."""

MAX_NODES = 1500
"""Expression nodes at most, those of all pieces together."""

MAX_WIDE_NODES = 250
"""Nodes of a window with many masks that is written a second time without them, at most."""

MAX_BAND_NODES = 250
"""The same where only other axes are cut: masks that hold for whole rows cost little."""

Range = tuple[int | Dim, int | Dim]
"""First and last position of a piece along an axis."""


@record
class Cut:
    """An axis in pieces, which begin at 0 and at each of `positions`."""

    axis: Axis
    positions: tuple[int | Dim, ...]

    def ranges(self) -> list[Range]:
        """Return the first and the last position of every piece."""
        starts = (0, *self.positions)
        ends = (*self.positions, self.axis.extent)
        return [(start, end - 1) for start, end in zip(starts, ends, strict=True)]


def cut_axes(kernel: LoopKernel, vector_axis: Axis) -> tuple[Cut, ...]:
    """Return the axes to be cut, the vector axis last; none if there is nothing to gain."""
    if kernel.serial or kernel.has_loops:
        return ()
    nodes = [node for node in walk(kernel.exprs) if node.op == "compare"]
    masks = _masks(kernel.exprs)
    cuts = [Cut(axis, _positions(masks, axis)) for axis in kernel.grid if axis != vector_axis]
    vector = Cut(vector_axis, _positions(nodes, vector_axis))
    is_move = all(item.op in MOVING_OPS for item in walk(kernel.exprs))
    most_pieces, most_bands = (MAX_MOVED_PIECES,) * 2 if is_move else (MAX_PIECES, MAX_BANDS)
    count = sum(1 for _ in walk(kernel.exprs))
    if not is_move and count <= MAX_WIDE_NODES:
        cuts = [_around_inside(cut, most_bands) for cut in cuts]
        vector = _around_inside(vector, most_pieces)
    if len(vector.positions) >= most_pieces and not _are_parts(kernel, vector, count):
        return ()
    size = count * (len(vector.positions) + 1)
    most = MAX_NODES if vector.positions else MAX_BAND_NODES
    most = MAX_MOVED_NODES if is_move else most
    chosen: list[Cut] = []
    for cut in cuts:
        if not cut.positions:
            continue
        larger = size * (len(cut.positions) + 1)
        if len(cut.positions) < most_bands and larger <= most:
            chosen.append(cut)
            size = larger
        elif not vector.positions and _are_parts(kernel, cut, count):
            chosen.append(cut)
            size *= PARTS_GROWTH
    return (*chosen, vector) if chosen or vector.positions else ()


def _are_parts(kernel: LoopKernel, cut: Cut, count: int) -> bool:
    """Whether each piece has expressions of its own, as the operands of a concatenation have.

    However many there are, together they are then little more than the kernel's `count` nodes, and
    without cuts every element would choose among all of them.
    """
    if len(cut.positions) >= MAX_MOVED_PIECES:
        return False
    most, name = min(PARTS_GROWTH * count, MAX_MOVED_NODES), cut.axis.name
    total = 0
    for ends in cut.ranges():
        for item in kernel.passes:
            exprs = narrowed(item, {name: ends}).exprs
            total += sum(1 for _ in walk(exprs))
        if total > most:
            return False
    return True


def _around_inside(cut: Cut, most: int) -> Cut:
    """Return a cut of fewer than `most` pieces if the longest is most of the axis.

    So it is with wide windows: their masks change at many positions, all of them near the ends.
    """
    known = [position for position in cut.positions if isinstance(position, int)]
    extent = cut.axis.extent
    if len(cut.positions) < most or len(known) < len(cut.positions) or not isinstance(extent, int):
        return cut
    first, end = max(pairwise((0, *known, extent)), key=lambda ends: ends[1] - ends[0])
    is_most = 2 * (end - 1 - first) > extent
    return Cut(cut.axis, tuple(p for p in (first, end) if p in known)) if is_most else cut


def _masks(exprs: tuple[Expr, ...]) -> list[Expr]:
    """Return the comparisons that are not for run-time values of an index alone."""

    def args(item: Expr) -> tuple[Expr, ...]:
        return item.args if item.op != "load" else item.args[: item.payload.masked]

    return [item for item in reachable(exprs, args) if item.op == "compare"]


def _positions(comparisons: list[Expr], axis: Axis) -> tuple[int | Dim, ...]:
    """Return where comparisons of the axis with numbers and sizes change, in order."""
    found: set[int | Dim] = set()
    for node in comparisons:
        found |= _changes(node, axis.name)
    extent = axis.extent
    if isinstance(extent, int):
        return tuple(sorted(p for p in found if isinstance(p, int) and 0 < p < extent))
    inside = [p for p in found if never_negative(p) and never_negative(extent - p)]
    ordered: list[int | Dim] = []
    for position in sorted(inside, key=str):
        if position not in (0, extent):
            _put_in_order(position, ordered)
    return tuple(ordered)


def _put_in_order(position: int | Dim, ordered: list[int | Dim]) -> None:
    """Insert a position where it belongs, unless it is not plain where that is."""
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if never_negative(position - ordered[middle]):
            low = middle + 1
        elif never_negative(ordered[middle] - position):
            high = middle
        else:
            return
    ordered.insert(low, position)


def _changes(node: Expr, name: str) -> set[int | Dim]:
    """Return the positions at which a comparison differs from the one at the position before."""
    difference = _difference(node)
    symbols = frozenset[str]() if difference is None else symbols_of((difference,))
    if difference is None or name not in symbols or any(map(varies, symbols - {name})):
        return set()
    factor = coefficient(difference, name)
    if not isinstance(factor, int):
        return set()
    rest = difference - factor * Dim.symbol(name)
    given: CompareAttributes = node.payload
    # Where factor * x + rest is 0, rounded down, and whether it is exactly.
    if isinstance(rest, int):
        zero, over = divmod(-rest, factor)
    else:
        quotient, over = exact_quotient(-rest, factor), 0
        if quotient is None:
            return set()
        zero = quotient
    if given.direction in ("EQ", "NE"):
        return set() if over else {zero, zero + 1}
    # It changes its sign there or behind, as it falls or rises.
    is_behind = bool(over) or (given.direction in ("LE", "GT")) == (factor > 0)
    return {zero + 1 if is_behind else zero}


def _difference(node: Expr) -> int | Dim | None:
    """Return left - right of a comparison of two indices without run-time values."""
    left, right = node.args
    if left.op != "index" or right.op != "index" or left.args or right.args:
        return None
    return left.payload - right.payload


def narrowed(item: Pass, ranges: Mapping[str, Range]) -> Pass:
    """Return a pass as it is where each named axis stays within its range."""
    return _narrowed(item, tuple(sorted(ranges.items())))


@lru_cache(maxsize=256)
def _narrowed(item: Pass, ranges: tuple[tuple[str, Range], ...]) -> Pass:
    """Do it once: who asks whether pieces are copies asks before they are emitted."""
    return RangeSimplifier(dict(ranges)).sweep(item)


class RangeSimplifier(Rewriter):
    """Simplifies expressions by the known ranges of axes."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        """Know that each named axis stays within its range."""
        super().__init__()
        self.ranges = ranges

    def is_true(self, mask: Expr) -> bool | None:
        """Return whether a mask holds everywhere in the ranges, None if only partly."""
        return _known_value(self.expr(mask))

    def stores(self, old: tuple[Store, ...]) -> tuple[Store, ...]:
        """Return the stores that are made; where a mask holds there is none."""
        found: list[Store] = []
        for store in super().stores(old):
            known = None if store.mask is None else _known_value(store.mask)
            if known is not False:
                found.append(replace(store, mask=None) if known else store)
        return tuple(found)

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are simplified."""
        if item.op == "compare":
            known = self._compare(item)
            if known is not None:
                return _known(known)
        elif item.op in ("and", "or"):
            found = _junction(args, is_and=item.op == "and")
            return super().node(item, args) if found is None else found
        elif item.op == "select":
            known = _known_value(args[0])
            if known is not None:
                return args[1] if known else args[2]
        elif item.op == "load" and item.payload.masked:
            known = _known_value(args[0])
            if known is not None:
                return ex.unmasked(item, args) if known else ex.scalar(0, item.dtype)
        return super().node(item, args)

    def _compare(self, node: Expr) -> bool | None:
        """Return what a comparison gives everywhere in the ranges, or None."""
        difference = _difference(node)
        ends = None if difference is None else ends_of(difference, self.ranges)
        given: CompareAttributes = node.payload
        return None if ends is None else comparison_of_range(given.direction, *ends)


def ends_of(index: int | Dim, ranges: Mapping[str, Range]) -> Range | None:
    """Return the least and the greatest number that an index is where axes are in their ranges.

    None if it is not linear in axes that have a range.
    """
    linear = _linear(index)
    if linear is None:
        return None
    factors, rest = linear
    low = high = rest
    for name, factor in factors:
        if name not in ranges:
            return None
        first, last = ranges[name][:: 1 if factor > 0 else -1]
        low, high = low + factor * first, high + factor * last
    return low, high


@lru_cache(maxsize=4096)
def _linear(index: int | Dim) -> tuple[tuple[tuple[str, int], ...], int | Dim] | None:
    """Return an index as a factor of each axis and a size, None if it is not so."""
    rest = index
    factors: list[tuple[str, int]] = []
    for name in filter(varies, symbols_of((rest,))):
        factor = coefficient(rest, name)
        if not isinstance(factor, int):
            return None
        factors.append((name, factor))
        rest = rest - factor * Dim.symbol(name)
    return tuple(factors), rest


@cache
def _known(value: bool) -> Expr:
    return ex.constant(np.bool_(value))


def comparison_of_range(direction: str, low: int | Dim, high: int | Dim) -> bool | None:
    """Return whether low..high compares so with 0 everywhere (True), nowhere (False), or partly.

    None, too, where sizes decide it.
    """
    if direction in ("NE", "GT", "GE"):
        opposite = comparison_of_range(INVERSE[direction], low, high)
        return None if opposite is None else not opposite
    if direction == "EQ":
        apart = never_negative(low - 1) or never_negative(-high - 1)
        return True if low == high == 0 else False if apart else None
    bound = 1 if direction == "LT" else 0
    return (
        True
        if never_negative(-high - bound)
        else False
        if never_negative(low - 1 + bound)
        else None
    )


def _known_value(value: Expr) -> bool | None:
    if value.op != "constant":
        return None
    return value is _known(True) or (value is not _known(False) and bool(value.payload.value))


def _junction(args: tuple[Expr, ...], *, is_and: bool) -> Expr | None:
    """Return a conjunction or disjunction of predicates, one of which is known, else None."""
    for known, other in (args, args[::-1]):
        value = _known_value(known) if known.dtype.name == "pred" else None
        if value is not None:
            return other if value is is_and else known
    return None
