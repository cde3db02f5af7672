# SPDX-License-Identifier: Apache-2.0
"""Resizing of images along an axis of open size: the program computes which pixels it takes.

`resizing` computes them at compile time where sizes are numbers. The arithmetic is the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.sampling import OpenTap, Spans, cubic_weights
from ingot.frontends.tensorflow.lowering.context.op import Op
from ingot.frontends.tensorflow.lowering.context.values import Size
from ingot.hlo.dtype import F32, F64, S32
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

_STEPS = 1024
"""Distances between two pixels for which bicubic weights are computed."""


@record
class OpenAxis:
    """An axis of the image that the op resizes: how many pixels it has, and how many it gets."""

    op: Op
    size: Size
    target: Size

    @property
    def is_centered(self) -> bool:
        """Whether a pixel lies at the middle of its area."""
        return bool(self.op.attribute("half_pixel_centers", False))

    @property
    def is_aligned(self) -> bool:
        """Whether the corner pixels of both images lie on one another."""
        return bool(self.op.attribute("align_corners", False))

    def scale(self) -> Instruction:
        """Return how many source pixels a target pixel is apart from the next."""
        b = self.op.b
        scale = b.divide(b.scalar(self.size, F32), b.scalar(self.target, F32))
        if self.is_aligned:
            aligned = b.divide(b.scalar(self.size - 1, F32), b.scalar(self.target - 1, F32))
            scale = b.select(b.compared("GT", b.size(self.target), 1), aligned, scale)
        return scale

    def positions(self, half: float = 0.5) -> Instruction:
        """Return where each target pixel lies in the source, `f32[target]`.

        With half-pixel centers `half` is subtracted: 0.5 counts from the middle of the first pixel.
        """
        b = self.op.b
        position = b.iota_of(F32, (self.target,), 0)
        position = b.binary("add", position, 0.5) if self.is_centered else position
        made = b.multiply(position, b.spread(self.scale(), (self.target,)))
        return b.binary("subtract", made, half) if self.is_centered else made

    def clamped(self, indices: Instruction) -> Instruction:
        """Return indices, each clamped to the pixels of the source."""
        b = self.op.b
        last = b.like(self.size - 1, indices.shape)
        return b.clamp(b.zeros(last.shape), indices, last)


def nearest(axis: OpenAxis) -> Sequence[OpenTap]:
    """Return the one tap of a pixel."""
    b, position = axis.op.b, axis.positions(half=0)
    position = b.binary("add", position, 0.5) if axis.is_aligned else position
    return [(b.convert_to(axis.clamped(b.floor(position)), S32), None)]


def two_pixels(axis: OpenAxis) -> tuple[Instruction, Instruction, Instruction]:
    """Return the indices of the pixels on both sides, and the share of the upper one."""
    b, position = axis.op.b, axis.positions()
    floor = b.floor(position)
    upper = b.minimum(b.ceil(position), b.like(axis.size - 1, position.shape))
    lower = b.minimum(b.maximum(floor, b.zeros(floor.shape)), upper)
    upper = b.maximum(upper, b.zeros(floor.shape))
    return b.convert_to(lower, S32), b.convert_to(upper, S32), b.subtract(position, floor)


def linear(axis: OpenAxis) -> Sequence[OpenTap]:
    """Return the two taps of a pixel."""
    lower, upper, share = two_pixels(axis)
    b = axis.op.b
    return [(lower, b.subtract(b.like(1, share.shape), share)), (upper, share)]


def cubic(axis: OpenAxis) -> Sequence[OpenTap]:
    """Return the four taps of a pixel; see `resizing` on their weights."""
    b, a = axis.op.b, -0.5 if axis.is_centered else -0.75
    position = axis.positions()
    floor = b.floor(position)
    share = b.binary("multiply", b.subtract(position, floor), _STEPS)
    part = b.convert_to(b.emit("round-nearest-even", share), F64)
    part = b.binary("divide", part, _STEPS)
    weights = [b.convert_to(weight, F32) for weight in cubic_weights(b, part, a)]
    exact = [b.binary("add", b.convert_to(floor, S32), number) for number in range(-1, 3)]
    indices = [axis.clamped(index) for index in exact]
    if axis.is_centered:
        weights = _of_pixels_inside(b, weights, exact, indices)
    return list(zip(indices, weights, strict=True))


def _of_pixels_inside(
    b: ArrayBuilder,
    weights: Sequence[Instruction],
    exact: Sequence[Instruction],
    indices: Sequence[Instruction],
) -> list[Instruction]:
    """Return weights that are 0 for pixels outside, and whose sum is 1."""
    zero = b.zeros(weights[0].shape)
    kept = [
        b.select(b.compare(row, index, direction="EQ"), weight, zero)
        for row, index, weight in zip(exact, indices, weights, strict=True)
    ]
    total = kept[0]
    for weight in kept[1:]:
        total = b.add(total, weight)
    tiny = b.compared("LT", b.abs(total), 1000 * float(np.finfo(np.float32).tiny))
    total = b.select(tiny, b.like(1, total.shape), total)
    return [b.divide(weight, total) for weight in kept]


def area(axis: OpenAxis) -> Spans:
    """Return the source pixels that fall on a target pixel, wholly or partly."""
    b, scale = axis.op.b, axis.scale()
    dims = (axis.target,)
    factor = b.spread(scale, dims)
    number = b.iota_of(F32, dims, 0)
    start = b.multiply(number, factor)
    end = b.multiply(b.binary("add", number, 1), factor)
    first = b.convert_to(b.floor(start), S32)
    last = b.convert_to(b.binary("subtract", b.ceil(end), 1), S32)
    longest = b.reduced("maximum", b.subtract(last, first), (0,))
    return Spans(first, last, b.binary("add", longest, 1), (start, end, scale), _covered)


def _covered(b: ArrayBuilder, values: Sequence[Instruction], source: Instruction) -> Instruction:
    """Return what share of a target pixel each source pixel covers."""
    start, end, scale = values
    scale = b.spread(scale, source.shape.dims)
    low = b.convert_to(source, F32)
    high = b.binary("add", low, 1)
    starts_inside = b.compare(low, start, direction="LT")
    covered = b.select(starts_inside, b.subtract(high, start), b.like(1, low.shape))
    cut = b.select(starts_inside, scale, b.subtract(end, low))
    return b.divide(b.select(b.compare(high, end, direction="GT"), cut, covered), scale)
