# SPDX-License-Identifier: Apache-2.0
"""A thread per grid point: a unit of the shared loop emission with one lane.

The other emitters of loop kernels are subclasses, which say which points a thread has. Invariant:
a thread without a point does nothing.
"""

from __future__ import annotations

from ingot.emit.loop.body import LoopEmitter
from ingot.emit.values.types import memory_type
from ingot.gpu.emit.function import SharedMemory, ThreadValues
from ingot.gpu.intrinsics import block_number, thread_number
from ingot.gpu.schedule.strategies import InOrder, SortedUpdates, Stage, Strategy
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value


class ThreadEmitter(LoopEmitter):
    """Emits a loop kernel, the work of one thread."""

    block = 1
    """Positions of a unit along the axes that the strategy cuts."""

    def __init__(
        self,
        f: FunctionBuilder,
        emitter: ThreadValues,
        shared: SharedMemory,
        stage: Stage,
    ) -> None:
        """Emit as `stage` says."""
        kernel = stage.kernel
        assert isinstance(kernel, LoopKernel), "its strategies are those of loop kernels"
        super().__init__(emitter, kernel, _one_lane(kernel, self.block))
        self.values = emitter
        self.memory = shared
        self.threads = stage.threads
        self.gpu_strategy: Strategy = stage.strategy

    def emit(self) -> None:
        """Emit the whole kernel."""
        f = self.f
        self._make_local_buffers()
        thread = f.iadd(f.imul(block_number(f), self.threads), thread_number(f))
        self.if_below(f.as_value(thread), self.kernel.grid_size)

    def _make_local_buffers(self) -> None:
        """Make room for the local buffers of a grid point: the thread's own memory."""
        for number, buffer in enumerate(self.kernel.local_buffers, len(self.kernel.buffers)):
            assert isinstance(buffer.size, int), "local buffers have static lengths"
            room = self.f.alloca(memory_type(buffer.dtype), buffer.size, 16)
            self.emitter.buffers[number] = room

    def if_below(self, unit: Value, units: int | Dim) -> None:
        """Run unit number `unit`, if there is one."""
        limit = self.emitter.index(units)
        self.f.if_(self.f.ilt(unit, limit), lambda: self.unit(unit, self.passes))


class InOrderEmitter(ThreadEmitter):
    """Emits updates in order: a thread has a point of some axes, and visits the others in order."""

    def emit(self) -> None:
        """Emit the whole kernel."""
        f, strategy = self.f, self.gpu_strategy
        assert isinstance(strategy, InOrder), "each strategy has its emitter"
        apart = strategy.apart
        self._make_local_buffers()
        thread = f.as_value(f.iadd(f.imul(block_number(f), self.threads), thread_number(f)))
        count = self.emitter.index(dim.product(axis.extent for axis in apart))

        def run() -> None:
            extents = [self.emitter.index(axis.extent) for axis in apart[1:]]
            for axis, position in zip(apart, self._positions(thread, extents), strict=False):
                self.emitter.names[axis.name] = position
            serial = dim.product(axis.extent for axis in self._unit_axes())
            self.units(0, self.emitter.index(serial), self.passes)

        f.if_(f.ilt(thread, count), run)

    def _unit_axes(self) -> list[Axis]:
        strategy = self.gpu_strategy
        assert isinstance(strategy, InOrder), "each strategy has its emitter"
        return [axis for axis in self.kernel.grid if axis not in strategy.apart]


class SortedUpdatesEmitter(ThreadEmitter):
    """Emits sorted updates: the thread at an element's first update makes all of that element's."""

    def emit(self) -> None:
        """Emit the whole kernel."""
        f = self.f
        thread = f.as_value(f.iadd(f.imul(block_number(f), self.threads), thread_number(f)))
        count = f.as_value(self.emitter.index(self.kernel.grid_size))
        f.if_(f.ilt(thread, count), lambda: self._if_first(thread, count))

    def _if_first(self, thread: Value, count: Value) -> None:
        f, strategy = self.f, self.gpu_strategy
        assert isinstance(strategy, SortedUpdates), "each strategy has its emitter"
        one = f.const(lt.I64, 1)
        element = self._number(strategy.elements, thread)

        def is_same(rank: Value) -> list[Value]:
            return [f.icmp("eq", self._number(strategy.elements, rank), element)]

        is_second = f.icmp("ne", thread, f.const(lt.I64, 0))
        (follows,) = f.if_(
            is_second, lambda: is_same(f.sub(thread, one)), otherwise=[f.const(lt.I1, False)]
        )

        def update(carried: list[Value]) -> list[Value]:
            (rank, _) = carried
            self.unit(self._number(strategy.points, rank), self.passes)
            following = f.add(rank, one)
            (more,) = f.if_(
                f.icmp("slt", following, count),
                lambda: is_same(following),
                otherwise=[f.const(lt.I1, False)],
            )
            return [following, more]

        is_first = f.xor(follows, f.const(lt.I1, True))
        f.while_([thread, is_first], lambda carried: carried[1], update)

    def _number(self, buffer: int, rank: Value) -> Value:
        """Return number `rank` of a buffer, as i64."""
        f, memory = self.f, memory_type(self.kernel.buffers[buffer].dtype)
        found = f.load(memory, f.gep(self.emitter.buffers[buffer], rank, memory))
        return f.sext(found, lt.I64)


def _one_lane(kernel: LoopKernel, block: int) -> LoopSchedule:
    """Return what the shared emission asks of a schedule: no vector axis, one lane."""
    lanes = (1,) * len(kernel.passes)
    return LoopSchedule(None, lanes, block, kernel.grid_size, 1, kernel.grid_size)
