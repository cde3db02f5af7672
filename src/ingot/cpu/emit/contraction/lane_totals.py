# SPDX-License-Identifier: Apache-2.0
"""The lanes of several vectors of sums, added up together and stored side by side.

One vector of 16 lanes takes eight instructions, and its total is in a register of its own. Four
together take thirteen: each shuffle moves lanes of two of them.

Invariant: each total adds its lanes in one order, whatever it is grouped with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value

LANE_BITS = 128
"""Most bits that shuffles move in one step."""

GROUPED_BITS = (32, 64)
"""Sizes of sums that are added together."""


def store_totals(
    f: FunctionBuilder,
    rows: Sequence[Sequence[Value]],
    address: Callable[[int, int], Value],
) -> None:
    """Store the total of the lanes of each vector of `rows`; `address`: where, by row and column.

    Columns of a row lie beside each other.
    """
    items = [(row, column) for row, line in enumerate(rows) for column in range(len(line))]
    element = rows[0][0].type.element
    group = _group(rows[0][0])
    for first in range(0, len(items), group):
        part = items[first : first + group]
        vectors = [rows[row][column] for row, column in part]
        totals = _totals(f, vectors, group)
        start = 0
        while start < len(part):
            row, column = part[start]
            end = start + 1
            while end < len(part) and part[end][0] == row:
                end += 1
            stored = f.shuffle(totals, totals, range(start, end)) if group > 1 else totals
            f.store(stored, address(row, column), element.alignment)
            start = end


def _group(vector: Value) -> int:
    """Return how many vectors are added together."""
    bits = vector.type.element.bits
    most = LANE_BITS // bits if bits in GROUPED_BITS else 1
    return most if vector.type.lanes >= most else 1


def _totals(f: FunctionBuilder, vectors: list[Value], group: int) -> Value:
    """Return the totals of up to `group` vectors beside each other."""
    if group == 1:
        return f.reduce("add", vectors[0])
    found, width = [*vectors, *[vectors[-1]] * (group - len(vectors))], 1
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [_interleaved(f, x, y, width, group) for x, y in pairs]
        width *= 2
    (total,) = found
    while total.type.lanes > group:
        half = total.type.lanes // 2
        low, high = range(half), range(half, 2 * half)
        total = f.add(f.shuffle(total, total, low), f.shuffle(total, total, high))
    return total


def _interleaved(f: FunctionBuilder, x: Value, y: Value, width: int, group: int) -> Value:
    """Return sums of the halves of runs of `group` lanes, of x and y in turn, `width` at a time."""
    lanes = x.type.lanes
    masks: list[list[int]] = []
    for half in (0, group // 2):
        mask: list[int] = []
        for run in range(0, lanes, group):
            for block in range(run + half, run + half + group // 2, width):
                mask += [*range(block, block + width), *range(lanes + block, lanes + block + width)]
        masks.append(mask)
    return f.add(f.shuffle(x, y, masks[0]), f.shuffle(x, y, masks[1]))
