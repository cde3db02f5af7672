# SPDX-License-Identifier: Apache-2.0
"""Square tiles of transposed loads: read along rows, transposed by library code, on the stack.

`kernel.schedule.tiles` says which loads. A unit is a block of both axes: whole tiles first, then
the remaining points, which read across the vector axis as any other kernel would.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.emit.loop.body import LoopEmitter, Strip, divides
from ingot.emit.loop.gather_indices import carrying_nothing
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.squares import SquareTranspose
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter
from ingot.kernel.expr import Expr
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis
from ingot.kernel.schedule.tiles import SquareTiles
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value


class Tiles:
    """The tiles of one kernel's transposed loads."""

    def __init__(
        self, emitter: ValueEmitter, loads: tuple[Expr, ...], axis: str, side: int
    ) -> None:
        """Make room for tiles of `side` x `side` elements; lanes run along `axis`."""
        self.emitter = emitter
        self.axis = axis
        self.side = side
        f = emitter.f
        self.rooms = {
            load: f.alloca(memory_type(load.dtype), side * side, LINE_BYTES) for load in loads
        }

    def fill(self) -> None:
        """Read the tile that begins where the emitter's names are, and transpose it."""
        f, emitter = self.emitter.f, self.emitter
        for load, room in self.rooms.items():
            memory = memory_type(load.dtype)
            access = load.payload
            step = coefficient(access.index, self.axis)
            assert step is not None, "the schedule chose linear loads"
            first, stride = emitter.index(access.index), emitter.index(step)
            source = f.gep(emitter.buffers[access.buffer], first, memory)
            bytes_apart = f.as_value(f.imul(stride, memory.bytes))
            self._transpose(memory).call(f, source, bytes_apart, room)

    def _transpose(self, memory: Type) -> SquareTranspose:
        return SquareTranspose(memory, self.side)

    @property
    def shared(self) -> tuple[SquareTranspose, ...]:
        """The library code that fills them."""
        return tuple(dict.fromkeys(self._transpose(memory_type(load.dtype)) for load in self.rooms))

    def bind(self, row: IndexValue) -> None:
        """Make row number `row` the value of each load."""
        f = self.emitter.f
        for load, room in self.rooms.items():
            wide = vector(memory_type(load.dtype), self.side)
            value = f.load(wide, f.gep(room, f.imul(row, wide.bytes)))
            self.emitter.bind(load, widen(f, value, load.dtype, self.emitter.has_f16c))


class TiledLoopEmitter(LoopEmitter):
    """Emits a kernel whose schedule has square tiles."""

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        """Run `body` for one block of both axes: square tiles, then the rest."""
        f, strategy = self.f, self._strategy(SquareTiles)
        side, tile = strategy.side, strategy.axis
        low, high = self._block_bounds(axis)
        first, last = self._block_bounds(tile)
        self._prepare(self.kernel.passes, frozenset((axis.name, tile.name)))
        tiles = Tiles(self.emitter, strategy.loads, axis.name, side)
        self.shared = tiles.shared
        if strategy.overlaps:
            self._overlapping(tiles, (axis, tile), (low, high), (first, last), body)
            return
        only_whole = divides(side, axis.extent, self.schedule.block)
        only_whole_rows = divides(side, tile.extent, strategy.rows)
        whole = high if only_whole else self._rounded(low, high, side)
        whole_rows = last if only_whole_rows else self._rounded(first, last, side)

        def strip(corner: Value) -> None:
            def square(start: Value) -> None:
                self._square(tiles, tile, start, corner, body)

            f.for_range(whole, square, start=low, step=side)

        def across(start: IndexValue) -> Callable[[Value], object]:
            def one(number: Value) -> None:
                self.emitter.names[tile.name] = number
                self.vectorize(Strip(axis.name, start, high, side), [], carrying_nothing(body))

            return one

        f.for_range(whole_rows, strip, start=first, step=side)
        if not only_whole:
            f.for_range(whole_rows, across(whole), start=first)
        if not only_whole_rows:
            f.for_range(last, across(low), start=whole_rows)

    def _overlapping(
        self,
        tiles: Tiles,
        axes: tuple[Axis, Axis],
        along: tuple[IndexValue, IndexValue],
        across: tuple[IndexValue, IndexValue],
        body: Callable[[], None],
    ) -> None:
        """Run `body` for a block in whole tiles, the last of which begin sooner."""
        f, side = self.f, tiles.side
        last, last_row = (f.isub(self.emitter.index(axis.extent), side) for axis in axes)

        def strip(corner: Value) -> None:
            row = f.imin(corner, last_row)

            def square(start: Value) -> None:
                self._square(tiles, axes[1], f.imin(start, last), row, body)

            f.for_range(along[1], square, start=along[0], step=side)

        f.for_range(across[1], strip, start=across[0], step=side)

    def _square(
        self,
        tiles: Tiles,
        tile: Axis,
        start: IndexValue,
        corner: IndexValue,
        body: Callable[[], None],
    ) -> None:
        """Fill the tiles at (`start`, `corner`), then run `body` for each of their rows."""
        f, emitter = self.f, self.emitter
        emitter.names[tiles.axis], emitter.names[tile.name] = start, corner
        emitter.open_scope()
        tiles.fill()
        emitter.close_scope()

        def row(number: Value) -> None:
            def point() -> None:
                tiles.bind(number)
                body()

            emitter.names[tile.name] = f.iadd(corner, number)
            lanes = Lanes(tiles.axis, tiles.side)
            self._at(tiles.axis, start, lanes, [], carrying_nothing(point))

        f.for_range(tiles.side, row)
