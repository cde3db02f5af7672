# SPDX-License-Identifier: Apache-2.0
"""Loop kernels in pieces: each part of the grid where masks are known has loops of its own.

`kernel.schedule.pieces` says where an axis is cut, `piece_loops` what the loop of each piece is. A
unit asks once in which band of the outer axes it lies; there its block of the vector axis is a loop
per piece.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.emit.loop.body import LoopEmitter, Strip
from ingot.emit.loop.copies import copy_runs
from ingot.emit.values.indices import IndexValue
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.loop_schedule import Pieces
from ingot.kernel.schedule.piece_loops import PieceLoop, piece_loops
from ingot.kernel.schedule.pieces import Cut, Range
from ingot.llvm.values import Value


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
        whole = self.kernel
        for piece in piece_loops(whole, vector, ranges, self.schedule.lanes[0]):
            self.kernel = piece.kernel
            self._piece(vector.axis, piece, body)
        self.kernel = whole

    def _start(self, bound: IndexValue, piece: PieceLoop) -> IndexValue:
        """Return where a bound of the block lies in a piece: at a whole number of blocks of lanes.

        One unit ends where the next one begins.
        """
        f, lanes = self.f, piece.lanes
        behind = f.imax(f.isub(bound, self.emitter.index(piece.first)), 0)
        rounded = f.imul(f.idiv(f.iadd(behind, lanes - 1), lanes), lanes)
        return f.imin(rounded, self.emitter.index(piece.length))

    def _piece(self, axis: Axis, piece: PieceLoop, body: Callable[[], None]) -> None:
        """Emit the loop of a piece, whose positions are counted from its beginning."""
        passes, lanes = piece.kernel.passes, piece.lanes
        start, end = (self._start(bound, piece) for bound in self.block)
        if piece.copies:
            copy_runs(self.emitter, passes, axis.name, (start, end))
            return
        self.emitter.open_scope()
        self._prepare(passes, frozenset((axis.name,)))

        def vectors(_: list[Value]) -> list[Value]:
            body()
            return []

        ahead = self._gathers(passes, (*self.kernel.grid, axis))
        self.vectorize(Strip(axis.name, start, end, lanes, aligned=lanes), [], vectors, ahead)
        self.emitter.close_scope()
