# SPDX-License-Identifier: Apache-2.0
"""Sampling of images at computed coordinates (`grid_sample`), in two and three dimensions.

A coordinate has one (nearest), two (linear) or four (cubic) taps per dimension; an output element
is the sum over all combinations of taps of a gathered element and the product of their weights.
The gradient for the image is one scatter for each combination, that for the grid uses the
derivatives of the weights.
Source: PyTorch's `aten/src/ATen/native/GridSampler.h`, `GridSampler.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.indexing import take
from ingot.frontends.building.special_functions.special import polynomial
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S32, S64, DType, greatest
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

RULES = RuleTable("aten")

_LINEAR, _NEAREST, _CUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


@record
class _Tap:
    """One tap of each coordinate along one dimension, all of the coordinates' sizes.

    Attributes:
        index: the element, an integer in range.
        inside: whether the tap is in the image.
        weight: its weight.
        slope: the derivative of the weight by the coordinate of the grid; None if it is 0.
    """

    index: Instruction
    inside: Instruction
    weight: Instruction
    slope: Instruction | None


@record
class _Sampling:
    """The mode of one op, and the type of indices of its elements."""

    b: ArrayBuilder
    index: DType
    interpolation: int
    padding: int
    align_corners: bool

    def taps(self, grid: Instruction, size: Size) -> list[_Tap]:
        """Return the taps of coordinates in [-1, 1] along a dimension of `size` elements."""
        b = self.b
        extent = b.like(size, grid.shape)
        one = b.binary("add", grid, 1)
        if self.align_corners:
            factor = b.binary("multiply", b.binary("add", extent, -1), 0.5)
            x = b.multiply(one, factor)
        else:
            factor = b.binary("multiply", extent, 0.5)
            x = b.subtract(b.multiply(one, factor), b.like(0.5, grid.shape))
        if self.interpolation == _CUBIC:
            return self._cubic(x, extent, factor)
        x, derivative = self._padded(x, extent)
        factor = b.multiply(factor, derivative)
        if self.interpolation == _NEAREST:
            return [self._tap(b.emit("round-nearest-even", x), extent, b.like(1, x.shape), None)]
        low = b.floor(x)
        share = b.subtract(x, low)
        return [
            self._tap(low, extent, b.subtract(b.like(1, x.shape), share), b.negate(factor)),
            self._tap(b.binary("add", low, 1), extent, share, factor),
        ]

    def _cubic(self, x: Instruction, extent: Instruction, factor: Instruction) -> list[_Tap]:
        b, a = self.b, -0.75
        low = b.floor(x)
        share = b.subtract(x, low)
        made: list[_Tap] = []
        for offset in range(-1, 3):
            distance = b.abs(b.binary("add", share, -offset))
            inner = abs(2 * offset - 1) == 1
            cubic = (a + 2, -(a + 3), 0, 1) if inner else (a, -5 * a, 8 * a, -4 * a)
            weight = polynomial(b, distance, cubic)
            slope = polynomial(b, distance, (3 * cubic[0], 2 * cubic[1], cubic[2]))
            # For taps at the left of the coordinate, the distance grows with it.
            slope = b.multiply(slope, factor if offset <= 0 else b.negate(factor))
            index, _ = self._padded(b.binary("add", low, offset), extent)
            made.append(self._tap(index, extent, weight, slope))
        return made

    def _padded(self, x: Instruction, extent: Instruction) -> tuple[Instruction, Instruction]:
        """Return coordinates moved into the image, and the derivative of the move (1, 0 or -1)."""
        b = self.b
        one = b.like(1, x.shape)
        if self.padding == _ZEROS:
            return x, one
        derivative = one
        if self.padding == _REFLECTION:
            x, derivative = self._reflected(x, extent)
        last = b.binary("add", extent, -1)
        inside = b.and_(b.compared("GT", x, 0), b.compare(x, last, direction="LT"))
        clipped = b.minimum(b.binary("maximum", x, 0), last)
        return clipped, b.select(inside, derivative, b.zeros(x.shape))

    def _reflected(self, x: Instruction, extent: Instruction) -> tuple[Instruction, Instruction]:
        b = self.b
        one, zeros = b.like(1, x.shape), b.zeros(x.shape)
        low = 0.0 if self.align_corners else -0.5
        span = b.binary("add", extent, -1) if self.align_corners else extent
        shifted = b.binary("add", x, -low)
        sign = b.select(b.compared("LT", shifted, 0), b.negate(one), one)
        shifted = b.abs(shifted)
        empty = b.compared("EQ", span, 0)
        safe = b.select(empty, one, span)
        rest = b.remainder(shifted, safe)
        flips = b.floor(b.divide(shifted, safe))
        odd = b.compared("NE", b.remainder(flips, b.like(2, x.shape)), 0)
        made = b.binary("add", b.select(odd, b.subtract(safe, rest), rest), low)
        slope = b.select(odd, b.negate(sign), sign)
        return b.select(empty, zeros, made), b.select(empty, zeros, slope)

    def _tap(
        self,
        index: Instruction,
        extent: Instruction,
        weight: Instruction,
        slope: Instruction | None,
    ) -> _Tap:
        b = self.b
        last = b.binary("add", extent, -1)
        inside = b.and_(b.compared("GE", index, 0), b.compare(index, last, direction="LE"))
        index = b.convert_to(b.select(inside, index, b.zeros(index.shape)), self.index)
        return _Tap(index, inside, weight, slope)


@record
class _Corner:
    """One combination of taps, over `[batch, outputs]`: flat index, whether in the image, taps."""

    index: Instruction
    inside: Instruction
    taps: tuple[_Tap, ...]


def _corners(
    op: Op, sampling: _Sampling, grid: Instruction, space: Sequence[Size]
) -> list[_Corner]:
    """Return all combinations of taps; the last dimension of the grid is x, y, z."""
    b, rank = op.b, len(space)
    batch = grid.shape.dims[0]
    count = dim_math.product(grid.shape.dims[1:-1])
    flat = b.reshape_to(grid, (batch, count, rank))
    each: list[list[_Tap]] = []
    for axis, size in enumerate(space):
        column = rank - 1 - axis
        coordinate = b.reshape_to(b.sliced(flat, 2, column, column + 1), (batch, count))
        each.append(sampling.taps(coordinate, size))
    corners: list[_Corner] = []
    for taps in product(*each):
        index, inside = taps[0].index, taps[0].inside
        for tap, size in zip(taps[1:], space[1:], strict=True):
            index = b.add(b.multiply(index, b.like(size, index.shape)), tap.index)
            inside = b.and_(inside, tap.inside)
        corners.append(_Corner(index, inside, taps))
    return corners


def _weight(b: ArrayBuilder, taps: Sequence[_Tap], sloped: int | None = None) -> Instruction | None:
    """Return the product of weights; that of dimension `sloped` is replaced by its slope."""
    made: Instruction | None = None
    for axis, tap in enumerate(taps):
        factor = tap.slope if axis == sloped else tap.weight
        if factor is None:
            return None
        made = factor if made is None else b.multiply(made, factor)
    return made


def _prepared(
    op: Op, x: Instruction, grid: Instruction, mode: Sequence[int | bool]
) -> tuple[Instruction, list[_Corner]]:
    """Return the image as `[batch, channels, space]` in a wide type, and the corners."""
    b = op.b
    interpolation, padding, align = mode
    wide = wider(x.shape.dtype)
    space = x.shape.dims[2:]
    count = dim_math.product(space)
    index = S32 if isinstance(count, int) and count <= greatest(S32) else S64
    sampling = _Sampling(b, index, int(interpolation), int(padding), bool(align))
    dims = (*x.shape.dims[:2], count)
    image = b.reshape_to(b.convert_to(x, wide), dims)
    return image, _corners(op, sampling, b.convert_to(grid, wide), space)


def _gathered(b: ArrayBuilder, image: Instruction, corner: _Corner) -> Instruction:
    """Return `[batch, channels, outputs]`: the elements, zeros outside."""
    found = take(b, image, corner.index, 2, 1)
    inside = b.spread(corner.inside, found.shape.dims, (0, 2))
    return b.select(inside, found, b.zeros(found.shape))


@RULES.rule("grid_sampler_2d", "grid_sampler_3d")
def _grid_sampler(op: Op, x: Instruction, grid: Instruction, *mode: int | bool) -> Instruction:
    b = op.b
    if 0 in (*op.dims, *x.shape.dims):
        return b.zeros(op.shape)
    image, corners = _prepared(op, x, grid, mode)
    total: Instruction | None = None
    for corner in corners:
        found = _gathered(b, image, corner)
        weight = _weight(b, corner.taps)
        assert weight is not None
        part = b.multiply(found, b.spread(weight, found.shape.dims, (0, 2)))
        total = part if total is None else b.add(total, part)
    assert total is not None
    return b.reshape_to(b.convert_to(total, op.dtype), op.dims)


@RULES.rule("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def _grid_sampler_backward(
    op: Op,
    gradient: Instruction,
    x: Instruction,
    grid: Instruction,
    interpolation: int,
    padding: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Instruction | None, Instruction | None]:
    b = op.b
    if 0 in (*gradient.shape.dims, *x.shape.dims):
        return b.zeros(x.shape), b.zeros(grid.shape)
    image, corners = _prepared(op, x, grid, (interpolation, padding, align_corners))
    dims = (*gradient.shape.dims[:2], dim_math.product(gradient.shape.dims[2:]))
    dy = b.reshape_to(b.convert_to(gradient, image.shape.dtype), dims)
    made: list[Instruction | None] = [None, None]
    if output_mask[0]:
        total = _scattered(b, image, dy, corners)
        made[0] = b.reshape_to(b.convert_to(total, x.shape.dtype), x.shape.dims)
    if output_mask[1]:
        slopes = _grid_gradient(b, image, dy, corners, x.shape.rank - 2)
        made[1] = b.reshape_to(b.convert_to(slopes, grid.shape.dtype), grid.shape.dims)
    return made[0], made[1]


def _scattered(
    b: ArrayBuilder, image: Instruction, dy: Instruction, corners: Sequence[_Corner]
) -> Instruction:
    """Add the weighted gradient to the elements of all corners, one corner after the other."""
    total = b.zeros(image.shape)
    for corner in corners:
        weight = _weight(b, corner.taps)
        assert weight is not None
        part = b.multiply(dy, b.spread(weight, dy.shape.dims, (0, 2)))
        inside = b.spread(corner.inside, dy.shape.dims, (0, 2))
        total = b.emit(
            "scatter",
            total,
            corner.index,
            b.select(inside, part, b.zeros(part.shape)),
            update_window_dims=(1,),
            inserted_window_dims=(2,),
            scatter_dims_to_operand_dims=(2,),
            input_batching_dims=(0,),
            scatter_indices_batching_dims=(0,),
            index_vector_dim=2,
            to_apply=b.reducer("add", image.shape.dtype),
        )
    return total


def _grid_gradient(
    b: ArrayBuilder,
    image: Instruction,
    dy: Instruction,
    corners: Sequence[_Corner],
    rank: int,
) -> Instruction:
    """Return `[batch, outputs, rank]`, the last dimension in the order x, y, z."""
    totals: list[Instruction | None] = [None] * rank
    for corner in corners:
        shared = b.reduced("add", b.multiply(_gathered(b, image, corner), dy), (1,))
        for axis in range(rank):
            slope = _weight(b, corner.taps, axis)
            if slope is None:
                continue
            part = b.multiply(shared, slope)
            before = totals[axis]
            totals[axis] = part if before is None else b.add(before, part)
    shape = dy.shape.with_dims((dy.shape.dims[0], dy.shape.dims[2], 1))
    columns = [
        b.zeros(shape) if item is None else b.reshape_to(item, shape.dims)
        for item in reversed(totals)
    ]
    return b.concatenated(columns, 2)
