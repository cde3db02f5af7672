# SPDX-License-Identifier: Apache-2.0
"""The phases of a sort as LLVM functions: rows sorted whole, or in parts that are then merged.

A sort of whole rows is one phase. Few long rows are cut into parts (`kernel.sort.sort`): one phase
sorts every part, and each of up to `LEVELS` phases merges pairs of runs. A merge is cut into pieces
as long as a part, each of which finds where it begins in both runs, so all threads have work to the
end. The last merge writes the results.

How elements come into scratch, how they are compared and how they leave it is a `RowSorter`'s.

Invariant: where a piece begins depends on the elements alone, so results do not depend on threads.
Source: O. Green, R. McColl, D. Bader, GPU merge path (2012).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ingot.cpu.emit.kernel_abi import Phase, for_units, scratch_of
from ingot.cpu.emit.sort.merge_sort import MergeSorter
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.kernel.sort.sort import LEVELS, SortSchedule
from ingot.llvm import types as lt
from ingot.llvm.builder import ALIGNED_STACK, FunctionBuilder, ModuleBuilder
from ingot.llvm.values import FunctionRef, Value
from ingot.support.records import record


@record
class Numbers:
    """The sizes of a sort in a function: see `SortSchedule`; `areas`: bytes of each area."""

    length: IndexValue
    inner: IndexValue
    rows: IndexValue
    grain: IndexValue
    part: IndexValue
    parts: IndexValue
    areas: Sequence[IndexValue]


class Rows:
    """Emits what sorts of rows into one function share: where elements lie.

    Attributes:
        f, emitter: the function.
        numbers: its sizes.
        types: memory types of what an element is in scratch.
    """

    def __init__(
        self, f: FunctionBuilder, emitter: ValueEmitter, numbers: Numbers, types: list[lt.Type]
    ) -> None:
        self.f = f
        self.emitter = emitter
        self.numbers = numbers
        self.types = types

    def areas_of(self, scratch: Value, number: IndexValue) -> tuple[list[Value], list[Value]]:
        """Return the addresses of both areas of each word, of row number `number` in scratch."""
        f, sizes = self.f, self.numbers.areas
        offset: IndexValue = 0
        offsets: list[IndexValue] = []
        for size in (*sizes, *sizes):
            offsets.append(offset)
            offset = f.iadd(offset, size)
        base = f.gep(scratch, f.imul(number, offset))
        found = [f.gep(base, each) for each in offsets]
        return found[: len(sizes)], found[len(sizes) :]

    def piece(self, chunk: Value) -> tuple[Value, Value, Value]:
        """Return the row of a chunk and the bounds of its part or piece."""
        f, numbers = self.f, self.numbers
        row, number = f.idiv(chunk, numbers.parts), f.irem(chunk, numbers.parts)
        low = f.imul(number, numbers.part)
        high = f.imin(f.iadd(low, numbers.part), numbers.length)
        return f.as_value(row), f.as_value(low), f.as_value(high)

    def start_of(self, row: Value) -> IndexValue:
        """Return where a row begins in operands and results."""
        f, inner = self.f, self.numbers.inner
        outer = f.imul(f.idiv(row, inner), f.imul(self.numbers.length, inner))
        return f.iadd(outer, f.irem(row, inner))

    def each_element(
        self,
        row: Value,
        low: IndexValue,
        high: IndexValue,
        body: Callable[[IndexValue, Value], None],
    ) -> None:
        """Emit `body(where, index)` for elements low..high of a row; `where`: in the buffers."""
        f, start = self.f, self.start_of(row)

        def one(index: Value) -> None:
            body(f.iadd(start, f.imul(index, self.numbers.inner)), index)

        f.for_range(high, one, start=low)


class RowSorter(Rows, ABC):
    """Emits the sorting of rows into one function, by way of two areas of scratch for each word."""

    @abstractmethod
    def comes_before(self, left: list[Value], right: list[Value]) -> Value:
        """Emit the comparison."""

    @abstractmethod
    def read(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Copy the elements low..high of a row to the same indices of scratch."""

    @abstractmethod
    def write(self, row: Value, low: IndexValue, high: IndexValue, areas: list[Value]) -> None:
        """Copy the elements low..high of scratch to the same indices of a row."""

    def sorter(self, length: IndexValue, span: IndexValue | None = None) -> MergeSorter:
        """Return what sorts a sequence."""
        return MergeSorter(self.f, self.types, length, self.comes_before, span)

    # ---- rows

    def whole_rows(self, chunk: Value, scratch: Value) -> None:
        """Emit the sorting of the rows of a chunk."""
        f, numbers = self.f, self.numbers
        here, there = self.areas_of(scratch, chunk)

        def row(number: Value) -> None:
            self.read(number, 0, numbers.length, here)
            sorted_ = self.sorter(numbers.length).sort(here, there)
            self.write(number, 0, numbers.length, sorted_)

        for_units(f, chunk, numbers.grain, numbers.rows, row)

    def part_of_row(self, chunk: Value, scratch: Value) -> None:
        """Emit the sorting of one part."""
        f, numbers = self.f, self.numbers
        row, low, high = self.piece(chunk)
        areas = self.areas_of(scratch, row)
        self.read(row, low, high, areas[0])
        here, there = (self._from(area, low) for area in areas)
        # The last part may be empty, and begin behind the end.
        count = f.imax(f.isub(high, low), 0)
        self.sorter(count, numbers.part).sort(here, there)

    def piece_of_merge(self, chunk: Value, scratch: Value, level: Value) -> None:
        """Emit one piece of the merging of runs of 2^level parts."""
        f, numbers = self.f, self.numbers
        row, low, high = self.piece(chunk)
        length = numbers.length
        sorter = self.sorter(length)
        turns = f.add(sorter.merged_times(numbers.part), level)
        is_odd = f.trunc(turns, lt.I1)
        here, there = self.areas_of(scratch, row)
        source = [f.select(is_odd, b, a) for a, b in zip(here, there, strict=True)]
        target = [f.select(is_odd, a, b) for a, b in zip(here, there, strict=True)]
        width = f.shl(f.as_value(numbers.part), level)
        double = f.as_value(f.imul(width, 2))
        start = f.as_value(f.imul(f.idiv(low, double), double))
        middle = f.as_value(f.imin(f.iadd(start, width), length))
        end = f.as_value(f.imin(f.iadd(middle, width), length))

        def next_piece(_: Value, values: list[Value]) -> list[Value]:
            _, _, index, taken = values
            further = f.imin(f.iadd(index, numbers.part), f.isub(end, start))
            further = f.as_value(further)
            found = sorter.split(source, (start, middle, end), (index, taken), further)
            return [index, taken, further, found]

        number = f.idiv(f.isub(low, start), numbers.part)
        nothing = f.const(lt.I64, 0)
        begin = [nothing] * 4
        first, left, last, left_end = f.loop(
            0, f.iadd(number, 1), 1, begin, next_piece, at_least_once=True
        )
        bounds = [
            f.iadd(start, left),
            f.iadd(middle, f.isub(first, left)),
            f.iadd(start, left_end),
            f.iadd(middle, f.isub(last, left_end)),
        ]
        sorter.merge(source, target, [f.as_value(bound) for bound in bounds], low)
        is_last = f.icmp("sge", double, f.as_value(f.imul(numbers.part, numbers.parts)))
        f.if_(is_last, lambda: self.write(row, low, high, target))

    def _from(self, areas: list[Value], index: Value) -> list[Value]:
        pairs = zip(areas, self.types, strict=True)
        return [self.f.gep(area, index, type_) for area, type_ in pairs]


