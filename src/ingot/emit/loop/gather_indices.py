# SPDX-License-Identifier: Apache-2.0
"""Indices of gathers computed ahead, a block of an axis at a time (`kernel.analysis.gathers`).

Loops in lanes come here (`body`). A block's indices go to the stack, in a loop for each gather;
then the loop itself runs along the block, and its gathers load their lanes one by one.

Invariant: only whole blocks of lanes come here, so every index is one that is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ingot.emit.values.conversions import convert
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32
from ingot.kernel.analysis.gathers import INDICES_AHEAD, Gather
from ingot.kernel.expr import Expr, walk
from ingot.llvm import types as lt
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import vector
from ingot.llvm.values import Value

Block = Callable[[list[Value]], list[Value]]
"""Emits one block of lanes: what it carries in, what it carries out."""


def carrying_nothing(body: Callable[[], object]) -> Block:
    """Return `body` as a block that carries nothing."""

    def block(_: list[Value]) -> list[Value]:
        body()
        return []

    return block


def index_type(bits: int) -> lt.Type:
    """Return the type of the integers of `bits` bits that hold indices."""
    return lt.I32 if bits == lt.I32.bits else lt.I64


At = Callable[[Value, list[Value], Block], list[Value]]
"""Emits a block of lanes at a position."""


class IndicesAhead:
    """Emits a loop in lanes with the indices of its gathers ahead."""

    def __init__(
        self, emitter: ValueEmitter, found: Sequence[Gather], bits: int, lanes: int, at: At
    ) -> None:
        """Make room for indices of `bits` bits; `at` opens a block of lanes."""
        self.emitter = emitter
        self.type = index_type(bits)
        self.lanes = lanes
        self.at = at
        f = emitter.f
        self.rooms = {item: f.alloca(self.type, INDICES_AHEAD, LINE_BYTES) for item in found}

    def loop(
        self, low: IndexValue, high: IndexValue, carried: list[Value], body: Block
    ) -> list[Value]:
        """Run `body` for whole blocks of lanes from low to high; return what it carries."""
        f, lanes = self.emitter.f, self.lanes

        def block(start: Value, values: list[Value]) -> list[Value]:
            end = f.imin(f.iadd(start, INDICES_AHEAD), high)
            for item in self.rooms:
                f.for_range(end, partial(self._fill, item, start), start=start, step=lanes)

            def full(position: Value, values: list[Value]) -> list[Value]:
                def bound(values: list[Value]) -> list[Value]:
                    for item in self.rooms:
                        self._bind(item, start, position)
                    return body(values)

                return self.at(position, values, bound)

            return f.loop(start, end, lanes, values, full, at_least_once=True)

        return f.loop(low, high, INDICES_AHEAD, carried, block)

    def _fill(self, item: Gather, start: Value, position: Value) -> None:
        """Store the indices of a block of lanes, which may need what other gathers load."""
        emitter = self.emitter

        def store() -> None:
            needed = set(walk(item.values))
            for other in self.rooms:
                if other.load in needed:
                    self._bind(other, start, position)
            room = self._room(item, start, position)
            store_indices(emitter, item, room, self.type)

        self.at(position, [], carrying_nothing(store))

    def _room(self, item: Gather, start: Value, position: Value) -> Value:
        f = self.emitter.f
        return f.gep(self.rooms[item], f.isub(position, start), self.type)

    def _bind(self, item: Gather, start: Value, position: Value) -> None:
        """Load a gather's lanes one by one."""
        room = self._room(item, start, position)
        load_indexed(self.emitter, item, room, self.type, self.lanes)


def store_indices(emitter: ValueEmitter, item: Gather, room: Value, type: lt.Type) -> None:
    """Store the indices of the emitter's lanes as integers of `type`."""
    indices = indices_of(emitter, item.near, item.values, type, _lanes(emitter))
    emitter.f.store(indices, room)


def indices_of(
    emitter: ValueEmitter,
    where: int | Dim,
    values: tuple[Expr, ...],
    type: lt.Type,
    lanes: int,
) -> Value:
    """Return the lanes of an index as integers of `type`, in which it may be computed."""
    if type is lt.I32:
        narrow = tuple(_narrow(emitter, value) for value in values)
        return emitter.spread_index(emitter.narrow_index(where, narrow), lanes, lt.I32)
    wide = tuple(emitter.value(value) for value in values)
    return emitter.spread_index(emitter.index(where, wide), lanes)


def _narrow(emitter: ValueEmitter, value: Expr) -> Value:
    """Return the low 32 bits of a value, without the way over 64 where it came from fewer."""
    source = value.args[0] if value.op == "convert" and value.args[0].dtype.is_integer else value
    return convert(emitter.f, emitter.value(source), source.dtype, S32, emitter.has_f16c)


def _lanes(emitter: ValueEmitter) -> int:
    assert emitter.lanes is not None, "gathers have lanes"
    return emitter.lanes.count


def load_indexed(
    emitter: ValueEmitter, item: Gather, room: Value, type: lt.Type, inside: int
) -> None:
    """Make a load known whose indices lie in `room`, of the first `inside` lanes one by one."""
    f, load, lanes = emitter.f, item.load, _lanes(emitter)
    memory = memory_type(load.dtype)
    base = f.gep(
        emitter.buffers[item.access.buffer], emitter.index(item.base), memory, inbounds=False
    )
    wide = f.undef(vector(memory, lanes)) if inside == lanes else f.zero(vector(memory, lanes))
    for lane in range(inside):
        index = f.load(type, f.gep(room, lane, type))
        if type is not lt.I64:
            index = f.sext(index, lt.I64)
        address = f.gep(base, index, memory, inbounds=False)
        wide = f.insert(wide, f.load(memory, address), lane)
    emitter.bind(load, widen(f, wide, load.dtype, emitter.has_f16c))
