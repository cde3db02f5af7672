# SPDX-License-Identifier: Apache-2.0
"""Winograd convolutions as native functions: `taps(env, chunk)`, then `units(env, chunk)`.

The first function transforms the taps into 16 planes of panels, each as wide as a register block. A
unit then transforms its tiles of the image, runs a product for each plane and adds the planes up:
into the result, or into rows that an epilogue reads. The numbers of a convolution are in its env
(`kernel.convolution.winograd.WinogradNumbers`), so the two functions serve every size.

The transforms are those of F(2, 3) along both dimensions, of vectors of channels or features: four
elements of the image, three taps, four sums. With B, G and A of the paper they are B^T d, G g and
A^T m.

Invariants: a unit writes its own elements of the result and nothing else; the order of additions is
the same for every lane and size.
Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.cpu.emit.driver_records import DriverStart, Elements, MicroKernelFunction
from ingot.kernel.convolution.winograd import PLANES, RESULTS, SIDE, TAPS, WinogradNumbers
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, inlined, native
from ingot.native.operations import memcpy, memset, unlikely
from ingot.native.pointers import Pointer, Struct, sizeof
from ingot.native.types import i64

Row = Sequence[Value]
Transform = Callable[[FunctionBuilder, Row], list[Value]]


class Part(WinogradNumbers, is_constant=True):
    """The part of the driver's env behind its start."""

    micro_kernel: MicroKernelFunction


class Tile(Struct):
    """A tile of the image, and where it goes in the first plane."""

    source: Pointer
    line: i64  # elements from line to line
    target: Pointer


class Corners(Struct):
    """Where the four results of a tile go."""

    first: Pointer
    right: Pointer
    below: Pointer
    last: Pointer


def _of_image(f: FunctionBuilder, d: Row) -> list[Value]:
    """Return a row of the image, transformed."""
    return [f.sub(d[0], d[2]), f.add(d[1], d[2]), f.sub(d[2], d[1]), f.sub(d[1], d[3])]


def _of_taps(f: FunctionBuilder, g: Row) -> list[Value]:
    """Return a row of taps, transformed."""
    half = f.const(g[0].type, 0.5)
    ends = f.add(g[0], g[2])
    sums = (f.add(ends, g[1]), f.sub(ends, g[1]))
    return [g[0], *(f.mul(value, half) for value in sums), g[2]]


def _of_sums(f: FunctionBuilder, m: Row) -> list[Value]:
    """Return the results of a row of sums."""
    return [f.add(f.add(m[0], m[1]), m[2]), f.sub(f.sub(m[1], m[2]), m[3])]


def _transformed(f: FunctionBuilder, square: Sequence[Row], transform: Transform) -> list[Value]:
    """Return a square transformed along both of its sides, row by row."""
    columns = [transform(f, column) for column in zip(*square, strict=True)]
    rows = [transform(f, row) for row in zip(*columns, strict=True)]
    return [value for row in rows for value in row]


class _Emitter:
    """Emits transforms of squares of vectors.

    Attributes:
        numbers: those of the convolution, by name.
    """

    def __init__(self, f: FunctionBuilder, of: Elements, part: Value) -> None:
        self.f, self.of = f, of
        self.numbers = {
            name: Part.c_layout.load(f, part, name) for name in WinogradNumbers.c_layout.names
        }

    def at(self, base: Value, elements: Index) -> Value:
        """Return the address of an element."""
        return self.f.gep(base, elements, self.of.type)

    def square(self, base: Value, side: int, row: Value, column: Value) -> list[list[Value]]:
        """Load a square of vectors from `base` on; `row`, `column`: steps in elements."""
        f, of = self.f, self.of
        return [
            [
                f.load(
                    of.vector, self.at(base, f.iadd(f.imul(row, i), f.imul(column, j))), of.bytes
                )
                for j in range(side)
            ]
            for i in range(side)
        ]

    def scatter(self, values: Sequence[Value], target: Value, plane: Value) -> None:
        """Store vectors, each into its plane."""
        for number, value in enumerate(values):
            self.store(value, self.at(target, self.f.imul(plane, number)))

    def store(self, value: Value, address: Value) -> None:
        """Store a vector."""
        self.f.store(value, address, self.of.bytes)

    def for_vectors(self, elements: Value, body: Callable[[Value], None]) -> None:
        """Run `body` for the first element of each vector of a row."""
        self.f.for_range(elements, body, step=self.of.lanes, at_least_once=True)


@Vectors[[Elements, Part, Pointer, Pointer], None]
def transform_taps(
    f: FunctionBuilder, of: Elements, part: Value, source: Value, target: Value
) -> None:
    """Transform the taps of a channel and of a panel's features; `target`: in the first plane."""
    emit = _Emitter(f, of, part)
    row, column = emit.numbers["tap_row"], emit.numbers["tap_column"]
    for first in range(0, of.columns, of.lanes):
        square = emit.square(emit.at(source, first), TAPS, row, column)
        planes = _transformed(f, square, _of_taps)
        emit.scatter(planes, emit.at(target, first), emit.numbers["taps_plane"])


@Vectors[[Elements, Part, Tile], None]
def transform_elements(f: FunctionBuilder, of: Elements, part: Value, tile: Value) -> None:
    """Transform a tile of the image: all of its channels."""
    emit = _Emitter(f, of, part)
    source, line, target = [Tile.c_layout.load(f, tile, name) for name in Tile.c_layout.names]
    channels, plane = emit.numbers["channels"], emit.numbers["image_plane"]

    def transform(channel: Value) -> None:
        square = emit.square(emit.at(source, channel), SIDE, line, channels)
        emit.scatter(_transformed(f, square, _of_image), emit.at(target, channel), plane)

    emit.for_vectors(channels, transform)


@Vectors[[Elements, Part, Pointer, Corners], None]
def add_planes(
    f: FunctionBuilder, of: Elements, part: Value, source: Value, corners: Value
) -> None:
    """Add up the planes of a tile; `source`: its sums in the first plane."""
    emit = _Emitter(f, of, part)
    targets = [Corners.c_layout.load(f, corners, name) for name in Corners.c_layout.names]
    plane = emit.numbers["sums_plane"]

    def add_up(feature: Value) -> None:
        square = emit.square(emit.at(source, feature), SIDE, f.as_value(f.imul(plane, SIDE)), plane)
        for value, target in zip(_transformed(f, square, _of_sums), targets, strict=True):
            emit.store(value, emit.at(target, feature))

    emit.for_vectors(emit.numbers["n_block"], add_up)


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


FUNCTIONS = {"taps": taps, "units": units}
"""The functions of the driver."""
