"""Sort kernels as LLVM functions: a stable merge sort of each row, its comparator inlined.

A row of every operand is copied to scratch, runs of `RUN` elements are sorted by insertion, runs
are merged pairwise to and fro between two areas, and the result is copied out. The merge has no
branch on the comparison, so its time does not depend on the data.

Invariant: an element moves before another only if the comparator says so, so equal ones keep
their order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.cpu.emit.kernel_abi import EmittedKernel, Phase, open_kernel
from ingot.cpu.emit.types import memory_type, widen
from ingot.cpu.emit.values import IndexValue, ValueEmitter, combine
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.kernel.ir import Combiner, SortKernel
from ingot.kernel.sort import SortSchedule
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.values import Value

RUN = 8
"""Elements sorted by insertion."""

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
    f, emitter, scratch, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    areas = [_area_bytes(kernel.length, element) for element in kernel.elements]
    chunk_bytes: int | Dim = 0
    for area in areas:
        chunk_bytes = chunk_bytes + area * 2
    base = f.gep(scratch, f.imul(chunk, emitter.index(chunk_bytes)))
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
        self._sort_runs(here)
        done = self._merge_runs(here, there)
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

    def _load(self, areas: list[Value], position: IndexValue) -> list[Value]:
        """Return the elements of all operands at a position, as they lie in memory."""
        f = self.f
        pairs = zip(areas, self._types(), strict=True)
        return [f.load(type_, f.gep(area, position, type_)) for area, type_ in pairs]

    def _store(self, values: list[Value], areas: list[Value], position: IndexValue) -> None:
        f = self.f
        for value, area, type_ in zip(values, areas, self._types(), strict=True):
            f.store(value, f.gep(area, position, type_))

    def _is_before(self, left: list[Value], right: list[Value]) -> Value:
        """Emit the comparator on elements as they lie in memory."""
        arguments: list[Value] = []
        for number, element in enumerate(self.kernel.elements):
            for side in (left, right):
                wide = widen(self.f, side[number], element, self.emitter.has_f16c)
                arguments.append(wide)
        return combine(self.emitter, Combiner((self.kernel.comparator,)), tuple(arguments))[0]

    # ---- short runs

    def _sort_runs(self, areas: list[Value]) -> None:
        f = self.f

        def run(start: Value, _: list[Value]) -> None:
            end = f.imin(f.iadd(start, RUN), self.length)

            def insert(number: Value, _: list[Value]) -> None:
                held = self._load(areas, number)

                def before(values: list[Value]) -> list[Value]:
                    return self._load(areas, f.imax(f.isub(values[0], 1), start))

                def moves(values: list[Value]) -> Value:
                    is_inside = f.icmp("sgt", values[0], start)
                    return f.and_(is_inside, self._is_before(held, before(values)))

                def move(values: list[Value]) -> list[Value]:
                    self._store(before(values), areas, values[0])
                    return [f.as_value(f.isub(values[0], 1))]

                (place,) = f.while_([number], moves, move)
                self._store(held, areas, place)

            f.loop(f.iadd(start, 1), end, 1, [], insert)

        f.loop(0, self.length, RUN, [], run)

    # ---- merging

    def _merge_runs(self, here: list[Value], there: list[Value]) -> list[Value]:
        """Merge runs until there is one; return the areas that it lies in."""
        f, count = self.f, len(here)
        if isinstance(self.length, int) and self.length <= RUN:
            return here

        def goes_on(values: list[Value]) -> Value:
            return f.icmp("slt", values[0], f.as_value(self.length))

        def level(values: list[Value]) -> list[Value]:
            width, source, target = values[0], values[1 : count + 1], values[count + 1 :]
            double = f.as_value(f.imul(width, 2))
            f.loop(
                0,
                self.length,
                double,
                [],
                lambda low, _: self._merge(source, target, low, width),
            )
            return [double, *target, *source]

        start = [f.const(lt.I64, RUN), *here, *there]
        return f.while_(start, goes_on, level)[1 : count + 1]

    def _merge(self, source: list[Value], target: list[Value], low: Value, width: Value) -> None:
        """Merge the runs [low, middle) and [middle, high) of `source` into `target`."""
        f = self.f
        middle = f.imin(f.iadd(low, width), self.length)
        high = f.imin(f.iadd(middle, width), self.length)
        last_left, last_right = f.isub(middle, 1), f.isub(high, 1)

        def step(position: Value, values: list[Value]) -> list[Value]:
            i, j = values
            # A run that is used up gives its last element, which is not taken.
            left = self._load(source, f.imin(i, last_left))
            right = self._load(source, f.imin(j, last_right))
            is_over = f.icmp("sge", i, f.as_value(middle))
            wins = f.or_(is_over, self._is_before(right, left))
            takes_right = f.and_(f.icmp("slt", j, f.as_value(high)), wins)
            taken = [f.select(takes_right, b, a) for a, b in zip(left, right, strict=True)]
            self._store(taken, target, position)
            moved = f.zext(takes_right, lt.I64)
            return [f.as_value(f.iadd(i, f.isub(1, moved))), f.as_value(f.iadd(j, moved))]

        f.loop(low, high, 1, [low, f.as_value(middle)], step)
