# SPDX-License-Identifier: Apache-2.0
"""Winograd's F(2x2, 3x3): 16 products for four results of a 3x3 window instead of 36.

Each square of 2x2 results (a *tile*) needs 4x4 elements of the image. Image and taps are
transformed to 16 planes (sums and differences), each plane is a matrix product over the channels,
and four results are sums of its 16. So one convolution is 16 products [tiles, channels] by
[channels, features], and the code is the same at every size (`WinogradNumbers`).

Measured against f64 on normal data (maximum and RMS error, as a part of the largest result): at
64 channels direct sums 1.0e-6 and 9.5e-8, Winograd 3.3e-7 and 5.9e-8, XLA:CPU 8.5e-7 and 8.5e-8; at
256 channels 1.7e-6 and 1.9e-7, 6.4e-7 and 1.2e-7, 5.6e-7 and 9.0e-8. F(4x4, 3x3) is not accurate
(1e-5). Where a window meets only zeros the result is zero; an infinity in a tile makes its four
results infinite or NaN.

Direct sums take 1.27 to 1.73 times as long, from 32x32x32 to 7x7x512 (AVX2, one thread,
2026-11-28).

A unit is a range of rows of tiles by a block of features: it transforms its part of the image,
runs its products in register blocks (the last one overlaps the one before), and adds up.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015).
"""

from __future__ import annotations

from ingot.analysis.library import VECTORS
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dtype import DType
from ingot.hlo.window import WindowDimension
from ingot.kernel.contraction.micro_blocks import BlockMaker, MicroBlock, heights_of
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.contraction.register_block import block_cycles
from ingot.kernel.convolution.plain import driven_element
from ingot.kernel.driver_parameters import SCRATCH_CHUNKS, Chunks, DriverParameters
from ingot.kernel.ir import ConvolutionKernel, LoopKernel, PlainConvolution
from ingot.kernel.product.product import NO_DRIVER
from ingot.llvm.machine_model import L2_BYTES, L3_BYTES, LINE_BYTES, Vectors
from ingot.native.pointers import Struct
from ingot.native.types import i64
from ingot.support.records import record

SIDE, TAPS, RESULTS = 4, 3, 2
"""Sides of a transformed tile, of the window, of a tile's results."""

PLANES = SIDE * SIDE
MIN_FEATURES = 32
"""Channels and features below which the transforms cost more than the products saved."""

MAX_SHARE = 0.9
"""Share of the direct convolution's cycles up to which Winograd's algorithm is chosen."""

TRANSFORM_CYCLES = 45
"""Cycles to transform a vector of channels or of results of one tile."""

TAPS_CYCLES = 130
"""Cycles to transform a vector of taps, and to read it again from a distant cache."""

UNIT_BYTES = L2_BYTES * 5 // 8
"""Bytes of a unit's transformed image and products: they stay in the L2 cache."""

MIN_TILES, MAX_TILES = 28, 112
"""Tiles of a unit at least and at most: a unit reads each transformed tap once for all of them."""

OUT_OF_CACHE_BYTES = L3_BYTES
"""Transformed filters of more bytes are read from memory, so their units have MAX_TILES."""

FEW_UNITS = 8
"""Units below which a unit has fewer features."""

MIN_BLOCK = 64
"""Features of a unit at least."""

SCRATCH_BYTES = 48 << 20
"""Scratch of all chunks together, if that leaves FEW_UNITS of them."""


class WinogradNumbers(Struct, is_constant=True):
    """Numbers of a Winograd convolution; sizes and steps are in elements.

    `rows` is the height of a register block. Behind the taps' planes, each chunk has
    `chunk_elements` of scratch: the image's planes, the sums' planes, then room for one tile's
    elements and results. Taps are read from `tap_first` on in steps `tap_row` and `tap_column`,
    backwards if reversed.
    """

    height: i64
    width: i64
    channels: i64
    features: i64
    result_height: i64
    result_width: i64
    low_0: i64
    low_1: i64
    tiles_down: i64
    tiles_across: i64
    tile_rows: i64
    row_units: i64
    units: i64
    grain: i64
    n_block: i64
    rows: i64
    taps_plane: i64
    image_row: i64
    image_plane: i64
    sums_plane: i64
    chunk_elements: i64
    panels: i64
    panel_grain: i64
    tap_first: i64
    tap_row: i64
    tap_column: i64


