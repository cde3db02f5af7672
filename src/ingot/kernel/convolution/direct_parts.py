# SPDX-License-Identifier: Apache-2.0
"""Parts of direct convolutions: the numbers of a dense convolution over all or some of the results.

`analysis.direct_convolution` says which parts a convolution has, `direct` lays them out in chunks
and scratch. Here is what the driver is told of one: its shape, which rows are copied, the lines and
features of a unit, the register blocks of a line.

Invariant: each result belongs to one part.
"""

from __future__ import annotations

from math import prod

from ingot.analysis.direct_convolution import MIN_LINE, Part, Sizes
from ingot.hlo.dim import ceil_div
from ingot.kernel.contraction.register_block import block_cycles
from ingot.kernel.convolution.image_numbers import ImageNumbers
from ingot.kernel.driver_parameters import SCRATCH_CHUNKS
from ingot.llvm.machine_model import L1_STRIDE, L2_BYTES, LINE_BYTES, Vectors
from ingot.native.types import i64
from ingot.support.records import record

PIECE = 1024
"""Depth of a packed piece of the taps, which stays in the L2 cache, from where micro-kernels fetch
it ahead. Pieces of 256, which stay in the L1 cache, send sums through memory more often: 3x3 with
172 channels took 1.05 of the time, others up to 1.04 (AVX-512, 2026-11-27)."""

UNIT_ROWS, FEW_ROWS = 448, 96
"""Results of a unit for each feature: enough to make packing cheap; fewer where units are few."""

COPY_BYTES = L2_BYTES * 3 // 8
"""Bytes of the rows that a unit copies: they stay in the L2 cache. Copies of this size are on the
stack, where each unit's replace those of the one before; larger ones, which a single line may need,
are in the scratch (measured in docs/convolutions.md, "Direct")."""

TILE_BYTES = L2_BYTES // 4
"""Bytes of the sums that wait for an epilogue."""

MIN_TAP_ROWS = 4
"""Rows of a depthwise register block at least; taps that find no registers are read again."""

RUN_BYTES = 512
"""Bytes of a pixel that a unit of a depthwise convolution copies, if the L2 cache does not keep the
image and neighbouring units have no more than a third of their rows in common; else one panel's.
Memory delivers short runs slowly: against those 56x56x128 took 0.76 of the time, 112x112x64 0.78,
112x112x96 by 2 0.55, 60x60x200 0.9, 5x5 of 56x56x128 0.88; 28x28x256, which the cache keeps, 1.1;
for AVX2 they took 0.69, 0.74, 1.0, 1.1 and 0.9 (Sapphire Rapids, one thread, 2026-11-29)."""

FEW_UNITS = 8
"""Units of a part from which on they are large."""

MAX_ALL_CHUNKS = 2 * SCRATCH_CHUNKS
"""Chunks of all parts at most."""


class DirectNumbers(ImageNumbers, is_constant=True):
    """Numbers of a part; steps are in elements.

    Results of the part are `out_d` elements of the whole result apart along dimension d and
    `out_image` from image to image, from element `out_first` on; rows of its taps begin at row
    `tap_first` of the whole, `tap_d` rows from tap to tap. The first tap is `offset_first` behind
    its window's first element, `offset_d` is the step from tap to tap. `copies`: whether rows are
    copied; `own_columns`: whether a unit copies the channels of its own features alone.
    `column_step` is the image's from feature to feature: 1 where groups are as wide as their
    panels. `blocks` counts blocks of features in a group, `panels` panels. `line_pixels` is as in
    `Sizes`.

    The part's chunks of units come behind `first_chunk` others, those of packed panels of taps
    behind `first_packing`. In the scratch its panels lie at `panels_at`, and from `chunks_at` on
    for each chunk `copy_elements` of copied rows (none if they fit on the stack), a packed piece,
    then the rows of an epilogue.
    """

    stride_0: i64
    result_0: i64
    taps_1: i64
    taps_2: i64
    group_channels: i64
    group_features: i64
    out_first: i64
    out_image: i64
    out_0: i64
    out_1: i64
    out_2: i64
    tap_first: i64
    tap_0: i64
    tap_1: i64
    tap_2: i64
    offset_first: i64
    offset_0: i64
    offset_1: i64
    offset_2: i64
    copies: i64
    own_columns: i64
    segment: i64
    segments: i64
    piece_segments: i64
    line_units: i64
    n_block: i64
    blocks: i64
    units: i64
    grain: i64
    is_packed: i64
    panels: i64
    panel_grain: i64
    column_step: i64
    line_pixels: i64
    first_chunk: i64
    chunks_at: i64
    first_packing: i64
    panels_at: i64


@record
class RegisterBlock:
    """The register blocks of a convolution.

    Attributes:
        vectors: vectors of a row.
        lanes: lanes of a vector.
        rows: rows at most.
        cell: bytes of an element.
    """

    vectors: int
    lanes: int
    rows: int
    cell: int

    @property
    def columns(self) -> int:
        """Columns of a block."""
        return self.vectors * self.lanes


