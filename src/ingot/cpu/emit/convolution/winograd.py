# SPDX-License-Identifier: Apache-2.0
"""Winograd convolutions as native functions: `taps(env, chunk)`, then `units(env, chunk)`.

The first function transforms the taps into 16 planes of panels, each as wide as a register block. A
unit then transforms its tiles of the image, runs a product for each plane and adds the planes up:
into the result, or into rows that an epilogue reads. The numbers of a convolution are in its env
(`kernel.convolution.winograd.WinogradNumbers`), so the two functions serve every size. The
code on vectors is in `winograd_transforms`.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from ingot.cpu.emit.convolution.winograd_transforms import (
    Corners,
    Part,
    Tile,
    add_planes,
    transform_elements,
    transform_taps,
)
from ingot.cpu.emit.driver_records import DriverStart, Elements
from ingot.kernel.convolution.winograd import PLANES, RESULTS, SIDE
from ingot.native.functions import inlined, native
from ingot.native.operations import memcpy, memset, unlikely
from ingot.native.pointers import Pointer, Struct, sizeof
from ingot.native.types import i64


class Unit(Struct):
    """A range of rows of tiles and of panels of features, and the unit's areas of the scratch.

    The image's and the sums' planes are followed by room for one tile's elements, for results
    outside of the image, and for the rows that an epilogue reads.
    """

    env: DriverStart
    part: Part
    first_row: i64
    last_row: i64
    first_panel: i64
    last_panel: i64
    image: Pointer
    sums: Pointer
    patch: Pointer
    nowhere: Pointer
    rows: Pointer


@native
def taps(of: Elements, env: DriverStart, chunk: i64) -> None:
    """Transform a chunk of panels: element (plane, panel, channel, column) of the scratch."""
    part = Part.at(env + sizeof(DriverStart))
    first = chunk * part.panel_grain
    row = of.columns * of.bytes
    for panel in range(first, min(first + part.panel_grain, part.panels)):
        source = env.rhs + (panel * of.columns + part.tap_first) * of.bytes
        target = env.scratch + panel * part.channels * row
        for channel in range(part.channels):
            tap = source + channel * part.features * of.bytes
            transform_taps(of, part, tap, target + channel * row)


@native
def units(of: Elements, env: DriverStart, chunk: i64) -> None:
    """Compute a chunk of units: rows of tiles fastest, then blocks of features."""
    part = Part.at(env + sizeof(DriverStart))
    unit = Unit.on_stack()
    unit.env = env
    unit.part = part
    unit.image = env.scratch + (PLANES * part.taps_plane + chunk * part.chunk_elements) * of.bytes
    unit.sums = unit.image + PLANES * part.image_plane * of.bytes
    unit.patch = unit.sums + PLANES * part.sums_plane * of.bytes
    unit.nowhere = unit.patch + PLANES * part.channels * of.bytes
    unit.rows = unit.nowhere + part.n_block * of.bytes
    panels = part.n_block // of.columns
    first = chunk * part.grain
    for number in range(first, min(first + part.grain, part.units)):
        row = number % part.row_units
        unit.first_row = row * part.tile_rows // part.row_units
        unit.last_row = (row + 1) * part.tile_rows // part.row_units
        unit.first_panel = number // part.row_units * panels
        unit.last_panel = unit.first_panel + panels
        transform_image(of, unit)
        multiply(of, unit)
        add_up(of, unit)


# ---- the image


@native
def transform_image(of: Elements, unit: Unit) -> None:
    """Transform the unit's tiles of the image."""
    part = unit.part
    tile: i64 = 0
    for row in range(unit.first_row, unit.last_row):
        for column in range(part.tiles_across):
            target = unit.image + tile * part.image_row * of.bytes
            transform_tile(of, unit, row, column, target)
            tile += 1


