# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions of few channels: images and strips of images become channels.

A depthwise convolution runs along its features, and the 3 of an image in colours fill no vector.
Each image is cut into strips of rows, which overlap by what the window reaches beyond its row; the
strips of all images are laid side by side as channels of one image. The filter is the same for
each strip.

Invariant: each result is the sum of the same products.

Example:
    f32[2,60,60,3] convolution(f32[2,64,64,3], f32[5,5,1,3]), feature_group_count=3
    has f32[1,8,60,48] convolution(f32[1,12,64,48], f32[5,5,1,48]), feature_group_count=48
"""

from __future__ import annotations

import math
from typing import ClassVar

from ingot.analysis.direct_convolution import DIMENSIONS, ConvolutionSizes, Sizes
from ingot.analysis.library import ELEMENTS, driver_vector_bits
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes, ConvolutionLabels
from ingot.hlo.window import WindowDimension
from ingot.passes.expand.expander import Expander
from ingot.support.records import record, replace

MAX_FEATURES, MAX_FEATURES_OF_ONE = 7, 3
"""Features that are too few for vectors; of one channel, those that the contraction takes as
rows are too many. (64x64, 2 images, 5x5, AVX-512, one thread, 2026-11-28: 3 features 4 times as
fast, 6 features 1.6 times, 8 features 0.9.)"""

MIN_PRODUCTS = 1 << 14
"""Products of all sums from which on the copies pay (11 us to 4 us with 24,000)."""

LANES, MIN_LANES, MAX_STRIPS = 16, 32, 16
"""Features are counted in vectors; so many features at least, strips of an image at most."""

COPIED, RETURNED = 25, 50
"""Cost of an element that is copied into a strip, and of a result, in products."""


@record
class _Problem:
    """A depthwise convolution with rows first.

    Attributes:
        batch, channels, multiplier: sizes; each channel has `multiplier` features.
        inputs, results: spatial sizes.
        window: how the filter slides.
    """

    batch: int
    channels: int
    multiplier: int
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    window: tuple[WindowDimension, ...]

    @property
    def features(self) -> int:
        """Features of all images."""
        return self.batch * self.channels * self.multiplier

    @property
    def taps(self) -> int:
        """Products of a sum."""
        return math.prod(one.size for one in self.window)

    def rows(self, strips: int) -> tuple[int, int]:
        """Return the rows of a strip's results, and of its input."""
        first, count = self.window[0], -(-self.results[0] // strips)
        return count, (count - 1) * first.stride + (first.size - 1) * first.window_dilation + 1

    def cost(self, strips: int) -> int:
        """Return what it costs to run as so many strips, in products."""
        rows, read = self.rows(strips)
        features = strips * self.features
        vectors = max(MIN_LANES, -(-features // LANES) * LANES)
        columns = math.prod(self.results[1:])
        products = vectors * self.taps * rows * columns
        copied = features * read * math.prod(self.inputs[1:])
        return products + COPIED * copied + RETURNED * features * rows * columns

    def is_taken(self, strips: int, cell: int) -> bool:
        """Whether the driver of direct convolutions takes so many strips; `cell`: element bytes."""
        rows, read = self.rows(strips)
        features = strips * self.features
        sizes = Sizes.of(
            ConvolutionSizes(
                1,
                (read, *self.inputs[1:]),
                (rows, *self.results[1:]),
                features,
                features,
                features,
                self.window,
            )
        )
        panels = (sizes.panel(bits // 8 // cell) for bits in driver_vector_bits())
        return not any(sizes.refusal(panel, cell) for panel in panels)


@record
class DepthwiseStrips(Expander):
    """Gives depthwise convolutions of few channels more of them."""

    name: ClassVar[str] = "depthwise-strips"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"convolution"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the convolution in strips; itself where it has channels enough."""
        problem = _problem(op)
        if problem is None:
            return op
        counts = range(1, min(MAX_STRIPS, problem.results[0]) + 1)
        strips = min(counts, key=problem.cost)
        if not problem.is_taken(strips, op.shape.dtype.bits // 8):
            return op
        return _in_strips(op, problem, strips, build)


def _problem(convolution: Instruction) -> _Problem | None:
    """Return the sizes of a convolution that runs in strips; None if it is another one."""
    given = convolution.as_(ConvolutionAttributes)
    lhs, rhs = convolution.operands
    sizes = (*lhs.shape.dims, *rhs.shape.dims, *convolution.shape.dims)
    if (
        not 1 <= len(given.window) <= DIMENSIONS
        or given.batch_group_count > 1
        or any(isinstance(size, Dim) or size == 0 for size in sizes)
        or any(one.base_dilation > 1 for one in given.window)
        or {item.shape.dtype for item in (lhs, rhs, convolution)} - {convolution.shape.dtype}
        or convolution.shape.dtype not in ELEMENTS
    ):
        return None
    input = dict(zip(given.labels.lhs, lhs.shape.static_dims, strict=True))
    result = dict(zip(given.labels.output, convolution.shape.static_dims, strict=True))
    most = MAX_FEATURES_OF_ONE if input["f"] == 1 else MAX_FEATURES
    numbers = [str(number) for number in range(len(given.window))]
    problem = _Problem(
        input["b"],
        input["f"],
        result["f"] // input["f"],
        tuple(input[number] for number in numbers),
        tuple(result[number] for number in numbers),
        given.window,
    )
    is_small = math.prod(convolution.shape.static_dims) * problem.taps < MIN_PRODUCTS
    if given.feature_group_count != input["f"] or result["f"] > most or is_small:
        return None
    return problem if problem.taps > 1 else None


def _in_strips(op: Instruction, problem: _Problem, strips: int, build: Builder) -> Instruction:
    """Return a convolution as one of so many strips."""
    given = op.as_(ConvolutionAttributes)
    rank, rows = len(given.window), problem.rows(strips)[0]
    images, first = _strips_of(op, problem, strips, build), given.window[0]
    features = strips * problem.features
    made = build.convolution(
        images,
        _filters(op, problem, strips, build),
        shape=op.shape.with_dims((1, rows, *problem.results[1:], features)),
        window=(replace(first, low=0, high=0), *given.window[1:]),
        dim_labels=str(_labels(rank)),
        feature_group_count=features,
        operand_precision=given.operand_precision,
    )
    each = problem.channels * problem.multiplier
    parts = (rows, *problem.results[1:], strips, problem.batch, each)
    # [rows, ..., strips, batch, features] to [batch, strips, rows, ..., features]
    order = (rank + 1, rank, *range(rank), rank + 2)
    whole = build.transpose(build.reshape_to(made, parts), dimensions=order)
    dims = (problem.batch, strips * rows, *problem.results[1:], each)
    whole = build.reshape_to(whole, dims)
    if strips * rows > problem.results[0]:
        kept = (problem.batch, *problem.results, each)
        whole = build.slice(whole, slice=tuple((0, size, 1) for size in kept))
    return _reordered(whole, _labels(rank).output, given.labels.output, build)


def _labels(rank: int) -> ConvolutionLabels:
    digits = "".join(map(str, range(rank)))
    return ConvolutionLabels(f"b{digits}f", f"{digits}io", f"b{digits}f")


def _reordered(value: Instruction, have: str, want: str, build: Builder) -> Instruction:
    """Return a value whose dimensions `have` these labels in another order."""
    return (
        value if have == want else build.transpose(value, dimensions=tuple(map(have.index, want)))
    )


def _strips_of(op: Instruction, problem: _Problem, strips: int, build: Builder) -> Instruction:
    """Return strips of all images side by side: [1, rows, ..., strips * batch * features]."""
    given, rank = op.as_(ConvolutionAttributes), len(problem.window)
    digits = _labels(rank).lhs[1:-1]
    image = _reordered(op.operands[0], given.labels.lhs, f"{digits}bf", build)
    rows, read = problem.rows(strips)
    step, low = rows * given.window[0].stride, given.window[0].low
    length = (strips - 1) * step + read
    if low or length != problem.inputs[0]:
        edges = (low, length - low - problem.inputs[0], 0)
        zero = build.constant(0, image.shape.dtype)
        image = build.pad(image, zero, padding=(edges, *((0, 0, 0),) * (rank + 1)))
    if problem.multiplier > 1:
        dims = (*image.shape.static_dims, problem.multiplier)
        image = build.broadcast_to(image, dims, tuple(range(rank + 2)))
    others = tuple((0, size, 1) for size in image.shape.static_dims[1:])
    parts: list[Instruction] = []
    for number in range(strips):
        start = number * step
        part = build.slice(image, slice=((start, start + read, 1), *others))
        dims = part.shape.static_dims
        parts.append(build.reshape_to(part, (*dims[:rank], 1, *dims[rank:])))
    joined = parts[0] if strips == 1 else build.concatenate(*parts, dimensions=(rank,))
    return build.reshape_to(joined, (1, read, *problem.inputs[1:], strips * problem.features))


def _filters(op: Instruction, problem: _Problem, strips: int, build: Builder) -> Instruction:
    """Return the filter for each strip: [..., 1, strips * batch * features]."""
    given, rank = op.as_(ConvolutionAttributes), len(problem.window)
    labels = _labels(rank).rhs
    taps = _reordered(op.operands[1], given.labels.rhs, labels, build)
    *window, _, features = taps.shape.static_dims
    dims = (*window, 1, strips, problem.batch, features)
    taps = build.broadcast_to(taps, dims, (*range(rank + 1), rank + 3))
    return build.reshape_to(taps, (*window, 1, strips * problem.features))
