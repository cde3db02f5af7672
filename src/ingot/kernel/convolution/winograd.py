# SPDX-License-Identifier: Apache-2.0
"""Winograd's F(2x2, 3x3): 16 products for four results of a 3x3 window instead of 36.

Each square of 2x2 results (a *tile*) needs 4x4 elements of the image. Image and taps are
transformed to 16 planes (sums and differences), each plane is a matrix product over the channels,
and four results are sums of its 16. So one convolution is 16 products [tiles, channels] by
[channels, features], and the code is the same at every size (`PARAMETERS`).

Measured against f64 on normal data (maximum and RMS error, as a part of the largest result): at
64 channels direct sums 1.0e-6 and 9.5e-8, Winograd 3.3e-7 and 5.9e-8, XLA:CPU 8.5e-7 and 8.5e-8; at
256 channels 1.7e-6 and 1.9e-7, 6.4e-7 and 1.2e-7, 5.6e-7 and 9.0e-8. F(4x4, 3x3) is not accurate
(1e-5). Where a window meets only zeros the result is zero; an infinity in a tile makes its four
results infinite or NaN.

A unit is a range of rows of tiles by a block of features: it transforms its part of the image,
runs its products in register blocks (the last one overlaps the one before), and adds up.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015).
"""

from __future__ import annotations

from typing import ClassVar

from ingot.analysis.library import ELEMENTS, MIN_VECTOR_BITS, VECTORS
from ingot.hlo.dim import Dim, ceil_div, maximum
from ingot.hlo.dtype import DType
from ingot.hlo.window import WindowDimension
from ingot.kernel.contraction.product import NO_DRIVER, heights_of
from ingot.kernel.contraction.register_block import block_cycles
from ingot.kernel.contraction.schedule import cell_bits
from ingot.kernel.ir import ConvolutionKernel, LoopKernel, PlainConvolution
from ingot.kernel.numbers import Numbered
from ingot.llvm.machine_model import L2_BYTES, L3_BYTES, LINE_BYTES, Vectors
from ingot.support.records import record

PLANES = 16
MIN_FEATURES = 32
"""Channels and features below which the transforms cost more than the products saved."""

MAX_SHARE = 0.9
"""Part of the direct convolution's cycles that this may take."""

TRANSFORM_CYCLES = 45
"""Cycles to transform a vector of channels or of results of one tile."""

TAPS_CYCLES = 130
"""Cycles to transform a vector of taps, and to read it again from a distant cache."""

UNIT_BYTES = L2_BYTES * 5 // 8
"""Bytes of a unit's transformed image and products: they stay in the L2 cache."""

MIN_TILES, MAX_TILES = 28, 112
"""Tiles of a unit: each transformed tap is read once for so many."""

OUT_OF_CACHE_BYTES = L3_BYTES
"""From so many bytes on transformed filters are read from memory, so that units have MAX_TILES."""

FEW_UNITS = 8
MIN_BLOCK = 64
MAX_CHUNKS = 16
SCRATCH_BYTES = 48 << 20
"""Scratch of all chunks together, if that leaves FEW_UNITS of them."""

PARAMETERS = (
    *("height", "width", "channels", "features", "result_height", "result_width"),
    *("low_0", "low_1", "tiles_down", "tiles_across", "tile_rows"),
    *("row_units", "column_units", "units", "grain", "n_block", "rows"),
    *("taps_plane", "image_row", "image_plane", "sums_plane", "chunk_elements"),
    *("panels", "panel_grain", "tap_first", "tap_row", "tap_column"),
)
"""Numbers of a Winograd convolution, in the order of its env; sizes and steps are in elements.

`rows` is the height of a register block. Behind the taps' planes, each chunk has `chunk_elements`
of scratch: the image's planes, the sums' planes, then room for one tile's elements and results.
Taps are read from `tap_first` on in steps `tap_row` and `tap_column`, backwards if reversed.
"""


@record
class Winograd(Numbered):
    """How a convolution runs by Winograd's algorithm.

    Attributes:
        element: type of operands and sums.
        lanes: lanes of one vector.
        taps_chunks: chunks of the transform of the taps.
        chunks: chunks of units.
        scratch_bytes: bytes of scratch.
    """

    NAMES: ClassVar[tuple[str, ...]] = PARAMETERS

    element: DType
    lanes: int
    taps_chunks: int
    chunks: int | Dim
    scratch_bytes: int


def winograd(kernel: ConvolutionKernel, vectors: Vectors) -> Winograd | str:
    """Return how a convolution runs by Winograd's algorithm, or why it cannot or should not."""
    given, general = kernel.convolution, kernel.general
    if given.is_of_filter:
        return "it is the gradient of a filter"
    if isinstance(general, LoopKernel):
        return "each feature is a sum over its own channel alone"
    element = general.accumulate
    if element not in ELEMENTS or vectors.bits < MIN_VECTOR_BITS:
        return NO_DRIVER
    lanes = vectors.lanes(cell_bits(element), 1)
    if not _suits(given, VECTORS * lanes):
        return "its taps are not 3x3 and dense, or its features do not fill whole panels"
    held = (kernel.buffers[given.lhs], kernel.buffers[given.rhs])
    if any(buffer.dtype is not element for buffer in held):
        return NO_DRIVER
    return _plan(given, element, lanes, heights_of(vectors))


