# SPDX-License-Identifier: Apache-2.0
"""Resizing of images: nearest, bilinear, bicubic, by area; and the gradients.

Rows and columns are resampled one after the other. Each pixel of the result is a weighted sum of a
few source pixels (taps), whose indices and weights are known at compile time; where a size is open,
as that of a random crop, the program computes those of nearest and bilinear. Source: TensorFlow's
`util/image_resizer_state.h`, `kernels/image/resize_*_op.cc`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.frontends.building.indexing import take
from ingot.frontends.building.products import dot
from ingot.frontends.building.sampling import Taps, sampled, taken
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Array, Size, Sizes, Value
from ingot.hlo.dtype import F32, S64
from ingot.hlo.instruction import Instruction

_SIZE, _TARGET = "size of the image", "size that the image gets"

Method = Callable[[Op, int, int], Taps]


def _scale(op: Op, size: int, target: int) -> np.float32:
    """Return how many source pixels a target pixel is apart from the next."""
    if op.attribute("align_corners", False) and target > 1:
        return np.float32(size - 1) / np.float32(target - 1)
    return np.float32(size) / np.float32(target)


def _positions(op: Op, size: int, target: int) -> Array:
    """Return where each target pixel lies in the source, in source pixels."""
    place = np.arange(target, dtype=np.float32)
    scale = _scale(op, size, target)
    if op.attribute("half_pixel_centers", False):
        return (place + np.float32(0.5)) * scale - np.float32(0.5)
    return place * scale


def _nearest(op: Op, size: int, target: int) -> Taps:
    place = _positions(op, size, target)
    if op.attribute("half_pixel_centers", False) or op.attribute("align_corners", False):
        place = place + np.float32(0.5)
    source = np.clip(np.floor(place), 0, size - 1).astype(int)[:, None]
    return Taps(source, np.ones(source.shape, np.float32))


def _linear(op: Op, size: int, target: int) -> Taps:
    place = _positions(op, size, target)
    share = place - np.floor(place)
    high = np.minimum(np.ceil(place), size - 1)
    low = np.minimum(np.maximum(np.floor(place), 0), high)
    return Taps(
        np.stack([low, np.maximum(high, 0)], 1).astype(int), np.stack([1 - share, share], 1)
    )


def _cubic(op: Op, size: int, target: int) -> Taps:
    """Four taps; their weights are rounded to those of 1024 steps between two pixels.

    With half-pixel centers, pixels outside do not count and the others are weighted up.
    """
    keys = bool(op.attribute("half_pixel_centers", False))
    a = np.float64(-0.5 if keys else -0.75)
    place = _positions(op, size, target)
    step = np.rint((place - np.floor(place)) * 1024).astype(int)
    near = np.stack([step, 1024 - step], 1) / 1024
    inner = ((a + 2) * near - (a + 3)) * near * near + 1
    far = near + 1
    outer = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a
    weights = np.stack([outer[:, 0], inner[:, 0], inner[:, 1], outer[:, 1]], 1).astype(np.float32)
    exact = np.floor(place).astype(int)[:, None] + np.arange(-1, 3)
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


def _image_sizes(op: Op, number: int) -> tuple[int, int]:
    height, width = (op.fixed(size, _SIZE) for size in op.dims(number)[1:3])
    return height, width


def _target_sizes(op: Op) -> Sizes:
    sizes = op.sizes(1, "size", least=-1)
    if any(isinstance(size, int) and size <= 0 for size in sizes):
        raise op.error(f"output dimensions must be positive, got {list(sizes)}")
    return sizes


def fixed_targets(op: Op) -> tuple[int, ...]:
    """Return the height and width that operand 1 asks for, which must be known."""
    return tuple(op.fixed(size, _TARGET) for size in _target_sizes(op))


def _resized(method: Method) -> Rule:
    def rule(op: Op) -> Value:
        sizes, targets = _image_sizes(op, 0), fixed_targets(op)
        image = op.b.convert_to(op.tensor(0), F32)
        for axis, size, target in zip((1, 2), sizes, targets, strict=True):
            image = sampled(op.b, image, axis, method(op, size, target))
        return image

    return rule


def _computed_positions(op: Op, size: Size, target: Size, half: float) -> Instruction:
    """Return where each target pixel lies in the source, one size of which is open, `f32[target]`.

    With half-pixel centers `half` is subtracted: 0.5 counts from the middle of the first pixel.
    """
    b = op.b
    is_centered = bool(op.attribute("half_pixel_centers", False))
    place = b.iota_of(F32, (target,), 0)
    place = b.binary("add", place, 0.5) if is_centered else place
    scale = b.divide(b.scalar(size, F32), b.scalar(target, F32))
    if op.attribute("align_corners", False):
        aligned = b.divide(b.scalar(size - 1, F32), b.scalar(target - 1, F32))
        scale = b.select(b.compared("GT", b.size(target), 1), aligned, scale)
    made = b.multiply(place, b.spread(scale, (target,)))
    return b.binary("subtract", made, half) if is_centered else made


def _bilinear_axis(op: Op, image: Instruction, axis: int, target: Size) -> Instruction:
    """Return an image brought to `target` pixels along an axis.

    Low + (high - low) * share, so that an infinity gives what it gives in TensorFlow.
    """
    b, size = op.b, image.shape.dims[axis]
    if size == target:
        return image
    if not (isinstance(size, int) and isinstance(target, int)):
        place = _computed_positions(op, size, target, 0.5)
        floor = b.floor(place)
        last = b.spread(b.scalar(size - 1, F32), (target,))
        upper = b.minimum(b.ceil(place), last)
        lower = b.minimum(b.maximum(floor, b.zeros(floor.shape)), upper)
        upper = b.maximum(upper, b.zeros(floor.shape))
        low, high = (take(b, image, b.convert_to(side, S64), axis) for side in (lower, upper))
        shares = b.subtract(place, floor)
    else:
        taps = _linear(op, size, target)
        low, high = (taken(b, image, axis, taps.indices[:, side]) for side in range(2))
        shares = b.constant(taps.weights[:, 1])
    share = b.spread(shares, low.shape.dims, (axis,))
    return b.add(low, b.multiply(b.subtract(high, low), share))


def _resize_bilinear(op: Op) -> Value:
    targets, image = _target_sizes(op), op.b.convert_to(op.tensor(0), F32)
    for axis, target in zip((1, 2), targets, strict=True):
        image = _bilinear_axis(op, image, axis, target)
    return image


def _nearest_axis(op: Op, image: Instruction, axis: int, target: Size) -> Instruction:
    """Return an image with `target` of its pixels along an axis."""
    b, size = op.b, image.shape.dims[axis]
    if not (isinstance(size, int) and isinstance(target, int)):
        place = _computed_positions(op, size, target, 0.0)
        is_rounded = bool(op.attribute("align_corners", False))
        place = b.binary("add", place, 0.5) if is_rounded else place
        last = b.spread(b.scalar(size - 1, F32), (target,))
        source = b.clamp(b.zeros(last.shape), b.floor(place), last)
        return take(b, image, b.convert_to(source, S64), axis)
    source = _nearest(op, size, target).indices[:, 0]
    parts = [b.sliced(image, axis, int(n), int(n) + 1) for n in source]
    return b.concatenated(parts, axis)


def _resize_nearest(op: Op) -> Value:
    """Rows and columns taken whole: exact for every element type."""
    targets, image = _target_sizes(op), op.tensor(0)
    for axis, target in zip((1, 2), targets, strict=True):
        image = _nearest_axis(op, image, axis, target)
    return image


def _gradient_of(op: Op, sizes: tuple[int, ...], method: Method) -> Instruction:
    """Return operand 0, a gradient, brought back to the image's sizes: rows, then columns."""
    b, made = op.b, op.tensor(0)
    for size, target in zip(sizes, _image_sizes(op, 0), strict=True):
        matrix = b.constant(method(op, size, target).matrix(size), made.shape.dtype)
        # The axis that is summed leaves the front of the image's, and comes back as the last.
        made = dot(b, made, matrix, ((1,), (0,)))
    return b.transposed(made, (0, 2, 3, 1))


def _gradient(method: Method) -> Rule:
    """Gradient, original image: the weights, transposed."""
    return lambda op: op.b.convert_to(_gradient_of(op, _image_sizes(op, 1), method), op.result())


def _nearest_gradient(op: Op) -> Value:
    return _gradient_of(op, fixed_targets(op), _nearest)


RULES: dict[str, Rule] = {
    "ResizeArea": _resized(_area),
    "ResizeBicubic": _resized(_cubic),
    "ResizeBicubicGrad": _gradient(_cubic),
    "ResizeBilinear": _resize_bilinear,
    "ResizeBilinearGrad": _gradient(_linear),
    "ResizeNearestNeighbor": _resize_nearest,
    "ResizeNearestNeighborGrad": _nearest_gradient,
}
