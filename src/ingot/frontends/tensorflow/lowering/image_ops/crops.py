# SPDX-License-Identifier: Apache-2.0
"""Crops of boxes, resized to one size; and their gradients, of the images and of the boxes.

Positions between pixels are interpolated from the four pixels around them, or the nearest is taken.
Source: TensorFlow's `kernels/image/crop_and_resize_op.cc`.
"""

from __future__ import annotations

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
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion
from ingot.support.records import record


@record
class _Positions:
    """Positions along one axis of the images, f32, and the sizes of that axis and of the crops."""

    at: Instruction
    size: Size
    count: int

    @staticmethod
    def of(op: Op, boxes: Instruction, axis: int, size: Size, count: int) -> _Positions:
        """Return the positions `[boxes, count]` that the crops take along axis 0 or 1."""
        b, number = op.b, boxes.shape.dims[0]
        low, high = (
            b.spread(b.reshape_to(b.sliced(boxes, 1, n, n + 1), (number,)), (number, count), (0,))
            for n in (axis, axis + 2)
        )
        last = b.like(size - 1, low.shape)
        if count == 1:
            middle = b.multiply(b.binary("multiply", b.add(low, high), 0.5), last)
            return _Positions(middle, size, count)
        scale = b.binary("divide", b.multiply(b.subtract(high, low), last), count - 1)
        steps = _rounded_product(b, b.iota_of(F32, low.shape.dims, 1), scale)
        return _Positions(b.add(_rounded_product(b, low, last), steps), size, count)

    def is_inside(self, b: TensorBuilder) -> Instruction:
        """Whether they lie on the images."""
        return is_within(b, self.at, self.size)

    def share(self, b: TensorBuilder) -> Instruction:
        """Return how far they are past the pixel before them."""
        return b.subtract(self.at, b.floor(self.at))

    def end_slopes(self, b: TensorBuilder) -> tuple[Instruction, Instruction]:
        """Return how much they move with the box's low and with its high side, `f32[count]`."""
        dims = (self.count,)
        last = b.spread(b.scalar(self.size - 1, F32), dims)
        if self.count == 1:
            half = b.binary("multiply", last, 0.5)
            return half, half
        high = b.multiply(b.iota_of(F32, dims, 0), b.binary("divide", last, self.count - 1))
        return b.subtract(last, high), high


def _rounded_product(b: TensorBuilder, x: Instruction, y: Instruction) -> Instruction:
    """Return x * y in f32, rounded before it is added to anything.

    The last position of a box that ends at the last pixel would else lie behind it by a rounding.
    """
    return b.convert_to(b.multiply(b.convert_to(x, F64), b.convert_to(y, F64)), F32)


@record
class _Crops:
    """The positions of the crops of boxes: rows and columns; and the image of each box."""

    op: Op
    dims: Sizes
    image: Instruction
    y: _Positions
    x: _Positions

    @staticmethod
    def of(op: Op, dims: Sizes, counts: tuple[int, ...], boxes: int) -> _Crops:
        """Read the operands from `boxes` on; `dims`: the images', `counts`: the crops' sizes."""
        b, sides, image = op.b, op.b.convert_to(op.tensor(boxes), F32), op.tensor(boxes + 1)
        finite = b.reduced("and", b.is_finite(sides), (0, 1))
        emit_assertion(b, finite, "Boxes contains at least one element that is not finite")
        limit = b.spread(b.scalar(dims[0], image.shape.dtype), image.shape.dims)
        known = b.and_(b.compared("GE", image, 0), b.compare(image, limit, direction="LT"))
        text = "box_index has values outside [0, batch_size)"
        emit_assertion(b, b.reduced("and", known, (0,)), text, "OUT_OF_RANGE")
        y, x = (
            _Positions.of(op, sides, axis, dims[axis + 1], count)
            for axis, count in enumerate(counts)
        )
        return _Crops(op, dims, image, y, x)

    @property
    def whole(self) -> Sizes:
        """The dimensions `[boxes, height, width]` of the crops."""
        return (*self.image.shape.dims, self.y.count, self.x.count)

    def spread(self, part: Instruction, axis: int) -> Instruction:
        """Spread what is said of rows (axis 0) or columns (1) over the crops."""
        return self.op.b.spread(part, self.whole, (0, axis + 1))

    def is_inside(self) -> Instruction:
        """Whether positions lie on the images."""
        b = self.op.b
        both = (self.spread(part.is_inside(b), n) for n, part in enumerate((self.y, self.x)))
        return b.and_(*both)

    def shares(self) -> tuple[Instruction, Instruction]:
        """Return how far positions are past the pixel before them: rows, columns."""
        b = self.op.b
        return self.spread(self.y.share(b), 0), self.spread(self.x.share(b), 1)

    def rows(self, down: str, right: str) -> Instruction:
        """Return the rows of the flattened images nearest to the positions, as two ops round."""
        b = self.op.b
        parts: list[Instruction] = []
        for n, (part, rounding) in enumerate(((self.y, down), (self.x, right))):
            parts.append(self.spread(held(b, b.emit(rounding, part.at), part.size), n))
        return row_index(b, self.dims, b.spread(self.image, self.whole, (0,)), parts[0], parts[1])

    def corners(self, rows: Instruction) -> list[Instruction]:
        """Return the pixels around the positions, f32: top left, top right, bottom left, right."""
        b = self.op.b
        return [
            b.convert_to(take(b, rows, self.rows(down, right)), F32) for down, right in _CORNERS
        ]


