# SPDX-License-Identifier: Apache-2.0
"""Resizing of images: nearest, bilinear, bicubic, by area; and the gradients.

Rows and columns are resampled one after the other. Each pixel of the result is a weighted sum of a
few source pixels (taps), whose indices and weights are known at compile time. Where a size is open,
as that of a random crop, or huge, the program computes them (`open_resizing`). Source: TensorFlow's
`util/image_resizer_state.h`, `kernels/image/resize_*_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from ingot.frontends.building.indexing import take
from ingot.frontends.building.sampling import (
    OpenTap,
    Taps,
    computed_once,
    sampled,
    sampled_at,
    sampled_spans,
    spread_back,
    taken,
)
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Array, Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.image_ops import open_resizing
from ingot.frontends.tensorflow.lowering.image_ops.open_resizing import OpenAxis
from ingot.hlo.dtype import F32
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

_LARGEST_TABLE = 1 << 20
"""Pixels of an axis up to which taps are tables in the program."""


def _has_table(size: Size) -> TypeGuard[int]:
    """Whether an axis of a size, of the image or of the result, can have tables of taps."""
    return isinstance(size, int) and size <= _LARGEST_TABLE


def _scale(op: Op, size: int, target: int) -> np.float32:
    """Return how many source pixels a target pixel is apart from the next."""
    if op.attribute("align_corners", False) and target > 1:
        return np.float32(size - 1) / np.float32(target - 1)
    return np.float32(size) / np.float32(target)


def _positions(op: Op, size: int, target: int) -> Array:
    """Return where each target pixel lies in the source, in source pixels."""
    positions = np.arange(target, dtype=np.float32)
    scale = _scale(op, size, target)
    if op.attribute("half_pixel_centers", False):
        return (positions + np.float32(0.5)) * scale - np.float32(0.5)
    return positions * scale


def _nearest(op: Op, size: int, target: int) -> Taps:
    positions = _positions(op, size, target)
    if op.attribute("half_pixel_centers", False) or op.attribute("align_corners", False):
        positions = positions + np.float32(0.5)
    source = np.clip(np.floor(positions), 0, size - 1).astype(int)[:, None]
    return Taps(source, np.ones(source.shape, np.float32))


def _linear(op: Op, size: int, target: int) -> Taps:
    positions = _positions(op, size, target)
    share = positions - np.floor(positions)
    high = np.minimum(np.ceil(positions), size - 1)
    low = np.minimum(np.maximum(np.floor(positions), 0), high)
    return Taps(
        np.stack([low, np.maximum(high, 0)], 1).astype(int), np.stack([1 - share, share], 1)
    )


def _cubic(op: Op, size: int, target: int) -> Taps:
    """Four taps; their weights are rounded to those of 1024 steps between two pixels.

    With half-pixel centers, pixels outside do not count and the others are weighted up.
    """
    keys = bool(op.attribute("half_pixel_centers", False))
    a = np.float64(-0.5 if keys else -0.75)
    positions = _positions(op, size, target)
    step = np.rint((positions - np.floor(positions)) * 1024).astype(int)
    near = np.stack([step, 1024 - step], 1) / 1024
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    far = near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    weights = np.stack([outer[:, 0], inner[:, 0], inner[:, 1], outer[:, 1]], 1).astype(np.float32)
    exact = np.floor(positions).astype(int)[:, None] + np.arange(-1, 3)
    indices = np.clip(exact, 0, size - 1)
    if keys:
        weights[indices != exact] = 0
        total = weights.sum(1, keepdims=True, dtype=np.float32)
        tiny = np.abs(total) < 1000 * np.finfo(np.float32).tiny
        weights /= np.where(tiny, np.float32(1), total)
    return Taps(indices, weights)


def _area(op: Op, size: int, target: int) -> Taps:
    """As many taps as source pixels fall on a target pixel, wholly or partly."""
    scale = _scale(op, size, target)
    start = (np.arange(target) * scale).astype(np.float32)[:, None]
    end = (np.arange(1, target + 1) * scale).astype(np.float32)[:, None]
    last = np.ceil(end) - 1
    exact = np.floor(start) + np.arange(int(np.max(last - np.floor(start))) + 1, dtype=np.float32)
    covered = np.where(exact < start, exact + 1 - start, np.float32(1))
    cut = np.where(exact < start, scale, end - exact)
    weights = np.where(exact + 1 > end, cut, covered)
    weights = np.where(exact > last, 0, weights) / scale
    indices = np.where(exact > last, -1, np.clip(exact, 0, size - 1))
    return Taps(indices.astype(int), weights.astype(np.float32))


def target_sizes(op: Op) -> Sizes:
    """Return the height and width that operand 1 asks for."""
    sizes = op.sizes(1, "size", least=-1)
    if any(isinstance(size, int) and size <= 0 for size in sizes):
        raise op.mistake(f"output dimensions must be positive, got {list(sizes)}")
    return sizes


@record
class _Method:
    """The taps of a method: at compile time, and computed by the program."""

    fixed: Callable[[Op, int, int], Taps]
    open: Callable[[OpenAxis], Sequence[OpenTap]]

    def resized(self, op: Op, image: Instruction, axis: int, target: Size) -> Instruction:
        """Return an image brought to `target` pixels along an axis."""
        size = image.shape.dims[axis]
        if _has_table(size) and _has_table(target):
            return sampled(op.b, image, axis, self.fixed(op, size, target))
        return sampled_at(op.b, image, axis, self.open(OpenAxis(op, size, target)))

    def gradient(self, op: Op, made: Instruction, axis: int, size: Size) -> Instruction:
        """Return a gradient brought back to the image's `size` pixels along an axis."""
        target = made.shape.dims[axis]
        if _has_table(size) and _has_table(target):
            return sampled(op.b, made, axis, self.fixed(op, size, target).transposed(size))
        return spread_back(op.b, made, axis, size, self.open(OpenAxis(op, size, target)))


