# SPDX-License-Identifier: Apache-2.0
"""What is known where axes stay within ranges: ends of indices, comparisons, simpler expressions.

`RangeSimplifier` rewrites whatever holds expressions: a mask that holds everywhere falls away, a
choice that is known is one of its sides.

Invariant: where its axes stay within the ranges, a narrowed pass stores what the whole pass stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

import numpy as np

from ingot.hlo.dim import Dim, never_negative, symbols_of
from ingot.hlo.opset.elementwise import INVERSE, CompareAttributes
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, varies
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, Pass, Store
from ingot.kernel.rewrite import Rewriter
from ingot.support.records import replace

Range = tuple[int | Dim, int | Dim]
"""The first and the last position along an axis."""


def ranges_of(axes: Iterable[Axis]) -> dict[str, tuple[int, int]]:
    """Return the ranges of those axes whose extents are known."""
    return {axis.name: (0, axis.extent - 1) for axis in axes if isinstance(axis.extent, int)}


def index_difference(node: Expr) -> int | Dim | None:
    """Return left - right of a comparison of two indices without run-time values."""
    left, right = node.args
    if left.op != "index" or right.op != "index" or left.args or right.args:
        return None
    return left.payload - right.payload


def narrowed(item: Pass, ranges: Mapping[str, Range]) -> Pass:
    """Return a pass as it is where each named axis stays within its range."""
    return _narrowed(item, tuple(sorted(ranges.items())))


@lru_cache(maxsize=256)
def _narrowed(item: Pass, ranges: tuple[tuple[str, Range], ...]) -> Pass:
    """Do it once: who asks whether pieces are copies asks before they are emitted."""
    return RangeSimplifier(dict(ranges)).sweep(item)


class RangeSimplifier(Rewriter):
    """Simplifies expressions by the known ranges of axes."""

    def __init__(self, ranges: Mapping[str, Range]) -> None:
        """Know that each named axis stays within its range."""
        super().__init__()
        self.ranges = ranges

    def is_true(self, mask: Expr) -> bool | None:
        """Return whether a mask holds everywhere in the ranges, None if only partly."""
        return _known_value(self.expr(mask))

    def stores(self, old: tuple[Store, ...]) -> tuple[Store, ...]:
        """Return the stores that are made; where a mask holds there is none."""
        found: list[Store] = []
        for store in super().stores(old):
            known = None if store.mask is None else _known_value(store.mask)
            if known is not False:
                found.append(replace(store, mask=None) if known else store)
        return tuple(found)

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are simplified."""
        if item.op == "compare":
            known = self._compare(item)
            if known is not None:
                return _known(known)
        elif item.op in ("and", "or"):
            found = _junction(args, is_and=item.op == "and")
            return super().node(item, args) if found is None else found
        elif item.op == "select":
            known = _known_value(args[0])
            if known is not None:
                return args[1] if known else args[2]
        elif item.op == "load" and item.payload.masked:
            known = _known_value(args[0])
            if known is not None:
                return ex.unmasked(item, args) if known else ex.scalar(0, item.dtype)
        return super().node(item, args)

    def _compare(self, node: Expr) -> bool | None:
        """Return what a comparison gives everywhere in the ranges, or None."""
        difference = index_difference(node)
        ends = None if difference is None else ends_of(difference, self.ranges)
        given: CompareAttributes = node.payload
        return None if ends is None else comparison_of_range(given.direction, *ends)


def ends_of(index: int | Dim, ranges: Mapping[str, Range]) -> Range | None:
    """Return the least and the greatest number that an index is where axes are in their ranges.

    None if it is not linear in axes that have a range.
    """
    linear = _linear(index)
    if linear is None:
        return None
    factors, rest = linear
    low = high = rest
    for name, factor in factors:
        if name not in ranges:
            return None
        first, last = ranges[name][:: 1 if factor > 0 else -1]
        low, high = low + factor * first, high + factor * last
    return low, high


@lru_cache(maxsize=4096)
def _linear(index: int | Dim) -> tuple[tuple[tuple[str, int], ...], int | Dim] | None:
    """Return an index as a factor of each axis and a size, None if it is not so."""
    rest = index
    factors: list[tuple[str, int]] = []
    for name in filter(varies, symbols_of((rest,))):
        factor = coefficient(rest, name)
        if not isinstance(factor, int):
            return None
        factors.append((name, factor))
        rest = rest - factor * Dim.symbol(name)
    return tuple(factors), rest


@cache
def _known(value: bool) -> Expr:
    return ex.constant(np.bool_(value))


def comparison_of_range(direction: str, low: int | Dim, high: int | Dim) -> bool | None:
    """Return whether low..high compares so with 0 everywhere (True), nowhere (False), or partly.

    None, too, where sizes decide it.
    """
    if direction in ("NE", "GT", "GE"):
        opposite = comparison_of_range(INVERSE[direction], low, high)
        return None if opposite is None else not opposite
    if direction == "EQ":
        apart = never_negative(low - 1) or never_negative(-high - 1)
        return True if low == high == 0 else False if apart else None
    bound = 1 if direction == "LT" else 0
    return (
        True
        if never_negative(-high - bound)
        else False
        if never_negative(low - 1 + bound)
        else None
    )


def _known_value(value: Expr) -> bool | None:
    if value.op != "constant":
        return None
    return value is _known(True) or (value is not _known(False) and bool(value.payload.value))


def _junction(args: tuple[Expr, ...], *, is_and: bool) -> Expr | None:
    """Return a conjunction or disjunction of predicates, one of which is known, else None."""
    for known, other in (args, args[::-1]):
        value = _known_value(known) if known.dtype.name == "pred" else None
        if value is not None:
            return other if value is is_and else known
    return None
