# SPDX-License-Identifier: Apache-2.0
"""Selections: the first elements so far, and a tile of new ones, are sorted in shared memory.

The elements so far come first and in order, so they are before equal new ones. A tile in which no
element goes before the last of those so far is passed over.

Invariant: new elements are taken in the order of their indices in the row.
"""

from __future__ import annotations

from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import combine
from ingot.gpu.emit.function import SharedMemory, ThreadValues
from ingot.gpu.emit.sorts import Network
from ingot.gpu.intrinsics import barrier, block_number, thread_number
from ingot.gpu.schedule.strategies import Selection, Stage
from ingot.kernel.ir import Combiner, TopKKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value


class SelectionEmitter:
    """Emits a selection, the work of one thread."""

    def __init__(
        self, f: FunctionBuilder, emitter: ThreadValues, shared: SharedMemory, stage: Stage
    ) -> None:
        """Emit as `stage` says."""
        assert isinstance(stage.kernel, TopKKernel), "only these have its strategy"
        assert isinstance(stage.strategy, Selection), "each strategy has its emitter"
        self.f = f
        self.emitter = emitter
        self.strategy = stage.strategy
        self.k = stage.kernel.k
        self.threads = stage.threads
        self.thread = thread_number(f)
        self.element = stage.kernel.buffers[0].dtype
        self.memory = memory_type(self.element)
        slots = self.strategy.slots
        self.numbers = shared.array(lt.I32, slots)
        self.keys = shared.array(self.memory, slots)
        self.indices = shared.array(lt.I32, slots)
        self.flag = shared.array(lt.I32, 1)
        self.order = Combiner((self.strategy.comparator,))

    def emit(self) -> None:
        """Emit the whole stage."""
        f, emitter, strategy, k = self.f, self.emitter, self.strategy, self.k
        parts = emitter.index(strategy.parts)
        part = emitter.index(strategy.part)
        block = block_number(f)
        row = f.idiv(block, parts)
        self.base = f.imul(row, emitter.index(strategy.pitch))
        start = f.imul(f.irem(block, parts), part)
        end = f.imin(f.iadd(start, part), emitter.index(strategy.length))
        new = strategy.slots - k

        def tile(at: Value, carried: list[Value]) -> list[Value]:
            (have,) = carried
            count = f.as_value(f.imin(f.isub(end, at), new))
            self._fill(at, have, count)
            is_full = f.icmp("eq", have, f.const(lt.I64, k))
            self._say_if_needed(have, count, is_full)
            f.if_(self._is_needed(), lambda: self._select(f.add(have, count)))
            # Before the next tile overwrites what others may still read.
            barrier(f)
            return [f.as_value(f.imin(f.iadd(have, count), k))]

        (have,) = f.loop(start, end, new, [f.const(lt.I64, 0)], tile)
        targets = [emitter.buffers[number] for number in strategy.target]
        first = f.imul(block, k)

        def store(slot: Value) -> None:
            for room, target, type in zip(
                (self.keys, self.indices), targets, (self.memory, lt.I32), strict=True
            ):
                value = f.load(type, f.gep(room, slot, type))
                f.store(value, f.gep(target, f.iadd(first, slot), type))

        f.for_range(have, store, start=self.thread, step=self.threads)

    def _fill(self, at: Value, have: Value, count: Value) -> None:
        """Put new elements behind those so far, and number all slots."""
        f, emitter, source = self.f, self.emitter, self.strategy.source

        def number(slot: Value) -> None:
            f.store(f.trunc(slot, lt.I32), f.gep(self.numbers, slot, lt.I32))

        def one(offset: Value) -> None:
            position = f.iadd(at, offset)
            element = f.iadd(self.base, position)
            slot = f.add(have, offset)
            key = f.load(self.memory, f.gep(emitter.buffers[source[0]], element, self.memory))
            f.store(key, f.gep(self.keys, slot, self.memory))
            index = f.trunc(f.as_value(position), lt.I32)
            if len(source) > 1:
                index = f.load(lt.I32, f.gep(emitter.buffers[source[1]], element, lt.I32))
            f.store(index, f.gep(self.indices, slot, lt.I32))

        f.for_range(self.strategy.slots, number, start=self.thread, step=self.threads)
        f.for_range(count, one, start=self.thread, step=self.threads)
        is_first = f.icmp("eq", self.thread, f.const(lt.I64, 0))
        f.if_(is_first, lambda: f.store(f.const(lt.I32, 0), self.flag))
        barrier(f)

    def _say_if_needed(self, have: Value, count: Value, is_full: Value) -> None:
        """Raise the flag if an element goes before the last so far, or there are too few."""
        f = self.f

        def one(offset: Value) -> None:
            goes = self._before(f.add(have, offset), f.const(lt.I64, self.k - 1))
            f.if_(
                f.or_(goes, f.xor(is_full, f.const(lt.I1, True))),
                lambda: f.store(f.const(lt.I32, 1), self.flag),
            )

        f.for_range(count, one, start=self.thread, step=self.threads)
        barrier(f)

    def _is_needed(self) -> Value:
        return self.f.icmp("ne", self.f.load(lt.I32, self.flag), self.f.const(lt.I32, 0))

    def _select(self, total: Value) -> None:
        """Sort all slots, and bring the first of them to the front."""
        f = self.f

        def exists(number: Value) -> Value:
            return f.as_condition(f.ilt(number, total))

        slots = self.strategy.slots
        Network(f, self.numbers, slots, self.threads, exists, self._before).sort(slots)
        held: list[tuple[IndexValue, Value, Value]] = []
        for start in range(0, self.k, self.threads):
            slot = f.as_value(f.imin(f.iadd(self.thread, start), slots - 1))
            number = f.zext(f.load(lt.I32, f.gep(self.numbers, slot, lt.I32)), lt.I64)
            key = f.load(self.memory, f.gep(self.keys, number, self.memory))
            index = f.load(lt.I32, f.gep(self.indices, number, lt.I32))
            held.append((slot, key, index))
        barrier(f)
        for slot, key, index in held:

            def store(slot: IndexValue = slot, key: Value = key, index: Value = index) -> None:
                f.store(key, f.gep(self.keys, slot, self.memory))
                f.store(index, f.gep(self.indices, slot, lt.I32))

            f.if_(f.ilt(slot, self.k), store)

    def _before(self, left: Value, right: Value) -> Value:
        return combine(self.emitter, self.order, (self._key(left), self._key(right)))[0]

    def _key(self, slot: Value) -> Value:
        f = self.f
        found = f.load(self.memory, f.gep(self.keys, slot, self.memory))
        return widen(f, found, self.element, self.emitter.has_f16c)
