# SPDX-License-Identifier: Apache-2.0
"""Boxes drawn on images, and windows cut out of images at offsets that are data.

Boxes are drawn one after the other, each as four lines: a later one covers those before it.

Source: TensorFlow's `kernels/image/draw_bounding_box_op.cc`, `extract_glimpse_op.cc`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.division import truncate
from ingot.frontends.building.indexing import row_at, take
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.image_ops.pixels import held, is_within, row_index, rows_of
from ingot.hlo.dtype import F32, PRED, S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

COLOURS = np.array(
    [
        (1, 1, 0, 1), (0, 0, 1, 1), (1, 0, 0, 1), (0, 1, 0, 1), (0.5, 0, 0.5, 1),
        (0.5, 0.5, 0, 1), (0.5, 0, 0, 1), (0, 0, 0.5, 1), (0, 1, 1, 1), (1, 0, 1, 1),
    ],
    np.float32,
)  # fmt: skip
"""TensorFlow's own colours, for boxes of which the program says none."""


def _drawn(op: Op) -> Value:
    """images, boxes [batch, count, 4], and perhaps colours."""
    b, image, boxes = op.b, op.tensor(0), op.tensor(1)
    batch, height, width, depth = image.shape.dims
    count = boxes.shape.dims[1]
    if not (b.same(boxes.shape.dims[0], batch) and b.same(boxes.shape.dims[2], 4)):
        raise op.mismatch(0, 1)
    if 0 in (batch, height, width, depth, count):
        return image
    sides = _sides(b, boxes, (height, width))
    colours = b.convert_to(_colours(op, depth), image.shape.dtype)
    zero = b.constant(0, S32)
    numbers = [b.convert_to(b.size(size), S32) for size in (batch * count, count)]
    state = [zero, image, sides, colours, *numbers]
    return b.loop(state, lambda b, state: _less(b, state[0], state[4]), _draw)[1]


def _sides(b: TensorBuilder, boxes: Instruction, sizes: Sizes) -> Instruction:
    """Return rows and columns of pixels, s32[boxes, 4]: the least ones, then the greatest."""
    flat = (boxes.shape.dims[0] * boxes.shape.dims[1], 4)
    boxes = b.reshape_to(b.convert_to(boxes, F32), flat)
    columns: list[Instruction] = []
    for column in range(4):
        size = sizes[column % 2]
        side = b.sliced(boxes, 1, column, column + 1)
        at = b.multiply(side, b.like(size - 1, side.shape))
        # Whole numbers of 32 bits hold what is near the image; the rest is all the same.
        at = b.clamp(b.like(-2, side.shape), at, b.like(size, side.shape))
        columns.append(b.convert_to(at, S32))
    return b.concatenated(columns, 1)


def _less(b: TensorBuilder, x: Instruction, y: Instruction) -> Instruction:
    return b.compare(x, y, direction="LT")