_NEAREST = _Method(_nearest, open_resizing.nearest)
_LINEAR = _Method(_linear, open_resizing.linear)
_CUBIC = _Method(_cubic, open_resizing.cubic)


def _area_axis(op: Op, image: Instruction, axis: int, target: Size) -> Instruction:
    size = image.shape.dims[axis]
    if _has_table(size) and _has_table(target):
        return sampled(op.b, image, axis, _area(op, size, target))
    return sampled_spans(op.b, image, axis, open_resizing.area(OpenAxis(op, size, target)))


def _bilinear_axis(op: Op, image: Instruction, axis: int, target: Size) -> Instruction:
    """Return an image brought to `target` pixels along an axis.

    Low + (high - low) * share, so that an infinity gives what it gives in TensorFlow.
    """
    b, size = op.b, image.shape.dims[axis]
    if size == target:
        return image
    if _has_table(size) and _has_table(target):
        taps = _linear(op, size, target)
        low, high = (taken(b, image, axis, taps.indices[:, side]) for side in range(2))
        shares = b.constant(taps.weights[:, 1])
    else:
        taken_pixels = open_resizing.two_pixels(OpenAxis(op, size, target))
        lower, upper, shares = computed_once(b, *taken_pixels)
        low, high = (take(b, image, side, axis) for side in (lower, upper))
    share = b.spread(shares, low.shape.dims, (axis,))
    return b.add(low, b.multiply(b.subtract(high, low), share))


def _nearest_axis(op: Op, image: Instruction, axis: int, target: Size) -> Instruction:
    """Return an image with `target` of its pixels along an axis: exact for every type."""
    b, size = op.b, image.shape.dims[axis]
    if not (_has_table(size) and _has_table(target)):
        return _NEAREST.resized(op, image, axis, target)
    return taken(b, image, axis, _nearest(op, size, target).indices[:, 0])


def _resized(along: Callable[[Op, Instruction, int, Size], Instruction], *, copies: bool) -> Rule:
    """Return the rule that brings rows, then columns, to a size; `copies` keeps the type."""

    def rule(op: Op) -> Value:
        targets, image = target_sizes(op), op.tensor(0)
        image = image if copies else op.b.convert_to(image, F32)
        for axis, target in enumerate(targets, 1):
            image = along(op, image, axis, target)
        return image

    return rule


def _gradient_of(op: Op, sizes: Sizes, method: _Method) -> Instruction:
    """Return operand 0, a gradient, brought back to the image's sizes: rows, then columns."""
    made = op.tensor(0)
    for axis, size in enumerate(sizes, 1):
        made = method.gradient(op, made, axis, size)
    return made


def _gradient(method: _Method) -> Rule:
    """Gradient, original image: the weights, transposed."""
    return lambda op: op.b.convert_to(_gradient_of(op, op.dims(1)[1:3], method), op.result())


def _nearest_gradient(op: Op) -> Value:
    return _gradient_of(op, target_sizes(op), _NEAREST)


RULES: dict[str, Rule] = {
    "ResizeArea": _resized(_area_axis, copies=False),
    "ResizeBicubic": _resized(_CUBIC.resized, copies=False),
    "ResizeBicubicGrad": _gradient(_CUBIC),
    "ResizeBilinear": _resized(_bilinear_axis, copies=False),
    "ResizeBilinearGrad": _gradient(_LINEAR),
    "ResizeNearestNeighbor": _resized(_nearest_axis, copies=True),
    "ResizeNearestNeighborGrad": _nearest_gradient,
}
