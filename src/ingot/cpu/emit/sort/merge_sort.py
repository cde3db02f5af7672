# SPDX-License-Identifier: Apache-2.0
"""Stable merge sort of elements in scratch, as native functions: of sorts, and of selections.

`sort` goes to and fro between two areas. First, each run of `RUN` elements is sorted by insertion
into the other area (`sort_runs`); then runs are merged pairwise until there is one (`merge`). Two
long runs are merged in pieces by several threads: `go_on` finds where a piece begins in each.

Invariant: an element moves before another only if the comparison says so, so equal ones keep their
order. A comparison that is not an order (of floats with NaN) still gives a permutation.
Source: O. Green, R. McColl, D. Bader, GPU merge path (2012).
"""

from __future__ import annotations

from ingot.cpu.emit.sort.compared_elements import (
    Compared,
    copy,
    copy_either,
    element,
    is_before,
)
from ingot.native.functions import native
from ingot.native.operations import bit_length
from ingot.native.pointers import Pointer, Struct
from ingot.native.types import i64

RUN = 8
"""Elements of the runs that are merged."""


class Runs(Struct):
    """Two runs of one area: the first index of each, and the index behind its last element."""

    left: i64
    left_end: i64
    right: i64
    right_end: i64


@native
def sort(of: Compared, area: Pointer, other: Pointer, count: i64, span: i64) -> Pointer:
    """Sort the first `count` elements of an area; return the area where they are in order.

    Args:
        of: the elements and their order.
        area: where the elements are.
        other: room for as many.
        count: how many elements.
        span: `count` or more: how long the last run would be. All counts of one span end in the
            same area.
    """
    runs = Runs.on_stack()
    sort_runs(of, other, area, count)
    source = other
    target = area
    width: i64 = RUN
    while width < span:
        for low in range(0, count, 2 * width):
            runs.left = low
            runs.left_end = min(low + width, count)
            runs.right = runs.left_end
            runs.right_end = min(low + 2 * width, count)
            merge(of, target, low, source, runs)
        merged = target
        target = source
        source = merged
        width = 2 * width
    return source


@native
def sort_runs(of: Compared, target: Pointer, source: Pointer, count: i64) -> None:
    """Insert the elements of each run into the same indices of `target`."""
    for start in range(0, count, RUN):
        for number in range(start, min(start + RUN, count)):
            inserted = element(of, source, number)
            index = number
            while index > start and is_before(of, inserted, element(of, target, index - 1)):
                copy(of, element(of, target, index), element(of, target, index - 1))
                index -= 1
            copy(of, element(of, target, index), inserted)


@native
def merge(of: Compared, target: Pointer, index: i64, source: Pointer, runs: Runs) -> None:
    """Merge two runs; nothing branches on a comparison, so the time does not depend on elements.

    Args:
        of: the elements and their order.
        target: the area to merge to.
        index: where its first element goes.
        source: the area of the runs.
        runs: the runs; either may be empty.
    """
    left = runs.left
    right = runs.right
    left_end = runs.left_end
    right_end = runs.right_end
    to = index
    while left < left_end and right < right_end:
        first = element(of, source, left)
        second = element(of, source, right)
        takes_right = is_before(of, second, first)
        copy_either(of, element(of, target, to), first, second, takes_right)
        right += i64(takes_right)
        left += 1 - i64(takes_right)
        to += 1
    while left < left_end:
        copy(of, element(of, target, to), element(of, source, left))
        left += 1
        to += 1
    while right < right_end:
        copy(of, element(of, target, to), element(of, source, right))
        right += 1
        to += 1


@native
def times_merged(span: i64) -> i64:
    """Return how often `sort` merges the runs of a span, which is longer than a run."""
    return bit_length((span - 1) // RUN)


class Split(Struct):
    """The first `count` elements of two runs merged: `from_left` of them are of the left run."""

    count: i64
    from_left: i64


@native
def go_on(of: Compared, source: Pointer, runs: Runs, split: Split, count: i64) -> None:
    """Change a split of two runs to one of `count` elements: more than it had, or as many.

    With a comparison that is not an order, there are still no fewer elements of each run.
    """
    least = max(split.from_left, count - (runs.right_end - runs.right))
    most = min(split.from_left + count - split.count, runs.left_end - runs.left)
    while least < most:
        guess = (least + most) // 2
        left = element(of, source, runs.left + guess)
        if is_before(of, element(of, source, runs.right + count - guess - 1), left):
            most = guess
        else:
            least = guess + 1
    split.count = count
    split.from_left = least
