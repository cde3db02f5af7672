"""Loop kernels in pieces: each part of the grid where masks are known has loops of its own.

`kernel.pieces` says where an axis is cut. A unit asks once in which band of the outer axes it lies;
there its block of the vector axis is a loop per piece, whose expressions have no masks left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd

from ingot.cpu.emit.copies import copy_runs, is_copied
from ingot.cpu.emit.indices import IndexValue
from ingot.cpu.emit.loop_body import LoopEmitter, divides
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.pieces import Cut, Range, narrowed
from ingot.llvm.values import Value


class PieceEmitter(LoopEmitter):
    """Emits a kernel whose schedule has cuts."""

    block: tuple[IndexValue, IndexValue]
    kernel: LoopKernel

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        *outer, vector = self.schedule.cuts
        # Loops along the axis take its name over from the number of the block.
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
                self._band(rest, vector, {**ranges, cut.axis.name: (first, last)}, body)
                self.emitter.close_scope()

            if others:
                self.f.if_(self.f.ile(position, last), here, lambda: bands(others))
            else:
                here()

        bands(cut.ranges())

    def _pieces(self, vector: Cut, ranges: dict[str, Range], body: Callable[[], None]) -> None:
        """Emit a loop for each piece of the vector axis in the current block."""
        f, name = self.f, vector.axis.name
        low, high = self.block
        kernel = self.kernel
        for (first, last), passes in self._distinct(vector, ranges):
            start, end = f.imax(low, first), f.imin(high, last + 1)
            end = f.imax(start, end)
            if is_copied(passes, name, last + 1 - first):
                copy_runs(self.emitter, passes, name, (start, end))
                continue
            self.kernel = replace(kernel, passes=passes)
            self.emitter.open_scope()
            self._prepare(passes, frozenset((name,)))

            def vectors(_: list[Value]) -> list[Value]:
                body()
                return []

            lanes = self._lanes(first, last)
            known = gcd(first, self.schedule.lanes[0])
            aligned = known if divides(known, self.schedule.block) else 1
            ahead = self._gathers(passes, (*kernel.grid, vector.axis))
            self.vectorize(name, start, end, lanes, [], vectors, aligned=aligned, ahead=ahead)
            self.emitter.close_scope()
        self.kernel = kernel

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

    def _lanes(self, first: int, last: int) -> int:
        """Return the lanes of a piece: those of a short one are not left empty."""
        lanes = self.schedule.lanes[0]
        while lanes > 1 and lanes // 2 > last - first:
            lanes //= 2
        return lanes
