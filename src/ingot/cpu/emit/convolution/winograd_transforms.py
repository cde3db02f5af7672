# SPDX-License-Identifier: Apache-2.0
"""The transforms of Winograd's F(2, 3) along both dimensions, of vectors of channels or features.

Four elements of the image, three taps, four sums: with B, G and A of the paper, these are B^T d,
G g and A^T m. Invariant: the order of additions is the same for every lane and size.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.cpu.emit.driver_records import Elements, MicroKernelFunction
from ingot.kernel.convolution.winograd import SIDE, TAPS, WinogradNumbers
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.values import Value
from ingot.native.functions import vectors
from ingot.native.pointers import Pointer, Struct
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


def _emit_taps(f: FunctionBuilder, of: Elements, part: Value, source: Value, target: Value) -> None:
    emit = _Emitter(f, of, part)
    row, column = emit.numbers["tap_row"], emit.numbers["tap_column"]
    for first in range(0, of.columns, of.lanes):
        square = emit.square(emit.at(source, first), TAPS, row, column)
        planes = _transformed(f, square, _of_taps)
        emit.scatter(planes, emit.at(target, first), emit.numbers["taps_plane"])


@vectors(_emit_taps)
def transform_taps(of: Elements, part: Part, source: Pointer, target: Pointer) -> None:
    """Transform the taps of a channel and of a panel's features; `target`: in the first plane."""
    ...


def _emit_tile(f: FunctionBuilder, of: Elements, part: Value, tile: Value) -> None:
    emit = _Emitter(f, of, part)
    source, line, target = [Tile.c_layout.load(f, tile, name) for name in Tile.c_layout.names]
    channels, plane = emit.numbers["channels"], emit.numbers["image_plane"]

    def transform(channel: Value) -> None:
        square = emit.square(emit.at(source, channel), SIDE, line, channels)
        emit.scatter(_transformed(f, square, _of_image), emit.at(target, channel), plane)

    emit.for_vectors(channels, transform)


@vectors(_emit_tile)
def transform_elements(of: Elements, part: Part, tile: Tile) -> None:
    """Transform a tile of the image: all of its channels."""
    ...


def _emit_sums(
    f: FunctionBuilder, of: Elements, part: Value, source: Value, corners: Value
) -> None:
    emit = _Emitter(f, of, part)
    targets = [Corners.c_layout.load(f, corners, name) for name in Corners.c_layout.names]
    plane = emit.numbers["sums_plane"]

    def add_up(feature: Value) -> None:
        square = emit.square(emit.at(source, feature), SIDE, f.as_value(f.imul(plane, SIDE)), plane)
        for value, target in zip(_transformed(f, square, _of_sums), targets, strict=True):
            emit.store(value, emit.at(target, feature))

    emit.for_vectors(emit.numbers["n_block"], add_up)


@vectors(_emit_sums)
def add_planes(of: Elements, part: Part, source: Pointer, corners: Corners) -> None:
    """Add up the planes of a tile; `source`: its sums in the first plane."""
    ...
