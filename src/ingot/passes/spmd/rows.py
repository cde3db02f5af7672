# SPDX-License-Identifier: Apache-2.0
"""Rows of an array along one dimension: slices, pads, and their numbers."""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def sliced(build: Builder, value: Instruction, axis: int, row: tuple[int, int, int]) -> Instruction:
    """Return the rows of an array along dimension `axis` from a first to a limit, with a step."""
    box = [(0, size, 1) for size in value.shape.dims]
    if row == box[axis]:
        return value
    box[axis] = row
    return build.emit("slice", value, slice=tuple(box))


def padded(
    build: Builder,
    value: Instruction,
    axis: int,
    padding: tuple[int, int, int],
    fill: Instruction | None = None,
) -> Instruction:
    """Return an array with rows of `fill` (a scalar; zero if None) along dimension `axis`.

    `padding` has their numbers before, behind and between the array's own rows.
    """
    rows = [(0, 0, 0)] * value.shape.rank
    rows[axis] = padding
    scalar = build.constant(0, value.shape.dtype) if fill is None else fill
    return build.emit("pad", value, scalar, padding=tuple(rows))


def row_numbers(build: Builder, dims: tuple[int, ...], axis: int) -> Instruction:
    """Return the index along dimension `axis` of each element of an array of `dims`, s32."""
    return build.emit("iota", shape=Shape.array(S32, dims), iota_dimension=axis)
