# SPDX-License-Identifier: Apache-2.0
"""Copies of the image's rows that a unit reads, where its windows meet padding."""

from __future__ import annotations

from ingot.cpu.emit.convolution.rows import copy_elements
from ingot.cpu.emit.driver_records import Elements
from ingot.kernel.convolution.image_numbers import ImageNumbers
from ingot.native.functions import native
from ingot.native.operations import likely, memcpy, memset
from ingot.native.pointers import Pointer, Struct
from ingot.native.types import i64


class RowCopy(Struct):
    """A copy of rows: of `copied` channels, for the lines from `line` to `last_line` of a unit.

    The first element that is copied of the image's first pixel is at `source`; the unit's first
    window begins at plane `z` and row `y`.
    """

    target: Pointer
    source: Pointer
    z: i64
    y: i64
    line: i64
    last_line: i64
    copied: i64


@native
def copy_rows(of: Elements, image: ImageNumbers, copy: RowCopy) -> None:
    """Copy the rows that lines of windows meet and earlier lines do not; zeros outside of it."""
    row_bytes = image.padded_width * image.pixel * of.bytes
    last = image.plane_rows - (image.unit_lines - copy.last_line) * image.stride_1
    first: i64 = 0
    if copy.line > 0:
        first = last - (copy.last_line - copy.line) * image.stride_1
    for tap in range(image.planes):
        z = copy.z + tap * image.dilation_0
        for row in range(first, last):
            y = copy.y + row
            target = copy.target + (tap * image.plane_rows + row) * row_bytes
            if likely(0 <= z < image.size_0 and 0 <= y < image.size_1):
                pixel = (z * image.size_1 + y) * image.size_2
                source = copy.source + pixel * image.channels * of.bytes
                copy_row(of, image, target, source, copy.copied)
            else:
                memset(target, 0, row_bytes)


@native
def copy_row(
    of: Elements, image: ImageNumbers, target: Pointer, source: Pointer, copied: i64
) -> None:
    """Copy a row of the image, whose first pixel goes `low_2` pixels behind the target."""
    width = image.padded_width
    first = min(max(image.low_2, 0), width)
    last = max(min(image.size_2 + image.low_2, width), first)
    pixel = image.pixel * of.bytes
    memset(target, 0, first * pixel)
    memset(target + last * pixel, 0, (width - last) * pixel)
    to = target + first * pixel
    start = source + (first - image.low_2) * image.channels * of.bytes
    if copied == image.pixel and copied == image.channels:
        memcpy(to, start, (last - first) * pixel)
        return
    for number in range(last - first):
        copy_elements(of, to + number * pixel, start + number * image.channels * of.bytes, copied)
