# SPDX-License-Identifier: Apache-2.0
"""Indices that are computed in s64 though s32 holds them, and bounds that hold anyway.

PyTorch's indices are s64, and so is what a coordinate of an image is converted to. A vector of them
has half the lanes, its products and extremes take several instructions each, and gathers at them
read half as many elements. `Ranges` says between which numbers a value lies, as far as the kernel
tells: `select(x >= 0 and x <= 127, x, 0)` is from 0 to 127 and no NaN. Where all that an index is
computed from fits, it is computed in s32 and widened at the end, and what holds it within an array
is left out if it lies there.

`narrow-indices` runs this. Invariant: an index is the same number at every point.

Example:
    >>> x = ex.load(0, Dim.symbol("@0"), S64)
    >>> clamped = ex.compute("minimum", ex.compute("maximum", x, ex.index(0)), ex.index(9))
    >>> Ranges({}).of(ex.compute("multiply", clamped, clamped))
    Range(low=0, high=81, may_be_nan=False)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, F64, PRED, S32, S64, DType, greatest, least
from ingot.hlo.opset.elementwise import SWAPPED
from ingot.kernel import expr as ex
from ingot.kernel.analysis.ranges import comparison_of_range, ends_of, ranges_of
from ingot.kernel.expr import Expr, loads_of, walk
from ingot.kernel.ir import LoopKernel, Store
from ingot.kernel.rewrite import Rewriter
from ingot.support.records import record, replace

Number = int | float


@record
class Range:
    """The least and the greatest number that a value may be, and whether it may be NaN."""

    low: Number
    high: Number
    may_be_nan: bool = False

    def or_(self, other: Range) -> Range:
        """Return the range of a value that lies in either."""
        ends = min(self.low, other.low), max(self.high, other.high)
        return Range(*ends, self.may_be_nan or other.may_be_nan)


_FLOATS = (F32, F64)
_OF_S32 = Range(-(1 << 31), (1 << 31) - 1)
_ROUNDED: Mapping[str, Callable[[float], Number]] = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round-nearest-even": round,
}
_COMPUTED: Mapping[str, Callable[[Number, Number], Number]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
}
_EXTREMA: Mapping[str, Callable[..., Number]] = {"maximum": max, "minimum": min}
_IN_S32 = frozenset({*_COMPUTED, *_EXTREMA})
"""Ops that give the same number in s32 if operands and result fit."""


class Ranges:
    """Finds the ranges of expressions, arguments first."""

    def __init__(self, extents: Mapping[str, tuple[int, int]]) -> None:
        """Know the positions of axes of known extents: the first and the last of each."""
        self.extents = extents
        self._known: dict[Expr, Range] = {}

    def of(self, value: Expr) -> Range:
        """Return the range of a value of integers, of f32 or of f64; of others that of f64."""
        for node in walk((value,)):
            if node not in self._known:
                self._known[node] = self._found(node)
        return self._known[value]

    def _found(self, node: Expr) -> Range:
        whole = _whole(node.dtype)
        made = self._made(node)
        if made is None or math.isnan(made.low) or math.isnan(made.high):
            return whole
        return made if whole.low <= made.low <= made.high <= whole.high else whole

    def _made(self, node: Expr) -> Range | None:
        if not (node.dtype.is_integer or node.dtype in _FLOATS):
            return None
        args = [self._known[arg] for arg in node.args]
        match node.op:
            case "constant":
                value = node.payload.value.item()
                return Range(value, value)
            case "index":
                ends = None if args else ends_of(node.payload, self.extents)
                return None if ends is None else _of_ints(*ends)
            case "convert":
                return _converted(args[0], node.args[0].dtype, node.dtype)
            case "select":
                return self._where(node.args[0], node.args[1]).or_(args[2])
            case _:
                return _of_op(node, args)

    def _where(self, mask: Expr, value: Expr) -> Range:
        """Return the range of a value where a mask holds, as comparisons of the value tell."""
        found = self._known[value]
        for part in ex.conjuncts(mask):
            given = part.payload
            if part.op != "compare" or (given.type == "TOTALORDER" and value.dtype in _FLOATS):
                continue
            left, right = part.args
            if value is left:
                found = _compared(found, given.direction, self._known[right])
            elif value is right:
                found = _compared(found, SWAPPED[given.direction], self._known[left])
        return found


def _whole(element: DType) -> Range:
    if element is PRED:
        return Range(0, 1)
    if element.is_integer:
        return Range(int(least(element)), int(greatest(element)))
    return Range(-math.inf, math.inf, may_be_nan=True)


def _of_ints(low: int | Dim, high: int | Dim) -> Range | None:
    return Range(low, high) if isinstance(low, int) and isinstance(high, int) else None


def _of_op(node: Expr, args: list[Range]) -> Range | None:
    """Return the range of what an op computes, None if nothing is known of it."""
    may_be_nan = any(arg.may_be_nan for arg in args)
    if node.op in _EXTREMA:
        best = _EXTREMA[node.op]
        left, right = args
        return Range(best(left.low, right.low), best(left.high, right.high), may_be_nan)
    if node.op == "clamp":
        low, given, high = args
        held = [min(max(end, low.low), high.high) for end in (given.low, given.high)]
        return None if low.low > high.high else Range(held[0], held[1], may_be_nan)
    if node.op in _ROUNDED:
        ends = [end if math.isinf(end) else _ROUNDED[node.op](end) for end in _ends(args[0])]
        return Range(ends[0], ends[1], may_be_nan)
    if node.op in _COMPUTED and node.dtype.is_integer:
        found = [_COMPUTED[node.op](a, b) for a in _ends(args[0]) for b in _ends(args[1])]
        return Range(min(found), max(found))
    return None


def _ends(given: Range) -> tuple[Number, Number]:
    return given.low, given.high


def _converted(given: Range, source: DType, target: DType) -> Range | None:
    """Return the range of a converted value; integers that do not fit wrap, floats are held."""
    if target.is_integer and source.is_float:
        whole = _whole(target)
        held = [int(min(max(end, whole.low), whole.high)) for end in _ends(given)]
        found = Range(held[0], held[1])
        return found.or_(Range(0, 0)) if given.may_be_nan else found
    if target.is_integer:
        return given
    if source.is_float:
        return given if source.bits <= target.bits else None
    rounded = [float(target.numpy.type(end)) for end in _ends(given)]
    return Range(rounded[0], rounded[1])


def _compared(given: Range, direction: str, other: Range) -> Range:
    """Return what is left of a range where its value compares so with another one.

    NaN compares so with nothing, but is not equal to anything.
    """
    low, high = _ends(given)
    if direction == "NE":
        return given
    if direction in ("GE", "GT", "EQ"):
        low = max(low, other.low)
    if direction in ("LE", "LT", "EQ"):
        high = min(high, other.high)
    return Range(low, high) if low <= high else given


def narrow_values(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with indices that are values computed in s32 where they fit."""
    loads = loads_of(kernel.exprs)
    used = [value for load in loads for value in load.args[load.payload.masked :]]
    used += [value for store in kernel.stores for value in store.values]
    if not any(map(_is_wide, used)):
        return kernel
    return _Narrowed(ranges_of(kernel.axes)).kernel(kernel)


