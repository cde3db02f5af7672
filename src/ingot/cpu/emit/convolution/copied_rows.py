# SPDX-License-Identifier: Apache-2.0
"""Rows that a unit of a convolution copies: of the image at its padding, of taps to panels."""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import lane_mask
from ingot.cpu.emit.driver_records import Elements
from ingot.kernel.convolution.image_numbers import ImageNumbers
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, native
from ingot.native.operations import likely, memcpy, memset
from ingot.native.pointers import Pointer, Struct
from ingot.native.types import i64


class RowCopy(Struct):
    """A copy of rows: of `copied` channels, for the lines from `line` to `last_line` of a unit.

    The first element that is copied of the image's first pixel is at `source`; the unit's first
    window begins at plane `z`, row `y` and pixel `x`. In a row of the copy, the pixels from
    `first_pixel` to `last_pixel` are those of the image.
    """

    image: ImageNumbers
    target: Pointer
    source: Pointer
    z: i64
    y: i64
    x: i64
    line: i64
    last_line: i64
    copied: i64
    first_pixel: i64
    last_pixel: i64


@native
def copy_rows(of: Elements, copy: RowCopy) -> None:
    """Copy the rows that lines of windows meet and earlier lines do not; zeros outside of it."""
    image = copy.image
    width = image.padded_width
    copy.first_pixel = min(max(-copy.x, 0), width)
    copy.last_pixel = max(min(image.size_2 - copy.x, width), copy.first_pixel)
    last = image.plane_rows - (image.unit_lines - copy.last_line) * image.stride_1
    first: i64 = 0
    if copy.line > 0:
        first = last - (copy.last_line - copy.line) * image.stride_1
    row_bytes = width * image.pixel * of.bytes
    for tap in range(image.planes):
        z = copy.z + tap * image.dilation_0
        for row in range(first, last):
            y = copy.y + row
            target = copy.target + (tap * image.plane_rows + row) * row_bytes
            if likely(0 <= z < image.size_0 and 0 <= y < image.size_1):
                pixel = (z * image.size_1 + y) * image.size_2 + copy.x
                copy_row(of, copy, target, copy.source + pixel * image.channels * of.bytes)
            else:
                memset(target, 0, row_bytes)


@native
def copy_row(of: Elements, copy: RowCopy, target: Pointer, source: Pointer) -> None:
    """Copy a row of the image; its first pixel would lie at the target, padding before it."""
    image = copy.image
    pixel = image.pixel * of.bytes
    count = copy.last_pixel - copy.first_pixel
    first = copy.first_pixel * pixel
    last = copy.last_pixel * pixel
    memset(target, 0, first)
    memset(target + last, 0, image.padded_width * pixel - last)
    start = source + copy.first_pixel * image.channels * of.bytes
    if likely(copy.copied == image.pixel and copy.copied == image.channels):
        memcpy(target + first, start, count * pixel)
    else:
        copy_pixels(of, copy, target + first, start)


@Vectors[[Elements, RowCopy, Pointer, Pointer], None]
def copy_pixels(
    f: FunctionBuilder, of: Elements, copy: Value, target: Value, source: Value
) -> None:
    """Copy the channels of a row's pixels one by one."""
    image, copied, first, last = (
        RowCopy.c_layout.load(f, copy, name)
        for name in ("image", "copied", "first_pixel", "last_pixel")
    )
    pixel_step = ImageNumbers.c_layout.load(f, image, "pixel")
    channels = ImageNumbers.c_layout.load(f, image, "channels")
    whole = f.as_value(f.imul(f.idiv(copied, of.lanes), of.lanes))
    mask = lane_mask(f, f.sub(copied, whole), of.lanes)
    assert mask is not None, "vectors have lanes"
    has_rest = f.icmp("slt", whole, copied)

    def at(base: Value, index: Value) -> Value:
        return f.gep(base, index, of.type)

    def pixel(number: Value) -> None:
        to, start = at(target, f.mul(number, pixel_step)), at(source, f.mul(number, channels))

        def vector(index: Value) -> None:
            f.store(f.load(of.vector, at(start, index), of.bytes), at(to, index), of.bytes)

        def rest() -> None:
            f.masked_store(f.masked_load(of.vector, at(start, whole), mask), at(to, whole), mask)

        f.for_range(whole, vector, step=of.lanes)
        f.if_(has_rest, rest)

    f.for_range(f.sub(last, first), pixel)


@Vectors[[Elements, Pointer, Pointer, i64], None]
def pack_row(f: FunctionBuilder, of: Elements, target: Value, source: Value, count: Value) -> None:
    """Fill a row of a panel: elements from the `count`-th on are zero."""
    for number in range(of.vectors):
        first = number * of.lanes
        mask = lane_mask(f, f.isub(count, first), of.lanes)
        assert mask is not None, "vectors have lanes"
        address = f.gep(source, first, of.type, inbounds=False)
        value = f.masked_load(of.vector, address, mask)
        f.store(value, f.gep(target, first, of.type), of.bytes)
