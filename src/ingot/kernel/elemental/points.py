# SPDX-License-Identifier: Apache-2.0
"""Points of an iteration space, at which values are wanted while ops are lowered; their masks.

A point holds an index over axes, run-time values that the index may use (`$0`, `$1` …), and a mask
that says where the value is wanted at all. Used by the rules (`shaping_rules`,
`shaping_rules`) and by in-place updates. Points are immutable: lowered values are remembered by
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S8, S64, U8, U64, dtype
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, compare, converted
from ingot.kernel.index_math import Index
from ingot.support.records import record


@record
class Point:
    """Where a value is wanted: its indices over axes, run-time values they use, and a mask."""

    index: Index
    values: tuple[Expr, ...] = ()
    mask: Expr | None = None
    _hash: int = field(default=0, init=False, compare=False, repr=False)

    def __hash__(self) -> int:
        known = self._hash
        if not known:
            known = hash((self.index, self.values, self.mask)) or 1
            object.__setattr__(self, "_hash", known)
        return known

    def at(self, index: Index) -> Point:
        """Return the same point with other indices."""
        return Point(index, self.values, self.mask)


def uses_values(where: int | Dim) -> bool:
    """Whether an index uses run-time values."""
    return any(name.startswith("$") for name in dim.symbols_of((where,)))


def position_value(position: int | Dim, point: Point) -> Expr:
    """Return an index of `point` as an s64 value."""
    return ex.index(position, point.values if uses_values(position) else ())


def within(position: int | Dim, size: int | Dim, point: Point) -> Expr:
    """Return the mask 0 <= position < size."""
    value = position_value(position, point)
    below = compare("LT", value, ex.index(size))
    if isinstance(position, Dim) and position.is_symbol and not uses_values(position):
        return below
    both = ex.conjunction(compare("GE", value, ex.index(0)), below)
    assert both is not None
    return both


def inside(value: Expr, count: int | Dim) -> Expr | None:
    """Return the mask 0 <= value < count of an integer of any type; None: it always holds.

    As an unsigned number, a negative index is larger than any count: one comparison, in the value's
    own width.
    """
    element = value.dtype
    if isinstance(count, Dim):
        wide = converted(value, S64)
        above = compare("GE", wide, ex.index(0))
        return ex.conjunction(above, compare("LT", wide, ex.index(count)))
    unsigned = dtype(f"u{max(element.bits, 8)}")
    most = 1 << (unsigned.bits - element.is_signed)
    if count >= most and not element.is_signed:
        return None
    limit = ex.scalar(min(max(count, 0), most), unsigned)
    return compare("LT", converted(value, unsigned), limit)


def clamp_index(value: Expr, limit: int | Dim) -> Expr:
    """Return `value` (an integer) as s64 held within 0 … limit.

    It is held in its own width: more lanes, and addresses of gathers from 32 bits.
    """
    element = value.dtype
    if element.bits < 8:
        element = S8 if element.is_signed else U8
        value = converted(value, element)
    most = (1 << (element.bits - element.is_signed)) - 1
    if isinstance(limit, Dim):
        if element is not U64:
            element, value = S64, converted(value, S64)
        highest = converted(ex.index(limit), element)
    else:
        highest = ex.scalar(min(limit, most), element)
    if element.is_signed:
        value = ex.compute("maximum", value, ex.scalar(0, element))
    if isinstance(limit, Dim) or limit < most:
        value = ex.compute("minimum", value, highest)
    return converted(value, S64)


def with_value(point: Point, value: Expr) -> tuple[Dim, Point]:
    """Return the index symbol for a run-time value, and the point that carries the value."""
    if value in point.values:
        return Dim.symbol(f"${point.values.index(value)}"), point
    number = len(point.values)
    return Dim.symbol(f"${number}"), Point(point.index, (*point.values, value), point.mask)


def window_origin(
    point: Point, sizes: Index, windows: Index, start: Callable[[int], Expr]
) -> tuple[Index, Point]:
    """Return the index of a window's first element, and the point that carries its values.

    Args:
        point: where the window is read or written.
        sizes: the dimensions of the array.
        windows: those of the window; it begins at 0 where it is as long as the array.
        start: returns its start along a dimension, at run time; it is held inside of the array.
    """
    origin: list[int | Dim] = []
    for number, (size, window) in enumerate(zip(sizes, windows, strict=True)):
        first: int | Dim = 0
        if size != window:
            first, point = with_value(point, clamp_index(start(number), size - window))
        origin.append(first)
    return tuple(origin), point


def start_index(batch: Sequence[int | Dim], which: int, vector_dim: int, rank: int) -> Index:
    """Return where in the start indices of a gather or scatter component `which` stands."""
    if vector_dim == rank:
        return tuple(batch)
    return (*batch[:vector_dim], which, *batch[vector_dim:])


def batch_dim(dimension: int, vector_dim: int) -> int:
    """Return which batch position a dimension of the start indices has."""
    return dimension - (1 if vector_dim < dimension else 0)
