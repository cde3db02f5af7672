# SPDX-License-Identifier: Apache-2.0
"""Records of sorts in registers and in scratch: how they are compared, loaded and stored.

A record is one integer or two, of which the first decides; the second is a position, from 0 on. A
register holds one word of as many records as it has lanes. In scratch each word has an array of its
own, all of them at one distance from the next.

Invariant: records of two words are distinct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value

Record = Sequence[Value]
"""The words of a record, or of one for each lane of a register."""

XOR_OF_THREE = 0x96
"""The truth table of an instruction for logic of three operands."""


@dataclass(frozen=True, slots=True)
class RecordType:
    """What records are made of.

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
    def greatest(self) -> list[int]:
        """The words of the record that comes last."""
        return [(1 << (self.word.bits - 1)) - 1] * self.words

    @property
    def least(self) -> list[int]:
        """The words of the record that comes first."""
        return [-(1 << (self.word.bits - 1)), 0][: self.words]

    def params(self, name: str) -> list[tuple[str, lt.Type]]:
        """Return the parameters of a function that are a record."""
        return [(f"{name}{number}", self.word) for number in range(self.words)]


@dataclass(frozen=True, slots=True)
class Registers:
    """How a target's registers are used for records.

    Attributes:
        lanes: records of a register.
        rows: registers of the greatest block that is sorted by a network.
        moved: records that a partition moves at once; 1 where no instruction permutes lanes.
        has_masks: whether some lanes of a register are stored by one instruction.
    """

    lanes: int
    rows: int
    moved: int
    has_masks: bool

    @staticmethod
    def of(target: TargetSpec, type_: RecordType) -> Registers:
        """Return how registers of a target are used."""
        lanes = target.vector_bits // type_.word.bits
        if not target.has_avx2 and type_.words == 2:
            # Comparisons of two words are two instructions on scalars, many on vectors.
            return Registers(1, 8, 1, False)
        rows = max(8, target.num_vector_registers // 2 // type_.words)
        return Registers(lanes, rows, lanes if target.has_avx2 else 1, target.has_avx2)

    @property
    def block(self) -> int:
        """Records of the greatest block."""
        return self.rows * self.lanes


@dataclass(frozen=True, slots=True)
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

    def load(self, address: Value, lanes: int = 1) -> Record:
        """Load records that lie side by side."""
        held = vector(self.type.word, lanes)
        return [self.f.load(held, each, held.alignment) for each in self._words_at(address)]

    def load_some(self, address: Value, mask: Value, others: Record) -> Record:
        """Load records where the mask holds; elsewhere they are `others`."""
        f, lanes = self.f, mask.type.lanes
        if f.owner.vector_bits < 256:
            return self.select(mask, self.load(address, lanes), others)
        return [
            f.masked_load(other.type, each, mask, other, other.type.alignment)
            for each, other in zip(self._words_at(address), others, strict=True)
        ]

    def store(self, record: Record, address: Value, mask: Value | None = None) -> None:
        """Store records side by side, those where the mask holds."""
        for word, each in zip(record, self._words_at(address), strict=True):
            if mask is None:
                self.f.store(word, each, word.type.alignment)
            else:
                self.f.masked_store(word, each, mask, word.type.alignment)

    def copy(self, source: Value, target: Value, count: Index) -> None:
        """Copy records to other memory, which does not overlap theirs."""
        size = self.f.as_value(self.f.imul(count, self.type.word.bytes))
        for from_, to in zip(self._words_at(source), self._words_at(target), strict=True):
            self.f.memcpy(to, from_, size)

    # ---- in registers

    def constant(self, words: Sequence[int], lanes: int = 1) -> Record:
        """Return a known record in all lanes."""
        return [self.f.const(vector(self.type.word, lanes), word) for word in words]

    def splat(self, record: Record, lanes: int) -> Record:
        """Return a record in all lanes."""
        return [self.f.splat(word, lanes) for word in record]

    def first_lanes(self, count: Index, lanes: int, start: int = 0) -> Value:
        """Return which of the indices `start` and following are less than `count`."""
        f, word = self.f, self.type.word
        number = f.as_value(count) if word is lt.I64 else f.trunc(f.as_value(count), word)
        indices = f.const(vector(word, lanes), list(range(start, start + lanes)))
        return f.icmp("slt", indices, f.splat(number, lanes))

    def shuffled(self, record: Record, sources: list[int]) -> Record:
        """Return the lanes `sources` of records."""
        return [self.f.shuffle(word, word, sources) for word in record]

    def select(self, condition: Value, a: Record, b: Record) -> Record:
        """Return records of `a` where the condition holds, of `b` elsewhere."""
        return [self.f.select(condition, x, y) for x, y in zip(a, b, strict=True)]

    def less(self, a: Record, b: Record) -> Value:
        """Return whether records of `a` come before those of `b`, lane by lane."""
        f = self.f
        if len(a) == 1:
            return f.icmp("slt", a[0], b[0])
        if not a[0].type.is_vector:
            return f.icmp("slt", self._joined(a), self._joined(b))
        is_tie = f.icmp("eq", a[0], b[0])
        return f.or_(f.icmp("slt", a[0], b[0]), f.and_(is_tie, f.icmp("slt", a[1], b[1])))

    def _joined(self, record: Record) -> Value:
        """Return a record of two scalars as one integer."""
        f, (key, position) = self.f, (self.f.zext(word, lt.I128) for word in record)
        return f.or_(f.shl(key, f.const(lt.I128, 64)), position)

    def ordered(self, a: Record, b: Record) -> tuple[Record, Record]:
        """Return the lesser and the greater of two records."""
        if len(a) == 1:
            return self._extremes(a[0], b[0])
        swaps = self.less(b, a)
        return self.select(swaps, b, a), self.select(swaps, a, b)

    def _extremes(self, a: Value, b: Value) -> tuple[Record, Record]:
        """Return the lesser and the greater of two integers."""
        f, type_ = self.f, a.type
        least = f.intrinsic("llvm.smin", type_, [a, b])
        if type_.bits < 512:
            return [least], [f.intrinsic("llvm.smax", type_, [a, b])]
        # Of 512 bits one port of Intel's takes both extremes, and two take logic of three operands:
        # the greater is both without the lesser.
        name = f"llvm.x86.avx512.pternlog.{'d' if type_.element is lt.I32 else 'q'}.512"
        return [least], [f.intrinsic(name, type_, [least, a, b, f.const(lt.I32, XOR_OF_THREE)])]

    def median(self, a: Record, b: Record, c: Record) -> Record:
        """Return the second of three records."""
        least, most = self.ordered(a, b)
        return self.ordered(least, self.ordered(most, c)[0])[1]