def tap_rows(taps: int, count: int, vectors: Vectors) -> int:
    """Return the rows of `count` vectors that registers hold beside the taps of a line."""
    return max(MIN_TAP_ROWS, vectors.registers // count - taps - 1)


@record
class _Image:
    """How units read the image: where it lies, or from copies of the rows that windows meet.

    Attributes:
        copies: whether rows are copied.
        copied: channels that are copied of each pixel.
        pixel: step from pixel to pixel.
    """

    copies: bool
    copied: int
    pixel: int


def plan_part(part: Part, block: RegisterBlock, n_block: int | None = None) -> dict[str, int]:
    """Return a part's numbers, except its count of units and its position among other parts.

    Args:
        part: the part.
        block: its register blocks.
        n_block: features of a unit (default: as suits the part).
    """
    sizes = part.sizes
    image = _image(part, block.cell)
    lines, n_block, outer = _unit(part, block, image, n_block)
    is_own = image.copies and sizes.column_step == 1 and n_block < sizes.unit_features
    if is_own:
        image = _copied_image(sizes, n_block, block.cell)
    width = sizes.width(lines)
    row = (width if image.copies else sizes.sizes[2]) * image.pixel
    plane = sizes.reach(1, lines) * row
    if not image.copies:
        plane = sizes.window[0].window_dilation * sizes.sizes[1] * row
    panels = ceil_div(sizes.unit_features, block.columns)
    return {
        **_shape(part),
        **_tap_offsets(sizes, plane, row, image.pixel),
        **_row_blocks(sizes.results[2], block),
        **_scratch(part, block, sizes.window[0].size * plane * image.copies, (lines, n_block)),
        "line_step": sizes.window[1].stride * row + sizes.line_pixels * image.pixel,
        "row_step": sizes.window[2].stride * image.pixel,
        "copies": int(image.copies),
        "own_columns": int(is_own),
        "planes": sizes.window[0].size,
        "plane_rows": sizes.reach(1, lines),
        "padded_width": width,
        "pixel": image.pixel,
        "copied": image.copied,
        "unit_lines": lines,
        "line_units": ceil_div(sizes.results[1], lines),
        "n_block": n_block,
        "blocks": ceil_div(sizes.unit_features, n_block),
        "is_packed": int(outer > sizes.unit_groups or not part.is_all),
        "panels": panels,
        "panel_grain": -(-panels * sizes.unit_groups // SCRATCH_CHUNKS),
        "column_step": sizes.column_step,
        "line_pixels": sizes.line_pixels,
    }


def _scratch(
    part: Part, block: RegisterBlock, copied: int, unit: tuple[int, int]
) -> dict[str, int]:
    """Return the segments of a packed piece, and the elements of a chunk's scratch.

    `copied`: elements of the rows that a unit copies; `unit`: its lines and features.
    """
    (lines, n_block), columns, cell = unit, block.columns, block.cell
    segment = part.sizes.segment(cell)
    piece_segments = max(1, PIECE // segment)
    copy = copied + columns
    if copy * cell <= COPY_BYTES:
        copy = 0
    tile = lines * part.sizes.results[2] * n_block + columns
    chunk = copy + piece_segments * segment * columns + tile
    return {
        "segment": segment,
        "segments": part.depth // segment,
        "piece_segments": piece_segments,
        "copy_elements": copy,
        "chunk_elements": -(-chunk * cell // LINE_BYTES) * LINE_BYTES // cell,
    }


def _image(part: Part, cell: int) -> _Image:
    """Return how units read the image if each copies all channels of its group."""
    sizes = part.sizes
    is_crowded = sizes.window[2].stride * sizes.channels * cell % L1_STRIDE == 0
    if (sizes.is_padded or is_crowded) and not part.is_empty:
        return _copied_image(sizes, sizes.copied, cell)
    return _Image(copies=False, copied=sizes.copied, pixel=sizes.channels)


def _copied_image(sizes: Sizes, copied: int, cell: int) -> _Image:
    """Return copies of `copied` channels of each pixel."""
    return _Image(copies=True, copied=copied, pixel=_copied_pixel(sizes, copied, cell))


def _unit(
    part: Part, block: RegisterBlock, image: _Image, n_block: int | None
) -> tuple[int, int, int]:
    """Return lines and features of a unit, and how many units share the features.

    Units of depthwise convolutions that copy rows have a run of features each.
    """
    sizes, columns, cell = part.sizes, block.columns, block.cell
    is_run = image.copies and sizes.is_depthwise
    run = _run(sizes, columns, cell) if is_run else sizes.unit_features
    pixel = min(image.pixel, run) if is_run else image.pixel
    copied_bytes = sizes.window[0].size * pixel * cell if image.copies else 0
    lines = _lines(sizes, copied_bytes, ceil_div(sizes.unit_features, run))
    outer = sizes.images * part.outer * ceil_div(sizes.results[1], lines)
    if is_run:
        n_block = run
    elif n_block is None:
        sums_bytes = lines * sizes.results[2] * cell
        n_block = _column_block(sizes.unit_features, outer, columns, sums_bytes)
    return lines, n_block, outer


def _run(sizes: Sizes, columns: int, cell: int) -> int:
    """Return the features of whose pixels a unit of a depthwise convolution copies rows."""
    count = 1
    if prod(sizes.sizes) * sizes.channels * cell > L2_BYTES:
        count = max(1, RUN_BYTES // (columns * cell))
    row_bytes = sizes.window[0].size * sizes.width(1) * columns * cell
    shared = sizes.reach(1, 1) - sizes.window[1].stride
    while count > 1 and 3 * shared * count * row_bytes > COPY_BYTES:
        count //= 2
    panels = ceil_div(sizes.unit_features, columns)
    return ceil_div(panels, ceil_div(panels, count)) * columns


def _shape(part: Part) -> dict[str, int]:
    """Return the numbers that say what a part is, whatever way it is computed."""
    sizes = part.sizes
    return {
        **{f"size_{number}": size for number, size in enumerate(sizes.sizes)},
        **{f"result_{number}": size for number, size in enumerate(sizes.results)},
        **{f"low_{number}": one.low for number, one in enumerate(sizes.window)},
        **{f"out_{number}": step for number, step in enumerate(part.steps)},
        **{f"tap_{number}": step for number, step in enumerate(part.filter_steps)},
        "out_first": part.first,
        "out_image": part.batch_step,
        "tap_first": part.filter_start,
        "channels": sizes.channels,
        "features": sizes.features,
        "stride_0": sizes.window[0].stride,
        "stride_1": sizes.window[1].stride,
        "taps_1": sizes.window[1].size,
        "taps_2": sizes.window[2].size,
        "group_channels": sizes.group_channels,
        "group_features": sizes.unit_features,
        "dilation_0": sizes.window[0].window_dilation,
    }


def _tap_offsets(sizes: Sizes, plane: int, row: int, pixel: int) -> dict[str, int]:
    """Return the offset of the first tap in its window, and the steps from tap to tap."""
    rows, last = (one.window_dilation for one in sizes.window[1:])
    steps = (plane, rows * row, last * pixel)
    taps = list(zip(sizes.window, steps, strict=True))
    signed = [-step if one.reversal else step for one, step in taps]
    return {
        "offset_first": sum((one.size - 1) * step for one, step in taps if one.reversal),
        **{f"offset_{number}": step for number, step in enumerate(signed)},
    }


def _row_blocks(results: int, block: RegisterBlock) -> dict[str, int]:
    """Return how the results of a line are divided into register blocks."""
    least = ceil_div(results, block.rows)
    count = min(
        range(least, max(least, results // MIN_LINE) + 1),
        key=lambda blocks: _line_cycles(results, blocks, block.vectors),
    )
    low, tall = divmod(results, count)
    return {"low_rows": low, "tall_blocks": tall, "row_blocks": count}


def _copied_pixel(sizes: Sizes, copied: int, cell: int) -> int:
    """Return the step from pixel to pixel of copies of `copied` channels each."""
    has_gaps = sizes.window[-1].stride * copied * cell % L1_STRIDE == 0
    return copied + (LINE_BYTES // cell if has_gaps else 0)


def _lines(sizes: Sizes, pixel_bytes: int, panels: int) -> int:
    """Return the lines of a unit; `panels` of features have units of their own.

    `pixel_bytes`: bytes that are copied of a pixel, in all planes.
    """
    width, height = sizes.results[2], sizes.results[1]
    outer = sizes.images * sizes.results[0] * panels
    rows = UNIT_ROWS if panels == 1 else height * width
    lines = max(1, min(height, ceil_div(rows, width)))
    while lines > 1 and sizes.reach(1, lines) * sizes.width(lines) * pixel_bytes > COPY_BYTES:
        lines -= 1
    enough = ceil_div(FEW_ROWS, width)
    while lines > enough and outer * ceil_div(height, lines) < FEW_UNITS:
        lines = max(enough, lines // 2)
    return ceil_div(height, ceil_div(height, lines))


def _line_cycles(results: int, blocks: int, vectors: int) -> float:
    low, tall = divmod(results, blocks)
    return tall * block_cycles(low + 1, vectors) + (blocks - tall) * block_cycles(low, vectors)


def _column_block(features: int, outer: int, columns: int, row_bytes: int) -> int:
    """Return the features of a unit: fewer than all where units are few or sums need much room.

    `outer`: units that have the same features; `row_bytes`: bytes of a unit's sums of one feature.
    """
    panels = ceil_div(features, columns)
    wanted = max(1, min(panels, TILE_BYTES // (row_bytes * columns)))
    while wanted > 1 and outer * ceil_div(panels, wanted) < FEW_UNITS:
        wanted //= 2
    return ceil_div(panels, ceil_div(panels, wanted)) * columns
