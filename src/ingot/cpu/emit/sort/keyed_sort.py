# SPDX-License-Identifier: Apache-2.0
"""Sorts by one key as LLVM functions of every size: keys and positions are sorted, then gathered.

An element's key is an integer in the order of the result, so sorting compares integers whatever the
element type and the comparator's way of reading it (NaN, signed zeros). A record is the key above
its position where both fit 64 bits, else two words. The operands are read in the sorted order.

Invariant: records of one row are distinct or keep their order, so the sort is stable.
"""

from __future__ import annotations

from ingot.cpu.emit.kernel_abi import bind_env
from ingot.cpu.emit.sort.sort_phases import Numbers, RowSorter, emit_parts_of_rows, emit_whole_rows
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo.dtype import PRED
from ingot.kernel.ir import Combiner
from ingot.kernel.sort.sort import KEYED_PARAMETERS, KeyedForm
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

WORD = 64


def emit_keyed_sort(
    module: ModuleBuilder, symbol: str, form: KeyedForm, target: TargetSpec
) -> None:
    """Emit the functions of a form of sorts into `module`."""
    count = 2 * len(form.elements)

    def start(f: FunctionBuilder) -> RowSorter:
        emitter = bind_env(f, f.params[0], count, KEYED_PARAMETERS, target.has_fma)
        given = {name: emitter.names[name] for name in KEYED_PARAMETERS}
        area = given.pop("area")
        return _KeyedRows(f, emitter, Numbers(**given, areas=[area] * form.words), form)

    emit_whole_rows(module, symbol, start, count)
    emit_parts_of_rows(module, symbol, start, count)


class _KeyedRows(RowSorter):
    """Rows of records: keys and positions."""

    is_order = True

    def __init__(
        self, f: FunctionBuilder, emitter: ValueEmitter, numbers: Numbers, form: KeyedForm
    ) -> None:
        super().__init__(f, emitter, numbers, [lt.I64] * form.words)
        self.form = form

    def comes_before(self, left: list[Value], right: list[Value]) -> Value:
        """Compare keys, with the positions below them if they share a word."""
        return self.f.icmp("slt", left[0], right[0])

    def read(self, where: IndexValue, place: Value, areas: list[Value]) -> None:
        """Write the record of an element."""
        f, element = self.f, self.form.elements[0]
        type_ = memory_type(element)
        loaded = f.load(type_, f.gep(self.emitter.buffers[0], where, type_))
        wide = widen(f, loaded, element, self.emitter.has_f16c)
        (value,) = combine(self.emitter, Combiner((self.form.key,)), (wide,))
        key = self._ordered(value)
        if self.form.words == 1:
            key = f.or_(f.shl(key, f.const(lt.I64, WORD // 2)), place)
        for record, area in zip((key, place), areas, strict=False):
            f.store(record, f.gep(area, place, lt.I64))

    def _ordered(self, value: Value) -> Value:
        """Return a key's register value as an i64 whose signed order is that of the result."""
        f, element = self.f, self.form.key.dtype
        bits = f.zext(value, lt.I8) if element is PRED else value
        if element.is_float:
            bits = f.bitcast(value, lt.I64 if value.type is lt.F64 else lt.I32)
            sign = f.ashr(bits, f.const(bits.type, bits.type.bits - 1))
            bits = f.xor(bits, f.lshr(sign, f.const(bits.type, 1)))
        elif not element.is_signed and element is not PRED:
            bits = f.xor(bits, f.const(bits.type, -(1 << (bits.type.bits - 1))))
        key = bits if bits.type is lt.I64 else f.sext(bits, lt.I64)
        return f.not_(key) if self.form.descending else key

    def write(self, start: IndexValue, where: IndexValue, place: Value, areas: list[Value]) -> None:
        """Write every operand's element of the record at `place`."""
        f, elements = self.f, self.form.elements
        source: IndexValue = f.load(lt.I64, f.gep(areas[-1], place, lt.I64))
        if self.form.words == 1:
            source = f.and_(source, f.const(lt.I64, (1 << (WORD // 2)) - 1))
        there = f.iadd(start, f.imul(source, self.numbers.inner))
        for number, element in enumerate(elements):
            type_ = memory_type(element)
            value = f.load(type_, f.gep(self.emitter.buffers[number], there, type_))
            result = self.emitter.buffers[len(elements) + number]
            f.store(value, f.gep(result, where, type_))
