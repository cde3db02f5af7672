# SPDX-License-Identifier: Apache-2.0
"""A kernel rewritten as one kernel for each of its pieces, without the masks that are known there.

`pieces` decides where axes are cut; `bands_of` makes the kernels, which the schedule holds
(`loop_schedule.Pieces`) and emitters spell out. Neighbours along the vector axis that compute the
same are one piece.

Positions of a piece are counted from its beginning, where more is known of its indices. Padding
shifts them by the padding before: `x[floordiv(i-3,2)]` where `mod(i-3,2)` is 0. Counted from the
beginning of its piece, 3, the index is `floordiv(i,2)`: never negative, and a pattern that lanes
know. Loads that such a mask chooses then lose it (`kernel.passes.unmask_loads`).

Long runs that are only copied, by a piece or by a whole kernel (`is_copied`), are calls of the C
library's copy: concatenations, slices and other moves of long rows.

Invariants: run one after the other, in any order, the kernels store what the whole kernel stores;
elements are copied as they are in memory, so every bit stays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product

from ingot.hlo.dim import Dim
from ingot.kernel.analysis.gathers import Gather, GathersAhead, gathers_of_passes
from ingot.kernel.analysis.ranges import Range, narrowed
from ingot.kernel.expr import walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass, Store
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.passes.short_rows import join_short_rows, lanes_of_rows
from ingot.kernel.passes.split_axes import split_axes
from ingot.kernel.passes.unmask_loads import unmask_loads
from ingot.kernel.rewrite import AxisSubstitution
from ingot.kernel.schedule.loop_schedule import Constraints, LaneBlocks, LoopSchedule
from ingot.kernel.schedule.pieces import Cut
from ingot.support.records import record, replace

LONG_BYTES = 1024
"""Bytes of a run from which on a call is faster than a loop of vectors."""


def is_copied(passes: Sequence[Pass], axis: str, length: int | Dim) -> bool:
    """Whether all that passes do along `axis` is to copy runs of `length` elements.

    Runs of symbolic lengths are taken for long ones.
    """
    return all(
        not item.axes
        and not item.reductions
        and all(_is_copy(store, axis, length) for store in item.stores)
        for item in passes
    )


def _is_copy(store: Store, axis: str, length: int | Dim) -> bool:
    load = store.value
    if load.op != "load" or load.args or store.values:
        return False
    if store.mask is not None or store.combiner is not None:
        return False
    steps = {coefficient(load.payload.index, axis), coefficient(store.index, axis)}
    is_long = isinstance(length, Dim) or length * load.dtype.bytes >= LONG_BYTES
    return steps == {1} and is_long


FEW_LANES = 16
"""Lanes to begin with where a pattern in them takes a multiple of its length."""


@record
class PieceLoop:
    """The loop over one piece of the vector axis.

    Attributes:
        kernel: the loops of the piece, at positions from 0 on.
        first: position of the kernel's vector axis at which the piece begins.
        length: its positions.
        lanes: lanes of a block.
        copies: whether it only copies long runs (`is_copied`).
        gathers: those whose indices are computed ahead.
    """

    kernel: LoopKernel
    first: int | Dim
    length: int | Dim
    lanes: int
    copies: bool
    gathers: tuple[Gather, ...] = ()


@record
class Band:
    """The part of the grid in which each cut axis but the vector axis stays within one range.

    Attributes:
        ranges: the range of each of these axes, in the order of the cuts.
        loops: the pieces of the vector axis there, in order.
    """

    ranges: tuple[Range, ...]
    loops: tuple[PieceLoop, ...]


@record
class Pieces(LaneBlocks):
    """Axes are cut where masks change, and each piece has loops of its own without them.

    Attributes:
        cuts: the axes and where they are cut (`kernel.schedule.pieces`), the vector axis last.
        bands: the kernels of the pieces (`kernel.schedule.piece_loops`).
    """

    name = "pieces"
    is_generic = False

    cuts: tuple[Cut, ...]
    bands: tuple[Band, ...]

    @property
    def loops(self) -> Iterator[PieceLoop]:
        """The loops of all pieces, band by band."""
        return (loop for band in self.bands for loop in band.loops)

    @property
    def kernels(self) -> Iterable[LoopKernel]:
        """As in `LoopStrategy`."""
        return (loop.kernel for loop in self.loops)

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        axes = [cut.axis for cut in self.cuts]
        is_last = axes[-1:] == [schedule.vector_axis]
        yield is_last, "pieces: the last cut is not along the vector axis"
        yield set(axes) <= set(kernel.grid), "pieces: a cut is along no axis of the grid"
        bands = math.prod(len(cut.positions) + 1 for cut in self.cuts[:-1])
        yield len(self.bands) == bands, "pieces: not each combination of ranges is a band"
        for band in self.bands:
            total: int | Dim = 0
            for loop in band.loops:
                first = loop.first
                yield first == total, f"pieces: one begins at {first}, not where the last one ends"
                total = total + loop.length
            yield total == axes[-1].extent, f"pieces: they are {total} long together"


def bands_of(
    kernel: LoopKernel, cuts: Sequence[Cut], lanes: int, ahead: GathersAhead
) -> tuple[Band, ...]:
    """Return the pieces of a kernel, band by band; the last range changes fastest.

    Args:
        kernel: the whole kernel.
        cuts: the axes that are cut, the vector axis last.
        lanes: those of the kernel; a short piece has fewer.
        ahead: the gathers of the kernel whose indices are computed ahead.
    """
    *outer, vector = cuts
    names = [cut.axis.name for cut in outer]
    bands: list[Band] = []
    for ranges in product(*(cut.ranges() for cut in outer)):
        band = dict(zip(names, ranges, strict=True))
        bands.append(Band(ranges, _loops(kernel, vector, band, lanes, ahead)))
    return tuple(bands)


def _loops(
    kernel: LoopKernel, cut: Cut, band: Mapping[str, Range], lanes: int, ahead: GathersAhead
) -> tuple[PieceLoop, ...]:
    """Return the loops along the vector axis, where the other cut axes stay in their ranges."""
    axis = cut.axis
    found: list[PieceLoop] = []
    for (first, last), passes in _distinct(kernel, cut, band):
        own = _in_rows(_from_beginning(kernel, passes, {**band, axis.name: (first, last)}))
        length = last + 1 - first
        copies = is_copied(own.passes, axis.name, length)
        lanes_here = _lanes(own, axis, length, lanes)
        gathers = gathers_of_passes(own, axis) if ahead.bits else ()
        found.append(PieceLoop(own, first, length, lanes_here, copies, gathers))
    return tuple(found)


def _from_beginning(
    kernel: LoopKernel, passes: tuple[Pass, ...], ranges: Mapping[str, Range]
) -> LoopKernel:
    """Return a kernel of one piece: the passes of `kernel` as they are in the ranges of axes."""
    starts = {name: Dim.symbol(name) + first for name, (first, _) in ranges.items() if first}
    if starts:
        passes = tuple(map(AxisSubstitution(starts).sweep, passes))
    grid = tuple(Axis(axis.name, _length(axis, ranges)) for axis in kernel.grid)
    return unmask_loads(replace(kernel, grid=grid, passes=passes))


def _length(axis: Axis, ranges: Mapping[str, Range]) -> int | Dim:
    first, last = ranges.get(axis.name, (0, -1))
    return last + 1 - first if axis.name in ranges else axis.extent


def _in_rows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel of a piece whose rows, end to end, are read without masks.

    A stack of three that others follow is `mod(@0,3)` under the masks of its piece, too. As rows of
    three, joined again, it is what it would be by itself.
    """
    if not any(node.op == "load" and node.payload.masked for node in walk(kernel.exprs)):
        return kernel
    made = collapse(join_short_rows(split_axes(kernel)))
    return made if made.grid == kernel.grid else kernel


def _distinct(
    kernel: LoopKernel, cut: Cut, band: Mapping[str, Range]
) -> list[tuple[Range, tuple[Pass, ...]]]:
    """Return the pieces with their loops; neighbours with equal loops are one."""
    found: list[tuple[Range, tuple[Pass, ...]]] = []
    for first, last in cut.ranges():
        here = {**band, cut.axis.name: (first, last)}
        passes = tuple(narrowed(item, here) for item in kernel.passes)
        if found and found[-1][1] == passes:
            first = found.pop()[0][0]
        found.append(((first, last), passes))
    return found


def _lanes(kernel: LoopKernel, axis: Axis, length: int | Dim, lanes: int) -> int:
    """Return the lanes of a piece: those of a short one are not left empty."""
    while isinstance(length, int) and lanes > 1 and lanes // 2 >= length:
        lanes //= 2
    return lanes_of_rows(kernel, axis, lanes, min(lanes, FEW_LANES))
