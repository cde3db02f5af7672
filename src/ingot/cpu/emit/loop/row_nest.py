# SPDX-License-Identifier: Apache-2.0
"""Nests of short rows (`kernel.schedule.row_nests`): loops over rows, each row written out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from ingot.emit.loop.body import LoopEmitter
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.kernel.ir import Axis
from ingot.kernel.schedule.loop_schedule import RowNest
from ingot.llvm.values import Value


class RowNestEmitter(LoopEmitter):
    """Emits a kernel whose schedule walks short rows in a nest of loops."""

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        strategy = self._strategy(RowNest)
        looped = strategy.axes[: len(strategy.axes) - strategy.written]
        self._nest(looped, self._block_bounds(looped[0]), body)

    def _nest(
        self,
        axes: tuple[Axis, ...],
        bounds: tuple[IndexValue, IndexValue],
        body: Callable[[], None],
    ) -> None:
        """Emit loops over `axes`, the first between bounds, and the rows within."""
        axis, *inner = axes
        around = self._strategy(RowNest).axes
        changing = (*around[around.index(axis) :], self.kernel.grid[-1])
        self._prepare(self.kernel.passes, frozenset(item.name for item in changing))

        def step(position: Value, _: list[Value]) -> list[Value]:
            self.emitter.names[axis.name] = position
            self.emitter.open_scope()
            if inner:
                self._nest(tuple(inner), (0, self.emitter.index(inner[0].extent)), body)
            else:
                self._rows(body)
            self.emitter.close_scope()
            return []

        self.f.loop(*bounds, 1, [], step)

    def _rows(self, body: Callable[[], None]) -> None:
        """Emit the parts of a row, of as many rows as are written out.

        What these rows share is read once for each part.
        """
        strategy, name = self._strategy(RowNest), self.kernel.grid[-1].name
        written = strategy.axes[len(strategy.axes) - strategy.written :]
        names = [axis.name for axis in written]
        indices = list(product(*(range(axis.known_extent) for axis in written)))

        def point(_: list[Value]) -> list[Value]:
            self._prepare(self.kernel.passes, frozenset(names))
            for index in indices:
                self.emitter.names.update(zip(names, index, strict=True))
                self.emitter.open_scope()
                body()
                self.emitter.close_scope()
            return []

        self._prepare(self.kernel.passes, frozenset((name, *names)))
        for start, count in strategy.parts:
            lanes = None if count == 1 else Lanes(name, count, start=start)
            self._at(name, start, lanes, [], point)
