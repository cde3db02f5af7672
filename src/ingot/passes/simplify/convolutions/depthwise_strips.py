# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolutions: those of several features a channel, and those of few channels.

The driver of direct convolutions takes as many features as channels. Where a channel has several
features it is repeated for each; where several channels make one feature (the input gradient of the
former) each makes one of its own, and these are added.

It runs along features, and the 3 channels of an image in colours fill no vector. So each image is
cut into strips of rows, which overlap by what the window reaches beyond its row, and the strips of
all images are laid side by side as channels of one image. The filter is the same for each strip.

Without this pass (AVX2, one thread, 2026-11-28) strips of 1 and 3 channels take 2 to 5 times as
long, several features of a channel 1.1 to 14 times, the sums of several channels 3 to 30 times, and
filter gradients 1.0 to 3.8 times. Slower with it are 8 features of a channel, which are a panel of
AVX2's (48x48x16 takes 1.7 times as long with it, 14x14x32 0.7 times).

Invariant: each result is the sum of the same products, and of products with the zeros of a dilated
input.

Example:
    f32[2,60,60,3] convolution(f32[2,64,64,3], f32[5,5,1,3]), feature_group_count=3
    has f32[1,12,60,30] convolution(f32[1,16,64,30], f32[5,5,1,30]), feature_group_count=30
"""

from __future__ import annotations

import math

from ingot.analysis.conv1d import is_conv1d
from ingot.analysis.direct_convolution import DIMENSIONS, ConvolutionSizes, Sizes, known_sizes
from ingot.analysis.library import ELEMENTS, driver_vector_bits
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dim import ceil_div, round_up
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import ConvolutionAttributes, ConvolutionLabels
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.window import WindowDimension, window_elements
from ingot.passes.simplify.convolutions.canonicalizer import has_known_sizes, reordered
from ingot.support.records import record, replace

MAX_CHANNELS, MAX_FEATURES_OF_ONE = 7, 3
"""Channels that are too few for vectors; for one channel, the features from which on it is a
contraction. (64x64, 2 images, 5x5, AVX-512, one thread, 2026-11-28: 3 channels 4 times as fast, 6
channels 1.6 times, 8 channels 0.9.)"""

MAX_REPEATED = 8
"""Features of a channel, or channels of a feature, at most. (8 images of 48x48, 16 channels, 3x3:
2 features of each 12 times as fast, 8 features 9 times.)"""

MIN_PRODUCTS = 1 << 14
"""Products of all sums from which on the copies pay (11 us to 4 us with 24,000)."""

LANES, MIN_LANES, MAX_STRIPS = 16, 32, 16
"""Lanes of a vector of features, the least features that are counted, the most strips per image."""

COPIED, RETURNED = 25, 50
"""Cost of an element that is copied into a strip, and of a result, in products."""


@record
class _Problem:
    """A depthwise convolution of `channels` channels, each with a feature of its own.

    Attributes:
        batch, channels: sizes.
        repeated: features of each channel of the operand.
        added: channels of each feature of the result.
        inputs, results: spatial sizes.
        window: how the filter slides.
    """

    batch: int
    channels: int
    repeated: int
    added: int
    inputs: tuple[int, ...]
    results: tuple[int, ...]
    window: tuple[WindowDimension, ...]

    @property
    def features(self) -> int:
        """Features of all images."""
        return self.batch * self.channels

    @property
    def taps(self) -> int:
        """Products of a sum."""
        return window_elements(self.window)

    def rows(self, strips: int) -> tuple[int, int]:
        """Return the rows of a strip's results, and of its input."""
        count = ceil_div(self.results[0], strips)
        return count, self.window[0].reach(count)

    def cost(self, strips: int) -> int:
        """Return the cost of running as `strips` strips, in products."""
        rows, read = self.rows(strips)
        features = strips * self.features
        vectors = max(MIN_LANES, round_up(features, LANES))
        columns = math.prod(self.results[1:])
        products = vectors * self.taps * rows * columns
        copied = features * read * math.prod(self.inputs[1:])
        return products + COPIED * copied + RETURNED * features * rows * columns

    def dense(self) -> _Problem:
        """Return the problem with its input dilated."""
        inputs = tuple(one.spread(n) for n, one in zip(self.inputs, self.window, strict=True))
        window = tuple(replace(one, base_dilation=1) for one in self.window)
        return replace(self, inputs=inputs, window=window)

    def in_strips(self, strips: int) -> ConvolutionSizes:
        """Return the sizes of the convolution of `strips` strips."""
        rows, read = self.rows(strips)
        features = strips * self.features
        sizes = (read, *self.inputs[1:]), (rows, *self.results[1:])
        return ConvolutionSizes(1, *sizes, features, features, features, self.window)

    def whole(self) -> ConvolutionSizes:
        """Return the sizes of the convolution of whole images."""
        count = self.channels
        return ConvolutionSizes(
            self.batch, self.inputs, self.results, count, count, count, self.window
        )


