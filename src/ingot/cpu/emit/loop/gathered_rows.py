# SPDX-License-Identifier: Apache-2.0
"""Short rows, one after the other: with indices that are computed ahead, or in a nest of loops.

Gathers along short rows (`kernel.analysis.gathers`): `emit.loop.gather_indices` computes the
indices of a block of a long axis ahead; here it is a block of rows. Indices that all rows share are
computed once for a block.

Nests of short rows (`kernel.analysis.row_nests`): loops over rows, each row written out.

Invariant: lanes outside of a row have no indices; nothing is read for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

from ingot.emit.loop.body import LoopEmitter
from ingot.emit.loop.gather_indices import carrying_nothing, index_type, load_indexed, store_indices
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.kernel.analysis.gathers import Gather
from ingot.kernel.ir import Axis
from ingot.kernel.schedule.short_rows import RowNest
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import Type
from ingot.llvm.values import Value

Rooms = dict[Gather, Value]
"""Where the indices of each gather's rows lie."""


class GatheredRowsEmitter(LoopEmitter):
    """Emits a kernel whose schedule gathers short rows."""

    @property
    def _index_type(self) -> Type:
        return index_type(self.schedule.ahead.bits)

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        f, rows, block = self.f, self.kernel.grid[-2], self.schedule.block
        assert isinstance(block, int), "blocks of short rows have known sizes"
        self._prepare(self.kernel.passes, frozenset((axis.name, rows.name)))
        (found,) = self.schedule.ahead.of_passes
        blocks = self._blocks(axis)
        length = blocks[-1][0] + self.schedule.lanes[0]
        free = [item for item in found if item.is_free(rows.name)]
        shared = {item: f.alloca(self._index_type, length, LINE_BYTES) for item in free}
        own = {
            i: f.alloca(self._index_type, length * block, LINE_BYTES)
            for i in found
            if i not in shared
        }
        low, high = self._block_bounds(rows)

        def at_row(row: IndexValue, do: Callable[[Rooms], None]) -> list[Value]:
            self.emitter.names[rows.name] = row
            first = f.imul(f.isub(row, low), length)
            self.emitter.open_scope()
            do({item: f.gep(room, first, self._index_type) for item, room in own.items()})
            self.emitter.close_scope()
            return []

        def run(rooms: Rooms) -> None:
            self._prepare(self.kernel.passes, frozenset((axis.name,)))
            for start, lanes in blocks:
                self._load({**shared, **rooms}, start, lanes, axis, body)

        self._fill(shared, blocks)
        if own:
            f.for_range(high, lambda row: at_row(row, lambda r: self._fill(r, blocks)), start=low)
        f.for_range(high, lambda row: at_row(row, run), start=low)

    def _fill(self, rooms: Rooms, blocks: list[tuple[int, Lanes]]) -> None:
        """Store the indices of a row."""
        for item, room in rooms.items():
            for start, lanes in blocks:
                here = self.f.gep(room, start, self._index_type)
                store = partial(store_indices, self.emitter, item, here, self._index_type)
                self._at(lanes.axis, start, lanes, [], carrying_nothing(store))

    def _load(
        self, rooms: Rooms, start: int, lanes: Lanes, axis: Axis, body: Callable[[], None]
    ) -> None:
        """Run `body` for a block of lanes of a row, whose gathers are loaded one by one."""
        inside = min(lanes.count, axis.known_extent - start)

        def load() -> None:
            for item, room in rooms.items():
                here = self.f.gep(room, start, self._index_type)
                load_indexed(self.emitter, item, here, self._index_type, inside)
            body()

        self._at(axis.name, start, lanes, [], carrying_nothing(load))

    def _blocks(self, axis: Axis) -> list[tuple[int, Lanes]]:
        """Return where the blocks of lanes of a row begin, the last one masked."""
        count, extent = self.schedule.lanes[0], axis.known_extent
        starts = range(0, extent, count)
        masks = [
            None if start + count <= extent else self._first_lanes(extent - start, count)
            for start in starts
        ]
        return [
            (start, Lanes(axis.name, count, mask, count))
            for start, mask in zip(starts, masks, strict=True)
        ]


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
