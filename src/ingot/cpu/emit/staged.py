"""Updates one after the other whose places and values are computed in lanes: sums by segment.

Updates of one element must not meet, so a scatter that combines goes update by update. What an
update needs (its place, whether it counts, its value) comes from vectors: a block of each is staged
on the stack, then the updates run in order. A block in which all updates count has no branches.

Invariant: updates happen in the order of the axis.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.cpu.emit.indices import IndexValue
from ingot.cpu.emit.loop_body import LoopEmitter
from ingot.cpu.emit.types import memory_type, narrow, widen
from ingot.cpu.emit.values import combine
from ingot.kernel.ir import Axis, Store
from ingot.llvm import types as lt
from ingot.llvm.types import Type
from ingot.llvm.values import Value

UNROLL = 8
"""Updates per round of the loop without branches."""


class StagedEmitter(LoopEmitter):
    """Emits a kernel whose schedule stages its updates."""

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        lanes = self.schedule.staged
        low, high = self._block_bounds(axis)
        self._prepare(self.kernel.passes, frozenset((axis.name,)))
        ((store,),) = (item.stores for item in self.kernel.passes)
        places = self.f.alloca(lt.I64, lanes, 64)
        values = self.f.alloca(memory_type(store.value.dtype), lanes, 64)

        def block(_: list[Value]) -> list[Value]:
            self._block(store, lanes, places, values)
            return []

        self.vectorize(axis.name, low, high, lanes, [], block)

    def _block(self, store: Store, lanes: int, places: Value, values: Value) -> None:
        """Stage a block of updates, then make them."""
        f, emitter = self.f, self.emitter
        numbers = tuple(emitter.value(value) for value in store.values)
        where = emitter.spread(f.as_value(emitter.index(store.index, numbers)), lanes)
        mask = self._mask(store, lanes)
        value = narrow(f, emitter.value(store.value), store.value.dtype, emitter.has_f16c)
        f.store(where, places)
        if value.type.is_vector:
            f.store(value, values)

        def update(lane: IndexValue) -> None:
            memory = value.type.element if value.type.is_vector else value.type
            staged = f.load(memory, f.gep(values, lane, memory)) if value.type.is_vector else value
            self._update(store, f.load(lt.I64, f.gep(places, lane, lt.I64)), staged)

        def every() -> None:
            def some(first: Value, _: list[Value]) -> None:
                for number in range(min(UNROLL, lanes)):
                    update(f.iadd(first, number))

            f.loop(0, lanes, min(UNROLL, lanes), [], some)

        if mask is None:
            every()
            return
        bits = f.bitcast(mask, _bits(lanes))

        def masked() -> None:
            self._set_bits(bits, update)

        f.if_(f.icmp("eq", bits, f.const(bits.type, -1)), every, masked)

    def _mask(self, store: Store, lanes: int) -> Value | None:
        """Return which updates of the block count, None if all."""
        f, emitter = self.f, self.emitter
        tail = emitter.lanes.mask if emitter.lanes is not None else None
        if store.mask is None:
            return tail
        own = emitter.vector_value(store.mask, lanes)
        return own if tail is None else f.and_(own, tail)

    def _set_bits(self, bits: Value, update: Callable[[IndexValue], None]) -> None:
        """Make the updates whose bits are set, in order."""
        f = self.f
        zero, one = f.const(bits.type, 0), f.const(bits.type, 1)

        def step(left: list[Value]) -> list[Value]:
            lane = f.intrinsic("llvm.cttz", bits.type, [left[0], f.const(lt.I1, True)])
            update(lane if bits.type is lt.I64 else f.zext(lane, lt.I64))
            return [f.and_(left[0], f.sub(left[0], one))]

        f.while_([bits], lambda left: f.icmp("ne", left[0], zero), step)

    def _update(self, store: Store, place: Value, value: Value) -> None:
        """Combine one value, as it lies in memory, into its element."""
        f, emitter = self.f, self.emitter
        assert store.combiner is not None, "only updates that combine are staged"
        element, has_f16c = store.value.dtype, emitter.has_f16c
        memory = memory_type(element)
        address = f.gep(emitter.buffers[store.buffer], place, memory)
        old = widen(f, f.load(memory, address), element, has_f16c)
        new = widen(f, value, element, has_f16c)
        (result,) = combine(emitter, store.combiner, (old, new))
        f.store(narrow(f, result, element, has_f16c), address)


def _bits(lanes: int) -> Type:
    """Return the integer type of a mask's bits."""
    return {8: lt.I8, 16: lt.I16, 32: lt.I32, 64: lt.I64}[lanes]
