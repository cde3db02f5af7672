"""Sorts by one key as LLVM functions of every size: keys and positions are sorted, then gathered.

An element's key is an integer in the order of the result, so sorting compares integers whatever the
element type and the comparator's way of reading it (NaN, signed zeros). A record is the key above
its position where both fit 64 bits, else two words. The operands are read in the sorted order.

Invariant: records of one row are distinct or keep their order, so the sort is stable.
"""

from __future__ import annotations

from ingot.cpu.emit.indices import IndexValue
from ingot.cpu.emit.kernel_abi import open_kernel, scratch_of
from ingot.cpu.emit.merge_sort import MergeSorter
from ingot.cpu.emit.types import memory_type, widen
from ingot.cpu.emit.values import ValueEmitter, combine
from ingot.hlo.dtype import PRED
from ingot.kernel.ir import Combiner
from ingot.kernel.sort import KEYED_PARAMETERS, KeyedForm
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

WORD = 64


def emit_keyed_sort(
    module: ModuleBuilder, symbol: str, form: KeyedForm, target: TargetSpec
) -> None:
    """Emit the function of a form of sorts into `module`."""
    count = 2 * len(form.elements)
    f, emitter, chunk = open_kernel(module, symbol, count, KEYED_PARAMETERS, target.has_fma)
    given = {name: f.as_value(emitter.names[name]) for name in KEYED_PARAMETERS}
    area = given["area"]
    base = f.gep(scratch_of(f, count), f.imul(chunk, f.imul(area, 2 * form.words)))
    areas = [f.gep(base, f.imul(area, number)) for number in range(2 * form.words)]
    rows = _Rows(f, emitter, form, given)
    first = f.imul(chunk, given["grain"])
    last = f.imin(f.iadd(first, given["grain"]), given["rows"])
    f.loop(
        first,
        last,
        1,
        [],
        lambda row, _: rows.sort(row, areas[: form.words], areas[form.words :]),
    )
    f.ret()


class _Rows:
    """Emits the sorting of one row."""

    def __init__(
        self, f: FunctionBuilder, emitter: ValueEmitter, form: KeyedForm, given: dict[str, Value]
    ) -> None:
        self.f = f
        self.emitter = emitter
        self.form = form
        self.length, self.inner = given["length"], given["inner"]

    def sort(self, row: Value, here: list[Value], there: list[Value]) -> None:
        """Sort row number `row`, by way of two areas of records."""
        f, inner = self.f, self.inner
        start = f.iadd(f.imul(f.idiv(row, inner), f.imul(self.length, inner)), f.irem(row, inner))
        f.loop(0, self.length, 1, [], lambda place, _: self._record(start, place, here))
        types: list[lt.Type] = [lt.I64] * self.form.words
        sorter = MergeSorter(
            f, types, self.length, lambda a, b: f.icmp("slt", a[0], b[0]), is_order=True
        )
        done = sorter.sort(here, there)
        f.loop(0, self.length, 1, [], lambda place, _: self._gather(start, place, done))

    def _record(self, start: IndexValue, place: Value, areas: list[Value]) -> None:
        """Write the record of the element at `place`."""
        f, element = self.f, self.form.elements[0]
        where = f.iadd(start, f.imul(place, self.inner))
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

    def _gather(self, start: IndexValue, place: Value, areas: list[Value]) -> None:
        """Write every operand's element of the record at `place` to the results."""
        f, elements = self.f, self.form.elements
        source = f.load(lt.I64, f.gep(areas[-1], place, lt.I64))
        if self.form.words == 1:
            source = f.and_(source, f.const(lt.I64, (1 << (WORD // 2)) - 1))
        there = f.iadd(start, f.imul(source, self.inner))
        here = f.iadd(start, f.imul(place, self.inner))
        for number, element in enumerate(elements):
            type_ = memory_type(element)
            value = f.load(type_, f.gep(self.emitter.buffers[number], there, type_))
            result = self.emitter.buffers[len(elements) + number]
            f.store(value, f.gep(result, here, type_))
