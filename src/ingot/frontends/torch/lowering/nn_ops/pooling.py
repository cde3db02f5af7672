# SPDX-License-Identifier: Apache-2.0
"""Pools with windows: maximum with indices, average; and their gradients.

Images are `[channels, *space]` or `[batch, channels, *space]`. Indices are s64 and number the
elements of one channel's space.
Source: PyTorch's `aten/src/ATen/native/Pool.h`, `cpu/MaxPoolKernel.cpp`, `cpu/AvgPoolKernel.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ingot.frontends.building.arrays import index_type, wider
from ingot.frontends.building.convolution import FixSize
from ingot.frontends.building.pooling import (
    at_greatest,
    flat_numbers,
    folded,
    put_at_indices,
    spread_sums,
)
from ingot.frontends.torch.fx.sizes import Size, Sizes
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import S64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import Window, WindowDimension

RULES = RuleTable("aten")

_SIZE = "the size of the pooled image"


def _window(
    op: Op,
    image: Sizes,
    counts: Sizes,
    rank: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1,),
) -> Window:
    """Return the window over all dimensions of an image; padding ends with the last window.

    For a symbolic size there may be more windows: results are cut to `counts`.

    Args:
        op: the op.
        image: the sizes of the image.
        counts: the number of windows along each dimension.
        rank: the number of pooled dimensions, which are the last ones.
        kernel: sizes of the window; a list of one holds for all dimensions, here and below.
        stride: distances of the windows; an empty list: their sizes.
        padding: elements before the image.
        dilation: distances of elements in a window.
    """
    each = [
        tuple(op.known(item, "a number of the window") for item in given)
        * (rank if len(given) == 1 else 1)
        for given in (kernel, stride or kernel, padding, dilation)
    ]
    made = [WindowDimension(1)] * (len(image) - rank)
    sizes = zip(image[-rank:], counts[-rank:], strict=True)
    for (size, count), taps, step, low, distance in zip(sizes, *each, strict=True):
        reach = (taps - 1) * distance + 1
        plain = WindowDimension(taps, step, low, low, window_dilation=distance)
        if plain.count(size) == count:
            made.append(plain)
            continue
        needed = (count - 1) * step + reach - size - low
        # Every window begins in the image or before it.
        is_counted = isinstance(count, int) and not isinstance(size, int)
        high = reach - 1 if is_counted else op.at_most(needed, _SIZE)
        made.append(WindowDimension(taps, step, low, high, window_dilation=distance))
    return tuple(made)


def _fixed(op: Op, image: Sizes, counts: Sizes, window: Window) -> FixSize:
    """Return what bounds the size behind the windows of an image, or raises for it.

    If the number of windows is known and the size of the image is not, one window more is larger.
    """
    most: dict[Size, int] = {}
    for size, count, one in zip(image, counts, window, strict=True):
        if isinstance(count, int) and not isinstance(size, int):
            most[size] = count * one.stride + (one.size - 1) * one.window_dilation

    def fixed(rest: Size) -> int:
        for size, bound in most.items():
            more = rest - size
            if isinstance(more, int):
                return bound + more
        return op.at_most(rest, _SIZE)

    return fixed


def _space(image: Sizes, rank: int) -> range:
    """Return the pooled dimensions of an image."""
    return range(len(image) - rank, len(image))


def uses_indices(op: Op) -> bool:
    """Whether anything reads the second result."""
    return any(user.args[1] == 1 for user in op.node.users)


def _max_pool(rank: int) -> None:
    @RULES.rule(f"max_pool{rank}d_with_indices")
    def _(
        op: Op,
        x: Instruction,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        dilation: Sequence[int] = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Instruction, Instruction]:
        del ceil_mode  # the result's sizes say it
        b, dims = op.b, x.shape.dims
        window = _window(op, dims, op.shape_of(0).dims, rank, kernel, stride, padding, dilation)
        if 0 in dims or 0 in op.shape_of(0).dims:
            return b.zeros(op.shape_of(0)), b.zeros(op.shape_of(1))
        if not uses_indices(op):
            found = folded(b, "maximum", x, window)
            return b.cut(found, op.shape_of(0).dims), b.zeros(op.shape_of(1))
        wide = flat_numbers(b, dims, _space(dims, rank))
        numbers = b.convert_to(wide, index_type(dims[-rank:]))
        values, indices = at_greatest(b, x, numbers, -1, window, takes_nan=True)
        indices = b.convert_to(b.cut(indices, op.shape_of(1).dims), S64)
        return b.cut(values, op.shape_of(0).dims), indices

    @RULES.rule(f"max_pool{rank}d_with_indices_backward")
    def _(
        op: Op,
        gradient: Instruction,
        x: Instruction,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
        indices: Instruction,
    ) -> Instruction:
        del ceil_mode
        dims, counts = x.shape.dims, gradient.shape.dims
        window = _window(op, dims, counts, rank, kernel, stride, padding, dilation)
        return put_at_indices(
            op.b,
            gradient,
            indices,
            dims,
            _space(dims, rank),
            window,
            _fixed(op, dims, counts, window),
        )


def _divisor(
    op: Op,
    image: Sizes,
    counts: Sizes,
    window: Window,
    padding: Sequence[int],
    counts_pads: bool,
    override: int | None,
    element: DType,
) -> Instruction:
    """Return the divisor of each window's sum, of the dimensions `counts`."""
    b = op.b
    if override is not None:
        return b.spread(b.scalar(override, element), counts)
    rank = len(window)
    pads = tuple(padding) * (rank if len(padding) == 1 else 1)
    pads = (0,) * (rank - len(pads)) + pads
    factors: list[Instruction] = []
    for axis, one in enumerate(window):
        if one == WindowDimension(1):
            continue
        number = b.iota_of(S64, (counts[axis],), 0)
        start = b.binary("add", b.binary("multiply", number, one.stride), -one.low)
        size = b.like(image[axis], start.shape)
        padded = b.like(image[axis] + pads[axis], start.shape)
        end = b.minimum(b.binary("add", start, one.size), padded)
        if not counts_pads:
            start, end = b.binary("maximum", start, 0), b.minimum(end, size)
        length = b.convert_to(b.subtract(end, start), element)
        factors.append(b.spread(length, counts, (axis,)))
    return reduce(b.multiply, factors) if factors else b.spread(b.scalar(1, element), counts)


