# SPDX-License-Identifier: Apache-2.0
"""Gradients of filters: for each tap, a sum over images and positions of image times gradient.

The operands are an image [batch, *sizes, channels] and a gradient [batch, *positions, features],
the result is [*taps, channels, features]. Channels and features may be in groups; the result then
has the channels of one. A unit is some channels by a panel of features of a group, for all taps. It
goes through the gradient in *groups of lines* (rows along the last dimension, or whole images where
those are small): it packs their panel of the gradient, which stays in the L1 cache, copies its
channels of the rows that they meet, with zeros around, and adds their products to the sums of every
tap. Along a line neighbouring positions are a constant step apart in the copy, and from line to
line a table of offsets leads, the same for all taps.

Against contractions with patches, gradients of groups of 3 to 16 channels and of 3 to 8 features
take 0.4 to 0.75 of the time (AMD EPYC with AVX-512, one thread, 2026-11-30).

Invariant: each sum adds its products in order of images and positions.
"""

from __future__ import annotations

import math

from ingot.analysis.direct_convolution import (
    DIMENSIONS,
    MAX_WASTE,
    MIN_FEATURES,
    Sizes,
    is_one_row,
)
from ingot.analysis.filter_gradient import has_enough_channels
from ingot.analysis.library import VECTORS
from ingot.hlo.dim import ceil_div, round_up
from ingot.hlo.dtype import DType
from ingot.hlo.window import WindowDimension
from ingot.kernel.contraction.micro_blocks import BlockMaker, MicroBlock
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.contraction.register_block import most_rows
from ingot.kernel.convolution.image_numbers import ImageNumbers
from ingot.kernel.convolution.plain import driven_element
from ingot.kernel.driver_parameters import DriverParameters
from ingot.kernel.ir import ConvolutionKernel, LoopKernel, PlainConvolution
from ingot.kernel.product.product import NO_DRIVER
from ingot.llvm.machine_model import L2_BYTES, LINE_BYTES, Vectors
from ingot.native.types import i64
from ingot.support.records import record, replace

MIN_TAPS = 4
"""Taps from which on the copies pay (measured in docs/convolutions.md, "Filter gradients")."""

FEW_TAPS, MIN_WIDE_FEATURES = 2, 128
"""Taps from which on they pay for as many features, or for one long row, whose general form is a
product with a mask. With 2 and 3 taps gradients of 16 signals of 128 from 32 and 128 channels to
128 features took 0.74 to 0.9 of the time, of four images of 28x28 from 16, 128 and 256 channels to
128 0.59 to 0.85, 128 to 32 0.92 to 1.06, 64 to 64 1.12; of one row of 2000 from 16 to 128 channels
to as many features 0.32 to 0.75 (Sapphire Rapids, one thread, 2026-12-01)."""

GROUP, MAX_LINE = 256, 2048
"""Positions of a group, if lines are shorter; the longest line."""

MAX_LINES = 512
"""Lines of all images at most."""

COPY_BYTES = L2_BYTES // 2
"""Bytes of the copied rows: they stay in the L2 cache."""

FEW_UNITS = 4
"""Units below which a unit has fewer row blocks."""


class FilterGradientNumbers(ImageNumbers, is_constant=True):
    """Numbers of a filter's gradient; steps are in elements of the copy.

    The copy has its rows for each of `unit_images` images; `copied` is the most elements of a pixel
    that a unit reads. Planes of the image are `plane_step` apart from position to position, `tap_d`
    leads from tap to tap. A plane of the gradient has `positions`; where its lines divide one long
    row, the image's pixels are `line_pixels` from line to line, and the last line may be shorter. A
    group of lines is `unit_lines` of each of `unit_images` images, a unit has `unit_blocks` blocks
    of channels. Of all `channels` and `features`, `group_channels` and `group_features` are those
    of a group, which has `panels` panels.
    """

    images: i64
    gradient_0: i64
    gradient_1: i64
    gradient_2: i64
    positions: i64
    line_pixels: i64
    plane_step: i64
    tap_0: i64
    tap_1: i64
    tap_2: i64
    image_step: i64
    unit_images: i64
    unit_blocks: i64
    channel_units: i64
    group_channels: i64
    group_features: i64
    panels: i64
    tile_elements: i64


