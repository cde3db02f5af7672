# SPDX-License-Identifier: Apache-2.0
"""Parts of direct convolutions: the numbers of a dense convolution over all or some of the results.

A convolution is one part; that of a spread-out input has a part for each phase
(`analysis.convolution_phases`), with every d-th tap and every d-th result. Fewer than three spatial
dimensions stand behind ones of size 1. How the driver goes through a part: `direct`.

Invariant: each result belongs to one part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from ingot.analysis.convolution_phases import has_phases, phases_of
from ingot.hlo.window import WindowDimension
from ingot.kernel.contraction.register_block import block_cycles
from ingot.kernel.ir import PlainConvolution
from ingot.llvm.machine_model import L1_STRIDE, L2_BYTES, LINE_BYTES
from ingot.support.records import replace

DIMENSIONS = 3
MIN_LINE = 4
"""Results along the last dimension from which on register blocks of one line are worth it."""

MIN_SEGMENT, MAX_SEGMENT, MAX_SEGMENTS = 8, 256, 512
PIECE = 256
"""Depth of a packed piece of the taps: with the image's rows it stays in the L1 cache."""

UNIT_ROWS, FEW_ROWS = 448, 96
"""Results of a unit for each feature: so many make packing cheap; as few where units are few."""

COPY_BYTES = L2_BYTES * 3 // 8
"""Bytes of the rows that a unit copies: they stay in the L2 cache."""

TILE_BYTES = L2_BYTES // 4
"""Bytes of the sums that wait for an epilogue."""

FEW_UNITS, MAX_CHUNKS, MAX_ALL_CHUNKS = 8, 16, 32
"""Units of a part from which on they are large; chunks of a part, and of all parts, at most."""

PARAMETERS = (
    *("size_0", "size_1", "size_2", "channels", "features"),
    *("stride_0", "stride_1", "low_0", "low_1", "low_2"),
    *("result_0", "result_1", "result_2", "taps_1", "taps_2", "group_channels", "group_features"),
    *("out_first", "out_image", "out_0", "out_1", "out_2"),
    *("tap_first", "tap_0", "tap_1", "tap_2"),
    *("dilation_0", "offset_first", "offset_0", "offset_1", "offset_2", "line_step", "row_step"),
    *("copies", "planes", "plane_rows", "padded_width", "pixel", "copied"),
    *("segment", "segments", "piece_segments", "low_rows", "tall_blocks", "row_blocks"),
    *("unit_lines", "line_units", "n_block", "blocks", "units", "grain", "chunk_elements"),
    *("copy_elements", "is_packed", "panels", "panel_grain", "column_step"),
    *("first_chunk", "chunks_at", "first_packing", "panels_at"),
)
"""Numbers of a part, in the order of its block of env; steps are in elements.

Results of the part are `out_d` places of the whole result apart along dimension d and `out_image`
from image to image, from place `out_first` on; rows of its taps begin at row `tap_first` of the
whole, `tap_d` rows from tap to tap.
The first tap is `offset_first` behind its window's first element, `offset_d` is the step from tap
to tap, `line_step` and `row_step` from line to line and along one. `copies`: whether rows are
copied: `planes` of `plane_rows` rows, each of `padded_width` pixels of `copied` elements that are
`pixel` apart.
`column_step` is the image's from feature to feature: 1 where groups are as wide as their panels.
`blocks` counts blocks of features in a group, `panels` panels.
The part's chunks of units come behind `first_chunk` others, those of packed panels of taps behind
`first_packing`. In the scratch its panels lie at `panels_at`, and from `chunks_at` on for each
chunk the copied rows, a packed piece, then the rows of an epilogue.
"""


