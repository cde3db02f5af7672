# SPDX-License-Identifier: Apache-2.0
"""Short rows transposed in registers (`schedule.transposed_rows`): each lane folds a row.

The columns of a block go to the stack; the fold reads one after the other. The last rows are folded
one by one: whole vectors read from them would reach beyond the array.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ingot.emit.loop.body import LoopEmitter
from ingot.emit.loop.gather_indices import carrying_nothing
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.squares import transpose
from ingot.emit.values.types import memory_type, widen
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, Pass
from ingot.kernel.schedule.loop_schedule import TransposedRows
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value


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
