# SPDX-License-Identifier: Apache-2.0
"""Sorts of short rows as loops: a sorting network on many rows at once, one row in each lane.

A row of a few elements does not fill vectors, and a call for each row costs more than the sort. In
the network, every comparator is a few ops on lanes of rows. Comparators of neighbours keep equal
elements in their order; where equal keys mean equal elements, Batcher's network needs fewer.

Invariant: the result is the stable order of the comparator.
Source: K. Batcher, Sorting networks and their applications (1968).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, walk
from ingot.kernel.ir import Axis, LoopKernel, Pass, SortKernel, Store
from ingot.kernel.rewrite import substitute
from ingot.kernel.sort.keys import from_total_order, shared_keys
from ingot.kernel.sort.sort import KeyedVariant, keyed_variant

LONGEST, LONGEST_DENSE = 32, 25
"""The longest rows: strided ones (columns), and dense ones, which lanes gather. Columns of 9 took
0.02 to 0.08 of the time, of 16 0.1 to 0.3, of 32 0.3 to 0.55; rows of 9 0.25 to 0.4, of 25 0.6 to
0.7, of 32 1.3 to 1.9 (16,384 of each, u8, s32 and f32, AVX-512, one thread, 2026-11-27)."""

MOST_NODES = 800
"""Expressions of a network at most, which compile in 0.2 s: 16 floats in JAX's order, or 14
with their positions."""

Element = tuple[Expr, ...]
"""One element of a row: the key, where there is one, and the values of the operands."""


def sort_network(kernel: SortKernel) -> LoopKernel | str:
    """Return the loops that sort the rows of a kernel, or why a network would not."""
    length = kernel.length
    longest = LONGEST_DENSE if kernel.inner == 1 else LONGEST
    if not isinstance(length, int) or not 1 < length <= longest:
        return f"its rows do not have 2 to {longest} elements"
    rows = (Axis("@0", kernel.outer), Axis("@1", kernel.inner))
    grid = tuple(axis for axis in rows if axis.extent != 1) or rows[:1]
    indices = [_index(kernel, grid, position) for position in range(length)]
    elements = [
        tuple(ex.load(number, index, kernel.buffers[number].dtype) for number in kernel.operands)
        for index in indices
    ]
    results = _sorted(kernel, elements)
    if len(walk(tuple(value for element in results for value in element))) > MOST_NODES:
        return f"the network would have more than {MOST_NODES} expressions"
    first = len(kernel.buffers) - len(kernel.operands)
    stores = tuple(
        Store(first + number, index, value)
        for index, element in zip(indices, results, strict=True)
        for number, value in enumerate(element)
    )
    return LoopKernel(grid, (Pass((), (), stores),), kernel.buffers)


def _index(kernel: SortKernel, grid: tuple[Axis, ...], position: int) -> int | Dim:
    """Return where the element at a position of a row lies."""
    outer, inner = (
        Dim.symbol(name) if any(axis.name == name for axis in grid) else 0 for name in ("@0", "@1")
    )
    return (outer * kernel.length + position) * kernel.inner + inner


def _sorted(kernel: SortKernel, elements: list[Element]) -> list[Element]:
    """Return the elements of a row in order."""
    variant, length = keyed_variant(kernel), len(elements)
    if isinstance(variant, str):
        return _exchanged(elements, neighbours(length), _by_comparator(kernel.comparator))
    given, ascending = ex.argument(0, kernel.elements[0]), not variant.descending
    keys = [substitute(variant.key, {given: element[0]}) for element in elements]
    if len(kernel.elements) > 1 or shared_keys(variant.key, given.dtype) != ():
        keyed = [(key, *element) for key, element in zip(keys, elements, strict=True)]
        found = _exchanged(keyed, neighbours(length), _by_keys(ascending=ascending))
        return [element[1:] for element in found]
    comparators = [pair for pair in batcher(1 << (length - 1).bit_length()) if pair[1] < length]
    found = _exchanged([(key,) for key in keys], comparators, _by_keys(ascending=ascending))
    return [(_element(variant, key),) for (key,) in found]


def _element(variant: KeyedVariant, key: Expr) -> Expr:
    """Return the element that a key stands for: itself, or one whose bits are in total order."""
    return key if variant.key.op == "argument" else from_total_order(key, variant.elements[0])


Order = Callable[[Element, Element], tuple[Element, Element]]
"""Returns two elements in order; equal ones stay where they are."""


def _by_keys(*, ascending: bool) -> Order:
    """Return the order of keys, which stand first in each element."""

    def ordered(low: Element, high: Element) -> tuple[Element, Element]:
        keys = (low[0], high[0])
        least, most = (ex.compute(op, *keys) for op in ("minimum", "maximum"))
        first, last = (least, most) if ascending else (most, least)
        swaps = ex.compare("LT" if ascending else "GT", *keys[::-1])
        rest = _selected(swaps, low[1:], high[1:])
        return (first, *rest[0]), (last, *rest[1])

    return ordered


def _by_comparator(before: Expr) -> Order:
    """Return the order by an expression over left and right of each operand."""

    def ordered(low: Element, high: Element) -> tuple[Element, Element]:
        given = {
            ex.argument(2 * number + side, value.dtype): value
            for number, pair in enumerate(zip(high, low, strict=True))
            for side, value in enumerate(pair)
        }
        return _selected(substitute(before, given), low, high)

    return ordered


def _selected(swaps: Expr, low: Element, high: Element) -> tuple[Element, Element]:
    """Return elements, exchanged where `swaps` holds."""
    least, most = (
        tuple(ex.select(swaps, *pair) for pair in zip(first, second, strict=True))
        for first, second in ((high, low), (low, high))
    )
    return least, most


def _exchanged(
    elements: Sequence[Element], comparators: Sequence[tuple[int, int]], order: Order
) -> list[Element]:
    """Return the elements behind a network."""
    found = list(elements)
    for low, high in comparators:
        found[low], found[high] = order(found[low], found[high])
    return found


def neighbours(count: int) -> list[tuple[int, int]]:
    """Return the comparators of a network that exchanges neighbours only: it is stable."""
    return [(low, low + 1) for step in range(count) for low in range(step % 2, count - 1, 2)]


def batcher(count: int) -> list[tuple[int, int]]:
    """Return the comparators of Batcher's odd-even merge sort of a power of two of elements."""
    found: list[tuple[int, int]] = []
    length = 1
    while length < count:
        distance = length
        while distance:
            starts = range(distance % length, count - distance, 2 * distance)
            found += [
                (low, low + distance)
                for first in starts
                for low in range(first, min(first + distance, count - distance))
                if low // (2 * length) == (low + distance) // (2 * length)
            ]
            distance //= 2
        length *= 2
    return found
