# SPDX-License-Identifier: Apache-2.0
"""Adaptive pools, whose windows follow from the sizes: averages, maxima with indices, gradients.

Window i of n over `size` elements is from floor(i * size / n) to ceil((i + 1) * size / n). The last
dimensions are pooled one after the other, each element of the result from a few taps. The first is
pooled first, and spread last: whole rows lie side by side, and are most of the work. Windows side
by side, as where a size is a multiple of the target, are those of any pool.
Source: PyTorch's `aten/src/ATen/native/AdaptivePooling.h`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.frontends.building.arrays import index_type, neutral, wider
from ingot.frontends.building.indexing import scatter_elements
from ingot.frontends.building.pooling import at_greatest, flat_numbers, folded, greatest_of
from ingot.frontends.building.sampling import Array, Taps, sampled, taken
from ingot.frontends.torch.fx.sizes import Size, Sizes
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.nn_ops import adaptive_windows
from ingot.frontends.torch.lowering.nn_ops.pooling import uses_indices
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import Window, WindowDimension, window_elements

RULES = RuleTable("aten")


def _windows(size: int, target: int) -> tuple[Array, Array]:
    """Return the indices of each window's elements, padded with -1, and their counts."""
    number = np.arange(target)
    start = number * size // target
    count = (-(-(number + 1) * size // target) - start)[:, None]
    tap = np.arange(max(1, int(count.max(initial=0))))
    return np.where(tap < count, start[:, None] + tap, -1), count


def _even(dims: Sizes, size: Sequence[Size]) -> Window | None:
    """Return the windows over the dimensions of `x`, if they lie side by side; else None."""
    first = len(dims) - len(size)
    made = [WindowDimension(1)] * first
    for extent, target in zip(dims[first:], size, strict=True):
        if not (isinstance(extent, int) and isinstance(target, int)) or extent % target:
            return None
        made.append(WindowDimension(extent // target, extent // target))
    return tuple(made)


# ---- averages


def _means(op: Op, size: int, target: int) -> Taps:
    indices, count = _windows(size, target)
    kind = np.float64 if op.dtype.bits == 64 else np.float32
    return Taps(indices, np.where(indices >= 0, 1 / count, 0).astype(kind))


def _averaged(op: Op, x: Instruction, size: Sequence[Size], rank: int) -> Instruction:
    """One window is a mean over whole dimensions."""
    b, space = op.b, x.shape.dims[-rank:]
    if 0 in op.dims:
        return b.zeros(op.shape)
    first = x.shape.rank - rank
    made = b.convert_to(x, wider(op.dtype))
    if all(wanted == 1 for wanted in size):
        total = b.reduced("add", made, range(first, x.shape.rank), keep=True)
        made = b.divide(total, b.like(dim_math.product(space), total.shape))
    elif window := _even(x.shape.dims, size):
        total = folded(b, "add", made, window)
        made = b.divide(total, b.like(window_elements(window), total.shape))
    else:
        for axis, (extent, target) in enumerate(zip(space, size, strict=True), first):
            if isinstance(extent, int) and isinstance(target, int):
                made = sampled(b, made, axis, _means(op, extent, target))
                continue
            total = adaptive_windows.sums(b, made, axis, target)
            count = adaptive_windows.lengths(b, extent, target, made.shape.dtype)
            made = b.divide(total, b.spread(count, total.shape.dims, (axis,)))
    return b.convert_to(made, op.dtype)


def _spread(op: Op, gradient: Instruction, dims: Sizes, rank: int) -> Instruction:
    b, size = op.b, gradient.shape.dims[-rank:]
    if 0 in (*dims, *gradient.shape.dims):
        return b.zeros(op.shape)
    made = b.convert_to(gradient, wider(op.dtype))
    if all(wanted == 1 for wanted in size):
        made = b.divide(made, b.like(dim_math.product(dims[-rank:]), made.shape))
        return b.spread(b.convert_to(made, op.dtype), dims)
    for axis in reversed(range(len(dims) - rank, len(dims))):
        extent, target = dims[axis], gradient.shape.dims[axis]
        if isinstance(extent, int) and isinstance(target, int):
            made = sampled(b, made, axis, _means(op, extent, target).transposed(extent))
            continue
        count = adaptive_windows.lengths(b, extent, target, made.shape.dtype)
        share = b.divide(made, b.spread(count, made.shape.dims, (axis,)))
        made = adaptive_windows.sums(b, share, axis, extent)
    return b.convert_to(made, op.dtype)


# ---- maxima


def _greatest(
    op: Op, x: Instruction, size: Sequence[Size], rank: int
) -> tuple[Instruction, Instruction]:
    """Return the greatest elements and their numbers in the pooled dimensions."""
    b, dims = op.b, x.shape.dims
    first = len(dims) - rank
    # As narrow as the sizes allow: pairs of f32 and s32 are compared in lanes of one width.
    wide = flat_numbers(b, dims, range(first, len(dims)))
    numbers = b.convert_to(wide, index_type(dims[first:]))
    if window := _even(dims, size):
        if not uses_indices(op):
            return folded(b, "maximum", x, window), b.zeros(op.shape_of(1))
        x, numbers = at_greatest(b, x, numbers, -1, window, takes_nan=True)
        return x, b.convert_to(numbers, S64)
    lowest = neutral("maximum", x.shape.dtype)
    for axis in range(first, len(dims)):
        extent, target = dims[axis], size[axis - first]
        if not (isinstance(extent, int) and isinstance(target, int)):
            x, numbers = adaptive_windows.greatest(b, x, numbers, axis, target)
            continue
        indices, _ = _windows(extent, target)
        x, numbers = (taken(b, item, axis, np.maximum(indices, 0)) for item in (x, numbers))
        if indices.min(initial=0) < 0:
            window_dims = (axis, axis + 1)
            used = b.spread(b.constant(indices >= 0), x.shape.dims, window_dims)
            x = b.select(used, x, b.like(lowest, x.shape))
            numbers = b.select(used, numbers, b.like(-1, numbers.shape))
        x, numbers = greatest_of(b, x, numbers, axis + 1)
    return x, b.convert_to(numbers, S64)


def _put_back(
    op: Op, gradient: Instruction, x: Instruction, indices: Instruction, rank: int
) -> Instruction:
    """Add each gradient to the element that its index names."""
    b, dims = op.b, x.shape.dims
    if 0 in (*dims, *gradient.shape.dims):
        return b.zeros(op.shape)
    outer = dims[:-rank]
    element = wider(op.dtype)
    rows = (*outer, dim_math.product(dims[-rank:]))
    count = (*outer, dim_math.product(gradient.shape.dims[-rank:]))
    updates = b.reshape_to(b.convert_to(gradient, element), count)
    where = b.reshape_to(b.convert_to(indices, S64), count)
    zeros = b.zeros(op.shape.with_dtype(element).with_dims(rows))
    made = scatter_elements(b, "add", zeros, where, updates, len(outer))
    return b.reshape_to(b.convert_to(made, op.dtype), dims)


def _refuse_integers(op: Op, x: Instruction) -> None:
    """Leave integers to PyTorch, whose kernels raise an error for them.

    Raises:
        UnsupportedError: INGOT0372, the elements are not floats.
    """
    if not x.shape.dtype.is_float:
        raise op.error(f"it pools {x.shape.dtype}")


def _add_rules(rank: int) -> None:
    @RULES.rule(f"_adaptive_avg_pool{rank}d")
    def _(op: Op, x: Instruction, size: Sequence[Size]) -> Instruction:
        _refuse_integers(op, x)
        return _averaged(op, x, size, rank)

    @RULES.rule(f"_adaptive_avg_pool{rank}d_backward")
    def _(op: Op, gradient: Instruction, x: Instruction) -> Instruction:
        return _spread(op, gradient, x.shape.dims, rank)

    @RULES.rule(f"adaptive_max_pool{rank}d")
    def _(op: Op, x: Instruction, size: Sequence[Size]) -> tuple[Instruction, Instruction]:
        _refuse_integers(op, x)
        if 0 in op.shape_of(0).dims:
            return op.b.zeros(op.shape_of(0)), op.b.zeros(op.shape_of(1))
        return _greatest(op, x, size, rank)

    @RULES.rule(f"adaptive_max_pool{rank}d_backward")
    def _(op: Op, gradient: Instruction, x: Instruction, indices: Instruction) -> Instruction:
        return _put_back(op, gradient, x, indices, rank)


for _rank in (2, 3):
    _add_rules(_rank)
