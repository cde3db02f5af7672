# SPDX-License-Identifier: Apache-2.0
"""Resampling along an axis of symbolic size: indices and weights are computed at run time.

`resampling` computes them at compile time if sizes are numbers. The arithmetic is the same, in the
float type of PyTorch's kernels.
Source: as `resampling`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.building.sampling import OpenTap, cubic_weights
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.builder import GraphBuilder
from ingot.frontends.torch.lowering.context.numbers import RunTimeNumber
from ingot.hlo.dtype import S32, DType
from ingot.hlo.instruction import Instruction
from ingot.support.records import record


@record
class OpenAxis:
    """An axis: sizes, the caller's factor, whether corners are aligned, the float type."""

    b: GraphBuilder
    size: Size
    target: Size
    factor: float | RunTimeNumber | None
    align_corners: bool
    kind: DType

    def scale(self) -> Instruction:
        """Return the distance of target elements, in source elements."""
        b, kind = self.b, self.kind
        if self.align_corners:
            if self.target == 1:
                return b.scalar(0, kind)
            return b.divide(b.scalar(self.size - 1, kind), b.scalar(self.target - 1, kind))
        if isinstance(self.factor, RunTimeNumber):
            one = b.scalar(1, self.factor.value.shape.dtype)
            return b.convert_to(b.divide(one, self.factor.value), kind)
        if self.factor is not None and self.factor > 0:
            return b.scalar(1.0 / self.factor, kind)
        return b.divide(b.scalar(self.size, kind), b.scalar(self.target, kind))

    def scaled(self, shift: float = 0) -> Instruction:
        """Return `(i + shift) * scale` for each target element i."""
        b = self.b
        index = b.iota_of(self.kind, (self.target,), 0)
        if shift:
            index = b.binary("add", index, shift)
        return b.multiply(index, b.spread(self.scale(), index.shape.dims))

    def locations(self, *, cubic: bool = False) -> Instruction:
        """Return the position of each target element in the source, in source elements."""
        if self.align_corners:
            return self.scaled()
        found = self.b.binary("subtract", self.scaled(0.5), 0.5)
        return found if cubic else self.b.binary("maximum", found, 0)

    def clamped(self, indices: Instruction) -> Instruction:
        """Return s32 indices, each clamped to the elements of the source."""
        b = self.b
        last = b.spread(b.scalar(self.size - 1, S32), indices.shape.dims)
        return b.minimum(b.binary("maximum", indices, 0), last)

    def whole(self, found: Instruction) -> Instruction:
        """Return floats, rounded down, as s32."""
        return self.b.convert_to(self.b.floor(found), S32)


Method = Callable[[OpenAxis], list[OpenTap]]


def nearest(axis: OpenAxis) -> list[OpenTap]:
    """The element at the lower end."""
    return [(axis.clamped(axis.whole(axis.scaled())), None)]


def nearest_exact(axis: OpenAxis) -> list[OpenTap]:
    """The element at the middle."""
    return [(axis.clamped(axis.whole(axis.scaled(0.5))), None)]


def linear(axis: OpenAxis) -> list[OpenTap]:
    """Two elements by their distance."""
    b, found = axis.b, axis.locations()
    low = axis.clamped(axis.whole(found))
    high = axis.clamped(b.binary("add", low, 1))
    share = b.subtract(found, b.convert_to(low, axis.kind))
    share = b.binary("minimum", b.binary("maximum", share, 0), 1)
    return [(low, b.subtract(b.like(1, share.shape), share)), (high, share)]


def cubic(axis: OpenAxis) -> list[OpenTap]:
    """Four elements by the kernel with A = -0.75."""
    b, found = axis.b, axis.locations(cubic=True)
    part = b.subtract(found, b.floor(found))
    first = axis.whole(found)
    weights = cubic_weights(b, part, -0.75)
    return [
        (axis.clamped(b.binary("add", first, number)), weight)
        for number, weight in enumerate(weights, -1)
    ]