@native
def transform_tile(of: Elements, unit: Unit, row: i64, column: i64, target: Pointer) -> None:
    """Transform a tile of the image; elements outside of the image are zero."""
    part = unit.part
    y = row % part.tiles_down * RESULTS - part.low_0
    x = column * RESULTS - part.low_1
    line = part.width * part.channels
    image = unit.env.lhs + row // part.tiles_down * part.height * line * of.bytes
    tile = Tile.on_stack()
    tile.target = target
    tile.source = image + (y * line + x * part.channels) * of.bytes
    tile.line = line
    if unlikely(y < 0 or y + SIDE > part.height or x < 0 or x + SIDE > part.width):
        copy_patch(of, unit, image, y, x)
        tile.source = unit.patch
        tile.line = SIDE * part.channels
    transform_elements(of, part, tile)


@native
def copy_patch(of: Elements, unit: Unit, image: Pointer, y: i64, x: i64) -> None:
    """Copy a tile's elements of the image; those outside of it are zero."""
    part = unit.part
    pixel = part.channels * of.bytes
    for element in range(SIDE * SIDE):
        at_y = y + element // SIDE
        at_x = x + element % SIDE
        target = unit.patch + element * pixel
        if 0 <= at_y < part.height and 0 <= at_x < part.width:
            memcpy(target, image + (at_y * part.width + at_x) * pixel, pixel)
        else:
            memset(target, 0, pixel)


# ---- products


@native
def multiply(of: Elements, unit: Unit) -> None:
    """Multiply plane by plane, panel by panel; the last block of rows overlaps the one before."""
    part = unit.part
    tiles = (unit.last_row - unit.first_row) * part.tiles_across
    for plane in range(PLANES):
        image = unit.image + plane * part.image_plane * of.bytes
        panels = unit.env.scratch + plane * part.taps_plane * of.bytes
        sums = unit.sums + plane * part.sums_plane * of.bytes
        for panel in range(unit.first_panel, unit.last_panel):
            b = panels + panel * part.channels * of.columns * of.bytes
            for block in range(0, tiles, part.rows):
                row = min(block, tiles - part.rows)
                a = image + row * part.image_row * of.bytes
                c = sums + row * part.n_block * of.bytes
                part.micro_kernel(a, b, c, part.channels, False, 0, part.image_row, part.n_block)
            sums = sums + of.columns * of.bytes


# ---- results


@native
def add_up(of: Elements, unit: Unit) -> None:
    """Add the planes up, row by row of tiles, each followed by its epilogue."""
    part = unit.part
    tile: i64 = 0
    for row in range(unit.first_row, unit.last_row):
        for column in range(part.tiles_across):
            add_up_tile(of, unit, row, column, tile)
            tile += 1
        epilogue = unit.env.epilogue
        if epilogue is not None:
            lines = i64(RESULTS) if has_second_line(part, row) else 1
            start = first_line(part, row) * part.result_width
            behind = part + sizeof(Part)
            feature = unit.first_panel * of.columns
            rows = lines * part.result_width
            epilogue(behind, unit.rows, 0, start, rows, 1, feature, part.n_block)


@native
def add_up_tile(of: Elements, unit: Unit, row: i64, column: i64, tile: i64) -> None:
    """Add up the results of a tile; those outside of the image go to memory that nobody reads."""
    part = unit.part
    start = unit.rows
    pixel = part.n_block * of.bytes
    if unit.env.epilogue is None:
        pixel = part.features * of.bytes
        line = unit.env.result + first_line(part, row) * part.result_width * pixel
        start = line + unit.first_panel * of.columns * of.bytes
    x = column * RESULTS
    has_second_column = x + 1 < part.result_width
    has_second = has_second_line(part, row)
    corners = Corners.on_stack()
    corners.first = start + x * pixel
    below = corners.first + part.result_width * pixel
    corners.right = corners.first + pixel if has_second_column else unit.nowhere
    corners.below = below if has_second else unit.nowhere
    corners.last = below + pixel if has_second and has_second_column else unit.nowhere
    add_planes(of, part, unit.sums + tile * part.n_block * of.bytes, corners)


@inlined
def first_line(part: Part, row: i64) -> i64:
    """Return the first line of results of a row of tiles, counted through all images."""
    return row // part.tiles_down * part.result_height + row % part.tiles_down * RESULTS


@inlined
def has_second_line(part: Part, row: i64) -> bool:
    """Return whether a row of tiles has two lines of results."""
    return row % part.tiles_down * RESULTS + 1 < part.result_height
