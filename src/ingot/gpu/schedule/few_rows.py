# SPDX-License-Identifier: Apache-2.0
"""Products of few rows or few columns (decoding, matrix times vector) as folds.

Such a product reads every element of the large operand once and computes little on it, so tiles
would be mostly empty. It is rewritten as a loop over the other side, with a fold along k for each
of the few rows: all of them use an element of the large operand that was loaded once. Folds have
their own strategies: lanes along k, or along columns, as the large operand is dense.

Invariant: the rewritten kernel makes the same stores from the same sums.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.folds import block_rows, columns, shared_length, warp_rows
from ingot.gpu.schedule.parts import in_parts, most_parts
from ingot.gpu.schedule.strategies import PART, GpuSchedule
from ingot.gpu.schedule.sums import is_along, sum_of, with_sums
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.kernel import expr as ex
from ingot.kernel.expr import converted
from ingot.kernel.ir import Axis, ContractionKernel, Kernel, LoopKernel, Pass, Reduction, Store
from ingot.kernel.rewrite import AxisSubstitution
from ingot.support.records import replace

NAME = "few rows"

MOST_ROWS = 8
"""Rows, or columns, of a product that are folds of a loop over the other side."""


def match_few_rows(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the schedule of a product's folds, or why it is cut into tiles."""
    if not isinstance(kernel, ContractionKernel):
        return "it is no contraction"
    if kernel.patches is not None:
        return "its rows are patches"
    if kernel.accumulate is PRED or kernel.accumulate.is_complex:
        return f"its sums are of {kernel.accumulate}"
    few = [axis for axis in (kernel.m, kernel.n) if _is_few(axis)]
    if not few:
        return f"neither its rows nor its columns are {MOST_ROWS} or fewer"
    axis = min(few, key=lambda axis: axis.extent)
    whole = _folded(as_folds(kernel, axis), kernel, axis, machine)
    if isinstance(whole, str):
        return whole
    parts = _parts(kernel, whole.stages[0].blocks)
    if parts == 1:
        return whole
    cut = in_parts(kernel, parts)
    loop = as_folds(_part_of(cut.first, parts), axis, (Axis(PART, parts),))
    found = _folded(loop, kernel, axis, machine)
    assert not isinstance(found, str), "a part is a shorter fold"
    return GpuSchedule((*found.stages, cut.last_stage(machine)), (cut.scratch,))


def _folded(
    loop: LoopKernel, kernel: ContractionKernel, few: Axis, machine: GpuMachine
) -> GpuSchedule | str:
    """Return the schedule of a product's folds; lanes run where the large operand is dense."""
    length = shared_length(loop)
    if isinstance(length, str):
        return length
    large, other = (kernel.rhs, kernel.n) if few is kernel.m else (kernel.lhs, kernel.m)
    if is_along(large, other.name) and not is_along(large, kernel.k.name):
        return columns(loop, other, machine)
    found = warp_rows(loop, length, machine)
    return block_rows(loop, machine) if isinstance(found, str) else found


def _parts(kernel: ContractionKernel, blocks: int | Dim) -> int:
    """Return into how many equal parts the folds are cut."""
    most = most_parts(kernel, blocks)
    length = kernel.k.extent
    return max(parts for parts in range(1, most + 1) if parts == 1 or length % parts == 0)


def _part_of(kernel: ContractionKernel, parts: int) -> ContractionKernel:
    """Return a product over a part of k."""
    k = kernel.k
    length = k.known_extent // parts
    along = AxisSubstitution({k.name: Dim.symbol(PART) * length + Dim.symbol(k.name)})
    lhs, rhs = along.expr(kernel.lhs), along.expr(kernel.rhs)
    return replace(kernel, lhs=lhs, rhs=rhs, k=Axis(k.name, length))


def _is_few(axis: Axis) -> bool:
    return isinstance(axis.extent, int) and axis.extent <= MOST_ROWS


def as_folds(kernel: ContractionKernel, few: Axis, outer: tuple[Axis, ...] = ()) -> LoopKernel:
    """Return a product as a loop: a fold along k for each position on the axis `few`.

    `outer` are axes of the loop besides those of the product.
    """
    inner = (axis for axis in (kernel.batch, kernel.m, kernel.n) if axis is not few)
    grid = (*outer, *inner)
    positions = range(few.known_extent)
    fold = Pass((kernel.k,), tuple(_fold(kernel, few, number) for number in positions))
    stores = [store for number in positions for store in _stores(kernel, few, number, grid)]
    return LoopKernel(grid, (fold, Pass((), (), tuple(stores))), kernel.buffers)


def _fold(kernel: ContractionKernel, few: Axis, number: int) -> Reduction:
    element = kernel.accumulate
    at = AxisSubstitution({few.name: number})
    lhs, rhs = (converted(at.expr(operand), element) for operand in (kernel.lhs, kernel.rhs))
    product = ex.compute("multiply", lhs, rhs)
    return sum_of(number, product)


def _stores(
    kernel: ContractionKernel, few: Axis, number: int, grid: tuple[Axis, ...]
) -> tuple[Store, ...]:
    names = frozenset(axis.name for axis in grid)
    total = ex.reduced(number, 0, kernel.accumulate, names)
    stores = AxisSubstitution({few.name: number}).stores(kernel.stores)
    return with_sums(stores, total)
