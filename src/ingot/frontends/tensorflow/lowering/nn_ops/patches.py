# SPDX-License-Identifier: Apache-2.0
"""Patches of images and volumes: windows as they are, or folded with a filter by max and plus.

Each tap of the window is one strided slice of the padded image; the gradients of the fold by max go
back along the same slices. Source: TensorFlow's
`kernels/extract_image_patches_op.cc`, `extract_volume_patches_op.cc`, `dilation_ops.cc`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Sizes, Value
from ingot.frontends.tensorflow.lowering.nn_ops.windows import Layout, check_windows, paddings
from ingot.hlo.dtype import PRED, S32, least_finite
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import record


@record
class _Windows:
    """Where the taps of a window are: numbers for each spatial axis.

    `counts` windows, `strides` apart, the first one `before` the image; taps `rates` apart.
    """

    kernel: tuple[int, ...]
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    rates: tuple[int, ...]
    before: tuple[int, ...]
    counts: tuple[int, ...]

    @staticmethod
    def of(op: Op, dims: Sizes, kernel: tuple[int, ...]) -> _Windows:
        """Read the node's attributes, for an image of `dims`: batch, space, channels."""
        layout = Layout(len(dims), channels_first=False)
        strides, rates = (layout.pick(op, name) for name in ("strides", "rates"))
        sizes = layout.sizes(dims)
        pads = paddings(op, layout, sizes, kernel, strides, rates)
        spans = [(taps - 1) * rate + 1 for taps, rate in zip(kernel, rates, strict=True)]
        known: list[int] = []
        counts: list[int] = []
        for axis, size in enumerate(sizes):
            if not isinstance(size, int):
                raise op.error("patches need image sizes that are known at compile time")
            known.append(size)
            counts.append(max((size + sum(pads[axis]) - spans[axis]) // strides[axis] + 1, 0))
        check_windows(op, sizes, spans, strides, pads)
        before = tuple(pad[0] for pad in pads)
        return _Windows(kernel, tuple(known), strides, rates, before, tuple(counts))

    def taps(self) -> list[tuple[int, ...]]:
        """The index of every tap of the window, the last axis fastest."""
        return list(np.ndindex(self.kernel))

    def _padding(self, tap: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """Return how many pixels the windows' tap is from each edge, and between windows."""
        rows: list[tuple[int, int, int]] = []
        for axis, index in enumerate(tap):
            start = index * self.rates[axis] - self.before[axis]
            reach = (self.counts[axis] - 1) * self.strides[axis] + 1
            rows.append((start, self.sizes[axis] - start - reach, self.strides[axis] - 1))
        return [(0, 0, 0), *rows, (0, 0, 0)]

    def seen(
        self, b: TensorBuilder, image: Instruction, tap: tuple[int, ...], outside: Instruction
    ) -> Instruction:
        """Return what a tap sees in each window."""
        if 0 in self.counts:
            dims = (image.shape.dims[0], *self.counts, image.shape.dims[-1])
            return b.zeros(image.shape.with_dims(dims))
        padding = self._padding(tap)
        edges = tuple((-low, -high, 0) for low, high, _ in padding)
        part = b.emit("pad", image, outside, padding=edges)
        for axis, (_, _, between) in enumerate(padding):
            part = b.sliced(part, axis, 0, part.shape.dims[axis], between + 1)
        return part

    def put_back(
        self, b: TensorBuilder, part: Instruction, tap: tuple[int, ...], dims: Sizes
    ) -> Instruction:
        """Return an image of zeros with each window's number where a tap of it sees."""
        if 0 in self.counts:
            return b.zeros(part.shape.with_dims(dims))
        zero = b.constant(0, part.shape.dtype)
        return b.emit("pad", part, zero, padding=tuple(self._padding(tap)))

    def inside(self, tap: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return in which windows `[rows, columns, 1]` a tap is inside the image."""
        flags: list[np.ndarray[Any, np.dtype[np.bool_]]] = []
        for axis, (start, _, between) in enumerate(self._padding(tap)[1:3]):
            pixels = start + np.arange(self.counts[axis]) * (between + 1)
            flags.append((pixels >= 0) & (pixels < self.sizes[axis]))
        return (flags[0][:, None] & flags[1])[:, :, None]


def _patches(op: Op) -> Value:
    b, image = op.b, op.tensor(0)
    rank = image.shape.rank
    kernel = Layout(rank, channels_first=False).pick(op, "ksizes")
    windows = _Windows.of(op, image.shape.dims, kernel)
    zero = b.constant(0, image.shape.dtype)
    parts = [windows.seen(b, image, tap, zero) for tap in windows.taps()]
    return b.concatenated(parts, rank - 1)


@record
class _Dilation:
    """Image plus filter over the windows: the greatest sum, and at which tap it is.

    A sum counts where it is greater than all before it and than the type's least number, so NaN
    never does; `tap` is -1 in a window where none does.
    """

    windows: _Windows
    greatest: Instruction
    tap: Instruction

    @staticmethod
    def of(op: Op) -> _Dilation:
        """Take image and filter, operands 0 and 1."""
        b, image, kernel = op.b, op.tensor(0), op.tensor(1)
        *sizes, channels = kernel.shape.static_dims
        windows = _Windows.of(op, image.shape.dims, tuple(sizes))
        element = image.shape.dtype
        dims = (image.shape.dims[0], *windows.counts, channels)
        greatest = b.like(least_finite(element), image.shape.with_dims(dims))
        best = b.like(-1, Shape.array(S32, dims))
        zero = b.constant(0, element)
        for number, tap in enumerate(windows.taps()):
            row = b.sliced(kernel, 0, tap[0], tap[0] + 1)
            term = b.reshape_to(b.sliced(row, 1, tap[1], tap[1] + 1), (channels,))
            total = b.binary("add", windows.seen(b, image, tap, zero), term)
            inside = b.spread(b.constant(windows.inside(tap), PRED), dims)
            more = b.and_(inside, b.compare(total, greatest, direction="GT"))
            greatest = b.select(more, total, greatest)
            best = b.select(more, b.like(number, best.shape), best)
        return _Dilation(windows, greatest, best)

    def chosen(self, b: TensorBuilder, number: int, gradient: Instruction) -> Instruction:
        """Return the gradient in the windows whose greatest sum is at a tap, 0 in others."""
        here = b.compared("EQ", self.tap, number)
        return b.select(here, gradient, b.zeros(gradient.shape))


def _dilation_of_image(op: Op) -> Value:
    """A window without a greatest sum gives its gradient to its first pixel inside the image."""
    b, gradient, found = op.b, op.tensor(2), _Dilation.of(op)
    windows, taps = found.windows, found.windows.taps()
    first = np.zeros((*windows.counts, 1), np.int32)
    for number in reversed(range(len(taps))):
        first[windows.inside(taps[number])] = number
    default = b.spread(b.constant(first, S32), found.tap.shape.dims)
    none = b.compared("LT", found.tap, 0)
    found = replace(found, tap=b.select(none, default, found.tap))
    made = b.zeros(op.tensor(0).shape)
    for number, tap in enumerate(taps):
        part = found.chosen(b, number, gradient)
        made = b.add(made, windows.put_back(b, part, tap, made.shape.dims))
    return made


def _dilation_of_filter(op: Op) -> Value:
    """A window without a greatest sum gives its gradient to the first tap."""
    b, gradient, found = op.b, op.tensor(2), _Dilation.of(op)
    found = replace(found, tap=b.binary("maximum", found.tap, 0))
    count = len(found.windows.taps())
    parts = [b.summed(found.chosen(b, n, gradient), (0, 1, 2), keep=True) for n in range(count)]
    return b.reshape_to(b.concatenated(parts, 0), op.dims(1))


RULES: dict[str, Rule] = {
    "Dilation2D": lambda op: _Dilation.of(op).greatest,
    "Dilation2DBackpropFilter": _dilation_of_filter,
    "Dilation2DBackpropInput": _dilation_of_image,
    "ExtractImagePatches": _patches,
    "ExtractVolumePatches": _patches,
}
