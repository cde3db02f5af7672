# SPDX-License-Identifier: Apache-2.0
"""Pixels of images as rows of channels: what crops and projective transforms gather and scatter.

Images are `[batch, height, width, channels]`.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import index_type
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes
from ingot.hlo.instruction import Instruction

NEAREST = "round-nearest-afz"
"""The opcode that rounds a coordinate to the nearest pixel."""


def rows_of(b: TensorBuilder, image: Instruction) -> Instruction:
    """Return images as rows of channels."""
    batch, height, width, channels = image.shape.dims
    return b.reshape_to(image, (batch * height * width, channels))


def row_index(
    b: TensorBuilder, dims: Sizes, batch: Instruction, y: Instruction, x: Instruction
) -> Instruction:
    """Return which row of images of size `dims` holds each pixel."""
    element = index_type(dims)
    total = b.convert_to(batch, element)
    for coordinate, size in ((y, dims[1]), (x, dims[2])):
        total = b.add(
            b.multiply(total, b.like(size, total.shape)), b.convert_to(coordinate, element)
        )
    return total


def is_within(b: TensorBuilder, coordinate: Instruction, size: Size) -> Instruction:
    """Whether coordinates (floats) lie between the first and the last pixel of an axis."""
    last = b.like(size - 1, coordinate.shape)
    return b.and_(b.compared("GE", coordinate, 0), b.compare(coordinate, last, direction="LE"))


def held(b: TensorBuilder, coordinate: Instruction, size: Size) -> Instruction:
    """Return coordinates moved to the nearest end of an axis where they are outside."""
    return b.clamp(b.zeros(coordinate.shape), coordinate, b.like(size - 1, coordinate.shape))
