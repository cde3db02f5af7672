"""Sort kernels as LLVM functions: a stable merge sort of each row, its comparator inlined.

A row of every operand is copied to scratch, sorted there (`merge_sort`) and copied out.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.cpu.emit.indices import IndexValue
from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel, scratch_of
from ingot.cpu.emit.merge_sort import MergeSorter
from ingot.cpu.emit.types import memory_type, widen
from ingot.cpu.emit.values import ValueEmitter, combine
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.kernel.ir import Combiner, SortKernel
from ingot.kernel.sort import SortSchedule
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

AREA_ALIGNMENT = 64


def emit_sort_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: SortKernel,
    schedule: SortSchedule,
    target: TargetSpec,
) -> EmittedKernel:
    """Emit the function of a sort kernel into `module`."""
    count = len(kernel.buffers)
    f, emitter, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    areas = [_area_bytes(kernel.length, element) for element in kernel.elements]
    chunk_bytes: int | Dim = 0
    for area in areas:
        chunk_bytes = chunk_bytes + area * 2
    base = f.gep(scratch_of(f, count), f.imul(chunk, emitter.index(chunk_bytes)))
    rows = RowSorter(f, emitter, kernel, emitter.index(kernel.length))
    here, there = rows.areas(base, areas)
    grain = emitter.index(schedule.grain)
    first = f.imul(chunk, grain)
    last = f.imin(f.iadd(first, grain), emitter.index(schedule.rows))
    f.loop(first, last, 1, [], lambda row, _: rows.sort(row, here, there))
    f.ret()
    scratch_bytes = schedule.chunks * chunk_bytes
    return EmittedKernel((Phase(symbol, schedule.chunks),), count, kernel.symbols, scratch_bytes)


def _area_bytes(length: int | Dim, element: DType) -> int | Dim:
    size = length * memory_type(element).bytes
    return dim.floordiv(size + (AREA_ALIGNMENT - 1), AREA_ALIGNMENT) * AREA_ALIGNMENT


@dataclass(frozen=True, slots=True)
class RowSorter:
    """Emits the sorting of one row.

    Attributes:
        f, emitter: the function.
        kernel: what is sorted.
        length: elements of a row.
    """

    f: FunctionBuilder
    emitter: ValueEmitter
    kernel: SortKernel
    length: IndexValue

    def areas(self, base: Value, sizes: list[int | Dim]) -> tuple[list[Value], list[Value]]:
        """Return the addresses of both areas of each operand."""
        found: tuple[list[Value], list[Value]] = ([], [])
        offset: int | Dim = 0
        for area in found:
            for size in sizes:
                area.append(self.f.gep(base, self.emitter.index(offset)))
                offset = offset + size
        return found

    def sort(self, row: Value, here: list[Value], there: list[Value]) -> None:
        """Sort row number `row`, by way of two areas of scratch."""
        kernel = self.kernel
        self._copy(row, here, kernel.operands, is_in=True)
        done = MergeSorter(self.f, self._types(), self.length, self._is_before).sort(here, there)
        first = len(kernel.buffers) - len(kernel.operands)
        results = tuple(range(first, len(kernel.buffers)))
        self._copy(row, done, results, is_in=False)

    def _copy(
        self, row: Value, areas: list[Value], buffers: tuple[int, ...], *, is_in: bool
    ) -> None:
        """Copy a row from (or to) buffers to (or from) scratch."""
        f, kernel = self.f, self.kernel
        inner = self.emitter.index(kernel.inner)
        outer_row, place = f.idiv(row, inner), f.irem(row, inner)
        start = f.iadd(f.imul(outer_row, f.imul(self.length, inner)), place)
        types = self._types()

        def element(position: Value, _: list[Value]) -> None:
            where = f.iadd(start, f.imul(position, inner))
            for area, buffer, type_ in zip(areas, buffers, types, strict=True):
                outside = f.gep(self.emitter.buffers[buffer], where, type_)
                inside = f.gep(area, position, type_)
                source, target = (outside, inside) if is_in else (inside, outside)
                f.store(f.load(type_, source), target)

        f.loop(0, self.length, 1, [], element)

    def _types(self) -> list[lt.Type]:
        return [memory_type(element) for element in self.kernel.elements]

    def _is_before(self, left: list[Value], right: list[Value]) -> Value:
        """Emit the comparator on elements as they lie in memory."""
        arguments: list[Value] = []
        for number, element in enumerate(self.kernel.elements):
            for side in (left, right):
                wide = widen(self.f, side[number], element, self.emitter.has_f16c)
                arguments.append(wide)
        return combine(self.emitter, Combiner((self.kernel.comparator,)), tuple(arguments))[0]