def _is_wide(value: Expr) -> bool:
    """Whether an index is computed in 64 bits."""
    is_widened = value.op == "convert" and value.args[0].dtype.is_integer
    computed = value.args[0] if is_widened else value
    return computed.dtype.bits > S32.bits and computed.op not in ex.LEAVES


_TRUE = ex.constant(np.bool_(True))


class _Narrowed(Rewriter):
    """Has the run-time values of indices computed in s32 where they fit."""

    def __init__(self, extents: Mapping[str, tuple[int, int]]) -> None:
        super().__init__()
        self.ranges = Ranges(extents)
        self.narrow: dict[Expr, Expr | None] = {}

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression; of a load, with narrow indices; a comparison that is known."""
        found = super().node(item, args)
        if found.op == "compare" and found.args[0].dtype.is_integer:
            return self._compared(found)
        if found.op == "and" and found.dtype is PRED:
            left, right = found.args
            return right if left is _TRUE else left if right is _TRUE else found
        if found.op != "load":
            return found
        masked = found.payload.masked
        values = self._values(found.args[masked:])
        return ex.make("load", found.dtype, (*found.args[:masked], *values), found.payload)

    def store(self, old: Store) -> Store:
        """Return a store with narrow indices."""
        made = super().store(old)
        if made.mask is _TRUE:
            made = replace(made, mask=None)
        return replace(made, values=self._values(made.values)) if made.values else made

    def _compared(self, item: Expr) -> Expr:
        left, right = map(self.ranges.of, item.args)
        holds = comparison_of_range(
            item.payload.direction, int(left.low - right.high), int(left.high - right.low)
        )
        return item if holds is None else _TRUE if holds else ex.constant(np.bool_(False))

    def _values(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(self._widened(value) if _is_wide(value) else value for value in values)

    def _widened(self, value: Expr) -> Expr:
        for node in walk((value,)):
            if node not in self.narrow:
                self.narrow[node] = self._in_s32(node)
        found = self.narrow[value]
        return value if found is None else ex.converted(found, S64)

    def _in_s32(self, node: Expr) -> Expr | None:
        """Return an integer as s32, None if that does not hold it."""
        if not node.dtype.is_integer:
            return None
        found = self.ranges.of(node)
        if found.low < _OF_S32.low or found.high > _OF_S32.high:
            return None
        args = [self.narrow[arg] for arg in node.args]
        known = [arg for arg in args if arg is not None]
        if node.op == "constant":
            return ex.constant(np.int32(node.payload.value))
        if node.op == "convert" and (known or node.args[0].dtype in _FLOATS):
            return known[0] if known else ex.compute("convert", node.args[0], dtype=S32)
        if node.op == "select" and len(known) == len(args) - 1:
            return ex.select(node.args[0], *known)
        if node.op in _EXTREMA and (chosen := self._chosen(node)) is not None:
            return self.narrow[node.args[chosen]]
        if node.op in _IN_S32 and len(known) == len(args):
            return ex.compute(node.op, *known, dtype=S32)
        return ex.converted(node, S32)

    def _chosen(self, node: Expr) -> int | None:
        """Return which argument an extreme always is, None if it may be both."""
        left, right = map(self.ranges.of, node.args)
        if node.op == "minimum":
            left, right = right, left
        if left.low >= right.high:
            return 0
        return 1 if right.low >= left.high else None
