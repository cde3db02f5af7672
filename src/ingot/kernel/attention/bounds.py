# SPDX-License-Identifier: Apache-2.0
"""Causal masks and windows: the keys that each row of queries sees.

Such a mask compares positions (`iota <= iota` in HLO): row m sees the keys
`m + low <= n <= m + high`. The scores of other keys are a constant: minus infinity, or a large
negative number in some frameworks. Keys that no row of a block sees need not be multiplied: their
powers are 0 as soon as each row has a score far above the constant (`Bounds.floor`). Whether that
holds is tested when the kernel runs, and so is whether the values of these keys are finite, since
0 times infinity is NaN.

Invariant: outside of the bounds every score is at most `floor`, whatever the operands hold.
"""

from __future__ import annotations

import math

from ingot.hlo.dim import Dim
from ingot.hlo.opset.elementwise import INVERSE, SWAPPED, CompareAttributes
from ingot.kernel.expr import Expr, axis_names
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import AttentionKernel
from ingot.support.records import record

MIN_BITS = 32
"""Bits of positions that do not wrap around."""

UNDERFLOW = {"f64": 800.0}
OTHER_UNDERFLOW = 200.0
"""By how much a score must lie below the greatest of its row for its power to be 0."""


@record
class Bounds:
    """Keys of row m: from the greatest of `m + low` to the least of `m + high`.

    Attributes:
        low, high: offsets of the first and of the last key from the row's number.
        floor: other scores are this at most.
    """

    low: tuple[int | Dim, ...] = ()
    high: tuple[int | Dim, ...] = ()
    floor: float = -math.inf

    def and_also(self, other: Bounds) -> Bounds:
        """Return the keys inside of both."""
        floor = max(self.floor, other.floor)
        return Bounds(self.low + other.low, self.high + other.high, floor)

    def __bool__(self) -> bool:
        """Whether they leave any key out."""
        return bool(self.low or self.high)


def key_bounds(kernel: AttentionKernel) -> Bounds:
    """Return the bounds of the keys that the mask of an attention kernel leaves."""
    found = Bounds()
    score = kernel.scores
    while score.op == "select":
        seen, on_true, on_false = score.args
        if on_false.op == "constant":
            inside, score, masked = _where(kernel, seen, holds=True), on_true, on_false
        elif on_true.op == "constant":
            inside, score, masked = _where(kernel, seen, holds=False), on_false, on_true
        else:
            break
        if inside:
            floor = float(masked.payload.value)
            found = found.and_also(Bounds(inside.low, inside.high, floor))
    return found if found.floor < 0 else Bounds()


def least_seen(kernel: AttentionKernel, bounds: Bounds) -> float:
    """Return what the greatest score of a row must exceed for keys outside to have no weight."""
    return bounds.floor + UNDERFLOW.get(kernel.scores.dtype.name, OTHER_UNDERFLOW)


def _where(kernel: AttentionKernel, seen: Expr, *, holds: bool) -> Bounds:
    """Return the bounds that follow from a condition, or from its opposite."""
    found = Bounds()
    stack = [(seen, holds)]
    while stack:
        item, is_true = stack.pop()
        if item.op == "not":
            stack.append((item.args[0], not is_true))
        elif item.op == ("and" if is_true else "or"):
            stack.extend((arg, is_true) for arg in reversed(item.args))
        elif item.op == "compare":
            found = found.and_also(_comparison(kernel, item, holds=is_true))
    return found


def _comparison(kernel: AttentionKernel, item: Expr, *, holds: bool) -> Bounds:
    """Return the bounds that follow from a comparison of positions, or from its opposite."""
    given: CompareAttributes = item.payload
    direction = given.direction if holds else INVERSE[given.direction]
    left, right = map(_position, item.args)
    if left is None or right is None:
        return Bounds()
    return _compared(kernel, left - right, direction)


def _position(value: Expr) -> int | Dim | None:
    """Return the position that an integer is, if it is one and cannot wrap around."""
    while value.op == "convert" and value.dtype.is_integer and value.dtype.bits >= MIN_BITS:
        if not value.dtype.is_signed:
            return None
        (value,) = value.args
    if value.op == "constant" and value.dtype.is_integer:
        return int(value.payload.value)
    return value.payload if value.op == "index" and not value.args else None


def _compared(kernel: AttentionKernel, difference: int | Dim, direction: str) -> Bounds:
    """Return the bounds of n that `difference` compared with 0 means."""
    m, n = kernel.m.name, kernel.n.name
    along = (coefficient(difference, m), coefficient(difference, n))
    if along == (1, -1):
        difference, direction = difference * -1, SWAPPED[direction]
    elif along != (-1, 1):
        return Bounds()
    # n - m + rest, compared with 0.
    offset = (difference - Dim.symbol(n) + Dim.symbol(m)) * -1
    if axis_names(offset):
        return Bounds()
    low = {"GE": (offset,), "GT": (offset + 1,), "EQ": (offset,)}
    high = {"LE": (offset,), "LT": (offset - 1,), "EQ": (offset,)}
    return Bounds(low.get(direction, ()), high.get(direction, ()))
