# SPDX-License-Identifier: Apache-2.0
"""The kinds of records of sorts by one key, and how elements are made from sorted records.

Invariant: records of one row are distinct or mean equal elements, so the order is stable. The
exception are keys that several different elements share: where a row has such a key, these elements
are read again, in their order.
"""

from __future__ import annotations

from functools import reduce

from ingot.cpu.emit.sort.keyed_rows import FLAG_BYTES, KeyedRows, ordered_bits
from ingot.cpu.emit.sort.records import Record
from ingot.emit.values.indices import IndexValue
from ingot.kernel.sort.sort import KeyedVariant
from ingot.llvm import types as lt
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value


def sorts_in_result(variant: KeyedVariant, target: TargetSpec) -> bool:
    """Whether results whose elements lie side by side are sorted where they are.

    Their elements are as long as keys, and the target reads and writes no more than there is.
    """
    return (
        variant.record.is_key
        and variant.elements[0].bits == variant.record.bits
        and target.has_avx2
    )


class Pairs(KeyedRows):
    """Records are a key and a position."""

    def record(self, where: IndexValue, index: Value, lanes: int = 1) -> Record:
        """Return keys and positions."""
        return [self.key(self.element(where, lanes)), self.positions(index, lanes)]

    def write(self, row: Value, low: IndexValue, high: IndexValue) -> None:
        """Write every operand's elements in the order of the positions."""
        f, start = self.f, self.start_of(row)
        positions = f.gep(self.here, self.distance)

        def one(where: IndexValue, index: Value) -> None:
            number = f.load(lt.I64, f.gep(positions, index, lt.I64))
            source = f.iadd(start, f.imul(number, self.numbers.inner))
            for operand in range(len(self.variant.elements)):
                self.copy(operand, source, where)

        self.each_element(row, low, high, one)


class Words(KeyedRows):
    """Records are a key of 32 bits above a position."""

    def record(self, where: IndexValue, index: Value, lanes: int = 1) -> Record:
        """Return keys above positions."""
        keys = self.key(self.element(where, lanes))
        high = self.f.shl(keys, self.f.const(keys.type, 32))
        return [self.f.or_(high, self.positions(index, lanes))]

    def write(self, row: Value, low: IndexValue, high: IndexValue) -> None:
        """Write every operand's elements in the order of the positions.

        The first operand's follow from their keys, where these are not shared: reading them in this
        order would wait for memory.
        """
        f, start = self.f, self.start_of(row)

        def one(where: IndexValue, index: Value) -> None:
            record = f.load(lt.I64, f.gep(self.here, index, lt.I64))
            number = f.and_(record, f.const(lt.I64, (1 << 32) - 1))
            source = f.iadd(start, f.imul(number, self.numbers.inner))
            self.write_key(f.trunc(f.ashr(record, f.const(lt.I64, 32)), lt.I32), source, where)
            for operand in range(1, len(self.variant.elements)):
                self.copy(operand, source, where)

        self.each_element(row, low, high, one)

    def write_key(self, key: Value, source: IndexValue, where: IndexValue) -> None:
        """Write the first operand's element of a key, which lies at `source`."""
        f, variant = self.f, self.variant
        if not variant.gives_back:
            self.copy(0, source, where)
            return
        self.store(0, self.memory_of(key), where)
        shared = [f.icmp("eq", key, f.const(lt.I32, other)) for other in variant.shared_keys]
        if shared:
            is_shared = reduce(f.or_, shared)
            f.if_(is_shared, lambda: self.copy(0, source, where), likely=False)