def _draw(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
    """Draw box n, which is one of image n // count: two rows, then two columns."""
    number, image, sides, colours, end, count = state
    of_image = b.emit("remainder", number, count)
    kinds = b.convert_to(b.size(colours.shape.dims[0]), S32)
    colour = row_at(b, colours, b.emit("remainder", of_image, kinds))
    ends = row_at(b, sides, number)
    low, high = (
        [b.reshape_to(b.sliced(ends, 0, n, n + 1), ()) for n in part] for part in ((0, 1), (2, 3))
    )
    for axis in (0, 1):
        for at in (low[axis], high[axis]):
            line = (low[1 - axis], high[1 - axis])
            is_there = b.compare(low[axis], high[axis], direction="LE")
            where = (b.divide(number, count), at, is_there)
            image = _with_line(b, image, axis, where, line, colour)
    return [b.binary("add", number, 1), image, sides, colours, end, count]


def _with_line(
    b: TensorBuilder,
    image: Instruction,
    axis: int,
    where: tuple[Instruction, Instruction, Instruction],
    line: tuple[Instruction, Instruction],
    colour: Instruction,
) -> Instruction:
    """Return images with a line across an axis (rows or columns), where it lies on the image.

    `where`: the image, the pixel on the axis, and whether there is a line; `line`: its ends.
    """
    number, at, is_there = where
    zero = b.constant(0, S32)
    starts = [number, zero, zero, zero]
    starts[axis + 1] = at
    dims = (
        1,
        *(1 if n == axis else image.shape.dims[n + 1] for n in range(2)),
        colour.shape.dims[0],
    )
    old = b.emit("dynamic-slice", image, *starts, dynamic_slice_sizes=dims)
    size = b.convert_to(b.size(image.shape.dims[axis + 1]), S32)
    shown = b.and_(is_there, b.and_(b.compared("GE", at, 0), _less(b, at, size)))
    pixel = b.iota_of(S32, dims, 2 - axis)
    low, high = (b.spread(end, dims) for end in line)
    within = b.and_(b.compare(pixel, low, direction="GE"), b.compare(pixel, high, direction="LE"))
    made = b.select(b.and_(within, b.spread(shown, dims)), b.spread(colour, dims, (3,)), old)
    return b.emit("dynamic-update-slice", image, made, *starts)


def _colours(op: Op, depth: Size) -> Instruction:
    """Return the colours, a row each, with as many channels as images have."""
    b, channels = op.b, op.fixed(depth, "number of channels")
    if len(op) > 2 and op.dims(2)[0] != 0:
        given = op.tensor(2)
    else:
        # On grey images these are white.
        given = b.constant(COLOURS if channels > 1 else np.ones_like(COLOURS), F32)
    width = given.shape.dims[1]
    if isinstance(width, int) and width < channels:
        raise op.error(f"colours of {width} channels for images of {channels}")
    return b.sliced(given, 1, 0, channels)


def _glimpse(op: Op) -> Value:
    """images, size of the windows, offsets [batch, 2]: rows, columns."""
    b, image = op.b, op.tensor(0)
    if str(op.attribute("noise", "uniform")) != "zero":
        raise op.error("what lies outside of the images is random", 'noise="zero" is compiled')
    counts = op.integers(1, "size of the windows")
    offsets = op.tensor(2)
    batch, *sizes, _ = image.shape.dims
    dims = (batch, *counts)
    indices: list[Instruction] = []
    inside = b.like(True, Shape.array(PRED, dims))
    for axis, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        offset = b.reshape_to(b.sliced(offsets, 1, axis, axis + 1), (batch,))
        start = truncate(b, _window_start(op, offset, size, count))
        index = b.add(b.spread(start, dims, (0,)), b.iota_of(F32, dims, axis + 1))
        inside = b.and_(inside, is_within(b, index, size))
        indices.append(held(b, index, size))
    rows = row_index(b, image.shape.dims, b.iota_of(S32, dims, 0), *indices)
    made = take(b, rows_of(b, image), rows)
    shown = b.spread(inside, made.shape.dims, (0, 1, 2))
    return b.select(shown, made, b.zeros(made.shape))


def _window_start(op: Op, offset: Instruction, size: Size, count: int) -> Instruction:
    """Return the first pixel of windows of `count` pixels along an axis, as a fraction.

    An offset in pixels from the centre is that of the first pixel, one in shares of the image that
    of the window's centre, so TensorFlow's kernel has it.
    """
    b, whole = op.b, op.b.like(size, offset.shape)
    is_share, is_centered = (bool(op.attribute(name, True)) for name in ("normalized", "centered"))
    if is_share:
        offset = b.multiply(offset, whole)
    if not is_centered:
        return offset
    half = b.binary("multiply", whole, 0.5)
    if not is_share:
        return b.add(offset, half)
    return b.binary("subtract", b.add(b.binary("multiply", offset, 0.5), half), count / 2)


RULES: dict[str, Rule] = {
    "DrawBoundingBoxes": _drawn,
    "DrawBoundingBoxesV2": _drawn,
    "ExtractGlimpseV2": _glimpse,
}