@record
class FilterGradient(DriverParameters):
    """How a filter's gradient is summed.

    Attributes:
        element: type of operands and sums.
        panel: vectors of a row of a register block, lanes of one.
        chunks: chunks, of one unit each.
        scratch_bytes: bytes of scratch.
        rest: columns that are left over behind the whole panels.
    """

    NAMES = FilterGradientNumbers.c_layout.names

    element: DType
    panel: tuple[int, int]
    chunks: int
    scratch_bytes: int
    rest: int

    @property
    def micro_blocks(self) -> tuple[MicroBlock, ...]:
        """The blocks of its micro-kernels, in the order of the driver's env."""
        vectors, lanes = self.panel
        panels = BlockMaker(self.element, lanes, vectors * lanes)
        return panels.in_panels(self.heights, self.rest)


def filter_gradient(kernel: ConvolutionKernel, vectors: Vectors) -> FilterGradient | str:
    """Return how the shared driver sums a filter's gradient, or why it cannot or would be slow."""
    given, general = kernel.convolution, kernel.general
    if not given.is_of_filter or isinstance(general, LoopKernel):
        return "it is no gradient of a filter"
    element = driven_element(kernel, vectors)
    if element is None:
        return NO_DRIVER
    features = given.group_features
    panel = _panel(features, vectors.lanes(cell_bits(element), 1))
    if not has_enough_channels(given.channels, given.batch):
        return f"too few channels: {given.channels}"
    is_wide = features >= MIN_WIDE_FEATURES or general.patches is None
    least = FEW_TAPS if is_wide else MIN_TAPS
    if math.prod(given.results) < least:
        return f"fewer than {least} taps"
    if not 1 <= len(given.window) <= DIMENSIONS:
        return f"the window does not have 1 to {DIMENSIONS} dimensions"
    if any(one.base_dilation != 1 or one.reversal for one in given.window):
        return "the window is reversed, or its input is dilated"
    if round_up(features, panel[1]) > MAX_WASTE * features:
        return f"{features} features fill vectors of {panel[1]} lanes badly"
    return _plan(given, element, panel, most_rows(panel[0], vectors))


def _panel(features: int, lanes: int) -> tuple[int, int]:
    """Return the vectors of a panel of `features` and their lanes; few features get fewer."""
    if features > lanes:
        return VECTORS, lanes
    while lanes // 2 >= max(features, MIN_FEATURES):
        lanes //= 2
    return 1, lanes


@record
class _Image:
    """The image with three dimensions of positions, and the rows that a unit copies of it.

    The window of a filter's gradient is the gradient, and its results are the taps.

    Attributes:
        given: the convolution.
        sizes, taps, gradient: extents along each dimension of positions.
        window: the window along each of them.
        positions, line_pixels: see `FilterGradientNumbers`.
        lines, images: those of a group.
        cell: bytes of an element.
    """

    given: PlainConvolution
    sizes: tuple[int, ...]
    taps: tuple[int, ...]
    gradient: tuple[int, ...]
    window: tuple[WindowDimension, ...]
    positions: int
    line_pixels: int
    lines: int
    images: int
    cell: int

    @property
    def width(self) -> int:
        """Pixels of a copied row."""
        last = self.window[2]
        return (self.taps[2] - 1) * last.stride + (self.gradient[2] - 1) * last.window_dilation + 1

    @property
    def rows(self) -> int:
        """Copied rows of a plane."""
        one = self.window[1]
        return (self.taps[1] - 1) * one.stride + (self.lines - 1) * one.window_dilation + 1

    def pixel(self, channels: int) -> int:
        """Return the step from pixel to pixel: an odd number of cache lines."""
        line = LINE_BYTES // self.cell
        return (ceil_div(channels, line) | 1) * line

    def plane(self, channels: int) -> int:
        """Return the elements of a copied plane."""
        return self.rows * self.width * self.pixel(channels)

    def copied(self, channels: int) -> int:
        """Return the elements that are copied for a group."""
        return self.images * self.taps[0] * self.plane(channels)


