# SPDX-License-Identifier: Apache-2.0
"""Packing: offsets in one arena for buffers that are needed at different times.

Static buffers: the largest first, each into the smallest gap between those already placed that are
live at the same time (XLA's GlobalDecreasingSizeBestFitHeap). Buffers of symbolic size come after
them, in *slots*: a slot holds one buffer after another whose sizes are provably no larger; slots
follow one another at offsets that are sums of sizes.

Invariant: buffers whose times overlap have no common byte; every offset is a multiple of 64.

Source: xla/service/heap_simulator/heap_simulator.h.

Example:
    >>> packed = pack([Item(0, 4, 64), Item(5, 9, 32), Item(3, 6, 100)])
    >>> packed.offsets, packed.size
    ([128, 128, 0], 192)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.artifact.abi import DATA_ALIGNMENT
from ingot.hlo import dim
from ingot.hlo.dim import Dim, round_up
from ingot.support.records import mutable, record


@record
class Item:
    """A buffer to place: first and last time of its life, and its bytes."""

    first: int
    last: int
    size: int | Dim


@record
class Packed:
    """Offsets in the order of the items, and the size of the arena."""

    offsets: list[int | Dim]
    size: int | Dim


def aligned(size: int | Dim) -> int | Dim:
    """Return `size` rounded up to the alignment."""
    if dim.known_multiple_of(size, DATA_ALIGNMENT):
        return size
    return round_up(size, DATA_ALIGNMENT)


def pack(items: Sequence[Item]) -> Packed:
    """Return where each item goes."""
    offsets: list[int | Dim] = [0] * len(items)
    static = [n for n, item in enumerate(items) if isinstance(item.size, int)]
    symbolic = [n for n, item in enumerate(items) if not isinstance(item.size, int)]
    total: int | Dim = _pack_static(items, static, offsets)
    for slot in _slots(items, symbolic):
        for number in slot.items:
            offsets[number] = total
        # A region's size may be negative in a call that does not run the region.
        total = total + aligned(dim.maximum(slot.size, 0))
    return Packed(offsets, total)


# ---- static sizes


def _pack_static(items: Sequence[Item], numbers: list[int], offsets: list[int | Dim]) -> int:
    """Place the items `numbers`, largest first; return the bytes that they take."""
    order = sorted(numbers, key=lambda n: (-_static(items[n]), items[n].first, n))
    placed = _Placed(len(order))
    for number in order:
        size = round_up(_static(items[number]), DATA_ALIGNMENT)
        if size:
            offsets[number] = placed.place(items[number].first, items[number].last, size)
    return placed.end


def _static(item: Item) -> int:
    assert isinstance(item.size, int)
    return item.size


class _Placed:
    """The placed buffers in order of offsets, as columns: NumPy finds the gaps."""

    def __init__(self, capacity: int) -> None:
        self._count = 0
        self._columns: np.ndarray[Any, np.dtype[np.int64]] = np.zeros((4, capacity), np.int64)
        self.end = 0

    def place(self, first: int, last: int, size: int) -> int:
        """Place one buffer in the smallest gap that holds it; return its offset."""
        firsts, lasts, starts, ends = self._columns[:, : self._count]
        meets = (firsts <= last) & (lasts >= first)
        offset = _best_gap(starts[meets], ends[meets], size)
        self._insert(first, last, offset, offset + size)
        self.end = max(self.end, offset + size)
        return offset

    def _insert(self, *row: int) -> None:
        count = self._count
        where = int(np.searchsorted(self._columns[2, :count], row[2]))
        self._columns[:, where + 1 : count + 1] = self._columns[:, where:count].copy()
        self._columns[:, where] = row
        self._count += 1


def _best_gap(
    starts: np.ndarray[Any, np.dtype[np.int64]],
    ends: np.ndarray[Any, np.dtype[np.int64]],
    size: int,
) -> int:
    """Return the start of the smallest gap of at least `size`; `starts` ascend."""
    if not len(starts):
        return 0
    reach = np.maximum.accumulate(ends)
    gap_starts = np.concatenate(([0], reach[:-1]))
    gaps = starts - gap_starts
    fits = np.flatnonzero(gaps >= size)
    if not len(fits):
        return int(reach[-1])
    return int(gap_starts[fits[np.argmin(gaps[fits])]])


# ---- symbolic sizes


@mutable
class _Slot:
    size: int | Dim
    free_from: int
    items: list[int]


def _slots(items: Sequence[Item], numbers: list[int]) -> list[_Slot]:
    """Give each item a slot that is free when it starts, of its size or provably larger."""
    by_size: dict[int | Dim, list[_Slot]] = {}
    slots: list[_Slot] = []
    for number in sorted(numbers, key=lambda n: (items[n].first, n)):
        item = items[number]
        slot = _free_slot(item, by_size)
        if slot is None:
            slot = _Slot(item.size, 0, [])
            slots.append(slot)
            by_size.setdefault(item.size, []).append(slot)
        slot.free_from = item.last + 1
        slot.items.append(number)
    return slots


def _free_slot(item: Item, by_size: dict[int | Dim, list[_Slot]]) -> _Slot | None:
    for slot in by_size.get(item.size, ()):
        if slot.free_from <= item.first:
            return slot
    for size, slots in by_size.items():
        if size is not item.size and provably_at_most(item.size, size):
            for slot in slots:
                if slot.free_from <= item.first:
                    return slot
    return None


def provably_at_most(small: int | Dim, large: int | Dim) -> bool:
    """Whether small <= large whatever the named sizes (all >= 0) are; False when unknown."""
    rest = large - small
    if isinstance(rest, int):
        return rest >= 0
    return all(
        value >= 0 and all(not atom.function for atom in monomial) for monomial, value in rest.terms
    )
