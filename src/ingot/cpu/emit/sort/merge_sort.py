# SPDX-License-Identifier: Apache-2.0
"""Stable merge sort of sequences in scratch: shared by sort kernels and selection.

Runs of `RUN` elements are sorted by insertion and merged pairwise, back and forth between two
areas. The merge has no branch on the comparison, so its time does not depend on the data.

Invariant: an element moves before another only if the comparison says so, so equal ones keep their
order. A comparison that is not an order (of floats with NaN) still gives a permutation.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.emit.values.indices import IndexValue
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.support.records import record

RUN = 8
"""Elements of the runs that are merged."""

Comes = Callable[[list[Value], list[Value]], Value]
"""Emits whether the left element must come before the right one; an element is a list of parts."""


@record
class MergeSorter:
    """Emits the sorting of one sequence, whose elements lie in one area of scratch per part.

    Attributes:
        f: the function.
        types: memory types of an element's parts.
        length: elements of a sequence.
        comes_before: the comparison.
        span: a length, no less than this one's, that says how often runs are merged; sequences of
            one span end in the same areas.
    """

    f: FunctionBuilder
    types: list[lt.Type]
    length: IndexValue
    comes_before: Comes
    span: IndexValue | None = None

    def sort(self, here: list[Value], there: list[Value]) -> list[Value]:
        """Sort the records in `here`; return the areas that they are in then: these or `there`."""
        self._sort_runs(here)
        return self._merge_runs(here, there)

    def _load(self, areas: list[Value], position: IndexValue) -> list[Value]:
        """Return the elements of all operands at a position, as they lie in memory."""
        f = self.f
        pairs = zip(areas, self.types, strict=True)
        return [f.load(type_, f.gep(area, position, type_)) for area, type_ in pairs]

    def _store(self, values: list[Value], areas: list[Value], position: IndexValue) -> None:
        f = self.f
        for value, area, type_ in zip(values, areas, self.types, strict=True):
            f.store(value, f.gep(area, position, type_))

    # ---- short runs

    def _sort_runs(self, areas: list[Value]) -> None:
        f = self.f

        def run(start: Value) -> None:
            end = f.imin(f.iadd(start, RUN), self.length)

            def insert(number: Value) -> None:
                held = self._load(areas, number)

                def before(values: list[Value]) -> list[Value]:
                    return self._load(areas, f.imax(f.isub(values[0], 1), start))

                def moves(values: list[Value]) -> Value:
                    is_inside = f.icmp("sgt", values[0], start)
                    return f.and_(is_inside, self.comes_before(held, before(values)))

                def move(values: list[Value]) -> list[Value]:
                    self._store(before(values), areas, values[0])
                    return [f.as_value(f.isub(values[0], 1))]

                (index,) = f.while_([number], moves, move)
                self._store(held, areas, index)

            f.for_range(end, insert, start=f.iadd(start, 1))

        f.for_range(self.length, run, step=RUN)

    # ---- merging

    def _merge_runs(self, here: list[Value], there: list[Value]) -> list[Value]:
        """Merge runs until there is one; return the areas that it lies in."""
        f, count = self.f, len(here)
        if isinstance(self.length, int) and self.length <= RUN:
            return here

        def goes_on(values: list[Value]) -> Value:
            span = self.length if self.span is None else self.span
            return f.icmp("slt", values[0], f.as_value(span))

        def level(values: list[Value]) -> list[Value]:
            width, source, target = values[0], values[1 : count + 1], values[count + 1 :]
            self._merge_level(source, target, width)
            return [f.as_value(f.imul(width, 2)), *target, *source]

        start = [f.const(lt.I64, RUN), *here, *there]
        return f.while_(start, goes_on, level)[1 : count + 1]

    def merged_times(self, span: IndexValue) -> Value:
        """Return how often the runs of sequences of a span, of more than one run, are merged."""
        f = self.f
        runs = f.idiv(f.isub(span, 1), RUN)
        no_zero = f.const(lt.I1, True)
        zeros = f.intrinsic("llvm.ctlz", lt.I64, [f.as_value(runs), no_zero])
        return f.as_value(f.isub(64, zeros))

    def _merge_level(self, source: list[Value], target: list[Value], width: Value) -> None:
        """Merge each pair of runs of `width` elements."""
        f = self.f
        double = f.as_value(f.imul(width, 2))
        merge = self._merge
        f.for_range(self.length, lambda low: merge(source, target, low, width), step=double)

    def _merge(self, source: list[Value], target: list[Value], low: Value, width: Value) -> None:
        """Merge the runs [low, middle) and [middle, high) of `source` into `target`."""
        f = self.f
        middle = f.as_value(f.imin(f.iadd(low, width), self.length))
        high = f.as_value(f.imin(f.iadd(middle, width), self.length))
        self.merge(source, target, [low, middle, middle, high], low)

    def merge(
        self, source: list[Value], target: list[Value], bounds: list[Value], low: Value
    ) -> None:
        """Merge two runs into `target`, from position `low` on.

        `bounds`: the first element of both runs, then what comes behind the last of both. Both
        runs are parts of one stretch of `source`, of whose elements there is at least one.
        """
        f = self.f
        first_left, first_right, end_left, end_right = bounds
        # An empty run at the start of a stretch has no element before its end.
        last_left = f.imax(f.isub(end_left, 1), 0)
        last_right = f.imax(f.isub(end_right, 1), 0)
        count = f.iadd(f.isub(end_left, first_left), f.isub(end_right, first_right))

        def step(position: Value, values: list[Value]) -> list[Value]:
            i, j = values
            # A run that is used up gives its last element, which is not taken.
            left = self._load(source, f.imin(i, last_left))
            right = self._load(source, f.imin(j, last_right))
            is_over = f.icmp("sge", i, end_left)
            wins = f.or_(is_over, self.comes_before(right, left))
            takes_right = f.and_(f.icmp("slt", j, end_right), wins)
            taken = [f.select(takes_right, b, a) for a, b in zip(left, right, strict=True)]
            self._store(taken, target, position)
            moved = f.zext(takes_right, lt.I64)
            return [f.as_value(f.iadd(i, f.isub(1, moved))), f.as_value(f.iadd(j, moved))]

        f.loop(low, f.iadd(low, count), 1, [first_left, first_right], step)

    # ---- parts of a merge

    def split(
        self,
        source: list[Value],
        runs: tuple[Value, Value, Value],
        before: tuple[Value, Value],
        end: Value,
    ) -> Value:
        """Return how many of the first `end` elements of two merged runs are of the left one.

        With a comparison that is no order, numbers are still no less than those for an end before
        this one, and take no more elements than there are between.

        Args:
            source: where the runs lie.
            runs: first element of the left run, of the right run, and what comes behind that.
            before: an end before this one and what was found for it.
            end: elements of both runs together.
        """
        f = self.f
        low, middle, high = runs
        least = f.imax(before[1], f.isub(end, f.isub(high, middle)))
        most = f.imin(f.iadd(before[1], f.isub(end, before[0])), f.isub(middle, low))

        def halve(values: list[Value]) -> list[Value]:
            least, most = values
            guess = f.as_value(f.idiv(f.iadd(least, most), 2))
            left = self._load(source, f.iadd(low, guess))
            right = self._load(source, f.iadd(middle, f.isub(f.isub(end, guess), 1)))
            is_behind = self.comes_before(right, left)
            more = f.as_value(f.iadd(guess, 1))
            return [f.select(is_behind, least, more), f.select(is_behind, guess, most)]

        start = [f.as_value(least), f.as_value(most)]
        return f.while_(start, lambda values: f.icmp("slt", *values), halve)[0]
