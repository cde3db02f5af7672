# SPDX-License-Identifier: Apache-2.0
"""Sorts by one key as LLVM functions of every size: records are sorted, elements follow from them.

An element's key is an integer in the order of the result, so sorting compares integers whatever the
element type and the comparator's way of reading it (NaN, signed zeros). What a record holds says
the form (`RecordKind`). Records of one word are sorted in vector registers (`vector_sort`), keys
and positions in two words by `merge_sort`.

Invariant: records of one row are distinct, stand for equal elements, or keep their order, so the
sort is stable. Keys that several elements share are the exception: their elements are read again,
in their order, where a row has one that its key does not give back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from ingot.cpu.emit.kernel_abi import bind_env
from ingot.cpu.emit.sort.merge_sort import MergeSorter
from ingot.cpu.emit.sort.selection_keys import in_signed_order
from ingot.cpu.emit.sort.sort_phases import Numbers, RowSorter, emit_parts_of_rows, emit_whole_rows
from ingot.cpu.emit.sort.vector_sort import ROWS, VectorSorter
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo.dtype import BF16, PRED, DType
from ingot.kernel.ir import Combiner
from ingot.kernel.sort.keys import RecordKind
from ingot.kernel.sort.sort import KEYED_PARAMETERS, KeyedForm
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value


def emit_keyed_sort(
    module: ModuleBuilder, symbol: str, form: KeyedForm, target: TargetSpec
) -> None:
    """Emit the functions of a form of sorts into `module`."""
    count = 2 * len(form.elements)

    def start(f: FunctionBuilder) -> RowSorter:
        emitter = bind_env(f, f.params[0], count, KEYED_PARAMETERS, target.has_fma)
        given = {name: emitter.names[name] for name in KEYED_PARAMETERS}
        area = given.pop("area")
        numbers = Numbers(**given, areas=[area] * form.record.num_words)
        if form.record is RecordKind.PAIR:
            return _Pairs(f, emitter, numbers, form)
        rows = _Keys if form.record.is_key else _Words
        return rows(f, emitter, numbers, form, target.vector_bits // form.record.bits)

    emit_whole_rows(module, symbol, start, count)
    emit_parts_of_rows(module, symbol, start, count)


class _KeyedRows(RowSorter):
    """Rows of records that have keys."""

    is_order = True

    def __init__(
        self, f: FunctionBuilder, emitter: ValueEmitter, numbers: Numbers, form: KeyedForm
    ) -> None:
        word = lt.I32 if form.record.bits == 32 else lt.I64
        super().__init__(f, emitter, numbers, [word] * form.record.num_words)
        self.form = form

    def comes_before(self, left: list[Value], right: list[Value]) -> Value:
        """Compare keys, with the positions below them if they share a word."""
        return self.f.icmp("slt", left[0], right[0])

    # ---- elements and keys, of one lane or several

    def element(self, where: IndexValue, lanes: int = 1) -> Value:
        """Load elements of the first operand as register values."""
        element = self.form.elements[0]
        memory = memory_type(element)
        address = self.f.gep(self.emitter.buffers[0], where, memory)
        loaded = self.f.load(vector(memory, lanes), address, memory.alignment)
        return widen(self.f, loaded, element, self.emitter.has_f16c)

    def key(self, wide: Value) -> Value:
        """Return the keys of elements, as integers of a word whose signed order is the result's."""
        f, key = self.f, self.form.key
        (value,) = combine(self.emitter, Combiner((key,)), (wide,))
        bits = _ordered(f, value, key.dtype)
        word = vector(self.types[0], bits.type.lanes)
        return self.directed(bits if bits.type is word else f.sext(bits, word))

    def directed(self, keys: Value) -> Value:
        """Return keys in the direction of the sort, or the reverse: it is its own inverse."""
        return self.f.not_(keys) if self.form.descending else keys

    def copy(self, operand: int, source: IndexValue, where: IndexValue) -> None:
        """Copy an element of an operand to `where` in its result."""
        f, type_ = self.f, memory_type(self.form.elements[operand])
        value = f.load(type_, f.gep(self.emitter.buffers[operand], source, type_))
        self.store(operand, value, where)

    def store(self, operand: int, value: Value, where: IndexValue) -> None:
        """Write elements of an operand's result, as they lie in memory."""
        f, memory = self.f, value.type.element
        result = self.emitter.buffers[len(self.form.elements) + operand]
        f.store(value, f.gep(result, where, memory), memory.alignment)


def _ordered(f: FunctionBuilder, value: Value, element: DType) -> Value:
    """Return register values as integers in their order."""
    if element is PRED:
        return f.zext(value, vector(lt.I8, value.type.lanes))
    if element.is_float:
        whole = lt.I64 if value.type.element is lt.F64 else lt.I32
        value = f.bitcast(value, vector(whole, value.type.lanes))
    return in_signed_order(f, value, element)