Start = Callable[[FunctionBuilder], RowSorter]
"""Makes what emits into a function whose first parameter is env."""


def phases_of(symbol: str, schedule: SortSchedule) -> tuple[Phase, ...]:
    """Return the phases of a sort, without those that are known to do nothing."""
    phases = [Phase(symbol, schedule.whole_chunks), Phase(f"{symbol}_part", schedule.part_chunks)]
    phases += [Phase(_merge_name(symbol, n), schedule.merge_chunks(n)) for n in range(LEVELS)]
    return tuple(phase for phase in phases if phase.chunks != 0) or (phases[0],)


def emit_whole_rows(module: ModuleBuilder, symbol: str, start: Start, buffers: int) -> None:
    """Emit the function that sorts whole rows."""
    f = emit_phase(module, symbol)
    start(f).whole_rows(f.params[1], scratch_of(f, buffers))
    f.ret()


def emit_parts_of_rows(module: ModuleBuilder, symbol: str, start: Start, buffers: int) -> None:
    """Emit the functions that sort parts of rows and merge them."""
    f = emit_phase(module, f"{symbol}_part")
    start(f).part_of_row(f.params[1], scratch_of(f, buffers))
    f.ret()
    merge = _emit_merge(module, f"{symbol}_merge", start, buffers)
    for level in range(LEVELS):
        f = emit_phase(module, _merge_name(symbol, level))
        f.call(merge, [*f.params, f.const(lt.I64, level)])
        f.ret()


def _emit_merge(module: ModuleBuilder, symbol: str, start: Start, buffers: int) -> FunctionRef:
    f = emit_phase(module, symbol, ("level",), "internal", "noinline ")
    _, chunk, level = f.params
    start(f).piece_of_merge(chunk, scratch_of(f, buffers), level)
    f.ret()
    return f.reference


def _merge_name(symbol: str, level: int) -> str:
    return f"{symbol}_merge{level}"


def emit_phase(
    module: ModuleBuilder,
    symbol: str,
    more: tuple[str, ...] = (),
    linkage: str = "",
    attributes: str = "",
) -> FunctionBuilder:
    """Start a function that runs a chunk, with `more` numbers behind it."""
    params = [("env", lt.PTR), *((name, lt.I64) for name in ("chunk", *more))]
    attributes += f"nounwind {ALIGNED_STACK}"
    return module.function(symbol, lt.VOID, params, linkage=linkage, attrs=attributes)