def _average_pool(rank: int) -> None:
    @RULES.rule(f"avg_pool{rank}d")
    def _(
        op: Op,
        x: Instruction,
        kernel: Sequence[int],
        stride: Sequence[int] = (),
        padding: Sequence[int] = (0,),
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Instruction:
        del ceil_mode
        b, dims = op.b, x.shape.dims
        if 0 in dims or 0 in op.dims:
            return b.zeros(op.shape)
        wide = wider(op.dtype)
        window = _window(op, dims, op.dims, rank, kernel, stride, padding)
        total = b.cut(folded(b, "add", b.convert_to(x, wide), window), op.dims)
        divisor = _divisor(
            op, dims, op.dims, window, padding, count_include_pad, divisor_override, wide
        )
        return b.convert_to(b.divide(total, divisor), op.dtype)

    @RULES.rule(f"avg_pool{rank}d_backward")
    def _(
        op: Op,
        gradient: Instruction,
        x: Instruction,
        kernel: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Instruction:
        del ceil_mode
        b, dims, counts = op.b, x.shape.dims, gradient.shape.dims
        if 0 in (*dims, *counts):
            return b.zeros(op.shape)
        wide = wider(op.dtype)
        window = _window(op, dims, counts, rank, kernel, stride, padding)
        divisor = _divisor(
            op, dims, counts, window, padding, count_include_pad, divisor_override, wide
        )
        share = b.divide(b.convert_to(gradient, wide), divisor)
        made = spread_sums(b, share, dims, window, _fixed(op, dims, counts, window))
        return b.convert_to(made, op.dtype)


for _rank in (2, 3):
    _max_pool(_rank)
    _average_pool(_rank)
