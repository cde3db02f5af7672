# SPDX-License-Identifier: Apache-2.0
"""Pieces of a grid in which masks are known: concatenate, pad and slices of them have such masks.

`x` beside `y` is, at each point, a choice between two loads. Along each axis the comparisons of a
kernel change at a few positions. Between two of these, every comparison is true or false, and the
expressions have no masks (`analysis.ranges`). `cut_axes` finds the positions, `piece_loops` makes a
kernel of each piece. Positions may be symbolic if their order is certain:
`x` of `n` elements beside `y` of `m` is cut at `n`.

Invariant: a piece of symbolic length may be empty.
"""

from __future__ import annotations

from itertools import pairwise

from ingot.hlo.dim import Dim, exact_quotient, never_negative, symbols_of
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.kernel.analysis.ranges import Range, index_difference, narrowed
from ingot.kernel.expr import MOVING_OPS, Expr, varies, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel
from ingot.support.graphs import reachable
from ingot.support.records import record

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

MAX_BAND_NODES = 250
"""The same where only other axes are cut, as masks that hold for whole rows cost little, and of a
window with many masks, which is written a second time without them."""


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
    if not is_move and count <= MAX_BAND_NODES:
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
    difference = index_difference(node)
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
