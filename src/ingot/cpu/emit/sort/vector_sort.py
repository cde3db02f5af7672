# SPDX-License-Identifier: Apache-2.0
"""Sorting of integers in vector registers: networks for short runs, then merges of whole registers.

A block of `ROWS` registers is sorted by columns, transposed, and its runs are merged in registers
by bitonic networks. Runs in memory are merged by vectors: what is carried is merged with the next
vector of the run whose next element is less; the lower half of both is what comes next. Nothing
branches on the elements, so the time does not depend on the data.

Equal integers are the same thing, so stability has no meaning here: a record that holds its
position is distinct, and a key that stands for itself is all there is.

Invariant: a sequence is padded with the greatest integer to a multiple of a block; behind its area
there is room for another block, which may be read.
Source: the merge of vectors is that of H. Inoue, AA-Sort (2007); networks are K. Batcher's (1968).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.cpu.emit.sort.merge_sort import MergeSorter
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.squares import transpose
from ingot.llvm import types as lt
from ingot.llvm.types import vector
from ingot.llvm.values import Value

ROWS = 8
"""Registers of a block."""

Range = tuple[Value, Value]
"""A stretch of elements: the first, and what comes behind the last."""


@dataclass(frozen=True, slots=True)
class VectorSorter(MergeSorter):
    """Emits the sorting of one sequence of integers.

    Attributes:
        lanes: integers of a register.
    """

    lanes: int = 0

    @property
    def run(self) -> int:
        """Integers of a block."""
        return ROWS * self.lanes

    @property
    def wide(self) -> lt.Type:
        """What is merged at once: two registers, so that less is waited for."""
        return vector(self.types[0], 2 * self.lanes)

    # ---- blocks

    def _sort_runs(self, areas: list[Value]) -> None:
        f, type_ = self.f, self.types[0]
        row = vector(type_, self.lanes)

        def block(start: Value, _: list[Value]) -> None:
            base = f.gep(areas[0], start, type_)
            rows = [f.load(row, f.gep(base, number * row.bytes)) for number in range(ROWS)]
            for low, high in batcher(ROWS):
                rows[low], rows[high] = self._ordered(rows[low], rows[high])
            held = f.concat_lanes(self._columns(rows))
            length = ROWS
            while length < self.run:
                held = self._merge_pairs_of(held, length)
                length *= 2
            f.store(held, base, type_.alignment)

        f.loop(0, self.length, self.run, [], block)

    def _columns(self, rows: list[Value]) -> list[Value]:
        """Return the columns of a block, one after the other, in as many registers."""
        f, side = self.f, min(self.lanes, ROWS)
        squares = [transpose(f, rows[first : first + side]) for first in range(0, ROWS, side)]
        if side == self.lanes:
            return [square[column] for column in range(side) for square in squares]
        # Registers of more lanes are several squares side by side.
        joined = f.concat_lanes(squares[0])
        parts = self.lanes // side
        order = [
            column * self.lanes + part * side + row
            for part in range(parts)
            for column in range(side)
            for row in range(side)
        ]
        return [f.shuffle(joined, joined, order)]

    def _ordered(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return the lesser and the greater of each lane."""
        f = self.f
        return (
            f.intrinsic("llvm.smin", a.type, [a, b]),
            f.intrinsic("llvm.smax", a.type, [a, b]),
        )

    def _merge_pairs_of(self, held: Value, length: int) -> Value:
        """Merge each pair of sorted runs of `length` lanes."""
        lanes, double = range(held.type.lanes), 2 * length
        # The second run of a pair is read backwards: both together rise and fall.
        mirrored = [lane // double * double + double - 1 - lane % double for lane in lanes]
        held = self._exchange(held, mirrored)
        return self._merge_bitonic(held, length // 2)

    def _merge_bitonic(self, held: Value, distance: int) -> Value:
        """Sort stretches of twice `distance` lanes, each of which rises and falls."""
        while distance:
            held = self._exchange(held, [lane ^ distance for lane in range(held.type.lanes)])
            distance //= 2
        return held

    def _exchange(self, held: Value, partners: list[int]) -> Value:
        """Leave the lesser of each lane and its partner in the first of both."""
        f, lanes = self.f, held.type.lanes
        least, most = self._ordered(held, f.shuffle(held, held, partners))
        chosen = [lane if lane < other else lanes + lane for lane, other in enumerate(partners)]
        return f.shuffle(least, most, chosen)

    # ---- merging

    def _merge_level(self, source: list[Value], target: list[Value], width: Value) -> None:
        f = self.f
        step = self.wide.lanes

        def pair(low: Value, _: list[Value]) -> None:
            middle = f.as_value(f.imin(f.iadd(low, width), self.length))
            high = f.as_value(f.imin(f.iadd(middle, width), self.length))
            runs = (f.as_value(low), middle), (middle, high)
            merge = _Merge(self, source[0], target[0], runs)
            last = f.isub(high, step)
            *_, held = f.loop(low, last, step, merge.begin(), merge.step)
            self.store(held, target[0], last)

        f.loop(0, self.length, f.as_value(f.imul(width, 2)), [], pair)

    def merge(
        self, source: list[Value], target: list[Value], bounds: list[Value], low: Value
    ) -> None:
        """Merge two runs of any length into `target`; together they fill whole vectors."""
        f = self.f
        i, j, p, q = bounds
        high = f.iadd(low, f.iadd(f.isub(p, i), f.isub(q, j)))
        runs, step = ((i, p), (j, q)), self.wide.lanes
        whole = _Merge(self, source[0], target[0], runs)
        rest = _Merge(self, source[0], target[0], runs, whole=False)

        def some(values: list[Value]) -> list[Value]:
            place, *others = values
            return [f.as_value(f.iadd(place, step)), *whole.step(place, others)]

        place, *others = f.while_([low, *rest.begin()], whole.has_both, some)
        f.loop(place, high, step, others, rest.step)

    def merged(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return two sorted vectors merged: the lower and the upper half."""
        f, lanes = self.f, a.type.lanes
        least, most = self._ordered(a, f.shuffle(b, b, list(reversed(range(lanes)))))
        return self._merge_bitonic(least, lanes // 2), self._merge_bitonic(most, lanes // 2)

    def store(self, value: Value, area: Value, position: IndexValue) -> None:
        """Emit the store of a vector, aligned as integers are."""
        type_ = self.types[0]
        self.f.store(value, self.f.gep(area, position, type_), type_.alignment)


@dataclass(frozen=True, slots=True)
class _Merge:
    """Takes vectors from two runs, in the order in which they are needed, and merges them.

    Its state is where both runs go on, and the vector that is carried.

    Attributes:
        sorter: who emits.
        source, target: where the runs lie, and where they go to.
        runs: both of them.
        whole: whether they fill whole vectors; else what is missing is the greatest integer.
    """

    sorter: VectorSorter
    source: Value
    target: Value
    runs: tuple[Range, Range]
    whole: bool = True

    def begin(self) -> list[Value]:
        """Return the state at first."""
        places, held = self._following([first for first, _ in self.runs])
        return [*places, held]

    def has_both(self, values: list[Value]) -> Value:
        """Return whether both runs have another vector; the state stands behind a place."""
        f, lanes = self.sorter.f, self.sorter.wide.lanes
        _, *places, _ = values
        ends = [f.sub(end, f.const(lt.I64, lanes)) for _, end in self.runs]
        found = [f.icmp("sle", *pair) for pair in zip(places, ends, strict=True)]
        return f.and_(*found)

    def step(self, place: Value, state: list[Value]) -> list[Value]:
        """Write the next vector to `place`; return the state behind it."""
        *places, held = state
        places, following = self._following(places)
        least, held = self.sorter.merged(held, following)
        self.sorter.store(least, self.target, place)
        return [*places, held]

    def _following(self, places: list[Value]) -> tuple[list[Value], Value]:
        """Return where both runs go on, and the next vector."""
        f, sorter = self.sorter.f, self.sorter
        type_, wide = sorter.types[0], sorter.wide
        (i, j), (end_i, end_j) = places, (end for _, end in self.runs)
        left, right = (f.load(type_, f.gep(self.source, place, type_)) for place in places)
        is_last = f.or_(f.icmp("sge", j, end_j), f.icmp("sle", left, right))
        from_left = f.and_(f.icmp("slt", i, end_i), is_last)
        place = f.select(from_left, i, j)
        found = f.load(wide, f.gep(self.source, place, type_), type_.alignment)
        further = [f.add(at, f.const(lt.I64, wide.lanes)) for at in places]
        if not self.whole:
            count = f.sub(f.select(from_left, end_i, end_j), place)
            found = self._only_first(found, count)
            further = [
                f.as_value(f.imin(*pair)) for pair in zip(further, (end_i, end_j), strict=True)
            ]
        return [f.select(from_left, further[0], i), f.select(from_left, j, further[1])], found

    def _only_first(self, found: Value, count: Value) -> Value:
        """Return a vector whose lanes from `count` on are the greatest integer."""
        f, wide = self.sorter.f, found.type
        numbers = f.const(wide, list(range(wide.lanes)))
        most = (1 << (wide.element.bits - 1)) - 1
        few = f.as_value(f.imin(count, wide.lanes))
        narrow = few if wide.element is lt.I64 else f.trunc(few, wide.element)
        is_inside = f.icmp("slt", numbers, f.splat(narrow, wide.lanes))
        return f.select(is_inside, found, f.const(wide, [most] * wide.lanes))


def batcher(count: int) -> list[tuple[int, int]]:
    """Return the comparators of Batcher's odd-even merge sort of a power of two of elements."""
    found: list[tuple[int, int]] = []
    length = 1
    while length < count:
        distance = length
        while distance:
            for first in range(distance % length, count - distance, 2 * distance):
                for low in range(first, min(first + distance, count - distance)):
                    if low // (2 * length) == (low + distance) // (2 * length):
                        found.append((low, low + distance))
            distance //= 2
        length *= 2
    return found
