# SPDX-License-Identifier: Apache-2.0
"""Quicksort of records in scratch as native functions: `sort`, `split`, `partition`, of every size.

Two arrays of the same size are used: a range of records is in one of them, at the same indices the
other one is free. A partition leaves lesser records at the front of their array and moves the
others to the back of the other one. Few records are sorted in registers (`blocks`).

The least and the greatest possible record of every range are known. The pivot is more than the
least, so equal records end as a range whose bounds are equal. After twice as many partitions as
even ones would be, the range of values is halved instead, so no record is moved more often than
2 log2(count) and the bits of a record together.

Invariant: where registers have no masks there is room for `BLOCK` records (`kernel.sort.sort`)
behind each array, which may be read.
Source: J. Wassenberg, M. Blacher, J. Giesen, P. Sanders, Vectorized and performance-portable
Quicksort (2022); D. Musser, Introspective sorting and selection algorithms (1997).
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.cpu.emit.sort.blocks import fill, find_median, sort_few
from ingot.cpu.emit.sort.partition import move_records
from ingot.cpu.emit.sort.records import (
    Range,
    Record,
    RecordRegisters,
    RecordType,
    copy_records,
    is_before,
    read_record,
)
from ingot.cpu.emit.template import Template
from ingot.kernel.sort.sort import MAX_PARTS
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.optimization import SHORT
from ingot.llvm.target import TargetSpec
from ingot.native.functions import exported_for, inlined, native
from ingot.native.module import Translation
from ingot.native.operations import bit_length, memcpy
from ingot.native.pointers import Array, Pointer, Struct, sizeof
from ingot.native.types import i64
from ingot.support.records import record


@native
def sort(of: RecordRegisters, given: Range) -> None:
    """Sort records whose bounds are not known."""
    given.budget = 2 * bit_length(given.count)
    given.least_key = -of.type.greatest - 1
    given.least_position = 0
    given.most_key = of.type.greatest
    given.most_position = of.type.greatest if of.type.has_positions else 0
    sort_range(of, given)


@native
def sort_range(of: RecordRegisters, given: Range) -> None:
    """Partition a range until it is a block or equal records; sort the smaller sides by calls."""
    pivot = Record.on_stack()
    smaller = Range.on_stack()
    while given.count > of.block and has_several(given):
        if given.budget > 0:
            choose_pivot(of, given, pivot)
        else:
            halve_values(of, given, pivot)
        given.budget -= 1
        memcpy(smaller, given, sizeof(Range))
        count = partition(of, given, given.data, end_of(of, given), pivot)
        if count < given.count - count:
            keep_front(of, smaller, count, pivot)
            keep_back(of, given, count, pivot)
        else:
            keep_back(of, smaller, count, pivot)
            keep_front(of, given, count, pivot)
        sort_range(of, smaller)
    if given.count <= of.block:
        sort_few(of, given)
    else:
        pivot.key = given.least_key
        pivot.position = given.least_position
        fill(of, given, pivot)


@inlined
def has_several(given: Range) -> bool:
    """Return whether a range may hold several different records."""
    return is_before(given.least_key, given.least_position, given.most_key, given.most_position)


@native
def partition(
    of: RecordRegisters, given: Range, front: Pointer, back: Pointer, pivot: Record
) -> i64:
    """Move records to two sides, and return how many come before the pivot: see `move_records`."""
    return move_records(of, given, front, back, pivot)


@inlined
def end_of(of: RecordRegisters, given: Range) -> Pointer:
    """Return where the back of a partition ends."""
    return given.other + given.count * of.bytes


@inlined
def keep_front(of: RecordRegisters, given: Range, count: i64, pivot: Record) -> None:
    """Make a range that was partitioned its front: records that come before the pivot."""
    given.count = count
    given.most_key = pivot.key
    given.most_position = pivot.position - 1
    if not of.type.has_positions or pivot.position == 0:
        given.most_key = pivot.key - 1
        given.most_position = of.type.greatest if of.type.has_positions else 0


@inlined
def keep_back(of: RecordRegisters, given: Range, count: i64, pivot: Record) -> None:
    """Make `given`, a range that was partitioned, its back, which lies in the other array.

    `count` is how many records precede `pivot`, which is the least record of the back.
    """
    data = given.data
    given.data = given.other + count * of.bytes
    given.other = data + count * of.bytes
    given.target = given.target + count * of.bytes
    given.count -= count
    given.least_key = pivot.key
    given.least_position = pivot.position


# ---- pivots


@native
def choose_pivot(of: RecordRegisters, given: Range, pivot: Record) -> None:
    """Set the pivot to a record near the median of some, and more than the least."""
    find_median(of, given, pivot)
    key = given.least_key
    position: i64 = 0
    if of.type.has_positions:
        position = given.least_position + 1
    else:
        key = key + 1
    if is_before(pivot.key, pivot.position, key, position):
        pivot.key = key
        pivot.position = position


@native
def halve_values(of: RecordRegisters, given: Range, pivot: Record) -> None:
    """Set the pivot to the middle of the range: of its keys, or of positions if it has one key."""
    if of.type.has_positions and given.least_key == given.most_key:
        pivot.key = given.least_key
        pivot.position = middle_of(given.least_position, given.most_position)
    else:
        pivot.key = middle_of(given.least_key, given.most_key)
        pivot.position = 0


@inlined
def middle_of(low: i64, high: i64) -> i64:
    """Return the number behind the middle of two; their difference may overflow."""
    return (low & high) + ((low ^ high) >> 1) + 1


# ---- buckets


class Splitters(Struct):
    """Records in order: those numbered from `first` on, and before `last`, split a range.

    Each word has an array of `MAX_PARTS`. `counts` gets the number of records before each splitter,
    and behind the last.
    """

    words: Pointer
    first: i64
    last: i64
    counts: Array[i64]


@native
def split(of: RecordRegisters, given: Range, by: Splitters) -> None:
    """Arrange records by the splitter in the middle, then both sides by the others."""
    pivot = Record.on_stack()
    front = Range.on_stack()
    lower = Splitters.on_stack()
    while by.first < by.last:
        middle = (by.first + by.last) // 2
        read_record(of.type, pivot, by.words, middle, MAX_PARTS * of.bytes)
        memcpy(front, given, sizeof(Range))
        count = partition(of, given, given.data, end_of(of, given), pivot)
        keep_front(of, front, count, pivot)
        memcpy(lower, by, sizeof(Splitters))
        lower.last = middle
        split(of, front, lower)
        keep_back(of, given, count, pivot)
        by.first = middle + 1
    by.counts[by.first] = given.count
    if given.data != given.target:
        copy_records(of.type, given.target, given.data, given.count, given.distance)


# ---- the template

Sort = Callable[[Range], None]
Split = Callable[[Range, Splitters], None]
Partition = Callable[[Range, Pointer, Pointer, Record], i64]
"""The functions, as other code calls them."""

FUNCTIONS = {"sort": sort, "split": split, "partition": partition}


@record
class Quicksort:
    """Sorts that share code: those of one type of records."""

    type: RecordType

    @property
    def name(self) -> str:
        """A name that says all of it."""
        return f"quicksort_{self.type.name}"

    def symbol(self, function: str) -> str:
        """Return the symbol of one of `FUNCTIONS`."""
        return f"{self.name}_{function}"

    def template(self, target: TargetSpec) -> Template:
        """Return the code of the functions for a target."""

        def define(module: ModuleBuilder) -> None:
            of = RecordRegisters.of(target, self.type)
            exported = [
                exported_for(self.symbol(name), function, of)
                for name, function in FUNCTIONS.items()
            ]
            Translation(module).add(*exported)

        return Template(self.name, define, how=SHORT)
