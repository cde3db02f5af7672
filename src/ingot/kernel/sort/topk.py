# SPDX-License-Identifier: Apache-2.0
"""From a fused `topk` to a `TopKKernel`, and how its rows are divided among chunks.

Few long rows are cut into parts of a fixed length; the best elements of each part are found
separately and then compared. Many rows, or short ones, are chunks of whole rows. If k is small, the
best elements of short rows are found one after the other. All of it depends on sizes alone.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, ceil_div, product, round_up
from ingot.hlo.opset.indexing import TopKAttributes
from ingot.kernel.driver_parameters import ROW_CHUNKS, Chunks
from ingot.kernel.ir import TopKKernel
from ingot.kernel.loop.build import buffers_of
from ingot.native.pointers import Struct
from ingot.native.types import i64
from ingot.support.records import record

PART = 65_536
"""Elements of a part of a long row, at least: some ten microseconds."""

FEW_ROWS = 16
"""Rows below which each long row is cut into parts, for several threads."""

CHUNK_ELEMENTS = 16_384
"""Elements per chunk at least."""

LEAST_ROOM = 128
"""Candidates that are gathered, at least, before the best of them are chosen."""

BLOCK = 64
"""Elements that are compared at once."""


ROUND_ROW, ROUND_WORK = 1024, 16_384
"""Rows up to this length whose best are found one after the other, if k rounds are no more work."""


class SelectionNumbers(Struct, is_constant=True):
    """Numbers of a selection, in the order of its env: see `TopKKernel`, `TopKSchedule`."""

    rows: i64
    length: i64
    k: i64
    room: i64
    area: i64
    grain: i64
    part: i64
    parts: i64
    in_rounds: i64


@record
class TopKSchedule:
    """How a selection runs.

    Attributes:
        room: candidates that are gathered before the best of them are chosen.
        area: elements of scratch for them.
        grain: rows per chunk.
        chunks: chunks.
        part: elements of a part where rows are cut, else 0.
        parts: parts of a row.
        in_rounds: whether the best of a row are found one after the other.
    """

    room: int
    area: int
    grain: int | Dim
    chunks: int | Dim
    part: int
    parts: int
    in_rounds: bool = False

    def parameters(self, kernel: TopKKernel) -> tuple[int | Dim, ...]:
        """Return the values of `SelectionNumbers`."""
        own = (self.room, self.area, self.grain, self.part, self.parts, int(self.in_rounds))
        return (kernel.rows, kernel.length, kernel.k, *own)


def build_topk_kernel(fused: Computation) -> TopKKernel:
    """Return the kernel of a fused computation that is one `topk`."""
    root = fused.root
    given = root.as_(TopKAttributes)
    *outer, length = root.operands[0].shape.dims
    return TopKKernel(product(outer), length, given.k, given.largest, buffers_of(fused))


def schedule_topk(kernel: TopKKernel) -> TopKSchedule:
    """Return the schedule of a selection."""
    room = max(2 * kernel.k, LEAST_ROOM)
    area = round_up(room + 2 * BLOCK, 8)
    part = max(PART, 4 * room)
    rows, length = kernel.rows, kernel.length
    is_few = isinstance(rows, int) and rows < FEW_ROWS
    if is_few and isinstance(length, int) and length >= 2 * part:
        return TopKSchedule(room, area, 1, rows, part, ceil_div(length, part))
    least = dim.maximum(dim.floordiv(CHUNK_ELEMENTS, dim.maximum(length, 1)), 1)
    shared = Chunks.of(rows, ROW_CHUNKS, least)
    if isinstance(length, int) and length <= ROUND_ROW and kernel.k * length <= ROUND_WORK:
        area = max(area, round_up(length, BLOCK))
        return TopKSchedule(room, area, shared.grain, shared.count, 0, 1, in_rounds=True)
    return TopKSchedule(room, area, shared.grain, shared.count, 0, 1)