class Keys(KeyedRows):
    """Records are keys, of which elements are made again.

    Behind a row and its slack there is a word for each part: whether it has an element that its key
    does not give back.

    Attributes:
        in_result: whether results whose elements lie side by side are sorted where they are.
    """

    in_result: bool

    def record(self, where: IndexValue, index: Value, lanes: int = 1) -> Record:
        """Return keys."""
        return [self.key(self.element(where, lanes))]

    def read(self, row: Value, low: IndexValue, high: IndexValue) -> None:
        """Write the keys of a row's elements."""
        f, word = self.f, self.word
        if not self.variant.shared_keys:
            super().read(row, low, high)
            return
        part = 0 if low == 0 else f.idiv(low, self.numbers.part)
        flag = self.flag(part)
        f.store(f.const(word, 0), flag)

        def some(where: IndexValue, index: Value, lanes: int) -> None:
            wide = self.element(where, lanes)
            keys = self.key(wide)
            self.keep([keys], index)
            differs = f.icmp("ne", keys, self.own_key(wide))
            is_lost = differs if lanes == 1 else f.reduce("or", differs)
            f.if_(is_lost, lambda: f.store(f.const(word, 1), flag), likely=False)

        self.in_vectors(row, low, high, some)

    def flag(self, part: IndexValue) -> Value:
        """Return the address of a part's word."""
        f = self.f
        return f.gep(f.gep(self.here, f.isub(self.distance, FLAG_BYTES)), part, lt.I64)

    def own_key(self, wide: Value) -> Value:
        """Return the keys that elements would have if no two of them shared one."""
        return self.directed(ordered_bits(self.f, wide, self.variant.elements[0]))

    # ---- results that are sorted where they shall be

    def is_in_place(self) -> Value | bool:
        """Whether a row's result is one of the arrays: its elements are as long as keys."""
        if not self.in_result:
            return False
        return self.f.icmp("eq", self.f.as_value(self.numbers.inner), self.f.const(lt.I64, 1))

    def arrays(self) -> IndexValue:
        """Return how many arrays lie in scratch."""
        in_place = self.is_in_place()
        return 2 if isinstance(in_place, bool) else self.f.iselect(in_place, 1, 2)

    def use_row(self, row: Value) -> None:
        """Take a row's result for the second array."""
        f, in_place = self.f, self.is_in_place()
        if isinstance(in_place, bool):
            return
        result = f.gep(self.emitter.buffers[1], self.start_of(row), self.word, inbounds=False)
        self.there = f.select(in_place, result, self.spare)
        self.target = f.select(in_place, result, self.here)

    def write(self, row: Value, low: IndexValue, high: IndexValue) -> None:
        """Write the elements of keys, then those that share a key, if one of these is lost."""
        f = self.f
        bounds = self._bounds_of_lost(low, high) if self.variant.shared_keys else []

        def some(where: IndexValue, index: Value, lanes: int) -> None:
            keys = f.load(vector(self.word, lanes), self.at(index), self.word.alignment)
            self.store(0, self.memory_of(keys), where)

        f.if_(
            self.is_in_place(),
            lambda: self._replace(low, high),
            lambda: self.in_vectors(row, low, high, some),
        )

        def all_keys() -> None:
            for key in self.variant.shared_keys:
                self.rewrite(row, (low, high), bounds, f.const(self.word, key))

        if bounds:
            f.if_(f.icmp("sle", *bounds), all_keys, likely=False)

    def at(self, index: IndexValue) -> Value:
        """Return the address of a key in order."""
        return self.f.gep(self.target, index, self.word, inbounds=False)

    def _replace(self, low: IndexValue, high: IndexValue) -> None:
        """Make elements of keys where these lie."""
        f, lanes = self.f, self.step
        wide = vector(self.word, lanes)
        indices = f.const(vector(lt.I64, lanes), list(range(lanes)))

        def some(index: Value, mask: Value) -> None:
            keys = f.masked_load(wide, self.at(index), mask, align=self.word.alignment)
            f.masked_store(self.memory_of(keys), self.at(index), mask, self.word.alignment)

        whole = f.imul(f.idiv(f.imax(f.isub(high, low), 0), lanes), lanes)
        rest = f.as_value(f.iadd(low, whole))
        every = f.const(vector(lt.I1, lanes), True)
        f.for_range(rest, lambda index: some(index, every), start=low, step=lanes)
        left = f.splat(f.as_value(f.isub(high, rest)), lanes)
        some(rest, f.icmp("slt", indices, left))

    def _bounds_of_lost(self, low: IndexValue, high: IndexValue) -> list[Value]:
        """Return the first and the last key; the last is less if no element is lost."""
        f, word = self.f, self.word

        def gathered(part: Value, values: list[Value]) -> list[Value]:
            return [f.or_(values[0], f.load(word, self.flag(part)))]

        zero = f.const(word, 0)
        (lost,) = f.loop(0, self.numbers.parts, 1, [zero], gathered)
        has_any = f.icmp("slt", f.as_value(low), f.as_value(high))
        is_lost = f.and_(f.icmp("ne", lost, zero), has_any)
        indices = (low, f.isub(high, 1))
        return f.if_(
            is_lost,
            lambda: [f.load(word, self.at(index)) for index in indices],
            otherwise=[f.const(word, 1), zero],
            likely=False,
        )

    def rewrite(
        self, row: Value, indices: tuple[IndexValue, IndexValue], bounds: list[Value], key: Value
    ) -> None:
        """Write the elements of one key to those of their indices that `indices` bound.

        `bounds`: the first and the last key there.
        """
        f, length = self.f, self.numbers.length
        low, high = map(f.as_value, indices)
        is_here = f.and_(f.icmp("sle", bounds[0], key), f.icmp("sle", key, bounds[1]))
        start, zero = self.start_of(row), f.const(lt.I64, 0)

        def key_at(number: Value) -> tuple[IndexValue, Value]:
            where = f.iadd(start, f.imul(number, self.numbers.inner))
            return where, self.key(self.element(where))

        def below(number: Value, values: list[Value]) -> list[Value]:
            _, other = key_at(number)
            return [f.add(values[0], f.zext(f.icmp("slt", other, key), lt.I64))]

        def again(number: Value, values: list[Value]) -> list[Value]:
            (index,) = values
            where, other = key_at(number)
            has_key = f.icmp("eq", other, key)
            is_inside = f.and_(f.icmp("sge", index, low), f.icmp("slt", index, high))

            there = f.iadd(start, f.imul(index, self.numbers.inner))
            f.if_(f.and_(has_key, is_inside), lambda: self.copy(0, where, there))
            return [f.add(index, f.zext(has_key, lt.I64))]

        def scan() -> None:
            (before,) = f.loop(0, length, 1, [zero], below)
            f.loop(0, length, 1, [before], again)

        f.if_(is_here, scan)
