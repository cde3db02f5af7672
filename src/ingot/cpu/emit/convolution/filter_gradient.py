# SPDX-License-Identifier: Apache-2.0
"""The driver of filter gradients, a native function: `units(env, chunk)`, one unit for each chunk.

The numbers of a gradient are in env (`kernel.convolution.filter_gradient.FilterGradientNumbers`),
so one function serves every size. Sums are added up in the result, or in a tile of the scratch that
an epilogue reads at the end.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from ingot.cpu.emit.convolution.copied_rows import RowCopy, copy_rows, pack_row
from ingot.cpu.emit.driver_records import DriverStart, Elements, SegmentedKernel, first_row
from ingot.kernel.convolution.filter_gradient import MAX_LINES, FilterGradientNumbers
from ingot.native.functions import inlined, native
from ingot.native.operations import memset
from ingot.native.pointers import Array, Pointer, Struct, sizeof
from ingot.native.types import i64


class Part(FilterGradientNumbers, is_constant=True):
    """The part of env behind its start; the last two micro-kernels do the remaining columns."""

    low: SegmentedKernel
    tall: SegmentedKernel
    low_rest: SegmentedKernel
    tall_rest: SegmentedKernel


class Unit(Struct):
    """A unit: row blocks of channels by a panel of features of a group, for all taps.

    `count` channels of `group` from `channel` on are those of the row blocks from `first_block` to
    `last_block`; `left` features of it are there from `column` on, which is `feature` of all
    features. The areas of its scratch are a tile
    of sums, a copy of rows and a packed panel of the gradient.
    """

    env: DriverStart
    part: Part
    table: Array[i64]
    first_block: i64
    last_block: i64
    group: i64
    channel: i64
    count: i64
    column: i64
    feature: i64
    left: i64
    tile: Pointer
    copy: Pointer
    panel: Pointer
    low: SegmentedKernel
    tall: SegmentedKernel


class Group(Struct):
    """A group of the gradient: its first image, plane and line, how many, positions of a line."""

    image: i64
    plane: i64
    line: i64
    images: i64
    lines: i64
    positions: i64


@native
def units(of: Elements, env: DriverStart, chunk: i64) -> None:
    """Sum the unit of a chunk: group by group, then the epilogue."""
    part = Part.at(env + sizeof(DriverStart))
    unit = Unit.on_stack()
    unit.env = env
    unit.part = part
    unit.table = Array[i64].on_stack(MAX_LINES)
    locate(of, unit, chunk)
    if part.images == 0:
        clear(of, unit)
    group = Group.on_stack()
    for image in range(0, part.images, part.unit_images):
        group.image = image
        group.images = min(part.unit_images, part.images - image)
        for plane in range(part.gradient_0):
            group.plane = plane
            for line in range(0, part.gradient_1, part.unit_lines):
                group.line = line
                group.lines = min(part.unit_lines, part.gradient_1 - line)
                left = part.positions - line * part.gradient_2
                group.positions = min(part.gradient_2, left)
                multiply_group(of, unit, group)
    finish(of, unit)


@native
def locate(of: Elements, unit: Unit, chunk: i64) -> None:
    """Set where the unit of a chunk lies, the areas of its scratch, and its micro-kernels."""
    part = unit.part
    unit.first_block = chunk % part.channel_units * part.unit_blocks
    unit.last_block = min(unit.first_block + part.unit_blocks, part.row_blocks)
    unit.channel = first_row(part, unit.first_block)
    unit.count = first_row(part, unit.last_block) - unit.channel
    panel = chunk // part.channel_units
    unit.group = panel // part.panels
    unit.column = panel % part.panels * of.columns
    unit.feature = unit.group * part.group_features + unit.column
    unit.left = part.group_features - unit.column
    unit.tile = unit.env.scratch + chunk * part.chunk_elements * of.bytes
    unit.copy = unit.tile + part.tile_elements * of.bytes
    unit.panel = unit.copy + part.copy_elements * of.bytes
    unit.low = part.low if unit.left >= of.columns else part.low_rest
    unit.tall = part.tall if unit.left >= of.columns else part.tall_rest


# ---- products


@native
def multiply_group(of: Elements, unit: Unit, group: Group) -> None:
    """Make the operands of a group ready, then add its products to the sums of all taps."""
    part = unit.part
    for image in range(group.images):
        copy_image(of, unit, group, image)
    plane = (group.image * part.gradient_0 + group.plane) * part.positions
    first = plane + group.line * part.gradient_2
    start = unit.env.rhs + (first * part.features + unit.feature) * of.bytes
    for row in range(group.images * group.lines * group.positions):
        target = unit.panel + row * of.columns * of.bytes
        pack_row(of, target, start + row * part.features * of.bytes, unit.left)
    for tap in range(part.planes * part.result_1 * part.result_2):
        multiply_tap(of, unit, group, tap)


@native
def copy_image(of: Elements, unit: Unit, group: Group, image: i64) -> None:
    """Copy the rows of an image that a group meets, and write where its lines begin."""
    part = unit.part
    elements = part.size_0 * part.size_1 * part.size_2 * part.channels
    offset = image * part.image_step
    copy = RowCopy.on_stack()
    copy.image = part
    copy.target = unit.copy + offset * of.bytes
    channel = unit.group * part.group_channels + unit.channel
    copy.source = unit.env.lhs + ((group.image + image) * elements + channel) * of.bytes
    copy.z = group.plane * part.plane_step - part.low_0
    copy.y = group.line * part.stride_1 - part.low_1
    copy.x = group.line * part.line_pixels - part.low_2
    copy.line = 0
    copy.last_line = group.lines
    copy.copied = unit.count
    copy_rows(of, copy)
    for line in range(group.lines):
        unit.table[image * group.lines + line] = offset + line * part.line_step


@native
def multiply_tap(of: Elements, unit: Unit, group: Group, tap: i64) -> None:
    """Add the products of a tap, block by block of channels."""
    part = unit.part
    line = tap // part.result_2
    plane = line // part.result_1 * part.tap_0
    offset = plane + line % part.result_1 * part.tap_1 + tap % part.result_2 * part.tap_2
    goes_on = group.image + group.plane + group.line > 0
    step = sums_step(of, unit)
    sums = sums_of(of, unit, tap)
    for block in range(unit.first_block, unit.last_block):
        channel = first_row(part, block) - unit.channel
        run = unit.tall if block < part.tall_blocks else unit.low
        run(
            unit.copy + (offset + channel) * of.bytes,
            unit.panel,
            sums + channel * step * of.bytes,
            group.positions,
            goes_on,
            unit.left,
            part.row_step,
            step,
            unit.table,
            group.images * group.lines,
        )


# ---- sums


@inlined
def sums_of(of: Elements, unit: Unit, tap: i64) -> Pointer:
    """Return where a tap's sums begin."""
    part = unit.part
    sums = unit.tile + tap * unit.count * of.columns * of.bytes
    if unit.env.epilogue is None:
        row = tap * part.group_channels + unit.channel
        sums = unit.env.result + (row * part.features + unit.feature) * of.bytes
    return sums


@inlined
def sums_step(of: Elements, unit: Unit) -> i64:
    """Return the step of sums from channel to channel."""
    return unit.part.features if unit.env.epilogue is None else of.columns


@native
def clear(of: Elements, unit: Unit) -> None:
    """Write the sums of no images."""
    part = unit.part
    step = sums_step(of, unit)
    size = min(unit.left, of.columns) * of.bytes
    for tap in range(part.planes * part.result_1 * part.result_2):
        sums = sums_of(of, unit, tap)
        for channel in range(unit.count):
            memset(sums + channel * step * of.bytes, 0, size)


@native
def finish(of: Elements, unit: Unit) -> None:
    """Call the epilogue, if there is one, tap by tap."""
    part = unit.part
    epilogue = unit.env.epilogue
    if epilogue is None:
        return
    behind = part + sizeof(Part)
    columns = min(unit.left, of.columns)
    for tap in range(part.planes * part.result_1 * part.result_2):
        row = tap * part.group_channels + unit.channel
        sums = sums_of(of, unit, tap)
        epilogue(behind, sums, unit.group, row, unit.count, 1, unit.column, columns)


FUNCTIONS = {"units": units}
"""The functions of the driver."""
