# SPDX-License-Identifier: Apache-2.0
"""Several threads per grid point: they take the elements of each pass in turn, and join folds.

A group is a warp, a block, or the threads of a block that have the same lane. Each member visits
every `members`-th position of a pass's last axis. At the end of a pass all members get the joined
value, so that later passes use it as any other.

Invariant: the order in which elements are combined depends on sizes alone. A barrier separates what
one member stores or overwrites from what the others read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce

from ingot.emit.loop.folds import Folding
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import accumulator_type, memory_type
from ingot.gpu.emit.threads import ThreadEmitter
from ingot.gpu.intrinsics import (
    WARP,
    barrier,
    block_number,
    from_lane_xor,
    thread_number,
    warp_barrier,
)
from ingot.gpu.schedule.strategies import Columns
from ingot.kernel.ir import Axis, Pass
from ingot.kernel.schedule.loop_schedule import UnitAxes
from ingot.llvm import types as lt
from ingot.llvm.values import Value
from ingot.support.records import replace

Parts = tuple[Value, ...]
"""The accumulators of one fold."""


class GroupEmitter(ThreadEmitter):
    """Emits a kernel whose grid points have a group of threads each."""

    members: int
    """Threads of a group."""

    me: Value
    """The number of this thread in its group, as i64."""

    _joins = False
    """Whether the members have folded different elements in the pass at hand."""

    @abstractmethod
    def join(self, folding: Folding, parts: Parts) -> Parts:
        """Return the accumulators of all members, to each of them."""

    @abstractmethod
    def wait(self) -> None:
        """Wait for the other members."""

    def passes(self) -> None:
        """Emit all passes of the group's grid point."""
        before: Pass | None = None
        for item in self.kernel.passes:
            if before is not None and before.stores:
                self.wait()
            self.one_pass(item, 1)
            before = item

    def one_pass(self, item: Pass, lanes: int) -> None:
        """Emit one pass; one without axes is computed by all members and stored by one."""
        self._joins = bool(item.axes)
        if item.axes:
            super().one_pass(item, lanes)
            return
        super().one_pass(replace(item, stores=()), lanes)
        first = self.f.as_condition(self.f.ieq(self.me, 0))
        held = self.values.guard
        self.values.guard = first if held is None else self.f.and_(held, first)
        self.values.store_all(item.stores)
        self.values.guard = held

    def _innermost(
        self,
        low: IndexValue,
        high: IndexValue,
        values: list[Value],
        body: Callable[[IndexValue, list[Value]], list[Value]],
    ) -> list[Value]:
        return self.f.loop(self.f.iadd(low, self.me), high, self.members, values, body)

    def _joined(self, folding: Folding, parts: Parts, lanes: int) -> Parts:
        return self.join(folding, parts) if self._joins else parts

    def in_warp(self, folding: Folding, parts: Parts) -> Parts:
        """Return the accumulators of all lanes of the warp: pairs, then pairs of pairs, ..."""
        bits = WARP // 2
        while bits:
            others = tuple(from_lane_xor(self.f, part, bits) for part in parts)
            parts = folding.met(parts, others)
            bits //= 2
        return parts

    def exchanged(
        self, folding: Folding, parts: Parts, count: int, slot: Value, slots: Sequence[Value]
    ) -> Parts:
        """Put this thread's accumulators at `slot`; return those at `slots`, joined in order.

        Args:
            folding: the fold.
            parts: this thread's accumulators.
            count: slots of shared memory, which every exchange has to itself.
            slot: where this thread puts its own; equal numbers have equal values.
            slots: the values to join.
        """
        f = self.f
        rooms = [self.memory.array(accumulator_type(part.type), count) for part in parts]
        for room, part in zip(rooms, parts, strict=True):
            type = accumulator_type(part.type)
            value = part if type is part.type else f.zext(part, type)
            f.store(value, f.gep(room, slot, type))
        barrier(f)

        def at(number: Value) -> Parts:
            return tuple(
                self._read(room, number, part.type) for room, part in zip(rooms, parts, strict=True)
            )

        return reduce(folding.met, map(at, slots))

    def _read(self, room: Value, number: Value, type: lt.Type) -> Value:
        f, stored = self.f, accumulator_type(type)
        found = f.load(stored, f.gep(room, number, stored))
        return found if stored is type else f.icmp("ne", found, f.zero(stored))