def _is_taken(given: ConvolutionSizes, element_bits: int) -> bool:
    """Whether the driver of direct convolutions takes a convolution."""
    sizes, cell = Sizes.of(given), element_bits // 8
    panels = (sizes.panel(bits // 8 // cell) for bits in driver_vector_bits())
    return not any(sizes.refusal(panel, cell) for panel in panels)


@expander("depthwise-strips", "convolution")
def depthwise_strips(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Gives depthwise convolutions as many features as channels, and enough of them."""
    if op.as_(ConvolutionAttributes).batch_group_count > 1:
        return _filter_gradient(op, build)
    problem = _problem(op)
    if problem is None:
        return op
    made = _made(op, problem, build)
    if made is None:
        return op
    labels = op.as_(ConvolutionAttributes).labels
    made = _added(made, problem, build, module)
    return reordered(build, made, _labels(len(problem.window)).output, labels.output)


def _made(op: Instruction, problem: _Problem, build: Builder) -> Instruction | None:
    """Return the result of each channel, features last; None where the convolution stays."""
    bits = op.shape.dtype.bits
    if problem.channels > MAX_CHANNELS:
        if problem.repeated == problem.added == 1:
            return None
        if _is_taken(problem.whole(), bits):
            return _whole(op, problem, build)
    problem = problem.dense()
    counts = range(1, min(MAX_STRIPS, problem.results[0]) + 1)
    strips = min(counts, key=problem.cost)
    is_taken = _is_taken(problem.in_strips(strips), bits)
    return _in_strips(op, problem, strips, build) if is_taken else None


def _filter_gradient(op: Instruction, build: Builder) -> Instruction:
    """Return the filter gradient of a depthwise convolution, with as many channels as features.

    The input is padded before: sums without masks took 0.1 to 0.45 of the time (3x3 to
    7x7, 16 to 512 channels), and the copy less than that saves. The batch, which is summed over,
    may be symbolic. `op` itself if it stays as it is.
    """
    given, lhs = op.as_(ConvolutionAttributes), op.operands[0]
    groups, at = given.batch_group_count, given.labels.lhs.index("b")
    others = [lhs.shape.dims[at] for at, label in enumerate(given.labels.lhs) if label != "f"]
    is_known = known_sizes((*op.shape.dims, *others)) is not None
    if not _has_driver(op) or not is_known or lhs.shape.dims[at] != groups:
        return op
    if given.feature_group_count > 1 or 0 in lhs.shape.dims:
        return op
    features = op.shape.static_dims[given.labels.output.index("f")]
    is_padded = any(one.low or one.high for one in given.window)
    is_dilated = any(one.base_dilation > 1 for one in given.window)
    pads = is_padded and not is_dilated
    repeats = 1 < features // groups <= MAX_REPEATED
    products = math.prod(op.shape.static_dims) * window_elements(given.window)
    if not (pads or repeats) or products < MIN_PRODUCTS:
        return op
    window = given.window
    if pads:
        edges = [(0, 0, 0)] * lhs.shape.rank
        for number, one in enumerate(window):
            edges[given.labels.lhs.index(str(number))] = (one.low, one.high, 0)
        window = tuple(replace(one, low=0, high=0) for one in window)
        lhs = build.pad(lhs, build.constant(0, lhs.shape.dtype), padding=tuple(edges))
    if repeats:
        dims = list(lhs.shape.dims)
        wide = (*dims[: at + 1], features // groups, *dims[at + 1 :])
        kept = tuple(number for number in range(len(wide)) if number != at + 1)
        dims[at] = features
        lhs = build.reshape_to(build.broadcast_to(lhs, wide, kept), tuple(dims))
    return build.convolution(
        lhs,
        op.operands[1],
        shape=op.shape,
        window=window,
        dim_labels=given.dim_labels,
        batch_group_count=features if repeats else groups,
        operand_precision=given.operand_precision,
    )


def _has_driver(convolution: Instruction) -> bool:
    """Whether drivers exist for the dimensions and the element type."""
    window = convolution.as_(ConvolutionAttributes).window
    items = (convolution, *convolution.operands)
    return (
        1 <= len(window) <= DIMENSIONS
        and {item.shape.dtype for item in items} == {convolution.shape.dtype}
        and convolution.shape.dtype in ELEMENTS
    )


def _problem(convolution: Instruction) -> _Problem | None:
    """Return a convolution as a depthwise one; None if it is another one."""
    given = convolution.as_(ConvolutionAttributes)
    lhs = convolution.operands[0]
    # A line of one channel is a product, which takes 10 us for 5000 numbers and 64 taps, and 17 in
    # strips (AVX-512, one thread, 2026-11-28).
    is_known = has_known_sizes(convolution)
    if not is_known or not _has_driver(convolution) or is_conv1d(convolution):
        return None
    input = dict(zip(given.labels.lhs, lhs.shape.static_dims, strict=True))
    result = dict(zip(given.labels.output, convolution.shape.static_dims, strict=True))
    groups, numbers = given.feature_group_count, [str(n) for n in range(len(given.window))]
    problem = _Problem(
        input["b"],
        max(input["f"], result["f"]),
        result["f"] // groups,
        input["f"] // groups,
        tuple(input[number] for number in numbers),
        tuple(result[number] for number in numbers),
        given.window,
    )
    is_small = math.prod(convolution.shape.static_dims) * problem.taps < MIN_PRODUCTS
    most = MAX_FEATURES_OF_ONE if groups == 1 else MAX_REPEATED
    if (
        is_small
        or problem.taps == 1
        or min(problem.repeated, problem.added) > 1
        or max(problem.repeated, problem.added) > most
        or (groups == 1 and problem.added > 1)
    ):
        return None
    return problem


def _labels(rank: int) -> ConvolutionLabels:
    digits = "".join(map(str, range(rank)))
    return ConvolutionLabels(f"b{digits}f", f"{digits}io", f"b{digits}f")


def _repeated(image: Instruction, problem: _Problem, build: Builder) -> Instruction:
    """Return an image, channels last, with each channel once for each of its features."""
    *dims, _ = image.shape.static_dims
    wide = (*image.shape.static_dims, problem.repeated)
    wide = build.broadcast_to(image, wide, tuple(range(image.shape.rank)))
    return build.reshape_to(wide, (*dims, problem.channels))


def _added(result: Instruction, problem: _Problem, build: Builder, module: Module) -> Instruction:
    """Return a result, features last, as the sum of the channels of each feature."""
    if problem.added == 1:
        return result
    *dims, _ = result.shape.static_dims
    parts = build.reshape_to(result, (*dims, problem.channels // problem.added, problem.added))
    zero = build.constant(0, result.shape.dtype)
    add = module.take(scalar_computation("add", result.shape.dtype))
    return build.reduce(parts, zero, dimensions=(len(dims) + 1,), to_apply=add)


def _filter(op: Instruction, build: Builder) -> Instruction:
    """Return the filter of a depthwise convolution: [..., 1, channels]."""
    given = op.as_(ConvolutionAttributes)
    digits = _labels(len(given.window)).rhs[:-2]
    taps = reordered(build, op.operands[1], given.labels.rhs, f"{digits}oi")
    *window, features, channels = taps.shape.static_dims
    return build.reshape_to(taps, (*window, 1, features * channels))


def _whole(op: Instruction, problem: _Problem, build: Builder) -> Instruction:
    """Return the result of each channel of whole images."""
    given, labels = op.as_(ConvolutionAttributes), _labels(len(problem.window))
    image = reordered(build, op.operands[0], given.labels.lhs, labels.lhs)
    return build.convolution(
        _repeated(image, problem, build),
        _filter(op, build),
        shape=op.shape.with_dims((problem.batch, *problem.results, problem.channels)),
        window=problem.window,
        dim_labels=str(labels),
        feature_group_count=problem.channels,
        operand_precision=given.operand_precision,
    )


def _in_strips(op: Instruction, problem: _Problem, strips: int, build: Builder) -> Instruction:
    """Return the results of all channels, computed in `strips` strips."""
    given = op.as_(ConvolutionAttributes)
    rank, rows = len(given.window), problem.rows(strips)[0]
    images, first = _strips_of(op, problem, strips, build), problem.window[0]
    features = strips * problem.features
    made = build.convolution(
        images,
        _filters(op, problem, strips, build),
        shape=op.shape.with_dims((1, rows, *problem.results[1:], features)),
        window=(replace(first, low=0, high=0), *problem.window[1:]),
        dim_labels=str(_labels(rank)),
        feature_group_count=features,
        operand_precision=given.operand_precision,
    )
    parts = (rows, *problem.results[1:], strips, problem.batch, problem.channels)
    # [rows, ..., strips, batch, features] to [batch, strips, rows, ..., features]
    order = (rank + 1, rank, *range(rank), rank + 2)
    whole = build.transpose(build.reshape_to(made, parts), dimensions=order)
    dims = (problem.batch, strips * rows, *problem.results[1:], problem.channels)
    whole = build.reshape_to(whole, dims)
    return build.leading(whole, (problem.batch, *problem.results, problem.channels))


def _strips_of(op: Instruction, problem: _Problem, strips: int, build: Builder) -> Instruction:
    """Return strips of all images side by side: [1, rows, ..., strips * batch * channels]."""
    given, rank = op.as_(ConvolutionAttributes), len(problem.window)
    digits = _labels(rank).lhs[1:-1]
    image = reordered(build, op.operands[0], given.labels.lhs, f"{digits}bf")
    rows, read = problem.rows(strips)
    step, low = rows * problem.window[0].stride, problem.window[0].low
    length = (strips - 1) * step + read
    edges = [(0, 0, one.base_dilation - 1) for one in given.window]
    edges[0] = (low, length - low - problem.inputs[0], edges[0][2])
    if any(map(any, edges)):
        zero = build.constant(0, image.shape.dtype)
        image = build.pad(image, zero, padding=(*edges, *((0, 0, 0),) * 2))
    image = _repeated(image, problem, build)
    parts: list[Instruction] = []
    for number in range(strips):
        start = number * step
        part = build.slice_along(image, 0, start, start + read)
        dims = part.shape.static_dims
        parts.append(build.reshape_to(part, (*dims[:rank], 1, *dims[rank:])))
    joined = parts[0] if strips == 1 else build.concatenate(*parts, dimensions=(rank,))
    return build.reshape_to(joined, (1, read, *problem.inputs[1:], strips * problem.features))


def _filters(op: Instruction, problem: _Problem, strips: int, build: Builder) -> Instruction:
    """Return the filter for each strip: [..., 1, strips * batch * channels]."""
    rank, taps = len(problem.window), _filter(op, build)
    *window, _, channels = taps.shape.static_dims
    dims = (*window, 1, strips, problem.batch, channels)
    taps = build.broadcast_to(taps, dims, (*range(rank + 1), rank + 3))
    return build.reshape_to(taps, (*window, 1, strips * problem.features))