@record
class Winograd(DriverParameters):
    """How a convolution runs by Winograd's algorithm.

    Attributes:
        element: type of operands and sums.
        lanes: lanes of one vector.
        taps_chunks: chunks of the transform of the taps.
        chunks: chunks of units.
        scratch_bytes: bytes of scratch.
    """

    NAMES = WinogradNumbers.c_layout.names

    element: DType
    lanes: int
    taps_chunks: int
    chunks: int | Dim
    scratch_bytes: int

    @property
    def micro_block(self) -> MicroBlock:
        """The block of its micro-kernel."""
        columns = VECTORS * self.lanes
        return BlockMaker(self.element, self.lanes, columns).block(self.value("rows"), columns)


def winograd(kernel: ConvolutionKernel, vectors: Vectors) -> Winograd | str:
    """Return how a convolution runs by Winograd's algorithm, or why it cannot or should not."""
    given, general = kernel.convolution, kernel.general
    if given.is_of_filter:
        return "it is the gradient of a filter"
    if isinstance(general, LoopKernel):
        return "each feature is a sum over its own channel alone"
    element = driven_element(kernel, vectors)
    if element is None:
        return NO_DRIVER
    lanes = vectors.lanes(cell_bits(element), 1)
    if not _suits(given, VECTORS * lanes):
        return "its taps are not 3x3 and dense, or its features do not fill whole panels"
    return _plan(given, element, lanes, heights_of(vectors))


