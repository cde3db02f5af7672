# SPDX-License-Identifier: Apache-2.0
"""Sorts by one key: their variants, their rows, and the contents of env and scratch.

The variant says what a record holds besides the key (`kernel.sort.keys.RecordKind`).
"""

from __future__ import annotations

from ingot.cpu.emit.sort.quicksort import Partition, Sort, Split
from ingot.cpu.emit.sort.records import RecordType
from ingot.kernel.sort.keys import RecordKind
from ingot.kernel.sort.sort import MAX_PARTS, KeyedVariant, SortNumbers
from ingot.llvm import types as lt
from ingot.llvm.target import TargetSpec
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import Known, i64
from ingot.support.records import record, replace

FLAG_BYTES = 8 * MAX_PARTS
"""Bytes behind the records of a row: for each part, whether it has an element that does not follow
from its key."""

FRONTS = 2 * 2 * MAX_PARTS
COUNTS = FRONTS + MAX_PARTS
"""Offsets of numbers that threads share about a row that is cut, in words of 64 bits. The records
that buckets and their halves begin with come first; at FRONTS are the counts of records in the
lower half of each bucket; at COUNTS, for each part, the counts of its records in each bucket."""

PART_BYTES = 8 * (COUNTS + MAX_PARTS)
"""Bytes of these numbers for each part."""


class Numbers(SortNumbers, is_constant=True):
    """The part of env behind the scratch: the numbers, and the functions that sort records."""

    sort: Sort
    split: Split
    partition: Partition


class Row(Struct):
    """A row that is sorted.

    `start` is its first element in operands and results. Records are read to `here`; `there` is
    room for as many, in scratch (`spare`) or in the result. They are in order in `target`, which is
    one of both. `distance` is bytes from the array of one word to the next's, `tables` what threads
    know of a row that is cut. If an element is lost that shares its key, `first_key` and `last_key`
    bound the keys whose elements are written.
    """

    env: Pointer
    numbers: Numbers
    start: i64
    here: Pointer
    there: Pointer
    spare: Pointer
    target: Pointer
    distance: i64
    tables: Array[i64]
    first_key: i64
    last_key: i64


def record_type(variant: KeyedVariant) -> RecordType:
    """Return the type of the records of a variant."""
    return RecordType(lt.I32 if variant.record.bits == 32 else lt.I64, variant.record.num_words)


@record
class KeyedSort(Known):
    """Sorts of a variant: what their code depends on.

    Attributes:
        variant: the key, the element types and the kind of records.
        lanes: elements side by side that are read or written at once.
        has_fma: see `TargetSpec`.
        in_result: whether results whose elements are contiguous are sorted in place: elements have
            the bits of keys, and the target reads and writes no more than the array.
    """

    variant: KeyedVariant
    lanes: int
    has_fma: bool
    in_result: bool

    @staticmethod
    def of(variant: KeyedVariant, target: TargetSpec) -> KeyedSort:
        """Return the sorts of a variant on a target."""
        is_key = variant.record.is_key and variant.elements[0].bits == variant.record.bits
        lanes = 2 * target.vector_bits // variant.record.bits
        return KeyedSort(variant, lanes, target.has_fma, is_key and target.has_avx2)

    @property
    def few(self) -> KeyedSort:
        """The same with a quarter of the lanes."""
        return replace(self, lanes=self.lanes // 4)

    @property
    def single(self) -> KeyedSort:
        """The same for one element at a time."""
        return replace(self, lanes=1)

    @property
    def type(self) -> RecordType:
        """The type of a record."""
        return record_type(self.variant)

    @property
    def num_operands(self) -> int:
        """The operands."""
        return len(self.variant.elements)

    @property
    def is_pair(self) -> bool:
        """Whether records are a key and a position."""
        return self.variant.record is RecordKind.PAIR

    @property
    def num_shared(self) -> int:
        """How many keys several different elements share."""
        return len(self.variant.shared_keys)

    @property
    def finds_lost(self) -> bool:
        """Whether records may lose an element: they are keys, some of which are shared."""
        return self.variant.record.is_key and self.num_shared > 0
