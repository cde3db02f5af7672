# SPDX-License-Identifier: Apache-2.0
"""Numbers of an image that drivers of direct convolutions and of filter gradients both read."""

from __future__ import annotations

from ingot.kernel.driver_parameters import RowBlocks
from ingot.native.types import i64


class ImageNumbers(RowBlocks, is_constant=True):
    """An image, the rows that a unit copies of it, and the unit's blocks; steps are in elements.

    A copy has `planes` of `plane_rows` rows, each of `padded_width` pixels of `copied` elements
    that are `pixel` apart. Planes of the image are `dilation_0` apart from tap to tap, rows
    `stride_1` from line to line. A unit has `unit_lines` lines; `line_step` leads from line to line
    of what its products read, `row_step` along one.
    """

    size_0: i64
    size_1: i64
    size_2: i64
    channels: i64
    features: i64
    low_0: i64
    low_1: i64
    low_2: i64
    dilation_0: i64
    stride_1: i64
    result_1: i64
    result_2: i64
    planes: i64
    plane_rows: i64
    padded_width: i64
    pixel: i64
    copied: i64
    unit_lines: i64
    line_step: i64
    row_step: i64
    copy_elements: i64
    chunk_elements: i64