def _plan(
    given: PlainConvolution, element: DType, panel: tuple[int, int], most: int
) -> FilterGradient | str:
    image = _image(given, cell_bits(element) // 8)
    if image.gradient[2] > MAX_LINE or image.lines * image.images > MAX_LINES:
        return "its lines are too long"
    columns = math.prod(panel)
    group_channels, group_features = given.group_channels, given.group_features
    panels = ceil_div(group_features, columns)
    row_blocks = ceil_div(group_channels, most)
    low, tall = divmod(group_channels, row_blocks)
    unit_blocks = _unit_blocks(image, row_blocks, given.groups * panels)
    channels = _channels(given, row_blocks, unit_blocks)
    copy = image.copied(channels) + columns
    tile = math.prod(image.taps) * channels * columns
    chunk = tile + copy + image.images * image.lines * image.gradient[2] * columns
    chunk = -(-chunk * image.cell // LINE_BYTES) * LINE_BYTES // image.cell
    channel_units = ceil_div(row_blocks, unit_blocks)
    values = {
        **_copy_values(image, channels),
        "channels": given.channels,
        "features": given.features,
        "group_channels": group_channels,
        "group_features": group_features,
        "images": given.batch,
        "low_rows": low,
        "tall_blocks": tall,
        "row_blocks": row_blocks,
        "unit_blocks": unit_blocks,
        "channel_units": channel_units,
        "panels": panels,
        "copy_elements": copy,
        "tile_elements": tile,
        "chunk_elements": chunk,
    }
    units = given.groups * panels * channel_units
    return FilterGradient(
        tuple(values[name] for name in FilterGradient.NAMES),
        element,
        panel,
        units,
        units * chunk * image.cell,
        group_features % columns,
    )


def _image(given: PlainConvolution, cell: int) -> _Image:
    whole = Sizes.of(given)
    sizes, taps, window = whole.sizes, whole.results, whole.window
    gradient = tuple(one.size for one in window)
    planes, rows, last = window
    positions, line_pixels = rows.size * last.size, 0
    if last.size > GROUP and is_one_row(sizes, taps, gradient):
        line = ceil_div(last.size, ceil_div(last.size, GROUP))
        gradient = (1, ceil_div(last.size, line), line)
        window = (planes, replace(rows, window_dilation=0), last)
        line_pixels = line * last.window_dilation
    group = _group(given, gradient)
    return _Image(given, sizes, taps, gradient, window, positions, line_pixels, *group, cell)


def _channels(given: PlainConvolution, row_blocks: int, blocks: int) -> int:
    """Return the channels of the first `blocks` of all row blocks of a group."""
    low, tall = divmod(given.group_channels, row_blocks)
    return blocks * low + min(blocks, tall)


def _unit_blocks(image: _Image, row_blocks: int, panels: int) -> int:
    """Return the row blocks of a unit: fewer than all for more units, or for smaller copies."""
    blocks = row_blocks
    while blocks > 1 and ceil_div(row_blocks, blocks) * panels < FEW_UNITS:
        blocks = ceil_div(blocks, 2)
    while blocks > 1:
        channels = _channels(image.given, row_blocks, blocks)
        if image.copied(channels) * image.cell <= COPY_BYTES:
            break
        blocks = ceil_div(blocks, 2)
    return blocks


def _copy_values(image: _Image, channels: int) -> dict[str, int]:
    """Return the numbers of the image and of the copy of `channels` of it."""
    window, pixel, plane = image.window, image.pixel(channels), image.plane(channels)
    row = image.width * pixel
    return {
        **{f"size_{number}": size for number, size in enumerate(image.sizes)},
        **{f"low_{number}": one.low for number, one in enumerate(window)},
        **{f"gradient_{number}": size for number, size in enumerate(image.gradient)},
        "positions": image.positions,
        "line_pixels": image.line_pixels,
        "result_1": image.taps[1],
        "result_2": image.taps[2],
        "planes": image.taps[0],
        "plane_rows": image.rows,
        "padded_width": image.width,
        "pixel": pixel,
        "copied": channels,
        "dilation_0": window[0].stride,
        "stride_1": window[1].window_dilation,
        "plane_step": window[0].window_dilation,
        "tap_0": plane,
        "tap_1": window[1].stride * row,
        "tap_2": window[2].stride * pixel,
        "image_step": image.taps[0] * plane,
        "line_step": window[1].window_dilation * row,
        "row_step": window[2].window_dilation * pixel,
        "unit_lines": image.lines,
        "unit_images": image.images,
    }


def _group(given: PlainConvolution, gradient: tuple[int, ...]) -> tuple[int, int]:
    """Return the lines and images of a group."""
    lines = max(1, min(gradient[1], GROUP // gradient[2]))
    lines = ceil_div(gradient[1], ceil_div(gradient[1], lines))
    if lines < gradient[1] or gradient[0] > 1:
        return lines, 1
    images = max(1, GROUP // (lines * gradient[2]))
    if not isinstance(given.batch, int):
        return lines, images
    return lines, ceil_div(given.batch, ceil_div(given.batch, images))
