"""How a contraction kernel runs: register block, cache blocks, packing, chunks.

Everything depends on the kernel and its extents alone, never on the number of threads, so results
do not either.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.ir import ContractionKernel
from ingot.kernel.schedule import Vectors


@dataclass(frozen=True, slots=True)
class ContractionSchedule:
    """How a contraction kernel runs.

    Attributes:
        lanes: lanes of one vector along n.
        grain: rows (b, m) per chunk.
        chunks: number of chunks.
    """

    lanes: int
    grain: int
    chunks: int | Dim


def schedule_contraction(kernel: ContractionKernel, vectors: Vectors) -> ContractionSchedule:
    """Return the schedule of a contraction for a target's vectors."""
    lanes = 1 if kernel.n.extent == 1 else vectors.lanes(max(kernel.accumulate.bits, 32), 1)
    rows = kernel.batch.extent * kernel.m.extent
    return ContractionSchedule(lanes, 16, dim.floordiv(rows + 15, 16))