def _suits(given: PlainConvolution, columns: int) -> bool:
    is_3x3 = len(given.window) == 2 and all(
        one == WindowDimension(3, low=one.low, high=one.high, reversal=one.reversal)
        for one in given.window
    )
    if not is_3x3 or given.groups > 1 or min(given.channels, given.features) < MIN_FEATURES:
        return False
    return given.channels % (columns // VECTORS) == 0 and given.features % columns == 0


@record
class _Tiles:
    """The tiles of 2x2 results of all images, and how units share them.

    Attributes:
        down, across: tiles along an image.
        rows: rows of tiles of all images.
        row_units: units that share the rows.
        unit_rows: rows of tiles of a unit at most.
        block_rows: rows of the register block: tiles that a product of a unit takes at once.
    """

    down: int
    across: int
    rows: int | Dim
    row_units: int | Dim
    unit_rows: int
    block_rows: int

    @property
    def of_unit(self) -> int:
        """Tiles of a unit at most."""
        return self.unit_rows * self.across


def _plan(given: PlainConvolution, element: DType, lanes: int, heights: range) -> Winograd | str:
    cell = cell_bits(element) // 8
    tiles = _tiles(given, cell, heights)
    if tiles is None or not _pays(given, lanes, tiles):
        return "transforms would take longer than the products that they save"
    n_block = _column_block(given, lanes, tiles)
    planes, chunk = _scratch(given, LINE_BYTES // cell, tiles, n_block)
    units = tiles.row_units * (given.features // n_block)
    max_chunks = max(FEW_UNITS, min(SCRATCH_CHUNKS, SCRATCH_BYTES // (cell * chunk)))
    chunks = Chunks.of(units, max_chunks)
    panels = given.features // (VECTORS * lanes)
    panel_grain = ceil_div(panels, SCRATCH_CHUNKS)
    values = {
        **_shape(given),
        **_filter_steps(given),
        **planes,
        "tiles_down": tiles.down,
        "tiles_across": tiles.across,
        "tile_rows": tiles.rows,
        "row_units": tiles.row_units,
        "units": units,
        "grain": chunks.grain,
        "n_block": n_block,
        "rows": tiles.block_rows,
        "chunk_elements": chunk,
        "panels": panels,
        "panel_grain": panel_grain,
    }
    return Winograd(
        tuple(values[name] for name in Winograd.NAMES),
        element,
        lanes,
        ceil_div(panels, panel_grain),
        chunks.count,
        cell * (PLANES * planes["taps_plane"] + chunks.room * chunk),
    )


def _shape(given: PlainConvolution) -> dict[str, int]:
    """Return the numbers that say what the convolution is."""
    return {
        "height": given.sizes[0],
        "width": given.sizes[1],
        "channels": given.channels,
        "features": given.features,
        "result_height": given.results[0],
        "result_width": given.results[1],
        "low_0": given.window[0].low,
        "low_1": given.window[1].low,
    }


def _tiles(given: PlainConvolution, cell: int, heights: range) -> _Tiles | None:
    """Return how units share the tiles, None if a unit has fewer than any register block has rows.

    Args:
        given: the convolution.
        cell: bytes of an element.
        heights: the rows that register blocks may have.
    """
    down, across = (ceil_div(size, 2) for size in given.results)
    rows = given.batch * down
    tile_bytes = PLANES * cell * (_odd(given.channels, LINE_BYTES // cell) + given.features)
    filter_bytes = PLANES * cell * given.channels * given.features
    most = MAX_TILES
    if filter_bytes <= OUT_OF_CACHE_BYTES:
        most = max(MIN_TILES, min(MAX_TILES, UNIT_BYTES // tile_bytes))
    unit_rows = max(1, most // across)
    row_units = ceil_div(rows, unit_rows)
    if isinstance(rows, int) and isinstance(row_units, int):
        least, unit_rows = rows // row_units, ceil_div(rows, row_units)
    else:
        # Units share the rows evenly: one has all of them, or several more than half of the most.
        least = min(down, (unit_rows + 1) // 2)
    block_rows = _height(least * across, unit_rows * across, heights)
    if block_rows is None:
        return None
    return _Tiles(down, across, rows, row_units, unit_rows, block_rows)


def _column_block(given: PlainConvolution, lanes: int, tiles: _Tiles) -> int:
    """Return the features of a unit: fewer than all where there would be few units."""
    row_units = -(-given.images * tiles.down // tiles.unit_rows)
    n_block = given.features
    while row_units * (given.features // n_block) < FEW_UNITS and n_block % (4 * lanes) == 0:
        if n_block // 2 < MIN_BLOCK:
            break
        n_block //= 2
    return n_block


def _scratch(
    given: PlainConvolution, line: int, tiles: _Tiles, n_block: int
) -> tuple[dict[str, int], int]:
    """Return the steps of the planes in the scratch, and the elements of a chunk's part of it.

    `line`: elements of a cache line.
    """
    image_row = _odd(given.channels, line)
    planes = {
        "taps_plane": _odd(given.channels * given.features, line),
        "image_row": image_row,
        "image_plane": _odd(tiles.of_unit * image_row, line),
        "sums_plane": _odd(tiles.of_unit * n_block, line),
    }
    rest = PLANES * given.channels + n_block + 2 * given.results[1] * n_block
    chunk = PLANES * (planes["image_plane"] + planes["sums_plane"]) + _odd(rest, line)
    return planes, chunk


def _filter_steps(given: PlainConvolution) -> dict[str, int]:
    """Return where the filter's first element is read, and its steps; reversed ones go back."""
    matrix = given.channels * given.features
    tap_row, tap_column = (
        -step if one.reversal else step
        for step, one in zip((3 * matrix, matrix), given.window, strict=True)
    )
    first = -2 * (min(tap_row, 0) + min(tap_column, 0))
    return {"tap_first": first, "tap_row": tap_row, "tap_column": tap_column}


def _odd(elements: int, line: int) -> int:
    """Return a step of an odd number of cache lines, so that planes do not fall into one set."""
    return (ceil_div(elements, line) | 1) * line


def _height(least: int, most: int, heights: range) -> int | None:
    """Return the rows of a register block that suit units of `least` to `most` tiles."""
    fitting = [rows for rows in heights if rows <= least]
    if not fitting:
        return None
    return min(fitting, key=lambda rows: (_block_cycles(most, rows), -rows))


def _block_cycles(tiles: int, rows: int) -> float:
    return ceil_div(tiles, rows) * block_cycles(rows, VECTORS)


def _pays(given: PlainConvolution, lanes: int, tiles: _Tiles) -> bool:
    """Whether this takes fewer cycles than summing directly."""
    count, of_unit = given.images * tiles.down * tiles.across, tiles.of_unit
    products = given.channels * given.features / lanes
    results = given.images * given.results[0] * given.results[1]
    direct = results * 9 * products / 2
    vectors = (given.channels + given.features) / lanes
    planes = PLANES * products / VECTORS * _block_cycles(of_unit, tiles.block_rows) / of_unit
    each = planes + TRANSFORM_CYCLES * vectors
    return count * each + TAPS_CYCLES * products < MAX_SHARE * direct
