# SPDX-License-Identifier: Apache-2.0
"""Sort kernels as LLVM functions: a stable merge sort of each row, its comparator inlined.

Elements of every operand are copied to scratch, sorted there (`sort_phases`) and copied out.
"""

from __future__ import annotations

from ingot.cpu.emit.kernel_abi import EmittedKernel, bind_env
from ingot.cpu.emit.sort.sort_phases import (
    Numbers,
    RowSorter,
    emit_parts_of_rows,
    emit_whole_rows,
    phases_of,
)
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.types import memory_type, widen
from ingot.emit.values.values import ValueEmitter, combine
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.kernel.ir import Combiner, SortKernel
from ingot.kernel.sort.sort import SortSchedule
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value
from ingot.support.records import record

AREA_ALIGNMENT = 64


def emit_sort_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: SortKernel,
    schedule: SortSchedule,
    target: TargetSpec,
) -> EmittedKernel:
    """Emit the functions of a sort kernel into `module`: those that its sizes may need."""
    count = len(kernel.buffers)
    start = _Start(kernel, schedule, target)
    if schedule.whole_chunks != 0 or schedule.part_chunks == 0:
        emit_whole_rows(module, symbol, start, count)
    if schedule.part_chunks != 0:
        emit_parts_of_rows(module, symbol, start, count)
    scratch_bytes = schedule.areas * sum_of(start.areas) * 2
    return EmittedKernel(phases_of(symbol, schedule), count, kernel.symbols, scratch_bytes)


def sum_of(sizes: list[int | Dim]) -> int | Dim:
    """Return the sum of sizes."""
    total: int | Dim = 0
    for size in sizes:
        total = total + size
    return total


@record
class _Start:
    """Makes the sorter of a function."""

    kernel: SortKernel
    schedule: SortSchedule
    target: TargetSpec

    @property
    def areas(self) -> list[int | Dim]:
        """Bytes of an area of each operand."""
        return [_area_bytes(self.kernel.length, element) for element in self.kernel.elements]

    def __call__(self, f: FunctionBuilder) -> RowSorter:
        kernel, schedule = self.kernel, self.schedule
        count = len(kernel.buffers)
        emitter = bind_env(f, f.params[0], count, kernel.symbols, self.target.has_fma)
        numbers = Numbers(
            emitter.index(kernel.length),
            emitter.index(kernel.inner),
            emitter.index(schedule.rows),
            emitter.index(schedule.grain),
            emitter.index(schedule.part),
            emitter.index(schedule.parts),
            [emitter.index(area) for area in self.areas],
        )
        return _ComparedRows(f, emitter, numbers, kernel)


def _area_bytes(length: int | Dim, element: DType) -> int | Dim:
    size = length * memory_type(element).bytes
    return dim.floordiv(size + (AREA_ALIGNMENT - 1), AREA_ALIGNMENT) * AREA_ALIGNMENT


class _ComparedRows(RowSorter):
    """Rows whose elements are compared as they are."""

    def __init__(
        self, f: FunctionBuilder, emitter: ValueEmitter, numbers: Numbers, kernel: SortKernel
    ) -> None:
        super().__init__(f, emitter, numbers, [memory_type(item) for item in kernel.elements])
        self.kernel = kernel

    def read(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Copy the elements of every operand."""
        f = self.f

        def one(where: IndexValue, index: Value) -> None:
            for area, buffer, type_ in zip(areas, self.kernel.operands, self.types, strict=True):
                value = f.load(type_, f.gep(self.emitter.buffers[buffer], where, type_))
                f.store(value, f.gep(area, index, type_))

        self.each_element(row, low, high, one)

    def write(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Copy the elements of every operand."""
        f, kernel = self.f, self.kernel
        first = len(kernel.buffers) - len(kernel.operands)

        def one(where: IndexValue, index: Value) -> None:
            for number, (area, type_) in enumerate(zip(areas, self.types, strict=True), first):
                value = f.load(type_, f.gep(area, index, type_))
                f.store(value, f.gep(self.emitter.buffers[number], where, type_))

        self.each_element(row, low, high, one)

    def comes_before(self, left: list[Value], right: list[Value]) -> Value:
        """Emit the comparator on elements as they lie in memory."""
        arguments: list[Value] = []
        for number, element in enumerate(self.kernel.elements):
            for side in (left, right):
                wide = widen(self.f, side[number], element, self.emitter.has_f16c)
                arguments.append(wide)
        return combine(self.emitter, Combiner((self.kernel.comparator,)), tuple(arguments))[0]
