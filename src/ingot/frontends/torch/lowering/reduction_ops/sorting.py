# SPDX-License-Identifier: Apache-2.0
"""Sorting, selection of the greatest and k-th elements, medians, modes, searches in sorted rows.

NaN is the greatest, and all NaN are equal, as in PyTorch. Every sort is stable, so equal elements
are in the order of their indices where PyTorch promises none.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder, index_type
from ingot.frontends.building.extremes import extreme
from ingot.frontends.building.indexing import take_elements
from ingot.frontends.building.scans import scan
from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.assertions import assert_elements
from ingot.frontends.torch.lowering.context.op import Op, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import PRED, S64, U8
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

RULES = RuleTable("aten")

Pair = tuple[Instruction, Instruction]


def sorted_along(b: ArrayBuilder, x: Instruction, axis: int, *, descending: bool = False) -> Pair:
    """Return a row's elements in order, and their indices."""
    element = x.shape.dtype
    keys = b.convert_to(x, U8) if element is PRED else x
    indices = b.iota_of(index_type((x.shape.dims[axis],)), x.shape.dims, axis)
    found = sort_by_first(b, (keys, indices), axis, descending=descending, by_value=True)
    return b.convert_to(b.element_of(found, 0), element), b.element_of(found, 1)


def _fitted(op: Op, values: Instruction, indices: Instruction) -> Pair:
    """Return values and indices with the types and sizes of the op's results."""
    b, (first, second) = op.b, (op.shape_of(0), op.shape_of(1))
    return (
        b.reshape_to(b.convert_to(values, first.dtype), first.dims),
        b.reshape_to(b.convert_to(indices, second.dtype), second.dims),
    )


def _sort_along(op: Op, x: Instruction, dim: int, descending: bool) -> Pair:
    if x.shape.rank == 0:
        return x, op.b.zeros(op.shape_of(1))
    axis = op.axis(dim, x.shape.rank)
    return _fitted(op, *sorted_along(op.b, x, axis, descending=descending))


@RULES.rule("sort")
def _sort(op: Op, x: Instruction, dim: int = -1, descending: bool = False) -> Pair:
    return _sort_along(op, x, dim, descending)


@RULES.rule("sort.stable")
def _sort_stable(
    op: Op,
    x: Instruction,
    *,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
) -> Pair:
    del stable
    return _sort_along(op, x, dim, descending)