class _Pairs(_KeyedRows):
    """Records are a key and a position."""

    def read(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Write the records of a row's elements."""
        f = self.f

        def one(where: IndexValue, place: Value) -> None:
            for record, area in zip((self.key(self.element(where)), place), areas, strict=True):
                f.store(record, f.gep(area, place, lt.I64))

        self.places(row, low, high, one)

    def write(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Write every operand's elements in the order of the positions."""
        f, start = self.f, self.start_of(row)

        def one(where: IndexValue, place: Value) -> None:
            number = f.load(lt.I64, f.gep(areas[1], place, lt.I64))
            source = f.iadd(start, f.imul(number, self.numbers.inner))
            for operand in range(len(self.form.elements)):
                self.copy(operand, source, where)

        self.places(row, low, high, one)


class _VectorRows(_KeyedRows):
    """Rows of records of one word, which are sorted in vector registers of `lanes` words."""

    def __init__(
        self,
        f: FunctionBuilder,
        emitter: ValueEmitter,
        numbers: Numbers,
        form: KeyedForm,
        lanes: int,
    ) -> None:
        super().__init__(f, emitter, numbers, form)
        self.lanes = lanes
        self.block = ROWS * lanes

    def sorter(self, length: IndexValue, span: IndexValue | None = None) -> MergeSorter:
        """Return what sorts a padded sequence."""
        order = self.comes_before
        return VectorSorter(self.f, self.types, length, order, True, span, lanes=self.lanes)

    def pad(self, first: IndexValue, last: IndexValue, areas: list[Value]) -> None:
        """Fill places with the greatest word."""
        f, word = self.f, self.types[0]
        most = f.const(word, (1 << (word.bits - 1)) - 1)

        def one(place: Value, _: list[Value]) -> None:
            f.store(most, f.gep(areas[0], place, word))

        f.loop(first, last, 1, [], one)

    def memory_of(self, keys: Value) -> Value:
        """Return the elements of keys as they lie in memory."""
        f, element, lanes = self.f, self.form.elements[0], keys.type.lanes
        keys, memory = self.directed(keys), vector(memory_type(element), lanes)
        if element.is_float:
            bits = in_signed_order(f, keys, element)
            if element is not BF16:
                return f.bitcast(bits, memory)
            return f.trunc(f.lshr(bits, f.const(bits.type, 16)), memory)
        bits = keys if keys.type is memory else f.trunc(keys, memory)
        return bits if element is PRED else in_signed_order(f, bits, element)

    def in_vectors(
        self,
        row: Value,
        low: IndexValue,
        high: IndexValue,
        body: Callable[[IndexValue, Value, int], None],
    ) -> None:
        """Emit `body(where, place, lanes)` for places low..high of a row.

        Lanes are several where elements lie side by side.
        """
        f, start = self.f, self.start_of(row)

        def each(first: IndexValue) -> None:
            self.places(row, first, high, lambda where, place: body(where, place, 1))

        def dense() -> None:
            step = 2 * self.lanes
            count = f.imul(f.idiv(f.imax(f.isub(high, low), 0), step), step)
            whole = f.iadd(low, count)

            def some(place: Value, _: list[Value]) -> None:
                body(f.iadd(start, place), place, step)

            f.loop(low, whole, step, [], some)
            each(whole)

        is_dense = f.icmp("eq", f.as_value(self.numbers.inner), f.const(lt.I64, 1))
        f.if_(is_dense, dense, lambda: each(low))


class _Words(_VectorRows):
    """Records are a key of 32 bits above a position."""

    def read(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Write the records of a row's elements."""
        f = self.f

        def some(where: IndexValue, place: Value, lanes: int) -> None:
            keys, places = self.key(self.element(where, lanes)), f.splat(place, lanes)
            if lanes > 1:
                places = f.add(places, f.const(places.type, list(range(lanes))))
            record = f.or_(f.shl(keys, f.const(keys.type, 32)), places)
            f.store(record, f.gep(areas[0], place, lt.I64), lt.I64.alignment)

        self.in_vectors(row, low, high, some)

    def write(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Write every operand's elements in the order of the positions.

        The first operand's follow from their keys, where these are not shared: reading them in this
        order would wait for memory.
        """
        f, start = self.f, self.start_of(row)

        def one(where: IndexValue, place: Value) -> None:
            record = f.load(lt.I64, f.gep(areas[0], place, lt.I64))
            number = f.and_(record, f.const(lt.I64, (1 << 32) - 1))
            source = f.iadd(start, f.imul(number, self.numbers.inner))
            self.write_key(f.trunc(f.ashr(record, f.const(lt.I64, 32)), lt.I32), source, where)
            for operand in range(1, len(self.form.elements)):
                self.copy(operand, source, where)

        self.places(row, low, high, one)

    def write_key(self, key: Value, source: IndexValue, where: IndexValue) -> None:
        """Write the first operand's element of a key, which lies at `source`."""
        f, form = self.f, self.form
        if not form.gives_back:
            self.copy(0, source, where)
            return
        self.store(0, self.memory_of(key), where)
        shared = [f.icmp("eq", key, f.const(lt.I32, other)) for other in form.shared_keys]
        if shared:
            is_shared = reduce(f.or_, shared)
            f.if_(is_shared, lambda: self.copy(0, source, where), likely=False)


class _Keys(_VectorRows):
    """Records are keys, of which elements are made again.

    Behind the padded row there is a word for each part: whether it has an element that its key does
    not give back.
    """

    def read(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Write the keys of a row's elements."""
        f, word = self.f, self.types[0]
        part = 0 if low == 0 else f.idiv(low, self.numbers.part)
        flag = f.gep(areas[0], f.iadd(self.padded(self.numbers.length), part), word)
        is_shared = bool(self.form.shared_keys)
        if is_shared:
            f.store(f.const(word, 0), flag)

        def some(where: IndexValue, place: Value, lanes: int) -> None:
            wide = self.element(where, lanes)
            keys = self.key(wide)
            f.store(keys, f.gep(areas[0], place, word), word.alignment)
            if is_shared:
                differs = f.icmp("ne", keys, self.own_key(wide))
                is_lost = differs if lanes == 1 else f.reduce("or", differs)
                f.if_(is_lost, lambda: f.store(f.const(word, 1), flag), likely=False)

        self.in_vectors(row, low, high, some)

    def own_key(self, wide: Value) -> Value:
        """Return the keys that elements would have if no two of them shared one."""
        return self.directed(_ordered(self.f, wide, self.form.elements[0]))

    def write(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Write the elements of keys, then those that share a key, if one of these is lost."""
        f, word = self.f, self.types[0]

        def some(where: IndexValue, place: Value, lanes: int) -> None:
            keys = f.load(vector(word, lanes), f.gep(areas[0], place, word), word.alignment)
            self.store(0, self.memory_of(keys), where)

        self.in_vectors(row, low, high, some)
        if not self.form.shared_keys:
            return
        flags = f.gep(self.first_areas[0], self.padded(self.numbers.length), word)

        def gathered(part: Value, values: list[Value]) -> list[Value]:
            return [f.or_(values[0], f.load(word, f.gep(flags, part, word)))]

        zero = f.const(word, 0)
        (lost,) = f.loop(0, self.numbers.parts, 1, [zero], gathered)
        has_any = f.icmp("slt", f.as_value(low), f.as_value(high))
        is_lost = f.and_(f.icmp("ne", lost, zero), has_any)

        def all_keys() -> None:
            for key in self.form.shared_keys:
                self.rewrite(row, (low, high), areas[0], f.const(word, key))

        f.if_(is_lost, all_keys, likely=False)

    def rewrite(
        self, row: Value, bounds: tuple[IndexValue, IndexValue], area: Value, key: Value
    ) -> None:
        """Write the elements of one key to those of its places that lie in `bounds`."""
        f, word, length = self.f, self.types[0], self.numbers.length
        low, high = map(f.as_value, bounds)
        first = f.load(word, f.gep(area, low, word))
        last = f.load(word, f.gep(area, f.sub(high, f.const(lt.I64, 1)), word))
        is_here = f.and_(f.icmp("sle", first, key), f.icmp("sle", key, last))
        start, zero = self.start_of(row), f.const(lt.I64, 0)

        def key_at(number: Value) -> tuple[IndexValue, Value]:
            where = f.iadd(start, f.imul(number, self.numbers.inner))
            return where, self.key(self.element(where))

        def below(number: Value, values: list[Value]) -> list[Value]:
            _, other = key_at(number)
            return [f.add(values[0], f.zext(f.icmp("slt", other, key), lt.I64))]

        def again(number: Value, values: list[Value]) -> list[Value]:
            (place,) = values
            where, other = key_at(number)
            has_key = f.icmp("eq", other, key)
            is_inside = f.and_(f.icmp("sge", place, low), f.icmp("slt", place, high))

            there = f.iadd(start, f.imul(place, self.numbers.inner))
            f.if_(f.and_(has_key, is_inside), lambda: self.copy(0, where, there))
            return [f.add(place, f.zext(has_key, lt.I64))]

        def scan() -> None:
            (before,) = f.loop(0, length, 1, [zero], below)
            f.loop(0, length, 1, [before], again)

        f.if_(is_here, scan)