@dataclass(frozen=True, slots=True)
class Sizes:
    """A convolution in three dimensions.

    Attributes:
        batch, sizes, results, window, channels, features, groups: see `PlainConvolution`.
        group_channels, group_features: channels and features of a group.
        is_depthwise: whether each feature is a sum over its own channel alone.
        column_step: see `PARAMETERS`.
    """

    batch: int
    sizes: tuple[int, ...]
    results: tuple[int, ...]
    window: tuple[WindowDimension, ...]
    channels: int
    features: int
    group_channels: int
    group_features: int
    groups: int
    is_depthwise: bool
    column_step: int

    @staticmethod
    def of(given: PlainConvolution) -> Sizes:
        """Return those of a convolution."""
        ones = (1,) * (DIMENSIONS - len(given.window))
        is_depthwise = given.groups == given.channels == given.features > 1
        groups = 1 if is_depthwise else given.groups
        return Sizes(
            given.batch,
            ones + given.sizes,
            ones + given.results,
            tuple(WindowDimension(1) for _ in ones) + given.window,
            given.channels,
            given.features,
            given.channels // given.groups,
            given.features // groups,
            groups,
            is_depthwise,
            int(is_depthwise),
        )

    @property
    def is_padded(self) -> bool:
        """Whether a window reaches out of the image."""
        return any(
            one.low > 0
            or (result - 1) * one.stride + (one.size - 1) * one.window_dilation - one.low >= size
            for size, result, one in zip(self.sizes, self.results, self.window, strict=True)
        )

    def reach(self, dimension: int, results: int) -> int:
        """Return the positions that so many neighbouring results take."""
        one = self.window[dimension]
        return (results - 1) * one.stride + (one.size - 1) * one.window_dilation + 1


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a convolution.

    Attributes:
        sizes: the dense convolution that it is.
        taps, tap_steps: first row of its taps in the kernel, rows from tap to tap.
        first: place of its first result in the whole result.
        image_step, steps: places from image to image, and along each dimension.
        is_all: whether it is the whole convolution.
        is_empty: whether no tap meets the image: all sums are zero.
    """

    sizes: Sizes
    taps: int
    tap_steps: tuple[int, ...]
    first: int
    image_step: int
    steps: tuple[int, ...]
    is_all: bool
    is_empty: bool

    @property
    def depth(self) -> int:
        """Products of a sum."""
        taps = math.prod(one.size for one in self.sizes.window)
        return 0 if self.is_empty else taps * self.sizes.group_channels

    @property
    def outer(self) -> int:
        """Units, if each had all lines and features of a group."""
        return self.sizes.batch * self.sizes.results[0] * self.sizes.groups


@dataclass(frozen=True, slots=True)
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


def _rows(sizes: tuple[int, ...], inner: int) -> tuple[int, ...]:
    """Return the steps along dimensions that lie behind one another, `inner` apart."""
    return tuple(inner * math.prod(sizes[number + 1 :]) for number in range(len(sizes)))


def parts_of(sizes: Sizes) -> Iterator[Part]:
    """Yield the parts of a convolution; none if its input is spread out and has no phases."""
    taps = _rows(tuple(one.size for one in sizes.window), sizes.group_channels)
    steps, image = _rows(sizes.results, 1), math.prod(sizes.results)
    if all(one.base_dilation == 1 for one in sizes.window):
        yield Part(sizes, 0, taps, 0, image, steps, is_all=True, is_empty=False)
        return
    if not has_phases(sizes.window):
        return
    dilations = [one.base_dilation for one in sizes.window]
    phases = [phases_of(one, size, 0) for one, size in zip(sizes.window, sizes.sizes, strict=True)]
    for numbers in product(*map(range, dilations)):
        chosen = [phases[at][number] for at, number in enumerate(numbers)]
        is_empty = any(phase.window.size == 0 for phase in chosen)
        results = tuple(
            -(-(size - number) // step)
            for size, number, step in zip(sizes.results, numbers, dilations, strict=True)
        )
        window = tuple(WindowDimension(1) if is_empty else phase.window for phase in chosen)
        if 0 in results:
            continue
        yield Part(
            replace(sizes, results=results, window=window),
            sum(phase.taps[0] * step for phase, step in zip(chosen, taps, strict=True)),
            tuple(phase.taps[2] * step for phase, step in zip(chosen, taps, strict=True)),
            sum(number * step for number, step in zip(numbers, steps, strict=True)),
            image,
            tuple(by * step for by, step in zip(dilations, steps, strict=True)),
            is_all=False,
            is_empty=is_empty,
        )


def plan_part(
    part: Part, block: RegisterBlock, max_chunks: int, n_block: int | None = None
) -> dict[str, int] | None:
    """Return a part's numbers but for its place among others, None if it would be slow.

    Args:
        part: the part.
        block: its register blocks.
        max_chunks: chunks of units at most.
        n_block: features of a unit (default: as suits the part).
    """
    sizes = part.sizes
    vectors, columns, cell = block.vectors, block.columns, block.cell
    last = sizes.window[-1]
    copied = sizes.channels if sizes.groups == 1 else sizes.group_channels
    is_crowded = last.stride * sizes.channels * cell % L1_STRIDE == 0
    copies = (sizes.is_padded or is_crowded) and not part.is_empty
    has_gaps = last.stride * copied * cell % L1_STRIDE == 0
    segment = _segment(sizes, has_gaps)
    depth = part.depth
    if segment is None or depth // segment > MAX_SEGMENTS or sizes.results[-1] < MIN_LINE:
        return None
    pixel = copied + (LINE_BYTES // cell if has_gaps else 0) if copies else sizes.channels
    width = sizes.reach(2, sizes.results[2])
    row = width * pixel if copies else sizes.sizes[2] * sizes.channels
    planes = sizes.window[0].size
    lines = _lines(sizes, planes * row * cell if copies else 0)
    plane_rows = sizes.reach(1, lines)
    plane = plane_rows * row if copies else sizes.window[0].window_dilation * sizes.sizes[1] * row
    steps = (plane, sizes.window[1].window_dilation * row, last.window_dilation * pixel)
    outer = part.outer * -(-sizes.results[1] // lines)
    if n_block is None:
        row_bytes = lines * sizes.results[2] * cell
        n_block = _column_block(sizes.group_features, outer, columns, row_bytes)
    blocks = -(-sizes.group_features // n_block)
    units = outer * blocks
    least = -(-sizes.results[2] // block.rows)
    count = min(
        range(least, max(least, sizes.results[2] // MIN_LINE) + 1),
        key=lambda blocks: _line_cycles(sizes.results[2], blocks, vectors),
    )
    low, tall = divmod(sizes.results[2], count)
    copy = (planes * plane if copies else 0) + columns
    piece_segments = max(1, PIECE // segment)
    tile = lines * sizes.results[2] * n_block + columns
    chunk = copy + piece_segments * segment * columns + tile
    panels = -(-sizes.group_features // columns)
    return {
        **{f"size_{number}": size for number, size in enumerate(sizes.sizes)},
        **{f"result_{number}": size for number, size in enumerate(sizes.results)},
        **{f"low_{number}": one.low for number, one in enumerate(sizes.window)},
        **{f"out_{number}": step for number, step in enumerate(part.steps)},
        **{f"tap_{number}": step for number, step in enumerate(part.tap_steps)},
        "out_first": part.first,
        "out_image": part.image_step,
        "tap_first": part.taps,
        "channels": sizes.channels,
        "features": sizes.features,
        "stride_0": sizes.window[0].stride,
        "stride_1": sizes.window[1].stride,
        "taps_1": sizes.window[1].size,
        "taps_2": last.size,
        "group_channels": sizes.group_channels,
        "group_features": sizes.group_features,
        "dilation_0": sizes.window[0].window_dilation,
        "offset_first": sum(
            (one.size - 1) * step
            for one, step in zip(sizes.window, steps, strict=True)
            if one.reversal
        ),
        **{
            f"offset_{number}": -step if one.reversal else step
            for number, (one, step) in enumerate(zip(sizes.window, steps, strict=True))
        },
        "line_step": sizes.window[1].stride * row,
        "row_step": last.stride * pixel,
        "copies": int(copies),
        "planes": planes,
        "plane_rows": plane_rows,
        "padded_width": width,
        "pixel": pixel,
        "copied": copied,
        "segment": segment,
        "segments": depth // segment,
        "piece_segments": piece_segments,
        "low_rows": low,
        "tall_blocks": tall,
        "row_blocks": count,
        "unit_lines": lines,
        "line_units": -(-sizes.results[1] // lines),
        "n_block": n_block,
        "blocks": blocks,
        "units": units,
        "grain": -(-units // max_chunks),
        "chunk_elements": -(-chunk * cell // LINE_BYTES) * LINE_BYTES // cell,
        "copy_elements": copy,
        "is_packed": int(outer > sizes.groups or not part.is_all),
        "panels": panels,
        "panel_grain": -(-panels * sizes.groups // MAX_CHUNKS),
        "column_step": sizes.column_step,
    }


def _segment(sizes: Sizes, has_gaps: bool) -> int | None:
    """Return the longest run of k that lies in one piece everywhere and is not too long."""
    if sizes.is_depthwise:
        return 1
    length = sizes.group_channels
    last = sizes.window[-1]
    is_dense = last.window_dilation == 1 and not last.reversal
    if sizes.group_channels == sizes.channels and not has_gaps and is_dense:
        length *= last.size
    found = max(part for part in range(1, min(length, MAX_SEGMENT) + 1) if length % part == 0)
    return found if found >= min(length, MIN_SEGMENT) else None


def _lines(sizes: Sizes, row_bytes: int) -> int:
    """Return the lines of a unit."""
    width, height = sizes.results[2], sizes.results[1]
    outer = sizes.batch * sizes.results[0]
    lines = max(1, min(height, -(-UNIT_ROWS // width)))
    while lines > 1 and sizes.reach(1, lines) * row_bytes > COPY_BYTES:
        lines -= 1
    enough = -(-FEW_ROWS // width)
    while lines > enough and outer * -(-height // lines) < FEW_UNITS:
        lines = max(enough, lines // 2)
    return -(-height // -(-height // lines))


def _line_cycles(results: int, blocks: int, vectors: int) -> float:
    low, tall = divmod(results, blocks)
    return tall * block_cycles(low + 1, vectors) + (blocks - tall) * block_cycles(low, vectors)


def _column_block(features: int, outer: int, columns: int, row_bytes: int) -> int:
    """Return the features of a unit: all, or less where units are few or sums wait."""
    panels = -(-features // columns)
    wanted = max(1, min(panels, TILE_BYTES // (row_bytes * columns)))
    while wanted > 1 and outer * -(-panels // wanted) < FEW_UNITS:
        wanted //= 2
    return -(-panels // -(-panels // wanted)) * columns
