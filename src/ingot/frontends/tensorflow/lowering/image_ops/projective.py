# SPDX-License-Identifier: Apache-2.0
"""Projective transforms of images: each pixel of the result is looked up where 8 numbers say.

Source: TensorFlow's `kernels/image/image_ops.h`.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.frontends.building.arrays import index_type
from ingot.frontends.building.indexing import take
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.image_ops.pixels import (
    NEAREST,
    held,
    is_within,
    row_index,
    rows_of,
)
from ingot.hlo.dtype import F32
from ingot.hlo.instruction import Instruction


def _mapped(b: TensorBuilder, mode: str, coordinate: Instruction, size: Size) -> Instruction:
    """Return coordinates (f32) brought onto an axis of the image, as the fill mode says."""
    whole, last = b.like(size, coordinate.shape), b.like(size - 1, coordinate.shape)
    if mode == "CONSTANT":
        return coordinate
    below, above = b.compared("LT", coordinate, 0), b.compare(coordinate, last, direction="GT")
    if mode == "REFLECT":
        twice = b.binary("multiply", whole, 2)
        low = b.add(b.multiply(twice, b.floor(b.divide(b.negate(coordinate), twice))), coordinate)
        mirrored = b.binary("add", b.negate(low), -1)
        far = b.compare(low, b.negate(whole), direction="LT")
        low = b.select(far, b.add(low, twice), mirrored)
        high = b.subtract(coordinate, b.multiply(twice, b.floor(b.divide(coordinate, twice))))
        reflected = b.binary("add", b.subtract(twice, high), -1)
        high = b.select(b.compare(high, whole, direction="GE"), reflected, high)
        coordinate = b.select(below, low, b.select(above, high, coordinate))
    elif mode == "WRAP":
        step = b.maximum(last, b.like(1, last.shape))
        turns = b.binary("add", b.floor(b.divide(b.negate(coordinate), step)), 1)
        low = b.add(coordinate, b.multiply(whole, turns))
        high = b.subtract(coordinate, b.multiply(whole, b.floor(b.divide(coordinate, step))))
        coordinate = b.select(below, low, b.select(above, high, coordinate))
    return held(b, coordinate, size)


def _source_coordinates(op: Op, dims: Sizes) -> tuple[Instruction, Instruction, Instruction]:
    """Return where the result's pixels lie in the images, y and x, and whether anywhere."""
    b, matrices = op.b, op.tensor(1)
    count = matrices.shape.dims[0]
    if count != 1 and not b.same(count, dims[0]):
        raise op.mismatch(0, 1)
    factors = [
        b.spread(b.reshape_to(b.sliced(matrices, 1, n, n + 1), (count,)), dims, (0,))
        for n in range(8)
    ]
    x, y = b.iota_of(F32, dims, 2), b.iota_of(F32, dims, 1)

    def plane(first: int) -> Instruction:
        return b.add(b.multiply(factors[first], x), b.multiply(factors[first + 1], y))

    divisor = b.binary("add", plane(6), 1)
    there = b.compared("NE", divisor, 0)
    source_y, source_x = (b.divide(b.add(plane(n), factors[n + 2]), divisor) for n in (3, 0))
    return source_y, source_x, there


def _transform(op: Op) -> Value:
    """images, 8 numbers per image (or for all), size of the result[, fill value]."""
    b, image = op.b, op.tensor(0)
    batch, height, width, channels = image.shape.dims
    dims = (batch, *op.sizes(2, "output shape"))
    y, x, there = _source_coordinates(op, dims)
    mode = str(op.attribute("fill_mode", "CONSTANT")).upper()
    y, x = _mapped(b, mode, y, height), _mapped(b, mode, x, width)
    nearest = str(op.attribute("interpolation")).upper() == "NEAREST"
    element = image.shape.dtype
    fill = b.convert_to(op.tensor(3), element) if len(op) > 3 else b.constant(0, element)
    whole = (*dims, channels)
    numbers, fill = b.iota_of(index_type(image.shape.dims), dims, 0), b.spread(fill, whole)
    rows = rows_of(b, image)

    def pixel(y: Instruction, x: Instruction) -> Instruction:
        inside = b.and_(is_within(b, y, height), is_within(b, x, width))
        indices = held(b, y, height), held(b, x, width)
        found = take(b, rows, row_index(b, image.shape.dims, numbers, *indices))
        return b.select(b.spread(inside, whole, (0, 1, 2)), found, fill)

    if nearest:
        made = pixel(b.emit(NEAREST, y), b.emit(NEAREST, x))
    else:
        made = b.convert_to(_interpolated(b, pixel, y, x), element)
    return b.select(b.spread(there, whole, (0, 1, 2)), made, fill)


def _interpolated(
    b: TensorBuilder, pixel: Callable[..., Instruction], y: Instruction, x: Instruction
) -> Instruction:
    """Return the weighted sums of the four pixels around coordinates, f32."""
    sides: list[list[tuple[Instruction, Instruction]]] = []
    for coordinate in (y, x):
        low = b.floor(coordinate)
        high = b.binary("add", low, 1)
        sides.append([(low, b.subtract(high, coordinate)), (high, b.subtract(coordinate, low))])
    total: Instruction | None = None
    for down, y_share in sides[0]:
        line: Instruction | None = None
        for right, x_share in sides[1]:
            found = b.convert_to(pixel(down, right), F32)
            term = b.multiply(b.spread(x_share, found.shape.dims, (0, 1, 2)), found)
            line = term if line is None else b.add(line, term)
        assert line is not None
        term = b.multiply(b.spread(y_share, line.shape.dims, (0, 1, 2)), line)
        total = term if total is None else b.add(total, term)
    assert total is not None
    return total


RULES: dict[str, Rule] = {
    "ImageProjectiveTransformV2": _transform,
    "ImageProjectiveTransformV3": _transform,
}
