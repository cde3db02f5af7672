# SPDX-License-Identifier: Apache-2.0
"""Searches in sorted rows, segments, and histograms.

The search is binary: log2 n steps for all values at once. The segment of each position needs none.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder, Size, index_type
from ingot.frontends.building.indexing import scatter_slices, take_elements
from ingot.frontends.building.scans import scan
from ingot.frontends.torch.lowering.context.op import Op, Operand, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion

RULES = RuleTable("aten")


def count_up_to_each(b: ArrayBuilder, bounds: Instruction, size: Size) -> Instruction:
    """Return how many of `bounds` are at most each number from 0 to `size` - 1.

    That is the number of the segment that a position lies in. A sum by segment and a scan take one
    pass each, where a search takes one for each doubling of the number of bounds.

    Args:
        b: the builder.
        bounds: integers `[n]`, none negative, in any order.
        size: how many numbers there are.

    Returns:
        `s64[size]`.
    """
    kind = index_type(bounds.shape.dims)
    ones = b.like(1, bounds.shape.with_dtype(kind))
    begun = scatter_slices(b, "add", b.zeros(Shape.array(kind, (size,))), bounds, ones)
    found = scan(b, begun, 0, lambda inner, x, before: inner.add(x, before), 0)
    return b.convert_to(found, S64)


def count_before(
    b: ArrayBuilder,
    rows: Instruction,
    values: Instruction,
    *,
    right: bool,
    order: Instruction | None = None,
) -> Instruction:
    """Return how many elements of its sorted row come before each value, as s64.

    Args:
        b: the builder.
        rows: `[batch..., n]`, sorted.
        values: `[batch..., m]` of the same type.
        right: whether equal elements come before.
        order: `[batch..., n]`, the indices of the sorted elements; default: rows are sorted.

    Source: torch/native/Bucketization.cpp. NaN comes after all.
    """
    axis = rows.shape.rank - 1
    size = rows.shape.dims[axis]
    found = b.zeros(values.shape.with_dtype(S64))
    if size == 0:
        return found
    direction = "GT" if right else "GE"

    def step(inner: ArrayBuilder, state: list[Instruction]) -> Instruction:
        found, reach, length, rows, values, *order = state
        next_one = inner.add(found, inner.spread(reach, found.shape.dims))
        last = inner.spread(inner.binary("subtract", length, 1), found.shape.dims)
        at = inner.minimum(inner.binary("subtract", next_one, 1), last)
        if order:
            at = take_elements(inner, order[0], at, axis)
        element = take_elements(inner, rows, at, axis)
        # Not at least, rather than less: NaN goes to the end.
        before = inner.not_(inner.compare(element, values, direction=direction))
        inside = inner.compared("LE", next_one, length)
        return inner.select(inner.and_(before, inside), next_one, found)

    given = [b.size(size), rows, values, *([order] if order is not None else [])]
    if isinstance(size, int):
        for bit in reversed(range(size.bit_length())):
            found = step(b, [found, b.constant(1 << bit, S64), *given])
        return found

    def goes_on(inner: ArrayBuilder, state: list[Instruction]) -> Instruction:
        return inner.compared("GT", state[1], 0)

    def halve(inner: ArrayBuilder, state: list[Instruction]) -> list[Instruction]:
        half = inner.divide(state[1], inner.constant(2, S64))
        return [step(inner, state), half, *state[2:]]

    # The greatest power of two that is not above the size; 0 for none.
    bit = b.subtract(b.constant(63, S64), b.count_leading_zeros(given[0]))
    reach = b.shift_left(b.constant(1, S64), bit)
    return b.loop([found, reach, *given], goes_on, halve)[0]


@RULES.rule("searchsorted.Tensor", "searchsorted.Scalar")
def _searchsorted(
    op: Op,
    rows: Instruction,
    values: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Instruction | None = None,
) -> Instruction:
    del out_int32
    b = op.b
    element = op.promoted(rows, values)
    rows, given = b.convert_to(rows, element), op.operand(values, element)
    count = given.shape.size if rows.shape.rank == 1 else given.shape.dims[-1]
    flat = b.reshape_to(given, (*rows.shape.dims[:-1], count))
    found = count_before(b, rows, flat, right=right or side == "right", order=sorter)
    return b.convert_to(b.reshape_to(found, op.dims), op.dtype)


@RULES.rule("bucketize.Tensor", "bucketize.Scalar")
def _bucketize(
    op: Op,
    values: Operand,
    boundaries: Instruction,
    *,
    out_int32: bool = False,
    right: bool = False,
) -> Instruction:
    return _searchsorted(op, boundaries, values, out_int32=out_int32, right=right)


@RULES.rule("histc")
def _histc(
    op: Op,
    x: Instruction,
    bins: int = 100,
    min: Scalar = 0,
    max: Scalar = 0,
) -> Instruction:
    """Count the elements of each of equally wide intervals; other elements, and NaN, are ignored.

    Source: torch/native/cpu/HistogramKernel.cpp (LINEAR_INTERPOLATION).
    """
    b, element = op.b, x.shape.dtype
    if not element.is_float or element.bits < 32:
        raise op.error(f"histc of {element.name}")
    flat = b.reshape_to(x, (x.shape.size,))
    low, high = op.scalar(min, element), op.scalar(max, element)
    if min == max and flat.shape.size != 0:
        low, high = (b.reduced(name, flat, (0,)) for name in ("minimum", "maximum"))
        text = "torch.histc: range of the elements is not finite"
        emit_assertion(b, b.is_finite(b.subtract(high, low)), text)
    one = b.constant(1, S64)
    same = b.compare(low, high, direction="EQ")
    step = b.select(same, b.convert_to(one, element), b.scalar(0, element))
    low, high = b.subtract(low, step), b.add(high, step)
    dims = flat.shape.dims
    first, last = b.spread(low, dims), b.spread(high, dims)
    inside = b.and_(b.compare(flat, first, direction="GE"), b.compare(flat, last, direction="LE"))
    scaled = b.binary("multiply", b.subtract(flat, first), bins)
    index = b.convert_to(b.divide(scaled, b.subtract(last, first)), S64)
    index = b.minimum(index, b.like(bins - 1, index.shape))
    index = b.select(inside, index, b.like(-1, index.shape))
    ones = b.like(1, Shape.array(element, dims))
    return scatter_slices(b, "add", b.zeros(op.shape), index, ones)
