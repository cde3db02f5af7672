# SPDX-License-Identifier: Apache-2.0
"""Partitions of records: those before a pivot go to one area, the others to another.

Nothing branches on the records. The lanes of a register are permuted so that records before the
pivot come first, and the whole register is stored to both areas; the lanes that do not belong there
are overwritten by later stores. An instruction of AVX-512 packs 16 lanes; for fewer lanes a table
has the order for each outcome of their comparisons.

Source: M. Blacher, J. Giesen, L. Kühne, Fast and robust vectorized in-place sorting of primitive
types (2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from ingot.cpu.emit.sort.records import Range, Record, RecordRegisters, Records, Words, words_of
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.native.functions import Vectors
from ingot.native.pointers import Pointer
from ingot.native.types import i64

UNROLLED = 4
"""Registers that are read before they are stored."""

AHEAD = 768
"""Distance in bytes at which lines are prefetched that are written downwards: no processor does
that by itself."""


class _Partition:
    """Emits a partition."""

    data: Value
    front: Value
    back: Value
    count: Value

    def __init__(self, records: Records, lanes: int, pivot: Words) -> None:
        self.f, self.records, self.lanes = records.f, records, lanes
        self.pivot = records.splat(pivot, lanes)
        self.is_packed = lanes == 16
        if 1 < lanes < 16:
            self.orders = self.f.owner.global_bytes(f"orders_{lanes}", _orders(lanes))

    def emit(self, data: Value, count: Value, sides: Sequence[Value]) -> Value:
        """Emit whole registers while there is room for two between both sides, then the rest."""
        f, lanes = self.f, self.lanes
        self.data, self.count = data, count
        self.front, self.back = sides
        free = self.count if lanes == 1 else f.imax(f.isub(self.count, lanes), 0)
        index: Index = 0
        state = [f.const(lt.I64, 0)]
        for number in (UNROLLED, 1):
            step = number * lanes
            end = f.imul(f.idiv(free, step), step)

            def move(at: Value, state: list[Value], number: int = number) -> list[Value]:
                return [self._move(at, state[0], number)]

            state = f.loop(index, end, step, state, move)
            index = end
        if lanes > 1:
            rest = self._move_rest
            state = f.loop(index, self.count, lanes, state, lambda at, state: [rest(at, state[0])])
        return state[0]

    def _move(self, index: Value, before: Value, number: int) -> Value:
        """Move some registers; `before`: how many records came before the pivot so far."""
        f, records, lanes = self.f, self.records, self.lanes
        indices = [f.iadd(index, n * lanes) for n in range(number)]
        held = [records.load(records.at(self.data, each), lanes) for each in indices]
        back = records.at(self.back, f.isub(before, index))
        for line in range(0, number * lanes * records.type.word.bytes, LINE_BYTES):
            f.prefetch(f.gep(back, -AHEAD - line, inbounds=False), for_writing=True)
        behind = records.at(self.back, f.isub(-lanes, index))
        for each, record in enumerate(held):
            is_less = records.less(record, self.pivot)
            first, last = self._parted(record, is_less)
            records.store(first, records.at(self.front, before))
            records.store(last, records.at(records.at(behind, -each * lanes), before))
            before = f.add(before, _number(f, is_less))
        return before

    def _move_rest(self, index: Value, before: Value) -> Value:
        """Move the records of a register, or of its rest, one by one to their sides."""
        f, records, lanes = self.f, self.records, self.lanes
        is_own = records.first_lanes(f.isub(self.count, index), lanes)
        record = records.load_some(records.at(self.data, index), is_own, self.pivot)
        is_less = f.and_(records.less(record, self.pivot), is_own)
        is_other = f.and_(is_own, f.not_(is_less))
        found, others = _number(f, is_less), _number(f, is_other)
        front = records.at(self.front, before)
        records.store(self._packed(record, is_less), front, records.first_lanes(found, lanes))
        back = records.at(self.back, f.isub(f.isub(before, index), others))
        records.store(self._packed(record, is_other), back, records.first_lanes(others, lanes))
        return f.add(before, found)

    def _parted(self, record: Words, is_less: Value) -> tuple[Words, Words]:
        """Return records with those first that are less, and with the others last."""
        packed = self._packed(record, is_less)
        if not self.is_packed:
            return packed, packed
        others = self._packed(record, self.f.not_(is_less))
        return packed, self.records.shuffled(others, list(reversed(range(self.lanes))))

    def _packed(self, record: Words, mask: Value) -> Words:
        """Return records with those first where the mask holds; by the table, then the others."""
        f, type_ = self.f, record[0].type
        if self.lanes == 1:
            return record
        if self.is_packed:
            name, rest = "llvm.experimental.vector.compress", f.undef(type_)
            return [f.intrinsic(name, type_, [word, mask, rest]) for word in record]
        taken = f.load(lt.I32, f.gep(self.orders, _bits(f, mask), lt.I32))
        wide, name = vector(lt.I32, 8), "llvm.x86.avx2.permd"
        if type_ is vector(lt.I64, 8):
            wide, name = type_, "llvm.x86.avx512.permvar.di.512"
            taken = f.zext(taken, lt.I64)
        order = f.lshr(f.splat(taken, 8), f.const(wide, list(range(0, 32, 4))))
        moved = [f.intrinsic(name, wide, [f.bitcast(word, wide), order]) for word in record]
        return [f.bitcast(word, type_) for word in moved]


def _orders(lanes: int) -> bytes:
    """Return a table: for the bits of a mask, lanes whose bit is set, then the others.

    Each has four bits of an entry. Lanes of 64 bits that are permuted as 32 are two each.
    """
    parts = 8 // lanes
    entries: list[int] = []
    for bits in range(1 << lanes):
        order = sorted(range(lanes), key=lambda lane: not bits >> lane & 1)
        taken = [lane * parts + part for lane in order for part in range(parts)]
        entries.append(sum(lane << 4 * index for index, lane in enumerate(taken)))
    return np.array(entries, np.uint32).tobytes()


def _bits(f: FunctionBuilder, mask: Value) -> Value:
    """Return a mask of at most 16 lanes as a number."""
    lanes = mask.type.lanes
    if 1 < lanes < 8:
        off = f.const(mask.type, False)
        mask = f.shuffle(mask, off, [min(lane, lanes) for lane in range(8)])
    if lanes > 1:
        mask = f.bitcast(mask, lt.I16 if lanes == 16 else lt.I8)
    return f.zext(mask, lt.I64)


def _number(f: FunctionBuilder, mask: Value) -> Value:
    """Return in how many lanes a mask holds."""
    return f.intrinsic("llvm.ctpop", lt.I64, [_bits(f, mask)])


@Vectors[[RecordRegisters, Range, Pointer, Pointer, Record], i64]
def move_records(f: FunctionBuilder, of: RecordRegisters, given: Value, *where: Value) -> Value:
    """Move the records before a pivot to one area, the others to another.

    Records before it are stored from `front` on, which may be where the data begin; the others
    downwards from `back`. Where both sides meet there is room for all records, and no more.

    Returns:
        How many records come before the pivot.
    """
    load = partial(Range.c_layout.load, f, given)
    records = Records(f, of.type, load("distance"))
    *sides, pivot = where
    words = words_of(f, of.type, pivot)
    return _Partition(records, of.moved, words).emit(load("data"), load("count"), sides)
