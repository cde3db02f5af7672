# SPDX-License-Identifier: Apache-2.0
"""Numbers that library drivers take: named in a table, passed in env, read back by name.

A plain product or convolution is described by such numbers alone (`product.product`,
`convolution.direct`, `convolution.winograd`). Most are integers; the number of units may be a
symbolic size.

Invariant: `parameters` has a number for each name of `NAMES`, in that order.
"""

from __future__ import annotations

from typing import ClassVar

from ingot.hlo.dim import Dim, ceil_div, maximum
from ingot.native.pointers import Struct
from ingot.native.types import i64
from ingot.support.records import record


@record
class DriverParameters:
    """What a driver runs at one size.

    Attributes:
        NAMES: the driver's parameters, in the order of its env.
        parameters: their values.
    """

    NAMES: ClassVar[tuple[str, ...]] = ()
    parameters: tuple[int | Dim, ...]

    def value(self, name: str) -> int:
        """Return a parameter that is an integer."""
        found = self.parameters[self.NAMES.index(name)]
        assert isinstance(found, int), f"{name} is symbolic"
        return found

    @property
    def heights(self) -> tuple[int, int]:
        """Rows of a low and of a tall register block; equal where all blocks are."""
        low = self.value("low_rows")
        return low, low + (self.value("tall_blocks") > 0)


class RowBlocks(Struct, is_constant=True):
    """Rows in register blocks: `tall_blocks` of `low_rows` + 1 rows, then those of `low_rows`."""

    low_rows: i64
    tall_blocks: i64
    row_blocks: i64


ROW_CHUNKS, SCRATCH_CHUNKS = 32, 16
"""Chunks at most where each has scratch of its own: for a row, or more. Further threads idle."""


@record
class Chunks:
    """Units that are shared out to chunks, each of which has scratch of its own.

    Attributes:
        grain: units of a chunk.
        count: the chunks.
        room: chunks at most, where their count is symbolic.
    """

    grain: int | Dim
    count: int | Dim
    room: int

    @staticmethod
    def of(units: int | Dim, most: int, least: int | Dim = 1) -> Chunks:
        """Share `units` out to at most `most` chunks, of at least `least` units each."""
        grain = maximum(ceil_div(units, most), least)
        count = ceil_div(units, grain)
        return Chunks(grain, count, count if isinstance(count, int) else most)
