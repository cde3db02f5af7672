# SPDX-License-Identifier: Apache-2.0
"""Panels of a unit of a direct convolution: products piece by piece, then the epilogue by lines.

Part of the driver `direct`. A line of one panel and one piece has all of its products at once: its
epilogue follows, and the next line's sums overwrite it.
"""

from __future__ import annotations

from ingot.cpu.emit.convolution.copied_rows import RowCopy, copy_rows
from ingot.cpu.emit.convolution.packed_rows import pack_row
from ingot.cpu.emit.driver_records import DriverStart, Elements, SegmentedKernel, first_row
from ingot.kernel.convolution.direct_parts import DirectNumbers
from ingot.native.functions import inlined, native
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i64


class Part(DirectNumbers, is_constant=True):
    """A part of a convolution; the last two micro-kernels are for the columns left over."""

    low: SegmentedKernel
    tall: SegmentedKernel
    low_rest: SegmentedKernel
    tall_rest: SegmentedKernel


class Unit(Struct):
    """A unit of a part: `lines` lines of `columns` features of a group.

    Its areas are the copy of rows, a packed piece of taps, and rows of sums for the epilogue,
    `rows_line` apart from line to line (0: each line overwrites the one before). `plane` is
    the number of the image and of the position along the first dimension, as one.
    """

    env: DriverStart
    part: Part
    epilogue_env: Pointer
    table: Array[i64]
    copy: Pointer
    piece: Pointer
    rows: Pointer
    rows_line: i64
    plane: i64
    group: i64
    line: i64
    lines: i64
    column: i64
    columns: i64
    image: Pointer
    source: Pointer  # the first copied element of the image's first pixel
    z: i64  # where its first window begins
    y: i64
    result: Pointer
    result_line: i64
    result_row: i64


class Panel(Struct):
    """A panel of a unit: its first feature in the unit, the features from there on, its taps."""

    column: i64
    left: i64
    taps: Pointer
    result: Pointer
    low: SegmentedKernel
    tall: SegmentedKernel


@native
def multiply_panel(of: Elements, unit: Unit, column: i64) -> None:
    """Sum the products of a panel, piece by piece of the taps."""
    part = unit.part
    panel = Panel.on_stack()
    panel.column = column
    panel.left = unit.columns - column
    panel.result = unit.result + column * of.bytes
    panel.low = part.low if panel.left >= of.columns else part.low_rest
    panel.tall = part.tall if panel.left >= of.columns else part.tall_rest
    feature = unit.column + column
    if part.is_packed != 0:
        number = unit.group * part.panels + feature // of.columns
        panel.taps = packed_panel(of, unit.env, part, number)
    else:
        panel.taps = unit.env.rhs + (unit.group * part.group_features + feature) * of.bytes
    # A part without taps has one piece of no segments, which writes zeros.
    for start in range(0, max(part.segments, 1), part.piece_segments):
        multiply_piece(of, unit, panel, start)


@native
def multiply_piece(of: Elements, unit: Unit, panel: Panel, start: i64) -> None:
    """Sum the products of a panel over the segments of a piece, line by line."""
    part = unit.part
    count = min(part.piece_segments, part.segments - start)
    b = piece_of(of, unit, panel, start)
    table = Array[i64].at(unit.table + start * 8)
    column = (unit.column + panel.column) * part.column_step
    is_first = panel.column == 0 and start == 0
    for line in range(unit.lines):
        if is_first and part.copies != 0:
            copy_line(of, unit, line)
        a = unit.image + (line * part.line_step + column) * of.bytes
        c = panel.result + line * unit.result_line * of.bytes
        for block in range(part.row_blocks):
            row = first_row(part, block)
            run = panel.tall if block < part.tall_blocks else panel.low
            run(
                a + row * part.row_step * of.bytes,
                b,
                c + row * unit.result_row * of.bytes,
                part.segment,
                start > 0,
                panel.left,
                part.row_step,
                unit.result_row,
                table,
                count,
            )
        if unit.rows_line == 0:
            finish_lines(of, unit, line, 1)


@native
def piece_of(of: Elements, unit: Unit, panel: Panel, start: i64) -> Pointer:
    """Return the packed taps of a piece; pack them if they are not."""
    part = unit.part
    before = start * part.segment
    if part.is_packed != 0:
        return panel.taps + before * of.columns * of.bytes
    count = min(part.piece_segments, part.segments - start)
    for row in range(count * part.segment):
        target = unit.piece + row * of.columns * of.bytes
        source = panel.taps + (before + row) * part.features * of.bytes
        pack_row(of, target, source, panel.left)
    return unit.piece


@native
def copy_line(of: Elements, unit: Unit, line: i64) -> None:
    """Copy the rows that a line is the first of its unit to meet."""
    part = unit.part
    copy = RowCopy.on_stack()
    copy.image = part
    copy.target = unit.copy
    copy.source = unit.source
    copy.z = unit.z
    copy.y = unit.y
    copy.line = line
    copy.last_line = line + 1
    copy.copied = unit.columns if part.own_columns != 0 else part.copied
    copy_rows(of, copy)


@native
def finish_lines(of: Elements, unit: Unit, line: i64, count: i64) -> None:
    """Call the epilogue, if there is one, for `count` lines that follow one another in memory."""
    part = unit.part
    epilogue = unit.env.epilogue
    if epilogue is None:
        return
    sums = unit.rows + line * unit.rows_line * of.bytes
    first = first_result(unit) + line * part.out_1
    epilogue(
        unit.epilogue_env,
        sums,
        unit.group,
        first,
        count * part.result_2,
        part.out_2,
        unit.column,
        unit.columns,
    )


@inlined
def first_result(unit: Unit) -> i64:
    """Return the number of a unit's first result among all results."""
    part = unit.part
    first = part.out_first + unit.plane // part.result_0 * part.out_image
    return first + unit.plane % part.result_0 * part.out_0 + unit.line * part.out_1


@inlined
def packed_panel(of: Elements, env: DriverStart, part: Part, panel: i64) -> Pointer:
    """Return where a packed panel of the taps lies; panels are counted through all groups."""
    row = panel * part.segments * part.segment
    return env.scratch + (part.panels_at + row * of.columns) * of.bytes
