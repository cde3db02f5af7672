# SPDX-License-Identifier: Apache-2.0
"""Kernels in pieces: loops of their own for each part of the grid where masks are known.

The schedule holds a kernel for each piece (`kernel.schedule.piece_loops`). A unit asks once in
which band of the outer axes it lies; there its block of the vector axis is a loop per piece.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from ingot.emit.loop.body import LoopEmitter, Strip, copy_runs
from ingot.emit.loop.gather_indices import carrying_nothing
from ingot.emit.values.indices import IndexValue
from ingot.kernel.analysis.ranges import Range
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.piece_loops import Band, PieceLoop, Pieces


class PieceEmitter(LoopEmitter):
    """Emits a kernel whose schedule cuts axes into pieces."""

    block: tuple[IndexValue, IndexValue]
    kernel: LoopKernel

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        # Loops along the axis bind its name, which was the number of the block.
        extent, block = axis.extent, self.schedule.block
        if isinstance(extent, int) and isinstance(block, int) and extent <= block:
            self.block = 0, extent
        else:
            self.block = self._block_bounds(axis)
        strategy = self._strategy(Pieces)
        outer = [cut.axis for cut in strategy.cuts[:-1]]
        self._bands(list(strategy.bands), outer, body)

    def _bands(self, bands: list[Band], outer: list[Axis], body: Callable[[], None]) -> None:
        """Branch over the bands by where the unit lies along each of the outer axes."""
        depth = len(bands[0].ranges) - len(outer)
        if not outer:
            (band,) = bands
            self._pieces(band, body)
            return
        axis, *inner = outer
        position = self.emitter.names[axis.name]
        groups = [(r, list(held)) for r, held in groupby(bands, lambda band: band.ranges[depth])]

        def branch(left: list[tuple[Range, list[Band]]]) -> None:
            ((first, last), own), *others = left

            def here() -> None:
                self.emitter.open_scope()
                start = self.emitter.index(first)
                self.emitter.names[axis.name] = self.f.isub(position, start)
                self._bands(own, inner, body)
                self.emitter.names[axis.name] = position
                self.emitter.close_scope()

            if others:
                end = self.emitter.index(last)
                self.f.if_(self.f.ile(position, end), here, lambda: branch(others))
            else:
                here()

        branch(groups)

    def _pieces(self, band: Band, body: Callable[[], None]) -> None:
        """Emit a loop for each piece of the vector axis in the current block."""
        whole, axis = self.kernel, self._strategy(Pieces).cuts[-1].axis
        for piece in band.loops:
            self.kernel = piece.kernel
            self._piece(axis, piece, body)
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
        strip = Strip(axis.name, start, end, lanes, aligned=lanes)
        self.vectorize(strip, [], carrying_nothing(body), piece.gathers)
        self.emitter.close_scope()
