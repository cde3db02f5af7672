# SPDX-License-Identifier: Apache-2.0
"""Rows of a sort by one key: the keys of elements, and where elements and records lie.

The key of an element is an integer in the order of the result, so sorting compares integers
whatever the element type, and however the comparator treats NaN and signed zeros. The variant says
what a record holds besides the key (`RecordKind`); `keyed_records` has each kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial

from ingot.cpu.emit.sort.quicksort import Quicksort
from ingot.cpu.emit.sort.records import Record, RecordType
from ingot.cpu.emit.sort.selection_keys import in_signed_order
from ingot.cpu.emit.sort.sort_phases import Numbers, Rows
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo.dtype import BF16, PRED, DType
from ingot.kernel.ir import Combiner
from ingot.kernel.sort.sort import MAX_PARTS, KeyedVariant
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value

FLAG_BYTES = 8 * MAX_PARTS
"""Bytes behind the records of a row, which say of each part of it whether there is an element that
its key does not give back."""

FRONTS = 2 * 2 * MAX_PARTS
COUNTS = FRONTS + MAX_PARTS
"""Where numbers begin in what threads know of a row that is cut, in words of 64 bits: behind the
records that buckets and their halves begin with, how many records of each bucket lie in its lower
half; then for each part how many of its records each bucket has."""

PART_BYTES = 8 * (COUNTS + MAX_PARTS)
"""Bytes of these numbers for each part."""


def quicksort_of(variant: KeyedVariant) -> Quicksort:
    """Return what sorts the records of a variant."""
    word = lt.I32 if variant.record.bits == 32 else lt.I64
    return Quicksort(RecordType(word, variant.record.num_words))


class KeyedRows(Rows, ABC):
    """Rows of records that have keys.

    Attributes:
        variant: what the records are.
        word: type of their words.
        here, there: the arrays of the row that is sorted: where records are read to, and room.
        spare: the array of scratch behind `here`, if there is one.
        target: which of them holds records in order.
        distance: bytes from the area of one word to the next's.
        known: what threads know of it, if it is cut.
        step: elements that are read or written at once.
    """

    here: Value
    there: Value
    spare: Value
    target: Value
    distance: Value
    known: Value
    step: int

    def __init__(
        self, f: FunctionBuilder, emitter: ValueEmitter, numbers: Numbers, variant: KeyedVariant
    ) -> None:
        type_ = quicksort_of(variant).type
        super().__init__(f, emitter, numbers, [type_.word] * type_.words)
        self.variant = variant
        self.word = type_.word

    # ---- scratch

    def counts(self, part: IndexValue) -> Value:
        """Return where the numbers of a part's records in each bucket lie."""
        return self.table(self.f.iadd(self.f.imul(part, MAX_PARTS), COUNTS))

    def use_areas(self, scratch: Value, number: IndexValue) -> None:
        """Set the address of row `number` in scratch; known data comes after all areas."""
        f, numbers, words = self.f, self.numbers, len(self.types)
        self.distance = f.as_value(numbers.areas[0])
        size = f.imul(self.distance, self.arrays())
        self.here = self.target = f.gep(scratch, f.imul(number, f.imul(size, words)))
        self.there = self.spare = f.gep(self.here, f.imul(self.distance, words), inbounds=False)
        tables = f.imul(f.imul(number, numbers.parts), PART_BYTES)
        known = f.iadd(f.imul(f.imul(numbers.rows, size), words), tables)
        self.known = f.gep(scratch, known, inbounds=False)

    def arrays(self) -> IndexValue:
        """Return how many arrays of each word lie in scratch."""
        return 2

    def use_row(self, row: Value) -> None:
        """Set what depends on the row in the operands."""

    def table(self, index: IndexValue) -> Value:
        """Return the address of a number that threads know of a row that is cut."""
        return self.f.gep(self.known, index, lt.I64)

    def call(self, name: str, arguments: Sequence[IndexValue], result: lt.Type = lt.VOID) -> Value:
        """Call a function of the library's quicksort."""
        f = self.f
        params = quicksort_of(self.variant).params(name)
        pointer = f.inttoptr(f.as_value(self.emitter.names[name]), lt.PTR)
        return f.call_indirect(pointer, result, params, [f.as_value(each) for each in arguments])

    @abstractmethod
    def record(self, where: IndexValue, index: Value, lanes: int = 1) -> Record:
        """Return the records of elements side by side, at `where` in the operand."""

    def positions(self, index: Value, lanes: int) -> Value:
        """Return the positions of elements side by side."""
        f, first = self.f, self.f.splat(index, lanes)
        return first if lanes == 1 else f.add(first, f.const(first.type, list(range(lanes))))

    def read(self, row: Value, low: IndexValue, high: IndexValue) -> None:
        """Write the records of the elements low..high of a row to the same indices."""

        def some(where: IndexValue, index: Value, lanes: int) -> None:
            self.keep(self.record(where, index, lanes), index)

        self.in_vectors(row, low, high, some)

    def keep(self, record: Record, index: Value) -> None:
        """Store records side by side."""
        f = self.f
        for number, word in enumerate(record):
            area = f.gep(self.here, f.imul(self.distance, number))
            f.store(word, f.gep(area, index, self.word), self.word.alignment)

    @abstractmethod
    def write(self, row: Value, low: IndexValue, high: IndexValue) -> None:
        """Write the elements of the records low..high to a row."""

    def in_vectors(
        self,
        row: Value,
        low: IndexValue,
        high: IndexValue,
        body: Callable[[IndexValue, Value, int], None],
    ) -> None:
        """Emit `body(where, index, lanes)` for elements low..high of a row, for some of them twice.

        Lanes are several where elements lie side by side: the last ones end with the row.
        """
        f, start = self.f, self.start_of(row)
        count = f.as_value(f.isub(high, low))

        def some(index: IndexValue, lanes: int) -> None:
            body(f.iadd(start, index), f.as_value(index), lanes)

        def each() -> None:
            self.each_element(row, low, high, lambda where, index: body(where, index, 1))

        def several(lanes: int) -> None:
            last = f.isub(high, lanes)
            f.for_range(last, lambda index: some(index, lanes), start=low, step=lanes)
            some(last, lanes)

        def dense(lanes: int, otherwise: Callable[[], None]) -> None:
            fits = f.icmp("sge", count, f.const(lt.I64, lanes))
            f.if_(fits, lambda: several(lanes), otherwise)

        few = partial(dense, self.step // 4, each)
        is_dense = f.icmp("eq", f.as_value(self.numbers.inner), f.const(lt.I64, 1))
        f.if_(is_dense, lambda: dense(self.step, few), each)

    # ---- elements and keys, of one lane or several

    def element(self, where: IndexValue, lanes: int = 1) -> Value:
        """Load elements of the first operand as register values."""
        element = self.variant.elements[0]
        memory = memory_type(element)
        address = self.f.gep(self.emitter.buffers[0], where, memory)
        loaded = self.f.load(vector(memory, lanes), address, memory.alignment)
        return widen(self.f, loaded, element, self.emitter.has_f16c)

    def key(self, wide: Value) -> Value:
        """Return the keys of elements, as integers of a word whose signed order is the result's."""
        f, key = self.f, self.variant.key
        (value,) = combine(self.emitter, Combiner((key,)), (wide,))
        bits = ordered_bits(f, value, key.dtype)
        word = vector(self.word, bits.type.lanes)
        return self.directed(bits if bits.type is word else f.sext(bits, word))

    def directed(self, keys: Value) -> Value:
        """Return keys in the direction of the sort, or the reverse: it is its own inverse."""
        return self.f.not_(keys) if self.variant.descending else keys

    def memory_of(self, keys: Value) -> Value:
        """Return the elements of keys as they lie in memory."""
        f, element, lanes = self.f, self.variant.elements[0], keys.type.lanes
        keys, memory = self.directed(keys), vector(memory_type(element), lanes)
        if element.is_float:
            bits = in_signed_order(f, keys, element)
            if element is not BF16:
                return f.bitcast(bits, memory)
            return f.trunc(f.lshr(bits, f.const(bits.type, 16)), memory)
        bits = keys if keys.type is memory else f.trunc(keys, memory)
        return bits if element is PRED else in_signed_order(f, bits, element)

    def copy(self, operand: int, source: IndexValue, where: IndexValue) -> None:
        """Copy an element of an operand to `where` in its result."""
        f, type_ = self.f, memory_type(self.variant.elements[operand])
        value = f.load(type_, f.gep(self.emitter.buffers[operand], source, type_))
        self.store(operand, value, where)

    def store(self, operand: int, value: Value, where: IndexValue) -> None:
        """Write elements of an operand's result, as they lie in memory."""
        f, memory = self.f, value.type.element
        result = self.emitter.buffers[len(self.variant.elements) + operand]
        f.store(value, f.gep(result, where, memory), memory.alignment)


def ordered_bits(f: FunctionBuilder, value: Value, element: DType) -> Value:
    """Return register values as integers in their order."""
    if element is PRED:
        return f.zext(value, vector(lt.I8, value.type.lanes))
    if element.is_float:
        whole = lt.I64 if value.type.element is lt.F64 else lt.I32
        value = f.bitcast(value, vector(whole, value.type.lanes))
    return in_signed_order(f, value, element)