class WarpRowsEmitter(GroupEmitter):
    """Emits a kernel that has a warp per grid point."""

    members = WARP

    def emit(self) -> None:
        """Emit the whole kernel."""
        f = self.f
        thread, warps = thread_number(f), self.threads // WARP
        self.me = f.and_(thread, f.const(lt.I64, WARP - 1))
        warp = f.as_value(f.idiv(thread, WARP))
        self._make_local_buffers_of(warp, warps)
        unit = f.as_value(f.iadd(f.imul(block_number(f), warps), warp))
        self.if_below(unit, self.kernel.grid_size)

    def _make_local_buffers_of(self, warp: Value, warps: int) -> None:
        """Make room for the local buffers of each warp: a part of shared memory."""
        for number, buffer in enumerate(self.kernel.local_buffers, len(self.kernel.buffers)):
            assert isinstance(buffer.size, int), "local buffers have static lengths"
            type = memory_type(buffer.dtype)
            room = self.memory.array(type, buffer.size * warps)
            self.emitter.buffers[number] = self.f.gep(room, self.f.imul(warp, buffer.size), type)

    def join(self, folding: Folding, parts: Parts) -> Parts:
        """Return the accumulators of the warp."""
        return self.in_warp(folding, parts)

    def wait(self) -> None:
        """Wait for the warp."""
        warp_barrier(self.f)


class BlockRowsEmitter(GroupEmitter):
    """Emits a kernel that has a block per grid point."""

    def emit(self) -> None:
        """Emit the whole kernel."""
        self.members, self.me = self.threads, thread_number(self.f)
        for number, buffer in enumerate(self.kernel.local_buffers, len(self.kernel.buffers)):
            assert isinstance(buffer.size, int), "local buffers have static lengths"
            room = self.memory.array(memory_type(buffer.dtype), buffer.size)
            self.emitter.buffers[number] = room
        self.unit(block_number(self.f), self.passes)

    def join(self, folding: Folding, parts: Parts) -> Parts:
        """Return the accumulators of the block: of each warp, then of all warps in order."""
        f = self.f
        parts = self.in_warp(folding, parts)
        warp = f.as_value(f.idiv(self.me, WARP))
        slots = [f.const(lt.I64, number) for number in range(self.threads // WARP)]
        return self.exchanged(folding, parts, len(slots), warp, slots)

    def wait(self) -> None:
        """Wait for the block."""
        barrier(self.f)


class ColumnsEmitter(GroupEmitter):
    """Emits a kernel whose lanes are columns: the threads of one lane are a group."""

    block = WARP

    def emit(self) -> None:
        """Emit the whole kernel."""
        f = self.f
        thread = thread_number(f)
        self.members = self.threads // WARP
        self.lane = f.and_(thread, f.const(lt.I64, WARP - 1))
        self.me = f.as_value(f.idiv(thread, WARP))
        self.thread = thread
        self.unit(block_number(f), self.passes)

    @property
    def _axis(self) -> Axis:
        strategy = self.gpu_strategy
        assert isinstance(strategy, Columns), "each strategy has its emitter"
        return strategy.axis

    def _axes_of_units(self) -> UnitAxes:
        return self.kernel.grid, (self._axis,)

    def passes(self) -> None:
        """Emit all passes of a block of columns; those behind the last repeat it."""
        f, names, axis = self.f, self.emitter.names, self._axis
        extent = self.emitter.index(axis.extent)
        column = f.iadd(f.imul(names[axis.name], WARP), self.lane)
        if not (isinstance(extent, int) and extent % WARP == 0):
            self.values.guard = f.as_condition(f.ilt(column, extent))
            column = f.imin(column, f.isub(extent, 1))
        names[axis.name] = column
        super().passes()

    def join(self, folding: Folding, parts: Parts) -> Parts:
        """Return the accumulators of a column, its parts in order."""
        f = self.f
        slots = [f.as_value(f.iadd(self.lane, WARP * part)) for part in range(self.members)]
        return self.exchanged(folding, parts, self.threads, self.thread, slots)

    def wait(self) -> None:
        """Wait for the block."""
        barrier(self.f)
