"""Direct convolutions of every size: sums over segments of the image's memory.

A result's sum runs over *segments*: runs of k whose elements of the image lie side by side (a row
of the window, or its channels, or a part of them). Where a segment begins, counted from the first
element of the window, is the same for every result, so a table of offsets says it all, and
neighbouring results along the last dimension are a constant step apart. So register blocks read
the image where it lies; where windows meet padding, the rows that a unit needs are copied first,
with zeros around.

A unit is some *lines* (rows of the result along the last dimension) by a block of features. It goes
through panels of features, and through each in pieces, as many segments as fit into the L1 cache,
for all its register blocks. The panels of the taps are packed before; where there is one unit for
each of them, it packs its pieces itself. Fewer than three spatial dimensions stand behind ones of
size 1.

Invariant: each sum adds its products in order of k, as in every other contraction kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from ingot.hlo.dtype import DType
from ingot.hlo.window import WindowDimension
from ingot.kernel.contraction_schedule import cell_bits
from ingot.kernel.ir import ContractionKernel, LoopKernel, PlainConvolution
from ingot.kernel.numbers import Numbered
from ingot.kernel.plain_convolution import stores_plain_sums
from ingot.kernel.product import ELEMENTS, MIN_VECTOR_BITS, VECTORS
from ingot.kernel.register_block import block_cycles, most_rows
from ingot.kernel.schedule import Vectors

DIMENSIONS = 3
MIN_FEATURES = 4
MIN_LINE = 4
"""Results along the last dimension from which on register blocks of one line are worth it."""

MAX_WASTE = 1.4
"""Columns of whole panels for each feature at most."""

MIN_SEGMENT, MAX_SEGMENT, MAX_SEGMENTS = 8, 256, 512
PIECE = 256
"""Depth of a packed piece of the taps: with the image's rows it stays in the L1 cache."""

UNIT_ROWS, FEW_ROWS = 448, 96
"""Results of a unit for each feature: so many make packing cheap; as few where units are few."""

COPY_BYTES = 384 * 1024
"""Bytes of the rows that a unit copies: they stay in the L2 cache."""

TILE_BYTES = 256 * 1024
"""Bytes of the sums that wait for an epilogue."""

FEW_UNITS, MAX_CHUNKS = 8, 16
CROWDED_ROW = 4096
"""Results whose elements lie a multiple of so many bytes apart share one set of the L1 cache."""

LINE_BYTES = 64

PARAMETERS = (
    *("size_0", "size_1", "size_2", "channels", "features"),
    *("stride_0", "stride_1", "low_0", "low_1", "low_2"),
    *("result_0", "result_1", "result_2", "taps_1", "taps_2", "group_channels", "group_features"),
    *("dilation_0", "offset_first", "offset_0", "offset_1", "offset_2", "line_step", "row_step"),
    *("copies", "planes", "plane_rows", "padded_width", "pixel", "copied"),
    *("segment", "segments", "piece_segments", "low_rows", "tall_blocks", "row_blocks"),
    *("unit_lines", "line_units", "n_block", "blocks", "units", "grain", "chunk_elements"),
    *("copy_elements", "is_packed", "panels", "panel_grain", "column_step"),
)
"""Numbers of a direct convolution, in the order of its env; steps are in elements.

The first tap is `offset_first` behind its window's first element, `offset_d` is the step from tap
to tap, `line_step` and `row_step` from line to line and along one. `copies`: whether rows are
copied: `planes` of `plane_rows` rows, each of `padded_width` pixels of `copied` elements that are
`pixel` apart.
`column_step` is the image's from feature to feature: 1 where groups are as wide as their panels.
`blocks` counts blocks of features in a group, `panels` panels. Where the taps are packed, the
scratch begins with their panels. A chunk's scratch is the copied rows, a packed piece, then the
rows of an epilogue.
"""


