# SPDX-License-Identifier: Apache-2.0
"""Transposed loads through tiles in shared memory.

A block has a square of points. First its warps read rows along the axis that the loads walk and put
them into shared memory; then, behind a barrier, they compute rows along the axis of the stores, and
find their elements there by columns. A row of a tile has one element more than it needs, so that
the elements of a column lie in different banks.

Invariant: all threads of a block come to the barrier; threads without an element only wait there.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.emit.values.types import memory_type, narrow, widen
from ingot.gpu.emit.threads import ThreadEmitter
from ingot.gpu.intrinsics import barrier, block_number, thread_number
from ingot.gpu.schedule.strategies import TransposeTiles
from ingot.gpu.schedule.transposes import SIDE
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis
from ingot.kernel.schedule.loop_schedule import UnitAxes
from ingot.llvm import types as lt
from ingot.llvm.values import Value

PITCH = SIDE + 1
"""Elements from one row of a tile to the next."""


class TransposeEmitter(ThreadEmitter):
    """Emits a kernel with transposed loads."""

    block = SIDE

    @property
    def _tiles(self) -> TransposeTiles:
        strategy = self.gpu_strategy
        assert isinstance(strategy, TransposeTiles), "each strategy has its emitter"
        return strategy

    def _axes_of_units(self) -> UnitAxes:
        return self.kernel.grid, (self._tiles.across, self._tiles.along)

    def emit(self) -> None:
        """Emit the whole kernel."""
        f = self.f
        thread = thread_number(f)
        self.lane = f.and_(thread, f.const(lt.I64, SIDE - 1))
        self.row = f.as_value(f.idiv(thread, SIDE))
        self.unit(block_number(f), self.passes)

    def passes(self) -> None:
        """Emit a square of points."""
        f, names = self.f, self.emitter.names
        along, across = self._tiles.along, self._tiles.across
        rooms = {
            load: self.memory.array(memory_type(load.dtype), SIDE * PITCH)
            for load in self._tiles.loads
        }
        corner = {axis: f.imul(names[axis.name], SIDE) for axis in (along, across)}

        def at(lane_axis: Axis, row_axis: Axis, body: Callable[[Value], None]) -> None:
            def one(start: Value) -> None:
                row = f.as_value(f.iadd(self.row, start))
                names[lane_axis.name] = f.iadd(corner[lane_axis], self.lane)
                names[row_axis.name] = f.iadd(corner[row_axis], row)
                self._if_in_grid((lane_axis, row_axis), lambda: body(row))

            f.for_range(SIDE, one, step=self.threads // SIDE)

        at(across, along, lambda row: self._fill(rooms, row))
        barrier(f)
        at(along, across, lambda row: self._compute(rooms, row))

    def _if_in_grid(self, axes: tuple[Axis, ...], body: Callable[[], None]) -> None:
        """Run `body` where the positions on `axes` are in the grid."""
        f, emitter = self.f, self.emitter
        conditions = [
            f.as_condition(f.ilt(emitter.names[axis.name], emitter.index(axis.extent)))
            for axis in axes
        ]

        def then() -> None:
            emitter.open_scope()
            body()
            emitter.close_scope()

        f.if_(f.and_(conditions[0], conditions[1]), then)

    def _fill(self, rooms: dict[Expr, Value], row: Value) -> None:
        f, emitter = self.f, self.emitter
        for load, room in rooms.items():
            value = narrow(f, emitter.value(load), load.dtype, emitter.has_f16c)
            offset = f.iadd(f.imul(row, PITCH), self.lane)
            f.store(value, f.gep(room, offset, memory_type(load.dtype)))

    def _compute(self, rooms: dict[Expr, Value], row: Value) -> None:
        f, emitter = self.f, self.emitter
        for load, room in rooms.items():
            memory = memory_type(load.dtype)
            offset = f.iadd(f.imul(self.lane, PITCH), row)
            value = f.load(memory, f.gep(room, offset, memory))
            emitter.bind(load, widen(f, value, load.dtype, emitter.has_f16c))
        super().passes()