def _suits(given: PlainConvolution, columns: int) -> bool:
    is_3x3 = len(given.window) == 2 and all(
        one == WindowDimension(3, low=one.low, high=one.high, reversal=one.reversal)
        for one in given.window
    )
    if not is_3x3 or given.groups > 1 or min(given.channels, given.features) < MIN_FEATURES:
        return False
    return given.channels % (columns // VECTORS) == 0 and given.features % columns == 0


def _plan(given: PlainConvolution, element: DType, lanes: int, heights: range) -> Winograd | str:
    channels, features = given.channels, given.features
    down, across = (-(-size // 2) for size in given.results)
    tile_rows = given.batch * down
    cell = cell_bits(element) // 8
    line = LINE_BYTES // cell
    image_row = _odd(channels, line)
    per_tile = PLANES * cell * (image_row + features)
    is_out_of_cache = PLANES * cell * channels * features > OUT_OF_CACHE_BYTES
    most = MAX_TILES if is_out_of_cache else max(MIN_TILES, min(MAX_TILES, UNIT_BYTES // per_tile))
    unit_rows = max(1, most // across)
    row_units = ceil_div(tile_rows, unit_rows)
    if isinstance(tile_rows, int) and isinstance(row_units, int):
        least, unit_rows = tile_rows // row_units, -(-tile_rows // row_units)
    else:
        # Units share the rows evenly: one has all of them, or several more than half of the most.
        least = min(down, (unit_rows + 1) // 2)
    most_tiles = unit_rows * across
    rows = _height(least * across, most_tiles, heights)
    tiles = given.images * down * across
    if rows is None or not _pays(given, lanes, (tiles, rows, most_tiles)):
        return "transforms would take longer than the products that they save"
    n_block = features
    assumed_units = -(-given.images * down // unit_rows)
    while assumed_units * (features // n_block) < FEW_UNITS and n_block % (4 * lanes) == 0:
        if n_block // 2 < MIN_BLOCK:
            break
        n_block //= 2
    units = row_units * (features // n_block)
    taps_plane = _odd(channels * features, line)
    image_plane, sums_plane = _odd(most_tiles * image_row, line), _odd(most_tiles * n_block, line)
    rest = PLANES * channels + n_block + 2 * given.results[1] * n_block
    chunk = PLANES * (image_plane + sums_plane) + _odd(rest, line)
    fitting = SCRATCH_BYTES // (cell * chunk)
    max_chunks = max(FEW_UNITS, min(MAX_CHUNKS, fitting))
    grain = maximum(ceil_div(units, max_chunks), 1)
    panels = features // (VECTORS * lanes)
    panel_grain = -(-panels // MAX_CHUNKS)
    chunks = ceil_div(units, grain)
    room = chunks if isinstance(chunks, int) else max_chunks
    tap_steps = (3 * channels * features, channels * features)
    reversals = [one.reversal for one in given.window]
    tap_row, tap_column = (
        -step if is_reversed else step
        for step, is_reversed in zip(tap_steps, reversals, strict=True)
    )
    values = {
        "height": given.sizes[0],
        "width": given.sizes[1],
        "channels": channels,
        "features": features,
        "result_height": given.results[0],
        "result_width": given.results[1],
        "low_0": given.window[0].low,
        "low_1": given.window[1].low,
        "tiles_down": down,
        "tiles_across": across,
        "tile_rows": tile_rows,
        "row_units": row_units,
        "column_units": features // n_block,
        "units": units,
        "grain": grain,
        "n_block": n_block,
        "rows": rows,
        "taps_plane": taps_plane,
        "image_row": image_row,
        "image_plane": image_plane,
        "sums_plane": sums_plane,
        "chunk_elements": chunk,
        "panels": panels,
        "panel_grain": panel_grain,
        "tap_first": -2 * (min(tap_row, 0) + min(tap_column, 0)),
        "tap_row": tap_row,
        "tap_column": tap_column,
    }
    return Winograd(
        tuple(values[name] for name in PARAMETERS),
        element,
        lanes,
        -(-panels // panel_grain),
        chunks,
        cell * (PLANES * taps_plane + room * chunk),
    )


def _odd(elements: int, line: int) -> int:
    """Return a step of an odd number of cache lines, so that planes do not fall into one set."""
    return (-(-elements // line) | 1) * line


def _height(least: int, most: int, heights: range) -> int | None:
    """Return the rows of a register block that suit units of so many tiles."""
    fitting = [rows for rows in heights if rows <= least]
    if not fitting:
        return None
    return min(fitting, key=lambda rows: (_block_cycles(most, rows), -rows))


def _block_cycles(tiles: int, rows: int) -> float:
    return -(-tiles // rows) * block_cycles(rows, VECTORS)


def _pays(given: PlainConvolution, lanes: int, counts: tuple[int, int, int]) -> bool:
    """Whether this takes fewer cycles than summing directly."""
    tiles, rows, of_unit = counts
    products = given.channels * given.features / lanes
    results = given.images * given.results[0] * given.results[1]
    direct = results * 9 * products / 2
    vectors = (given.channels + given.features) / lanes
    planes = PLANES * products / VECTORS * _block_cycles(of_unit, rows) / of_unit
    each = planes + TRANSFORM_CYCLES * vectors
    return tiles * each + TAPS_CYCLES * products < MAX_SHARE * direct
