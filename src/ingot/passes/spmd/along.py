# SPDX-License-Identifier: Apache-2.0
"""One dimension of an array: slices, pads and indices along it."""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def sliced(
    build: Builder, value: Instruction, axis: int, bounds: tuple[int, int, int]
) -> Instruction:
    """Slice an array along dimension `axis`; `bounds`: the first index, the limit, the step."""
    box = [(0, size, 1) for size in value.shape.dims]
    if bounds == box[axis]:
        return value
    box[axis] = bounds
    return build.emit("slice", value, slice=tuple(box))


def padded(
    build: Builder,
    value: Instruction,
    axis: int,
    padding: tuple[int, int, int],
    fill: Instruction | None = None,
) -> Instruction:
    """Pad an array with `fill` (a scalar; zero if None) along dimension `axis`.

    `padding` has the numbers of elements before, behind and between the array's own.
    """
    paddings = [(0, 0, 0)] * value.shape.rank
    paddings[axis] = padding
    scalar = build.constant(0, value.shape.dtype) if fill is None else fill
    return build.emit("pad", value, scalar, padding=tuple(paddings))


def index_along(build: Builder, dims: tuple[int, ...], axis: int) -> Instruction:
    """Return the index along dimension `axis` of each element of an array of `dims`, s32."""
    return build.emit("iota", shape=Shape.array(S32, dims), iota_dimension=axis)
