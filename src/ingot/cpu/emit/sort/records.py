# SPDX-License-Identifier: Apache-2.0
"""Records of sorts: as vectors in registers, as structs of native functions, in arrays.

A record is one integer or two, of which the first decides; the second is a position, from 0 on. A
register holds one word of as many records as it has lanes. In scratch each word has an array of its
own, all of them at one distance from the next.

Invariant: records of two words are distinct.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.native.functions import inlined
from ingot.native.operations import memcpy
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import Known, i32, i64
from ingot.support.records import record

Words = Sequence[Value]
"""The words of a record, or of one for each lane of a register."""

XOR_OF_THREE = 0x96
"""The truth table of an instruction for logic of three operands."""


@record
class RecordType(Known):
    """The type of a record: one integer, or two.

    Attributes:
        word: type of the integers.
        words: how many a record has, 1 or 2.
    """

    word: lt.Type
    words: int

    @property
    def name(self) -> str:
        """A name that says all of it."""
        return f"{self.words}{self.word.suffix}"

    @property
    def bytes(self) -> int:
        """Bytes of a word."""
        return self.word.bytes

    @property
    def has_positions(self) -> bool:
        """Whether records have two words."""
        return self.words == 2

    @property
    def greatest(self) -> int:
        """The greatest word; the record that comes last has no others."""
        return (1 << (self.word.bits - 1)) - 1


@record
class RecordRegisters(Known):
    """How records lie in a target's registers: what the code of their sorts depends on.

    Attributes:
        type: the type of a record.
        lanes: records of a register.
        rows: registers of the greatest block that is sorted by a network.
        moved: records that a partition moves at once; 1 where no instruction permutes lanes.
        has_masks: whether some lanes of a register are stored by one instruction.
    """

    type: RecordType
    lanes: int
    rows: int
    moved: int
    has_masks: bool

    @staticmethod
    def of(target: TargetSpec, type_: RecordType) -> RecordRegisters:
        """Return how registers of a target are used."""
        lanes = target.vector_bits // type_.word.bits
        if not target.has_avx2 and type_.words == 2:
            # Comparisons of two words are two instructions on scalars, many on vectors.
            return RecordRegisters(type_, 1, 8, 1, False)
        rows = max(8, target.num_vector_registers // 2 // type_.words)
        moved = lanes if target.has_avx2 else 1
        return RecordRegisters(type_, lanes, rows, moved, target.has_avx2)

    @property
    def bytes(self) -> int:
        """Bytes of a word."""
        return self.type.bytes

    @property
    def block(self) -> int:
        """Records of the greatest block."""
        return self.rows * self.lanes


@record
class Records:
    """Emits operations on records in a function.

    Attributes:
        f: the function.
        type: their element type.
        distance: bytes from the array of one word to the next's.
    """

    f: FunctionBuilder
    type: RecordType
    distance: Value

    # ---- in scratch

    def at(self, array: Value, index: Index) -> Value:
        """Return the address of a record's first word."""
        return self.f.gep(array, index, self.type.word, inbounds=False)

    def _words_at(self, address: Value) -> list[Value]:
        f, numbers = self.f, range(self.type.words)
        return [f.gep(address, f.imul(self.distance, n), inbounds=False) for n in numbers]

    def load(self, address: Value, lanes: int = 1) -> Words:
        """Load records that lie side by side."""
        held = vector(self.type.word, lanes)
        return [self.f.load(held, each, held.alignment) for each in self._words_at(address)]

    def load_some(self, address: Value, mask: Value, others: Words) -> Words:
        """Load records where the mask holds; elsewhere they are `others`."""
        f, lanes = self.f, mask.type.lanes
        if f.owner.vector_bits < 256:
            return self.select(mask, self.load(address, lanes), others)
        return [
            f.masked_load(other.type, each, mask, other, other.type.alignment)
            for each, other in zip(self._words_at(address), others, strict=True)
        ]

    def store(self, record: Words, address: Value, mask: Value | None = None) -> None:
        """Store records side by side, those where the mask holds."""
        for word, each in zip(record, self._words_at(address), strict=True):
            self.f.masked_store(word, each, mask, word.type.alignment)

    # ---- in registers

    def constant(self, words: Sequence[int], lanes: int = 1) -> Words:
        """Return a known record in all lanes."""
        return [self.f.const(vector(self.type.word, lanes), word) for word in words]

    def splat(self, record: Words, lanes: int) -> Words:
        """Return a record in all lanes."""
        return [self.f.splat(word, lanes) for word in record]

    def first_lanes(self, count: Index, lanes: int, start: int = 0) -> Value:
        """Return which of the indices `start` and following are less than `count`."""
        f, word = self.f, self.type.word
        number = f.as_value(count) if word is lt.I64 else f.trunc(f.as_value(count), word)
        indices = f.const(vector(word, lanes), list(range(start, start + lanes)))
        return f.icmp("slt", indices, f.splat(number, lanes))

    def shuffled(self, record: Words, sources: list[int]) -> Words:
        """Return the lanes `sources` of records."""
        return [self.f.shuffle(word, word, sources) for word in record]

    def select(self, condition: Value, a: Words, b: Words) -> Words:
        """Return records of `a` where the condition holds, of `b` elsewhere."""
        return [self.f.select(condition, x, y) for x, y in zip(a, b, strict=True)]

    def less(self, a: Words, b: Words) -> Value:
        """Return whether records of `a` come before those of `b`, lane by lane."""
        f = self.f
        if len(a) == 1:
            return f.icmp("slt", a[0], b[0])
        if not a[0].type.is_vector:
            return f.icmp("slt", self._joined(a), self._joined(b))
        is_tie = f.icmp("eq", a[0], b[0])
        return f.or_(f.icmp("slt", a[0], b[0]), f.and_(is_tie, f.icmp("slt", a[1], b[1])))

    def _joined(self, record: Words) -> Value:
        """Return a record of two scalars as one integer."""
        f, (key, position) = self.f, (self.f.zext(word, lt.I128) for word in record)
        return f.or_(f.shl(key, f.const(lt.I128, 64)), position)

    def ordered(self, a: Words, b: Words) -> tuple[Words, Words]:
        """Return the lesser and the greater of two records."""
        if len(a) == 1:
            return self._extremes(a[0], b[0])
        swaps = self.less(b, a)
        return self.select(swaps, b, a), self.select(swaps, a, b)

    def _extremes(self, a: Value, b: Value) -> tuple[Words, Words]:
        """Return the lesser and the greater of two integers."""
        f, type_ = self.f, a.type
        least = f.intrinsic("llvm.smin", type_, [a, b])
        if type_.bits < 512:
            return [least], [f.intrinsic("llvm.smax", type_, [a, b])]
        # Of 512 bits one port of Intel's takes both extremes, and two take logic of three operands:
        # the greater is both without the lesser.
        name = f"llvm.x86.avx512.pternlog.{'d' if type_.element is lt.I32 else 'q'}.512"
        return [least], [f.intrinsic(name, type_, [least, a, b, f.const(lt.I32, XOR_OF_THREE)])]

    def median(self, a: Words, b: Words, c: Words) -> Words:
        """Return the second of the records `a`, `b` and `c`, lane by lane."""
        least, most = self.ordered(a, b)
        return self.ordered(least, self.ordered(most, c)[0])[1]