_CORNERS = [(down, right) for down in ("floor", "ceil") for right in ("floor", "ceil")]


def _between(
    b: TensorBuilder, low: Instruction, high: Instruction, share: Instruction
) -> Instruction:
    """Return low + (high - low) * share, the share spread over the channels."""
    wide = b.spread(share, low.shape.dims, tuple(range(share.shape.rank)))
    return b.add(low, b.multiply(b.subtract(high, low), wide))


def _crop(op: Op) -> Value:
    """images, boxes, image of each box, size of the crops."""
    b, image = op.b, op.tensor(0)
    crops = _Crops.of(op, image.shape.dims, op.integers(3, "crop_size"), 1)
    rows = rows_of(b, image)
    if op.attribute("method", "bilinear") == "nearest":
        made = b.convert_to(take(b, rows, crops.rows(NEAREST, NEAREST)), F32)
    else:
        corners, (down, right) = crops.corners(rows), crops.shares()
        top, bottom = (_between(b, corners[n], corners[n + 1], right) for n in (0, 2))
        made = _between(b, top, bottom, down)
    inside = b.spread(crops.is_inside(), made.shape.dims, (0, 1, 2))
    return b.select(inside, made, b.like(op.attribute("extrapolation_value", 0.0), made.shape))


def _crop_image_gradient(op: Op) -> Value:
    """Gradient, boxes, image of each box, size of the images: shares are added to the pixels."""
    b, gradient = op.b, op.tensor(0)
    dims = op.sizes(3, "image size")
    crops = _Crops.of(op, dims, _crop_counts(op), 1)
    inside = b.spread(crops.is_inside(), gradient.shape.dims, (0, 1, 2))
    gradient = b.select(inside, gradient, b.zeros(gradient.shape))
    made = b.zeros(Shape.array(op.result(), (dims[0] * dims[1] * dims[2], dims[3])))
    terms = [((NEAREST, NEAREST), gradient)]
    if op.attribute("method", "bilinear") != "nearest":
        down, right = (
            [b.subtract(b.like(1, share.shape), share), share] for share in crops.shares()
        )
        shares = (b.multiply(y, x) for y in down for x in right)
        terms = [
            (corner, b.multiply(gradient, b.spread(share, gradient.shape.dims, (0, 1, 2))))
            for corner, share in zip(_CORNERS, shares, strict=True)
        ]
    for corner, term in terms:
        made = scatter_rows(op, "add", made, crops.rows(*corner), b.convert_to(term, op.result()))
    return b.reshape_to(made, dims)


def _crop_counts(op: Op) -> tuple[int, ...]:
    return tuple(op.fixed(size, "size of the crops") for size in op.dims(0)[1:3])


def _crop_boxes_gradient(op: Op) -> Value:
    """Gradient, images, boxes, image of each box: how the crops change as the sides move."""
    b, gradient, image = op.b, op.tensor(0), op.tensor(1)
    crops = _Crops.of(op, image.shape.dims, _crop_counts(op), 2)
    corners, (down, right) = crops.corners(rows_of(b, image)), crops.shares()
    top_left, top_right, bottom_left, bottom_right = corners
    slopes = (
        _between(b, b.subtract(bottom_left, top_left), b.subtract(bottom_right, top_right), right),
        _between(b, b.subtract(top_right, top_left), b.subtract(bottom_right, bottom_left), down),
    )
    inside = crops.is_inside()
    columns: dict[int, Instruction] = {}
    for axis, (slope, positions) in enumerate(zip(slopes, (crops.y, crops.x), strict=True)):
        total = b.reduced("add", b.multiply(slope, gradient), (3,))
        total = b.select(inside, total, b.zeros(total.shape))
        for side, weight in enumerate(positions.end_slopes(b)):
            moved = b.multiply(total, b.spread(weight, total.shape.dims, (axis + 1,)))
            columns[axis + 2 * side] = b.reduced("add", moved, (1, 2))
    parts = [b.reshape_to(columns[n], (*columns[n].shape.dims, 1)) for n in range(4)]
    return b.concatenated(parts, 1)


RULES: dict[str, Rule] = {
    "CropAndResize": _crop,
    "CropAndResizeGradBoxes": _crop_boxes_gradient,
    "CropAndResizeGradImage": _crop_image_gradient,
}
