# SPDX-License-Identifier: Apache-2.0
"""The transforms of Winograd's F(2, 3) along one dimension, applied along both.

Four elements of the image, three taps, four sums: with B, G and A of the paper, this is B^T d, G g
and A^T m. Invariant: the order of additions is the same for every lane and size.

Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2015).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value

SIDE, TAPS, RESULTS = 4, 3, 2
"""Sides of a transformed tile, of the window, of a tile's results."""

Row = Sequence[Value]
Transform = Callable[[FunctionBuilder, Row], list[Value]]


def of_image(f: FunctionBuilder, d: Row) -> list[Value]:
    """Return a row of the image, transformed."""
    return [f.sub(d[0], d[2]), f.add(d[1], d[2]), f.sub(d[2], d[1]), f.sub(d[1], d[3])]


def of_taps(f: FunctionBuilder, g: Row) -> list[Value]:
    """Return a row of taps, transformed."""
    half = f.const(g[0].type, 0.5)
    ends = f.add(g[0], g[2])
    sums = (f.add(ends, g[1]), f.sub(ends, g[1]))
    return [g[0], *(f.mul(value, half) for value in sums), g[2]]


def of_sums(f: FunctionBuilder, m: Row) -> list[Value]:
    """Return the results of a row of sums."""
    return [f.add(f.add(m[0], m[1]), m[2]), f.sub(f.sub(m[1], m[2]), m[3])]


def both_ways(f: FunctionBuilder, square: Sequence[Row], transform: Transform) -> list[Row]:
    """Return a square transformed along both of its sides."""
    columns = [transform(f, column) for column in zip(*square, strict=True)]
    return [transform(f, row) for row in zip(*columns, strict=True)]
