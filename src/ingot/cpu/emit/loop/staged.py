# SPDX-License-Identifier: Apache-2.0
"""Updates in order whose indices are computed in lanes: sums by segment.

Two updates of one element must not run at once, so a scatter that combines goes update by update:
single elements, or rows of one vector each. The indices of a block of updates, and whether each
counts, are computed in vectors; values that take much computing are staged on the stack. Then the
updates run in order, without branches if all count.

Where most updates have the index of the one before (sorted segments), a round trip through memory
for each is slow: such a block holds its element or row in registers until the index changes.

Invariant: updates happen in the order of the axis, each rounded as memory rounds it; between blocks
everything is in memory.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.emit.loop.body import LoopEmitter, Strip, divides
from ingot.emit.loop.gather_indices import index_type, indices_of
from ingot.emit.values.indices import IndexValue, Lanes
from ingot.emit.values.types import memory_type, narrow, widen
from ingot.emit.values.values import combine
from ingot.kernel.ir import Axis, Store
from ingot.kernel.schedule.serial import MOSTLY, UNROLL_HELD, StagedUpdates
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import Type, vector
from ingot.llvm.values import Value

Update = Callable[[IndexValue, list[Value]], list[Value]]
"""Makes one update from its lane and the held element; returns the new held element."""


class StagedEmitter(LoopEmitter):
    """Emits a kernel whose schedule stages its updates.

    It holds two values: where the last element or row begins (-1: nowhere), and its contents.
    """

    tail: Value | None = None
    """The lanes that a row has, None if all."""

    @property
    def index_type(self) -> Type:
        """The type of indices that are computed together."""
        return index_type(self._staged.index_bits)

    @property
    def _staged(self) -> StagedUpdates:
        return self._strategy(StagedUpdates)

    def _vector_block(self, axis: Axis, body: Callable[[], None]) -> None:
        f, row = self.f, self._staged.row
        low, high = self._block_bounds(axis)
        varying = {axis.name} if row is None else {axis.name, row.name}
        self._prepare(self.kernel.passes, frozenset(varying))
        ((store,),) = (item.stores for item in self.kernel.passes)
        memory = memory_type(store.value.dtype)
        held = memory if row is None else vector(memory, self.schedule.lanes[0])
        self.nothing = [f.const(lt.I64, -1), f.zero(held)]
        chosen = self._computed_again if self._staged.recomputes else self._from_stack
        lanes = self._staged.count
        whole = divides(lanes, axis.extent, self.schedule.block)
        strip = Strip(axis.name, low, high, lanes, whole)
        self.vectorize(strip, self.nothing, lambda at: chosen(store, at))

    def _from_stack(self, store: Store, held: list[Value]) -> list[Value]:
        """Make a block of updates of single elements, whose indices and values are staged."""
        f, emitter, lanes = self.f, self.emitter, self._staged.count
        where, bits = self._block_indices(store)
        element, memory = store.value.dtype, memory_type(store.value.dtype)
        value = narrow(f, emitter.value(store.value), element, emitter.has_f16c)
        indices, values = (
            f.alloca(self.index_type, lanes, LINE_BYTES),
            f.alloca(memory, lanes, LINE_BYTES),
        )
        f.store(where, indices)
        if value.type.is_vector:
            f.store(value, values)

        def update(lane: IndexValue, held: list[Value]) -> list[Value]:
            index = self._wide(f.load(self.index_type, f.gep(indices, lane, self.index_type)))
            staged = f.load(memory, f.gep(values, lane, memory)) if value.type.is_vector else value
            return self._update(store, index, widen(f, staged, element, emitter.has_f16c), held)

        return self._updates(store, where, bits, update, held)

    def _computed_again(self, store: Store, held: list[Value]) -> list[Value]:
        """Make a block of updates, each of which computes its index and value again.

        If that is little work, it is faster than storing them on the stack.
        """
        f, emitter = self.f, self.emitter
        axis = self.schedule.vector_axis
        assert axis is not None, "updates are made along an axis of the grid"
        first = emitter.names[axis.name]
        row, lanes = self._staged.row, self._row_lanes()
        if row is not None:
            emitter.names[row.name] = 0
        emitter.open_scope()
        where, bits = self._block_indices(store)
        emitter.close_scope()

        def make(held: list[Value]) -> list[Value]:
            numbers = tuple(emitter.value(value) for value in store.values)
            index = f.as_value(emitter.base_index(store.index, numbers))
            width = 1 if lanes is None else lanes.count
            return self._update(store, index, emitter.vector_value(store.value, width), held)

        def update(lane: IndexValue, held: list[Value]) -> list[Value]:
            position = f.as_value(f.iadd(first, lane))
            if row is None:
                return self._at(axis.name, position, None, held, make)
            emitter.names[axis.name] = position
            return self._at(row.name, 0, lanes, held, make)

        return self._updates(store, where, bits, update, held)

    def _row_lanes(self) -> Lanes | None:
        """Return the lanes of each update, None for one element."""
        f, row, count = self.f, self._staged.row, self.schedule.lanes[0]
        if row is None:
            return None
        inside = [lane < row.known_extent for lane in range(count)]
        self.tail = None if all(inside) else f.const(vector(lt.I1, count), inside)
        return Lanes(row.name, count, self.tail, count)

    @property
    def _is_part(self) -> bool:
        """Whether the current block is the last one, where lanes are missing."""
        lanes = self.emitter.lanes
        return lanes is not None and lanes.mask is not None

    def _block_indices(self, store: Store) -> tuple[Value, Value | None]:
        """Return where a block's updates go, and the bits of those that count (None: all)."""
        f, emitter, lanes = self.f, self.emitter, self._staged.count
        where = indices_of(emitter, store.index, store.values, self.index_type, lanes)
        mask = emitter.lanes.mask if emitter.lanes is not None else None
        if store.mask is not None:
            own = emitter.vector_value(store.mask, lanes)
            mask = own if mask is None else f.and_(own, mask)
        return where, None if mask is None else f.bitcast(mask, _bits(lanes))

    def _updates(
        self,
        store: Store,
        where: Value,
        bits: Value | None,
        update: Update,
        held: list[Value],
    ) -> list[Value]:
        """Make the updates of a block whose bits are set; return the new held element."""
        f, lanes = self.f, where.type.lanes

        def round_of(count: int) -> Callable[[Value, list[Value]], list[Value]]:
            def some(first: Value, held: list[Value]) -> list[Value]:
                for number in range(count):
                    held = update(f.iadd(first, number), held)
                return held

            return some

        def held_along() -> list[Value]:
            start, count = self._first_held(store, where, held), UNROLL_HELD
            last = f.loop(0, lanes, count, start, round_of(count))
            self._store(last[1], self._address(store, last[0]))
            return last

        def one_by_one() -> list[Value]:
            count = self._staged.unroll
            f.loop(0, lanes, count, [], round_of(count))
            return self.nothing

        def every() -> list[Value]:
            return f.if_(self._mostly_repeats(where), held_along, one_by_one)

        def masked() -> list[Value]:
            assert bits is not None, "some do not count"
            self._set_bits(bits, lambda lane: update(lane, []))
            return self.nothing

        if bits is None:
            return every()
        if self._is_part:
            return masked()
        return f.if_(f.icmp("eq", bits, f.const(bits.type, -1)), every, masked)

    def _wide(self, index: Value) -> Value:
        return index if self.index_type is lt.I64 else self.f.sext(index, lt.I64)

    def _mostly_repeats(self, where: Value) -> Value:
        """Return whether most indices equal the one before."""
        f, lanes = self.f, where.type.lanes
        # The lower half of each index suffices: held indices are compared whole.
        indices = where if self.index_type is lt.I32 else f.trunc(where, vector(lt.I32, lanes))
        before = f.shuffle(indices, indices, [lanes - 1, *range(lanes - 1)])
        equal = f.bitcast(f.icmp("eq", indices, before), _bits(lanes))
        part, whole = MOSTLY
        count = f.intrinsic("llvm.ctpop", equal.type, [equal])
        return f.icmp("uge", count, f.const(equal.type, lanes * part // whole))

    def _first_held(self, store: Store, where: Value, held: list[Value]) -> list[Value]:
        """Return what a block holds at first: what its first update combines with."""
        f = self.f
        index = self._wide(f.extract(where, 0))

        def fetch() -> list[Value]:
            return [self._load(held[1].type, self._address(store, index))]

        is_same = f.icmp("eq", index, held[0])
        return [index, *f.if_(is_same, lambda: [held[1]], fetch)]

    def _set_bits(self, bits: Value, update: Callable[[IndexValue], object]) -> None:
        """Make the updates whose bits are set, in order."""
        f = self.f
        zero, one = f.const(bits.type, 0), f.const(bits.type, 1)

        def step(left: list[Value]) -> list[Value]:
            lane = f.intrinsic("llvm.cttz", bits.type, [left[0], f.const(lt.I1, True)])
            update(lane if bits.type is lt.I64 else f.zext(lane, lt.I64))
            return [f.and_(left[0], f.sub(left[0], one))]

        f.while_([bits], lambda left: f.icmp("ne", left[0], zero), step)

    def _update(self, store: Store, index: Value, value: Value, held: list[Value]) -> list[Value]:
        """Combine a value with the element at `index`, in memory or held; return the held one."""
        f, emitter = self.f, self.emitter
        assert store.combiner is not None, "only updates that combine are staged"
        element, has_f16c = store.value.dtype, emitter.has_f16c
        address = self._address(store, index)
        wide = vector(memory_type(element), value.type.lanes)

        def change() -> list[Value]:
            self._store(held[1], self._address(store, held[0]))
            return [self._load(wide, address)]

        if held:
            is_same = f.icmp("eq", index, held[0])
            (old,) = f.if_(is_same, lambda: [held[1]], change)
        else:
            old = self._load(wide, address)
        args = (widen(f, old, element, has_f16c), value)
        (result,) = combine(emitter, store.combiner, args)
        new = narrow(f, result, element, has_f16c)
        if held:
            return [index, new]
        self._store(new, address)
        return []

    def _address(self, store: Store, index: Value) -> Value:
        memory = memory_type(store.value.dtype)
        return self.f.gep(self.emitter.buffers[store.buffer], index, memory)

    def _load(self, wide: Type, address: Value) -> Value:
        f, align = self.f, wide.element.alignment
        if self.tail is None:
            return f.load(wide, address, align)
        return f.masked_load(wide, address, self.tail, align=align)

    def _store(self, value: Value, address: Value) -> None:
        f, align = self.f, value.type.element.alignment
        if self.tail is None:
            f.store(value, address, align)
        else:
            f.masked_store(value, address, self.tail, align=align)


def _bits(lanes: int) -> Type:
    """Return the integer type of a mask's bits."""
    return {8: lt.I8, 16: lt.I16, 32: lt.I32, 64: lt.I64}[lanes]
