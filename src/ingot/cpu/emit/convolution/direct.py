# SPDX-License-Identifier: Apache-2.0
"""Direct convolutions as native functions: `taps(env, chunk)`, then `units(env, chunk)`.

The first function packs panels of the taps. The numbers of each part of a convolution are in env
(`kernel.convolution.direct_parts.DirectNumbers`), so the functions serve every size. A chunk of
units writes the table of segments once, then runs its units, panel by panel and piece by piece. A
line of one panel and one piece has all of its products at once: its epilogue follows, and the next
line's sums overwrite it.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from ingot.analysis.direct_convolution import MAX_SEGMENTS
from ingot.cpu.emit.convolution.copied_rows import RowCopy, copy_rows, pack_row
from ingot.cpu.emit.driver_records import DriverStart, Elements, SegmentedKernel, first_row
from ingot.kernel.convolution.direct_parts import COPY_BYTES, DirectNumbers
from ingot.native.functions import inlined, native
from ingot.native.pointers import Array, Pointer, Struct, Structs, sizeof
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
    x: i64
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
    copy.x = unit.x
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


# ---- taps


@native
def taps(of: Elements, env: DriverStart, chunk: i64) -> None:
    """Pack a chunk of panels of the taps: the first part's chunks, then the next one's."""
    parts = parts_of(env)
    part = parts[0]
    for number in range(1, env.parts):
        if parts[number].first_packing <= chunk:
            part = parts[number]
    panels = part.features // part.group_features * part.panels
    first = (chunk - part.first_packing) * part.panel_grain
    for panel in range(first, min(first + part.panel_grain, panels)):
        pack_panel(of, env, part, panel)


@native
def pack_panel(of: Elements, env: DriverStart, part: Part, panel: i64) -> None:
    """Pack a panel of all taps; panels are counted through all groups."""
    column = panel % part.panels * of.columns
    feature = panel // part.panels * part.group_features + column
    left = part.group_features - column
    target = packed_panel(of, env, part, panel)
    for tap in range(part.segments * part.segment // part.group_channels):
        row = row_of_tap(part, tap)
        for channel in range(part.group_channels):
            source = env.rhs + ((row + channel) * part.features + feature) * of.bytes
            pack_row(of, target, source, left)
            target = target + of.columns * of.bytes


@inlined
def row_of_tap(part: Part, tap: i64) -> i64:
    """Return the row of a tap's first channel in the kernel."""
    row = part.tap_first + tap % part.taps_2 * part.tap_2
    line = tap // part.taps_2
    return row + line % part.taps_1 * part.tap_1 + line // part.taps_1 * part.tap_0


@inlined
def parts_of(env: DriverStart) -> Structs[Part]:
    """Return the parts of a convolution, which follow the start of its env."""
    return Structs[Part].at(env + sizeof(DriverStart))


# ---- units


@native
def units(of: Elements, env: DriverStart, chunk: i64) -> None:
    """Compute a chunk of units: the first part's chunks, then the next one's."""
    parts = parts_of(env)
    part = parts[0]
    for number in range(1, env.parts):
        if parts[number].first_chunk <= chunk:
            part = parts[number]
    of_part = chunk - part.first_chunk
    unit = Unit.on_stack()
    unit.env = env
    unit.part = part
    unit.epilogue_env = Pointer.at(parts) + env.parts * sizeof(Part)
    unit.table = Array[i64].on_stack(MAX_SEGMENTS)
    write_table(part, unit.table)
    set_areas(of, unit, env.scratch + (part.chunks_at + of_part * part.chunk_elements) * of.bytes)
    if part.copy_elements == 0:
        unit.copy = Array[i64].on_stack(COPY_BYTES // 8)
    first = of_part * part.grain
    for number in range(first, min(first + part.grain, part.units)):
        locate(unit, number)
        set_operands(of, unit)
        for column in range(0, unit.columns, of.columns):
            multiply_panel(of, unit, column)
        if unit.rows_line != 0:
            finish(of, unit)


@native
def finish(of: Elements, unit: Unit) -> None:
    """Call the epilogue for all lines of a unit: at once, or one by one if others lie between."""
    if unit.part.out_1 == unit.part.result_2:
        finish_lines(of, unit, 0, unit.lines)
    else:
        for line in range(unit.lines):
            finish_lines(of, unit, line, 1)


@native
def write_table(part: Part, table: Array[i64]) -> None:
    """Write the offsets of all segments from the first element of a window."""
    for number in range(part.segments):
        tap = number * part.segment // part.group_channels
        channel = number * part.segment % part.group_channels
        line = tap // part.taps_2
        offset = part.offset_first + channel + tap % part.taps_2 * part.offset_2
        offset_0 = line // part.taps_1 * part.offset_0
        table[number] = offset + line % part.taps_1 * part.offset_1 + offset_0


@native
def set_areas(of: Elements, unit: Unit, scratch: Pointer) -> None:
    """Set the areas of a chunk's scratch."""
    part = unit.part
    unit.copy = scratch
    unit.piece = scratch + part.copy_elements * of.bytes
    unit.rows = unit.piece + part.piece_segments * part.segment * of.columns * of.bytes
    unit.rows_line = part.result_2 * part.n_block
    if part.n_block <= of.columns and part.segments <= part.piece_segments:
        unit.rows_line = 0


@native
def locate(unit: Unit, number: i64) -> None:
    """Set where a unit lies: lines fastest, then planes, blocks of features, groups."""
    part = unit.part
    groups = part.features // part.group_features
    planes = part.units // (part.line_units * part.blocks) // groups
    plane = number // part.line_units
    block = plane // planes
    unit.plane = plane % planes
    unit.group = block // part.blocks
    unit.line = number % part.line_units * part.unit_lines
    unit.lines = min(part.unit_lines, part.result_1 - unit.line)
    unit.column = block % part.blocks * part.n_block
    unit.columns = min(part.n_block, part.group_features - unit.column)


@native
def set_operands(of: Elements, unit: Unit) -> None:
    """Set where a unit's windows begin in the image or in its copy, and where its sums go."""
    env = unit.env
    part = unit.part
    plane = part.size_1 * part.size_2 * part.channels
    image = unit.plane // part.result_0 * part.size_0 * plane + unit.group * part.group_channels
    own = unit.column * part.own_columns
    unit.z = unit.plane % part.result_0 * part.stride_0 - part.low_0
    unit.y = unit.line * part.stride_1 - part.low_1
    unit.x = unit.line * part.line_pixels - part.low_2
    unit.source = env.lhs + (image + own) * of.bytes
    if part.copies != 0:
        # Features are counted from the first one of the group.
        unit.image = unit.copy + -own * of.bytes
    else:
        pixel = unit.y * part.size_2 + unit.x
        unit.image = env.lhs + (image + unit.z * plane + pixel * part.channels) * of.bytes
    if env.epilogue is None:
        feature = unit.group * part.group_features + unit.column
        unit.result = env.result + (first_result(unit) * part.features + feature) * of.bytes
        unit.result_line = part.out_1 * part.features
        unit.result_row = part.out_2 * part.features
    else:
        unit.result = unit.rows
        unit.result_line = unit.rows_line
        unit.result_row = part.n_block


FUNCTIONS = {"taps": taps, "units": units}
"""The functions of the driver."""