class Record(Struct):
    """A record: its key, and its position, 0 where records have none."""

    key: i64
    position: i64


class Range(Struct):
    """A range of records: `data` holds them, `other` is free, in `target` they shall be in order.

    All records are from the least to the greatest one, both included. `budget` is how many more
    pivots may be chosen; `distance` is bytes from one word's array to the next's.
    """

    data: Pointer
    other: Pointer
    target: Pointer
    count: i64
    distance: i64
    budget: i64
    least_key: i64
    least_position: i64
    most_key: i64
    most_position: i64


@inlined
def is_before(key: i64, position: i64, other_key: i64, other_position: i64) -> bool:
    """Return whether (`key`, `position`) comes before (`other_key`, `other_position`)."""
    return key < other_key or (key == other_key and position < other_position)


@inlined
def read_word(of: RecordType, words: Pointer, index: i64) -> i64:
    """Return a word of an array."""
    if of.bytes == 4:
        return i64(Array[i32].at(words)[index])
    return Array[i64].at(words)[index]


@inlined
def write_word(of: RecordType, words: Pointer, index: i64, word: i64) -> None:
    """Set a word of an array."""
    if of.bytes == 4:
        Array[i32].at(words)[index] = i32(word)
    else:
        Array[i64].at(words)[index] = word


@inlined
def read_record(of: RecordType, record: Record, words: Pointer, index: i64, distance: i64) -> None:
    """Set `record` to one of an array."""
    record.key = read_word(of, words, index)
    record.position = read_word(of, words + distance, index) if of.has_positions else 0


@inlined
def copy_records(
    of: RecordType, target: Pointer, source: Pointer, count: i64, distance: i64
) -> None:
    """Copy `count` records from `source` to `target`, which do not overlap.

    In both, the array of positions begins `distance` bytes behind that of keys.
    """
    memcpy(target, source, count * of.bytes)
    if of.has_positions:
        memcpy(target + distance, source + distance, count * of.bytes)


def words_of(f: FunctionBuilder, of: RecordType, record: Value) -> list[Value]:
    """Return the words of a record in memory, as values of their type."""
    held = [Record.c_layout.load(f, record, name) for name in Record.c_layout.names]
    words = held[: of.words]
    return words if of.word is lt.I64 else [f.trunc(word, of.word) for word in words]


def store_words(f: FunctionBuilder, record: Value, words: Sequence[Value]) -> None:
    """Set a record in memory to words; its position is 0 if it has none."""
    wide = [word if word.type is lt.I64 else f.sext(word, lt.I64) for word in words]
    for number, word in enumerate([*wide, f.const(lt.I64, 0)][: len(Record.c_layout.names)]):
        f.store(word, f.gep(record, number, lt.I64))
