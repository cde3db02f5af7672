# SPDX-License-Identifier: Apache-2.0
"""Records sorted in vector registers, by networks.

A block of registers is sorted by columns; then the columns are merged, two by two, until the rows
hold all records in order, one row behind the other. A merge compares rows from both ends with the
lanes of a pair of columns reversed, so that nothing is transposed.

Invariant: a record moves to a greater index only if another comes before it, so records that come
last and lie at the end stay there. Equal records are the same thing.
Source: networks are K. Batcher's (1968); the merge of columns is that of J. Wassenberg, M. Blacher,
J. Giesen, P. Sanders, Vectorized and performance-portable Quicksort (2022).
"""

from __future__ import annotations

from ingot.cpu.emit.sort.records import Records, Words
from ingot.kernel.sort.network import batcher
from ingot.llvm.types import I1, I8, I16, vector
from ingot.llvm.values import Value


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
