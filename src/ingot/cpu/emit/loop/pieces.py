# SPDX-License-Identifier: Apache-2.0
"""Loop kernels in pieces: each part of the grid where masks are known has loops of its own.

`kernel.schedule.pieces` says where an axis is cut. A unit asks once in which band of the outer axes
it lies; there its block of the vector axis is a loop per piece, whose expressions have no masks
left.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.emit.loop.body import LoopEmitter, Strip
from ingot.emit.loop.copies import copy_runs, is_copied
from ingot.emit.values.indices import IndexValue
from ingot.hlo.dim import Dim
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.loop.short_rows import lanes_of_rows
from ingot.kernel.schedule.loop_schedule import Pieces
from ingot.kernel.schedule.piece_origin import from_beginning
from ingot.kernel.schedule.pieces import Cut, Range, narrowed
from ingot.llvm.values import Value

FEW_LANES = 16
"""Lanes to begin with where a pattern in them takes a multiple of its length."""


class PieceEmitter(LoopEmitter):
    """Emits a kernel whose schedule cuts axes into pieces."""

    block: tuple[IndexValue, IndexValue]
    kernel: LoopKernel

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        *outer, vector = self._strategy(Pieces).cuts
        # Loops along the axis take its name over from the number of the block.
        extent, block = axis.extent, self.schedule.block
        if isinstance(extent, int) and isinstance(block, int) and extent <= block:
            self.block = 0, extent
        else:
            self.block = self._block_bounds(axis)
        self._band(outer, vector, {}, body)

    def _band(
        self,
        outer: list[Cut],
        vector: Cut,
        ranges: dict[str, Range],
        body: Callable[[], None],
    ) -> None:
        """Branch over the bands of the first outer axis, then of the rest."""
        if not outer:
            self._pieces(vector, ranges, body)
            return
        cut, *rest = outer
        position = self.emitter.names[cut.axis.name]

        def bands(left: list[Range]) -> None:
            (first, last), *others = left

            def here() -> None:
                self.emitter.open_scope()
                start = self.emitter.index(first)
                self.emitter.names[cut.axis.name] = self.f.isub(position, start)
                self._band(rest, vector, {**ranges, cut.axis.name: (first, last)}, body)
                self.emitter.names[cut.axis.name] = position
                self.emitter.close_scope()

            if others:
                end = self.emitter.index(last)
                self.f.if_(self.f.ile(position, end), here, lambda: bands(others))
            else:
                here()

        bands(cut.ranges())

    def _pieces(self, vector: Cut, ranges: dict[str, Range], body: Callable[[], None]) -> None:
        """Emit a loop for each piece of the vector axis in the current block."""
        whole, name = self.kernel, vector.axis.name
        for (first, last), passes in self._distinct(vector, ranges):
            here = {**ranges, name: (first, last)}
            self.kernel = from_beginning(whole, passes, here)
            length = last + 1 - first
            lanes = self._lanes(vector.axis, length)
            start, end = (self._place(bound, first, lanes, length) for bound in self.block)
            self._piece(vector.axis, (start, end), lanes, length, body)
        self.kernel = whole

    def _place(
        self, bound: IndexValue, first: int | Dim, lanes: int, length: int | Dim
    ) -> IndexValue:
        """Return where a bound of the block lies in a piece: at a whole number of blocks of lanes.

        One unit ends where the next one begins.
        """
        f = self.f
        behind = f.imax(f.isub(bound, self.emitter.index(first)), 0)
        rounded = f.imul(f.idiv(f.iadd(behind, lanes - 1), lanes), lanes)
        return f.imin(rounded, self.emitter.index(length))

    def _piece(
        self,
        axis: Axis,
        bounds: tuple[IndexValue, IndexValue],
        lanes: int,
        length: int | Dim,
        body: Callable[[], None],
    ) -> None:
        """Emit the loop of the current piece, whose positions are counted from its beginning."""
        passes = self.kernel.passes
        if is_copied(passes, axis.name, length):
            copy_runs(self.emitter, passes, axis.name, bounds)
            return
        self.emitter.open_scope()
        self._prepare(passes, frozenset((axis.name,)))

        def vectors(_: list[Value]) -> list[Value]:
            body()
            return []

        ahead = self._gathers(passes, (*self.kernel.grid, axis))
        self.vectorize(Strip(axis.name, *bounds, lanes, aligned=lanes), [], vectors, ahead)
        self.emitter.close_scope()

    def _distinct(
        self, vector: Cut, ranges: dict[str, Range]
    ) -> list[tuple[Range, tuple[Pass, ...]]]:
        """Return the pieces with what they compute, neighbours that do the same as one."""
        found: list[tuple[Range, tuple[Pass, ...]]] = []
        for first, last in vector.ranges():
            here = {**ranges, vector.axis.name: (first, last)}
            passes = tuple(narrowed(item, here) for item in self.kernel.passes)
            if found and found[-1][1] == passes:
                first = found.pop()[0][0]
            found.append(((first, last), passes))
        return found

    def _lanes(self, axis: Axis, length: int | Dim) -> int:
        """Return the lanes of a piece: those of a short one are not left empty."""
        lanes = self.schedule.lanes[0]
        while isinstance(length, int) and lanes > 1 and lanes // 2 >= length:
            lanes //= 2
        return lanes_of_rows(self.kernel, axis, lanes, min(lanes, FEW_LANES))
