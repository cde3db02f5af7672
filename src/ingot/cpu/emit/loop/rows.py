# SPDX-License-Identifier: Apache-2.0
"""Short rows that are folded together: their lanes joined at once, or transposed in registers.

Joined rows (`schedule.row_folds`): each row of a block leaves a few partial results in memory, row
after row. Their halves are combined for all rows at once, until one of each row is left: a vector
of results, with which the later passes run.

Transposed rows (the same): each lane folds a row. The columns of a block go to
the stack; the fold reads one after the other. The last rows are folded one by one: whole vectors
read from them would reach beyond the array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ingot.emit.loop.body import LoopEmitter, divides
from ingot.emit.loop.folds import Folding
from ingot.emit.loop.gather_indices import carrying_nothing
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.squares import transpose
from ingot.emit.values.types import memory_type, widen
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, Pass
from ingot.kernel.schedule.row_folds import JoinedRows, TransposedRows
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value
from ingot.support.records import record


@record
class _Room:
    """Memory for the accumulators of one reduction, of all rows of a block.

    Attributes:
        folding: the reduction.
        width: lanes that are left of each row.
        addresses: the address of each accumulator.
    """

    folding: Folding
    width: int
    addresses: list[Value]


class JoinedRowsEmitter(LoopEmitter):
    """Emits a kernel whose schedule joins rows."""

    collected: list[Value]

    @property
    def _rows(self) -> Axis:
        return self._strategy(JoinedRows).axis

    def passes(self) -> None:
        """Emit all passes of a block of rows: fold each row, then join the lanes of all at once."""
        f, axis = self.f, self._rows
        first = self.kernel.passes[0]
        block = self.schedule.block
        assert isinstance(block, int), "rows fill a register"
        low, high = self._block_bounds(axis)
        self._prepare(self.kernel.passes, self._pass_axes() | {axis.name})
        foldings = [Folding(self.emitter, first, reduction) for reduction in first.reductions]
        width = min(self.schedule.lanes[0], block)
        rooms = [
            _Room(
                folding,
                width,
                [f.alloca(type, block * width, LINE_BYTES) for type in folding.types],
            )
            for folding in foldings
        ]
        count = block if divides(block, axis.extent) else f.isub(high, low)
        f.for_range(count, lambda number: self._fold_row(low, number, rooms))
        numbers = f.const(vector(lt.I32, block), list(range(block)))
        mask = None
        if count is not block:
            narrow = f.trunc(f.as_value(count), lt.I32)
            mask = f.icmp("ult", numbers, f.splat(narrow, block))

        finish = carrying_nothing(partial(self._finish_rows, block, rooms))
        self._at(axis.name, low, Lanes(axis.name, block, mask, block), [], finish)

    def _fold_row(self, low: IndexValue, number: Value, rooms: list[_Room]) -> None:
        """Fold row `low + number` along itself; store the lanes that remain."""
        f, emitter = self.f, self.emitter
        emitter.names[self._rows.name] = f.iadd(low, number)
        emitter.open_scope()
        self.one_pass(self.kernel.passes[0], self.schedule.lanes[0])
        left = self.collected
        for room in rooms:
            parts = tuple(left[: len(room.addresses)])
            left = left[len(room.addresses) :]
            while parts[0].type.lanes > room.width:
                parts = room.folding.halved(parts, 1)
            for part, address in zip(parts, room.addresses, strict=True):
                f.store(part, f.gep(address, f.imul(number, room.width), part.type.element))
        emitter.close_scope()

    def _finish_rows(self, block: int, rooms: list[_Room]) -> None:
        """Join the lanes of each row of a block; run the passes behind in lanes of rows."""
        f = self.f
        for room in rooms:
            parts = tuple(
                f.load(vector(type, block * room.width), address)
                for address, type in zip(room.addresses, room.folding.types, strict=True)
            )
            while parts[0].type.lanes > block:
                parts = room.folding.halved(parts, block)
            self.bind(room.folding.reduction, room.folding.finished(parts))
        for item in self.kernel.passes[1:]:
            self._point(item, [])

    def finish(self, item: Pass, values: list[Value], lanes: int) -> None:
        """Collect the lanes of a row instead of joining them."""
        del item, lanes
        self.collected = values


class TransposedRowsEmitter(LoopEmitter):
    """Emits a kernel whose schedule transposes short rows."""

    columns: dict[Expr, Value]
    """The room of each load's columns."""

    @property
    def _shape(self) -> TransposedRows:
        return self._strategy(TransposedRows)

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        f, shape = self.f, self._shape
        low, high = self._block_bounds(axis)
        first = self.kernel.passes[0]
        self._prepare(self.kernel.passes, frozenset((axis.name, first.axes[0].name)))
        count = shape.lanes * shape.width
        rooms = {load: f.alloca(memory_type(load.dtype), count, LINE_BYTES) for load in shape.loads}
        # For these rows at the end, whole vectors would reach beyond the array.
        length = self.emitter.index(first.axes[0].extent)
        short = f.idiv(shape.width - 1, length)
        safe = f.imax(f.imin(high, f.isub(self.emitter.index(axis.extent), short)), low)
        whole = self._rounded(low, safe, shape.lanes)

        def block(position: IndexValue, lanes: Lanes | None) -> None:
            def run() -> None:
                self.columns = {}
                if lanes is not None:
                    self._transpose(rooms, first.axes[0].name)
                    self.columns = rooms
                body()

            self._at(axis.name, position, lanes, [], carrying_nothing(run))

        lanes = Lanes(axis.name, shape.lanes)
        f.for_range(whole, lambda at: block(at, lanes), start=low, step=shape.lanes)
        f.for_range(high, lambda at: block(at, None), start=whole)

    def passes(self) -> None:
        """Emit all passes of a block of rows, or of one."""
        lanes = self._shape.lanes if self.columns else 1
        for item in self.kernel.passes:
            self.one_pass(item, lanes)

    def _transpose(self, rooms: dict[Expr, Value], along: str) -> None:
        """Read whole rows and store their columns, square by square."""
        f, emitter, shape = self.f, self.emitter, self._shape
        emitter.names[along] = 0
        emitter.open_scope()
        for load, room in rooms.items():
            memory, access = memory_type(load.dtype), load.payload
            source = f.gep(
                emitter.buffers[access.buffer], emitter.base_index(access.index, ()), memory
            )
            square = partial(self._square, memory, source, room)
            f.for_range(shape.width, square, step=min(shape.lanes, shape.width))
        emitter.close_scope()

    def _square(self, memory: Type, source: Value, room: Value, start: Value) -> None:
        """Read elements of all rows from `start` on, and store them as columns."""
        f, lanes, side = self.f, self._shape.lanes, min(self._shape.lanes, self._shape.width)
        step = self.emitter.index(self.kernel.passes[0].axes[0].extent)
        rows = [
            f.concat_lanes(
                [
                    f.load(
                        vector(memory, side),
                        f.gep(source, f.iadd(f.imul(step, row), start), memory),
                    )
                    for row in range(number, lanes, side)
                ]
            )
            for number in range(side)
        ]
        for number, column in enumerate(transpose(f, rows)):
            f.store(column, f.gep(room, f.imul(f.iadd(start, number), lanes), memory))

    def _point(self, item: Pass, carried: list[Value]) -> list[Value]:
        """Emit one column of a block of rows."""
        if item.axes:
            f, lanes = self.f, self._shape.lanes
            column = self.emitter.names[item.axes[0].name]
            for load, room in self.columns.items():
                memory = memory_type(load.dtype)
                value = f.load(vector(memory, lanes), f.gep(room, f.imul(column, lanes), memory))
                self.emitter.bind(load, widen(f, value, load.dtype, self.emitter.has_f16c))
        return super()._point(item, carried)