@RULES.rule("topk")
def _topk(
    op: Op,
    x: Instruction,
    k: Size,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Pair:
    """The elements are always sorted, whatever `sorted` says."""
    del sorted
    b, rank = op.b, x.shape.rank
    if rank == 0:
        return _fitted(op, x, b.zeros(op.shape_of(1)))
    axis = op.axis(dim, rank)
    if not isinstance(k, int) or k == 0 or x.shape.dtype is PRED:
        found = sorted_along(b, x, axis, descending=largest)
        return _fitted(op, *(b.sliced(item, axis, 0, k) for item in found))
    order = (*(other for other in range(rank) if other != axis), axis)
    moved = b.transposed(_one_nan(b, x), order)
    made = b.emit("topk", moved, k=k, largest=largest)
    back = tuple(order.index(number) for number in range(rank))
    return _fitted(op, *(b.transposed(b.element_of(made, n), back) for n in range(2)))


def _one_nan(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return x with every NaN replaced by the one that the total order puts last."""
    if not x.shape.dtype.is_float:
        return x
    return b.select(b.compare(x, x, direction="NE"), b.like(float("nan"), x.shape), x)


# ---- elements at a position in the order


@RULES.rule("kthvalue")
def _kthvalue(op: Op, x: Instruction, k: Size, dim: int = -1, keepdim: bool = False) -> Pair:
    del keepdim
    if x.shape.rank == 0:
        return _fitted(op, x, op.b.zeros(op.shape_of(1)))
    axis = op.axis(dim, x.shape.rank)
    b, found = op.b, sorted_along(op.b, x, axis)
    if isinstance(k, int):
        return _fitted(op, *(b.sliced(item, axis, k - 1, k) for item in found))
    # HLO slices at numbers and sizes of arrays only; this k is a run-time number: gather.
    dims = tuple(1 if other == axis else size for other, size in enumerate(x.shape.dims))
    at = b.like(k - 1, Shape.array(S64, dims))
    return _fitted(op, *(take_elements(b, item, at, axis) for item in found))


def _middle(op: Op, x: Instruction, axis: int, ignores_nan: bool) -> Pair:
    """Return the lower median of each row and its index, with size 1 along the axis.

    If there is a NaN the median is NaN, unless NaN are ignored; of NaN alone it is NaN.
    """
    b, size = op.b, x.shape.dims[axis]
    values, indices = sorted_along(b, x, axis)
    if not x.shape.dtype.is_float:
        half = dim_math.floordiv(size - 1, 2)
        return b.sliced(values, axis, half, half + 1), b.sliced(indices, axis, half, half + 1)
    strange = b.convert_to(b.compare(x, x, direction="NE"), S64)
    count = b.reduced("add", strange, (axis,), keep=True)
    numbers = b.subtract(b.like(size, count.shape), count)
    if ignores_nan:
        below = b.maximum(b.binary("subtract", numbers, 1), b.zeros(numbers.shape))
        at = b.divide(below, b.like(2, below.shape))
    else:
        half = b.like(dim_math.floordiv(size - 1, 2), count.shape)
        at = b.select(b.to_pred(count), numbers, half)
    return take_elements(b, values, at, axis), take_elements(b, indices, at, axis)


def _median(ignores_nan: bool) -> Rule:
    def rule(op: Op, x: Instruction) -> Instruction:
        b, element = op.b, x.shape.dtype
        if x.shape.size == 0:
            return b.like(float("nan") if element.is_float else _LEAST, op.shape)
        found = _middle(op, b.reshape_to(x, (x.shape.size,)), 0, ignores_nan)[0]
        return b.reshape_to(found, ())

    return rule


_LEAST = -(2**63)
"""PyTorch's result for the median of no integers."""


def _median_along(ignores_nan: bool) -> Rule:
    def rule(op: Op, x: Instruction, dim: int, keepdim: bool = False) -> Pair:
        del keepdim
        assert_elements(op, dim)
        if x.shape.rank == 0:
            return _fitted(op, x, op.b.zeros(op.shape_of(1)))
        return _fitted(op, *_middle(op, x, op.axis(dim, x.shape.rank), ignores_nan))

    return rule


RULES.add(_median(ignores_nan=False), "median")
RULES.add(_median(ignores_nan=True), "nanmedian")
RULES.add(_median_along(ignores_nan=False), "median.dim")
RULES.add(_median_along(ignores_nan=True), "nanmedian.dim")


@RULES.rule("mode")
def _mode(op: Op, x: Instruction, dim: int = -1, keepdim: bool = False) -> Pair:
    """The least of the most frequent elements, and the index of its last occurrence."""
    del keepdim
    b = op.b
    if x.shape.rank == 0:
        return _fitted(op, x, b.zeros(op.shape_of(1)))
    axis = op.axis(dim, x.shape.rank)
    values, indices = sorted_along(b, x, axis)
    size = x.shape.dims[axis]
    before, after = b.sliced(values, axis, 0, size - 1), b.sliced(values, axis, 1, size)
    changes = b.compare(after, before, direction="NE")
    starts = b.padded(changes, axis, 1, 0, b.constant(True, PRED))
    number = b.iota_of(index_type((size,)), x.shape.dims, axis)
    first = b.select(starts, number, b.zeros(number.shape))
    first = scan(b, first, axis, lambda inner, new, old: inner.maximum(new, old), 0)
    # A run is longest at its end.
    _, at = extreme(b, b.subtract(number, first), axis, largest=True)
    dims = tuple(1 if other == axis else one for other, one in enumerate(x.shape.dims))
    at = b.reshape_to(at, dims)
    return _fitted(op, take_elements(b, values, at, axis), take_elements(b, indices, at, axis))
