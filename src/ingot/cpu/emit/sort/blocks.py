# SPDX-License-Identifier: Apache-2.0
"""Vector code of quicksorts besides partitions: pivots, blocks of few records, equal records.

A block is the records that half of a target's registers hold. Fewer records are sorted in the
smallest of several blocks that holds them.

Records are sorted in vector registers by networks. A block of registers is sorted by columns; then
the columns are merged, two by two, until the rows hold all records in order, one row behind the
other. A merge compares rows from both ends with the lanes of a pair of columns reversed, so that
nothing is transposed.

Invariant: a record moves to a greater index only if another comes before it, so records that come
last and lie at the end stay there. Equal records are the same thing.
Source: networks are K. Batcher's (1968); the merge of columns is that of J. Wassenberg, M. Blacher,
J. Giesen, P. Sanders, Vectorized and performance-portable Quicksort (2022).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from ingot.cpu.emit.sort.records import (
    Range,
    Record,
    RecordRegisters,
    Records,
    Words,
    store_words,
    words_of,
)
from ingot.kernel.sort.network import batcher
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I1, I8, I16, vector
from ingot.llvm.values import Value
from ingot.native.functions import Vectors


def sort_block(records: Records, rows: list[Words]) -> None:
    """Sort registers; rows missing from a power of two count as records that come last."""
    for low, high in batcher(_power(len(rows))):
        if high < len(rows):
            rows[low], rows[high] = records.ordered(rows[low], rows[high])
    width, lanes = 2, range(rows[0][0].type.lanes)
    while width <= len(lanes):
        mirrored = [lane ^ (width - 1) for lane in lanes]
        _merge_columns(records, rows, mirrored)
        exchanges = [mirrored]
        distance = width // 4
        while distance:
            exchanges.append([lane ^ distance for lane in lanes])
            distance //= 2
        for partners in exchanges:
            upper = _upper(records, partners)
            rows[:] = [_exchanged(records, row, partners, upper) for row in rows]
        width *= 2


def _merge_columns(records: Records, rows: list[Words], mirrored: list[int]) -> None:
    """Bring lesser records of each pair of columns to lesser rows."""
    span = _power(len(rows))
    while span > 1:
        for first in range(0, len(rows), span):
            for low in range(first, first + span // 2):
                high = 2 * first + span - 1 - low
                if high < len(rows):
                    other = records.shuffled(rows[high], mirrored)
                    rows[low], rows[high] = records.ordered(rows[low], other)
        span //= 2


def _exchanged(records: Records, row: Words, partners: list[int], upper: Value) -> Words:
    """Return the lesser of each lane and its partner in the first of both, the greater behind."""
    other = records.shuffled(row, partners)
    if len(row) == 1:
        least, most = records.ordered(row, other)
        return records.select(upper, most, least)
    return records.select(records.f.xor(records.less(other, row), upper), other, row)


def _upper(records: Records, partners: list[int]) -> Value:
    """Return in which lanes the greater of a lane and its partner stays."""
    f, lanes = records.f, len(partners)
    is_upper = [partner < lane for lane, partner in enumerate(partners)]
    if f.owner.vector_bits < 512:
        return f.const(vector(I1, lanes), is_upper)
    # Selects by a constant become shuffles; by a mask in a register they are part of what computes
    # the operand, so the mask is read as if it might change.
    bits = sum(on << lane for lane, on in enumerate(is_upper))
    width = I8 if lanes == 8 else I16
    text = f"private unnamed_addr constant {width.text} {bits}, align {width.bytes}"
    mask = f.load(width, f.owner.global_text(f"upper_{lanes}_{bits:x}", text), volatile=True)
    return f.bitcast(mask, vector(I1, lanes))


def _power(count: int) -> int:
    """Return the least power of two that is no less."""
    return 1 << (count - 1).bit_length()


SAMPLES = 9
"""Registers that a pivot is chosen from."""


def _loaded(f: FunctionBuilder, given: Value, *names: str) -> list[Value]:
    return [Range.c_layout.load(f, given, name) for name in names]


@Vectors[[RecordRegisters, Range, Record], None]
def find_median(f: FunctionBuilder, of: RecordRegisters, given: Value, found: Value) -> None:
    """Set `found` to a record near the median of some; there are more records than a block has."""
    data, count, distance = _loaded(f, given, "data", "count", "distance")
    records, lanes = Records(f, of.type, distance), of.lanes
    step = f.idiv(f.isub(count, lanes), SAMPLES - 1)
    indices = [f.imul(step, number) for number in range(SAMPLES)]
    held = [records.load(records.at(data, index), lanes) for index in indices]
    while len(held) > 1:
        thirds = [held[first : first + 3] for first in range(0, len(held), 3)]
        held = [records.median(*third) for third in thirds]
    (row,) = held
    some = [[f.extract(word, lanes * part // 3) for word in row] for part in range(3)]
    store_words(f, found, records.median(*some) if lanes > 2 else some[0])


# ---- few records


@Vectors[[RecordRegisters, Range], None]
def sort_few(f: FunctionBuilder, of: RecordRegisters, given: Value) -> None:
    """Sort no more records than a block has; `target` may be where they are."""
    data, target, count, distance = _loaded(f, given, "data", "target", "count", "distance")
    sizes = [1 << bit for bit in range(of.rows.bit_length())]
    sizes.insert(-1, of.rows // 4 * 3)
    block = _Block(of, Records(f, of.type, distance), data, target, count)

    def choose(fewer: int, rows: int, less: Callable[[], None]) -> None:
        fits = f.icmp("sle", count, f.const(lt.I64, fewer * of.lanes))
        f.if_(fits, less, lambda: block.sort(fewer, rows))

    emit = partial(block.sort, 0, sizes[0])
    for fewer, rows in pairwise(sizes):
        emit = partial(choose, fewer, rows, emit)
    emit()


class _Block:
    """Emits the sorting of few records in registers."""

    def __init__(self, of: RecordRegisters, records: Records, *where: Value) -> None:
        self.of, self.records = of, records
        self.data, self.target, self.count = where

    def sort(self, full: int, number: int) -> None:
        """Sort records in `number` registers, of which `full` ones are full for certain."""
        records, lanes = self.records, self.of.lanes
        masks: list[Value | None] = [None] * number
        rows: list[Words] = []
        last = records.constant([self.of.type.greatest] * self.of.type.words, lanes)
        for row in range(number):
            address = records.at(self.data, row * lanes)
            if row >= full:
                masks[row] = mask = records.first_lanes(self.count, lanes, row * lanes)
                rows.append(records.load_some(address, mask, last))
            else:
                rows.append(records.load(address, lanes))
        sort_block(records, rows)
        if self.of.has_masks:
            for row, words in enumerate(rows):
                records.store(words, records.at(self.target, row * lanes), masks[row])
        else:
            self._store_by_stack(rows)

    def _store_by_stack(self, rows: list[Words]) -> None:
        """Store records in registers that whole registers have no room for."""
        f, type_ = self.records.f, self.of.type
        wide = vector(type_.word, self.of.lanes)
        size = len(rows) * wide.bytes
        room = f.alloca(lt.I8, size * type_.words, wide.bytes)
        apart = Records(f, type_, f.const(lt.I64, size))
        for row, words in enumerate(rows):
            apart.store(words, apart.at(room, row * self.of.lanes))
        for word in range(type_.words):
            to = f.gep(self.target, f.imul(self.records.distance, word), inbounds=False)
            f.memcpy(to, f.gep(room, word * size), f.as_value(f.imul(self.count, self.of.bytes)))


# ---- equal records


@Vectors[[RecordRegisters, Range, Record], None]
def fill(f: FunctionBuilder, of: RecordRegisters, given: Value, record: Value) -> None:
    """Write a range of equal records."""
    target, count, distance = _loaded(f, given, "target", "count", "distance")
    records, words = Records(f, of.type, distance), words_of(f, of.type, record)
    whole = f.imul(f.idiv(count, of.lanes), of.lanes)
    for first, last, step in ((0, whole, of.lanes), (whole, count, 1)):
        held = records.splat(words, step)

        def one(index: Value, held: Words = held) -> None:
            records.store(held, records.at(target, index))

        f.for_range(last, one, start=first, step=step)