@dataclass(frozen=True, slots=True)
class Direct(Numbered):
    """How a convolution is summed directly.

    Attributes:
        element: type of operands and sums.
        panel: vectors of a row of a register block, lanes of one.
        packing_chunks: chunks of panels that are packed before.
        chunks: chunks of units.
        scratch_bytes: bytes of scratch.
        has_rest: whether columns are left over behind the whole panels.
        is_depthwise: whether each feature is a sum over its own channel alone.
    """

    NAMES: ClassVar[tuple[str, ...]] = PARAMETERS

    element: DType
    panel: tuple[int, int]
    packing_chunks: int
    chunks: int
    scratch_bytes: int
    has_rest: bool
    is_depthwise: bool


@dataclass(frozen=True, slots=True)
class _Sizes:
    """A convolution in three dimensions."""

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
    def of(given: PlainConvolution) -> _Sizes:
        ones = (1,) * (DIMENSIONS - len(given.window))
        is_depthwise = given.groups == given.channels == given.features > 1
        groups = 1 if is_depthwise else given.groups
        return _Sizes(
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


def direct_convolution(kernel: ContractionKernel | LoopKernel, vectors: Vectors) -> Direct | None:
    """Return how the shared driver sums a convolution, None if it cannot or would be slow."""
    given = kernel.convolution
    if given is None or kernel.symbols or not 1 <= len(given.window) <= DIMENSIONS:
        return None
    is_loop = isinstance(kernel, LoopKernel)
    element = kernel.buffers[-1].dtype if is_loop else kernel.accumulate
    held = (kernel.buffers[given.image], kernel.buffers[given.taps])
    is_same = all(buffer.dtype is element for buffer in held)
    if not is_same or element not in ELEMENTS or vectors.bits < MIN_VECTOR_BITS:
        return None
    sizes = _Sizes.of(given)
    lanes = vectors.lanes(cell_bits(element), 1)
    panel = _group_panel(sizes, lanes)
    if panel is not None and not is_loop and stores_plain_sums(kernel):
        # Groups side by side, a panel each: they share the copied rows.
        sizes = replace(sizes, groups=1, group_features=sizes.features, column_step=1)
    else:
        panel = _panel(sizes, lanes)
    is_simple = all(one.base_dilation == 1 for one in sizes.window)
    is_wide = _fills(sizes, panel[0] * panel[1])
    if not is_simple or not is_wide or sizes.results[-1] < MIN_LINE:
        return None
    if is_loop != sizes.is_depthwise:
        return None
    return _plan(sizes, element, panel, most_rows(panel[0], vectors))


def _group_panel(sizes: _Sizes, lanes: int) -> tuple[int, int] | None:
    """Return the panel that a group fills, if it has as many features as channels."""
    width = sizes.group_features
    if sizes.groups == 1 or width != sizes.group_channels:
        return None
    if width == VECTORS * lanes:
        return VECTORS, lanes
    is_vector = MIN_FEATURES <= width <= lanes and width & (width - 1) == 0
    return (1, width) if is_vector else None


def _panel(sizes: _Sizes, lanes: int) -> tuple[int, int]:
    """Return the vectors of a panel and their lanes: fewer where the features are few."""
    if sizes.groups > 1 or sizes.is_depthwise or not MIN_FEATURES <= sizes.features <= lanes:
        return VECTORS, lanes
    while lanes // 2 >= sizes.features:
        lanes //= 2
    return 1, lanes


def _fills(sizes: _Sizes, columns: int) -> bool:
    """Whether the features fill panels of so many columns well enough."""
    if sizes.is_depthwise:
        return 2 * sizes.features >= columns
    if sizes.groups == 1 and columns // 2 < sizes.features <= columns:
        return True
    whole = -(-sizes.group_features // columns) * columns
    return whole <= MAX_WASTE * sizes.group_features


def _plan(sizes: _Sizes, element: DType, panel: tuple[int, int], most: int) -> Direct | None:
    cell = cell_bits(element) // 8
    vectors, lanes = panel
    columns = vectors * lanes
    last = sizes.window[-1]
    copied = sizes.channels if sizes.groups == 1 else sizes.group_channels
    copies = sizes.is_padded or last.stride * sizes.channels * cell % CROWDED_ROW == 0
    has_gaps = last.stride * copied * cell % CROWDED_ROW == 0
    segment = _segment(sizes, has_gaps)
    depth = math.prod(one.size for one in sizes.window) * sizes.group_channels
    if segment is None or depth // segment > MAX_SEGMENTS:
        return None
    pixel = copied + (LINE_BYTES // cell if has_gaps else 0) if copies else sizes.channels
    width = sizes.reach(2, sizes.results[2])
    row = width * pixel if copies else sizes.sizes[2] * sizes.channels
    planes = sizes.window[0].size
    lines = _lines(sizes, planes * row * cell if copies else 0)
    plane_rows = sizes.reach(1, lines)
    plane = plane_rows * row if copies else sizes.window[0].window_dilation * sizes.sizes[1] * row
    steps = (plane, sizes.window[1].window_dilation * row, last.window_dilation * pixel)
    line_units = -(-sizes.results[1] // lines)
    outer = sizes.batch * sizes.results[0] * line_units * sizes.groups
    n_block = _column_block(sizes.group_features, outer, columns, lines * sizes.results[2] * cell)
    blocks = -(-sizes.group_features // n_block)
    units = outer * blocks
    grain = -(-units // MAX_CHUNKS)
    least = -(-sizes.results[2] // most)
    count = min(
        range(least, max(least, sizes.results[2] // MIN_LINE) + 1),
        key=lambda blocks: _line_cycles(sizes.results[2], blocks, vectors),
    )
    low, tall = divmod(sizes.results[2], count)
    copy = (planes * plane if copies else 0) + columns
    piece_segments = max(1, PIECE // segment)
    tile = lines * sizes.results[2] * n_block + columns
    chunk = copy + piece_segments * segment * columns + tile
    chunk = -(-chunk * cell // LINE_BYTES) * LINE_BYTES // cell
    chunks = -(-units // grain)
    panels = -(-sizes.group_features // columns)
    is_packed = outer > sizes.groups
    panel_grain = -(-panels * sizes.groups // MAX_CHUNKS)
    packed = sizes.groups * panels * depth * columns if is_packed else 0
    values = {
        **{f"size_{number}": size for number, size in enumerate(sizes.sizes)},
        **{f"result_{number}": size for number, size in enumerate(sizes.results)},
        **{f"low_{number}": one.low for number, one in enumerate(sizes.window)},
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
        "line_units": line_units,
        "n_block": n_block,
        "blocks": blocks,
        "units": units,
        "grain": grain,
        "chunk_elements": chunk,
        "copy_elements": copy,
        "is_packed": int(is_packed),
        "panels": panels,
        "panel_grain": panel_grain,
        "column_step": sizes.column_step,
    }
    return Direct(
        tuple(values[name] for name in PARAMETERS),
        element,
        panel,
        -(-panels * sizes.groups // panel_grain) if is_packed else 0,
        chunks,
        cell * (packed + chunks * chunk),
        sizes.group_features % columns > 0,
        sizes.is_depthwise,
    )


def _segment(sizes: _Sizes, has_gaps: bool) -> int | None:
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


def _lines(sizes: _Sizes, row_bytes: int) -> int:
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


def _column_block(features: int, outer: int, columns: int, row_bytes: int) -> int:
    """Return the features of a unit: all, or less where units are few or sums wait."""
    panels = -(-features // columns)
    wanted = max(1, min(panels, TILE_BYTES // (row_bytes * columns)))
    while wanted > 1 and outer * -(-panels // wanted) < FEW_UNITS:
        wanted //= 2
    return -(-panels // -(-panels // wanted)) * columns


def _line_cycles(results: int, blocks: int, vectors: int) -> float:
    low, tall = divmod(results, blocks)
    return tall * block_cycles(low + 1, vectors) + (blocks - tall) * block_cycles(low, vectors)
