# SPDX-License-Identifier: Apache-2.0
"""Quicksort of records in scratch, at every level of this machine: networks, partitions, bounds."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from ingot.cpu.emit.sort.quicksort import Quicksort, Splitters, sort_range
from ingot.cpu.emit.sort.records import Range, RecordRegisters, RecordType
from ingot.kernel.sort.network import batcher
from ingot.kernel.sort.sort import BLOCK, MAX_PARTS
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.optimization import SHORT
from ingot.llvm.target import TargetSpec, host_levels
from ingot.native.functions import exported_for
from ingot.native.module import Translation

TYPES = (RecordType(lt.I32, 1), RecordType(lt.I64, 1), RecordType(lt.I64, 2))
LEVELS = host_levels()
CASES = list(itertools.product(LEVELS, TYPES))
ids = [f"{level}-{type_.name}" for level, type_ in CASES]
on_each = pytest.mark.parametrize(("level", "type_"), CASES, ids=ids)

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_networks_sort_all_zeros_and_ones(count: int) -> None:
    """A network that sorts all of these sorts everything (Knuth)."""
    for bits in itertools.product((0, 1), repeat=count):
        held = list(bits)
        for low, high in batcher(count):
            held[low], held[high] = sorted((held[low], held[high]))
        assert held == sorted(bits)


@cache
def _library(level: str, type_: RecordType) -> Library:
    target = TargetSpec.host(level)
    module = ModuleBuilder.for_target("sorts", target)
    Quicksort(type_).template(target).define(module)
    return link_object([compile_object(module.text(), target, SHORT)])


def _function(level: str, type_: RecordType, name: str, result: Any, *more: Any) -> Callable:
    symbol = Quicksort(type_).symbol(name)
    return _library(level, type_).function(symbol, result, ctypes.c_void_p, *more)


def _dtype(type_: RecordType) -> np.dtype[Any]:
    return np.dtype(np.int32 if type_.word is lt.I32 else np.int64)


class Arrays:
    """Records with room behind them: the two arrays, and a third that the result may go to."""

    def __init__(self, records: Array) -> None:
        words, self.count = records.shape
        self.room = self.count + BLOCK
        self.data = np.full((words, self.room), 55, records.dtype)
        self.data[:, : self.count] = records
        self.other, self.third = np.full_like(self.data, 66), np.full_like(self.data, 77)

    @property
    def distance(self) -> int:
        return self.room * self.data.itemsize

    def range(self, target: Array) -> Any:
        """Return the struct that says where they are."""
        made = Range.c_layout.structure()
        made.data, made.other = self.data.ctypes.data, self.other.ctypes.data
        made.target, made.count, made.distance = target.ctypes.data, self.count, self.distance
        return made

    def check_room(self) -> None:
        """Nothing is written behind the records."""
        for array, held in ((self.data, 55), (self.other, 66), (self.third, 77)):
            assert (array[:, self.count :] == held).all()


def _records(type_: RecordType, keys: Array) -> Array:
    keys = keys.astype(_dtype(type_))
    if type_.words == 1:
        return keys[None]
    order = np.random.default_rng(keys.size).permutation(keys.size)
    return np.stack([keys, order.astype(keys.dtype)])


def _in_order(records: Array) -> Array:
    return records[:, np.lexsort(records[::-1])]


def _check(level: str, type_: RecordType, keys: Array, into: str = "data") -> None:
    records = _records(type_, keys)
    held = Arrays(records)
    target = getattr(held, into)
    sort = _function(level, type_, "sort", None)
    sort(ctypes.byref(held.range(target)))
    np.testing.assert_array_equal(target[:, : held.count], _in_order(records))
    held.check_room()


def _any(type_: RecordType, count: int, seed: int = 0) -> Array:
    info = np.iinfo(_dtype(type_))
    found = np.random.default_rng(seed).integers(info.min, info.max, count, np.int64, endpoint=True)
    found[::17], found[1::19] = info.max, info.min
    return found


@on_each
def test_every_size_about_blocks(level: str, type_: RecordType) -> None:
    registers = RecordRegisters.of(TargetSpec.host(level), type_)
    edges = {registers.lanes * rows for rows in (1, 2, 4, registers.rows // 4 * 3, registers.rows)}
    sizes = {edge * times + more for edge in edges for times in (1, 2) for more in (-1, 0, 1)}
    for count in sorted({*range(20), *sizes, 997, 4099}):
        for into in ("data", "other", "third"):
            _check(level, type_, _any(type_, count, count), into)


PATTERNS: dict[str, Callable[[int], Array]] = {
    "sorted": np.arange,
    "reversed": lambda n: np.arange(n)[::-1],
    "equal": lambda n: np.full(n, -7),
    "two values": lambda n: np.arange(n) * 7 % 2,
    "few values": lambda n: np.arange(n) * 48271 % 5 - 2,
    "saw": lambda n: np.arange(n) % 257,
    "organ pipe": lambda n: np.minimum(np.arange(n), n - np.arange(n)),
    "one differs": lambda n: np.where(np.arange(n) == n // 3, -1, 4),
    "last is least": lambda n: np.roll(np.arange(n), -1),
    "powers": lambda n: 1 << (np.arange(n) % 31),
}


@on_each
@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(level: str, type_: RecordType, pattern: str) -> None:
    for count in (300, 5003):
        _check(level, type_, PATTERNS[pattern](count))


@on_each
def test_all_equal_to_an_extreme(level: str, type_: RecordType) -> None:
    info = np.iinfo(_dtype(type_))
    for value in (info.min, info.max):
        _check(level, type_, np.full(2003, value, np.int64))


@on_each
def test_without_pivots_the_range_of_values_is_halved(level: str, type_: RecordType) -> None:
    """What adversarial records come down to: no budget for pivots from the start."""
    target = TargetSpec.host(level)
    module = ModuleBuilder.for_target("ranges", target)
    halved = exported_for("halved", sort_range, RecordRegisters.of(target, type_))
    Translation(module).add(halved)
    library = link_object([compile_object(module.text(), target, SHORT)])
    function = library.function("halved", None, ctypes.c_void_p)
    for keys in (_any(type_, 3001), *(make(3001) for make in PATTERNS.values())):
        records = _records(type_, keys)
        held = Arrays(records)
        given = held.range(held.data)
        given.least_key, given.most_key = -type_.greatest - 1, type_.greatest
        given.most_position = type_.greatest * (type_.words - 1)
        function(ctypes.byref(given))
        np.testing.assert_array_equal(held.data[:, : held.count], _in_order(records))
        held.check_room()


@on_each
def test_partitions_to_two_areas_that_meet(level: str, type_: RecordType) -> None:
    """Both sides of some pieces fill one stretch, and nothing beside it."""
    move = _function(level, type_, "partition", ctypes.c_int64, *[ctypes.c_void_p] * 3)
    for counts in ((0, 1), (5, 0, 3), (16, 16), (33, 1, 70), (100, 7, 129)):
        total = sum(counts)
        records = _records(type_, _any(type_, total, total) // 3)
        held = Arrays(records)
        to = np.full((type_.words, held.room + 40), 99, records.dtype)
        at = np.array([0, *np.cumsum(counts)])
        words = [int(word) for word in (records[:, total // 2] if total else [0] * len(records))]
        pivot = np.array([*words, 0], np.int64)
        item, front, back = records.itemsize, 20, 20 + total
        data = np.zeros_like(to)
        data[:, :total] = records
        for start, count in zip(at, counts, strict=False):
            address, places = data.ctypes.data + int(start) * item, to.ctypes.data
            ends = (places + front * item, places + back * item)
            given = Range.c_layout.structure()
            given.data, given.count, given.distance = address, count, to.strides[0]
            found = move(ctypes.byref(given), *ends, pivot.ctypes.data)
            front, back = front + found, back - (count - found)
        assert front == back
        before = [tuple(record) < tuple(words) for record in records.T.tolist()]
        assert front - 20 == sum(before)
        for side, is_before in ((slice(20, front), True), (slice(front, 20 + total), False)):
            chosen = records[:, [each == is_before for each in before]]
            np.testing.assert_array_equal(_in_order(to[:, side]), _in_order(chosen))
        assert (to[:, :20] == 99).all()
        assert (to[:, 20 + total :] == 99).all()


@on_each
def test_records_between_splitters(level: str, type_: RecordType) -> None:
    split = _function(level, type_, "split", None, ctypes.c_void_p)
    for count, number in itertools.product((0, 1, 40, 3001), (1, 2, 7, MAX_PARTS - 1)):
        records = _records(type_, _any(type_, count, count))
        held = Arrays(records)
        chosen = _in_order(_records(type_, _any(type_, number, number)))
        splitters = np.zeros((type_.words, MAX_PARTS), records.dtype)
        splitters[:, :number] = chosen
        counts = np.zeros(number + 1, np.int64)
        by = Splitters.c_layout.structure()
        by.words, by.last, by.counts = splitters.ctypes.data, number, counts.ctypes.data
        split(ctypes.byref(held.range(held.data)), ctypes.byref(by))
        keys = [tuple(record) for record in records.T.tolist()]
        bounds = [tuple(record) for record in chosen.T.tolist()]
        buckets = [sum(bound <= key for bound in bounds) for key in keys]
        np.testing.assert_array_equal(counts, np.bincount(buckets, minlength=number + 1))
        start = 0
        for bucket, size in enumerate(counts.tolist()):
            wanted = records[:, [each == bucket for each in buckets]]
            found = held.data[:, start : start + size]
            np.testing.assert_array_equal(_in_order(found), _in_order(wanted))
            start += size
        held.check_room()
