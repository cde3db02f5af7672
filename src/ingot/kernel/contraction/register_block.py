# SPDX-License-Identifier: Apache-2.0
"""Register blocks of contractions: how many rows and columns of sums a micro-kernel holds.

Invariant: the sums, one row of the rhs and one element of the lhs fit into the target's registers;
a block that spills runs at 80 % of the speed.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.analysis.library import VECTORS
from ingot.hlo.dim import ceil_div
from ingot.llvm.machine_model import Vectors
from ingot.support.records import record

COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Vectors per row that a register block may have."""

MIN_SPARE = 4
"""Registers that no row of a register block takes."""

FEW_ROWS = 5
"""Products of at most this many rows have few."""

MAX_LOSS = 1.05
"""The common number of vectors is kept unless another one saves more than this factor."""


RHS_ROW_CYCLES = 2.5
"""Cycles of each k of a block for a row of the rhs that lies in place, by itself: its page, and the
lines that it shares with other blocks. 8x178x1040 took 0.87 of the time with three vectors,
16x59x1291 0.91, 16x300x192 0.92; 12x300x300 1.13 and 40x768x768 1.12, which stay with two (AVX-512,
2026-11-27)."""


MOST_NARROW_SUMS = 21
"""Registers of sums of a block whose last vector is a narrower one, beside others: LLVM multiplies
into the register of its factor, and spills with more. Against 28 products of 2000x16x20 and
2000x64x20 took 0.88 and 0.86 of the time, with a transposed rhs 0.69 and 0.65, 2000x64x12 of f64
0.87 and 0.85, 1000x100x40, with 27 before, 0.93; with 24 it took 1.55 (AVX-512, one thread,
2026-11-28)."""


def narrow_lanes(lanes: int, columns: int, rows: int) -> int:
    """Return how many lanes the last vector of a block has if half of `lanes` hold its columns.

    Otherwise 0. `rows` are those of the block.
    """
    vectors, rest = ceil_div(columns, lanes), columns % lanes
    is_held = vectors == 1 or rows * vectors <= MOST_NARROW_SUMS
    return lanes // 2 if is_held and 0 < 2 * rest <= lanes else 0


@record
class EvenBlocks:
    """Register blocks whose heights differ by one at most.

    Attributes:
        lanes: lanes of one vector.
        vectors: vectors per row.
        row_blocks: blocks that the rows are cut into.
        low: rows of the lower ones.
        tall: how many have one row more; they come first.
    """

    lanes: int
    vectors: int
    row_blocks: int
    low: int
    tall: int

    @property
    def columns(self) -> int:
        """Columns of a whole block."""
        return self.vectors * self.lanes

    @property
    def rows(self) -> int:
        """Rows of the highest block."""
        return self.low + (self.tall > 0)

    def cycles(self, n: int, more: float = 0.0) -> float:
        """Return the cycles of one k over all blocks, `more` for each block."""
        whole, rest = divmod(n, self.columns)
        vectors = ceil_div(rest, self.lanes)
        cycles = 0.0
        for count, rows in ((self.tall, self.low + 1), (self.row_blocks - self.tall, self.low)):
            # The last vector may be a half one.
            left = vectors - (0.5 if narrow_lanes(self.lanes, rest, rows) else 0)
            cycles += count * (whole * block_cycles(rows, self.vectors) + block_cycles(rows, left))
        return cycles + more * self.row_blocks * (whole + (rest > 0))


@record
class BlockSearch:
    """Finds the register blocks of products.

    Attributes:
        lanes: lanes of a vector of sums.
        vectors: the target's registers.
        more: cycles of each k of a block beside its products.
    """

    lanes: int
    vectors: Vectors
    more: float = 0.0

    def even(self, m: int, n: int, most: int = COUNTS[-1]) -> EvenBlocks:
        """Return the blocks that take the fewest cycles, of the common width if that is as good.

        Few rows do not stay with it: past them the rhs streams from memory, in long runs at best.
        `most`: vectors per row at most.
        """
        lanes, registers = self.lanes, self.vectors.registers
        least = m * ceil_div(n, lanes) / 2
        best = common = self._of_width(m, n, VECTORS if n > lanes else 1)
        lowest = common.cycles(n, self.more)
        stays = MAX_LOSS if m > FEW_ROWS else 0.0
        if lowest <= stays * least:
            return common
        for count in COUNTS:
            if count > most or (count > 1 and (count - 1) * lanes >= n):
                break
            if count + MIN_SPARE <= registers:
                found = self._of_width(m, n, count)
                cycles = found.cycles(n, self.more)
                taken = (cycles, found.row_blocks, -count)
                if taken < (lowest, best.row_blocks, -best.vectors):
                    best, lowest = found, cycles
        return common if common.cycles(n, self.more) <= stays * lowest else best

    def _of_width(self, m: int, n: int, count: int) -> EvenBlocks:
        """Return the blocks of `count` vectors a row."""
        rows = max(1, most_rows(count, self.vectors))
        if self.lanes < n < count * self.lanes and narrow_lanes(self.lanes, n, 1):
            rows = min(rows, MOST_NARROW_SUMS // ceil_div(n, self.lanes))
        row_blocks = ceil_div(m, rows)
        low, tall = divmod(m, row_blocks)
        return EvenBlocks(self.lanes, count, row_blocks, low, tall)


def register_block(m: int, n: int, lanes: int, vectors: Vectors) -> tuple[int, int]:
    """Return (rows, columns) of the register block with the fewest cycles for an `m` x `n` result.

    `lanes` is how many sums one of the registers of `vectors` holds.
    """
    shapes = list(_shapes(m, n, lanes, vectors))
    rows, count = min(
        shapes, key=lambda shape: (_cycles(m, n, lanes, *shape), -shape[0] * shape[1])
    )
    return rows, lanes * count


def most_rows(count: int, vectors: Vectors) -> int:
    """Return the rows of a register block of `count` vectors a row that registers hold."""
    # Without FMA a product needs a register of its own.
    spare = 1 if vectors.bits > 128 else 2
    return (vectors.registers - 1 - count - spare) // count


def _shapes(m: int, n: int, lanes: int, vectors: Vectors) -> Iterator[tuple[int, int]]:
    for count in COUNTS:
        if count > 1 and ((count - 1) * lanes >= n or count + MIN_SPARE > vectors.registers):
            return
        for rows in range(1, max(1, min(most_rows(count, vectors), m)) + 1):
            yield rows, count


def _cycles(m: int, n: int, lanes: int, rows: int, count: int) -> float:
    """Return the cycles of one k over all register blocks."""
    columns = ceil_div(n, lanes)
    full_rows, left_rows = divmod(m, rows)
    full_columns, left_columns = divmod(columns, count)
    return (
        full_rows * full_columns * block_cycles(rows, count)
        + full_rows * block_cycles(rows, left_columns)
        + full_columns * block_cycles(left_rows, count)
        + block_cycles(left_rows, left_columns)
    )


def block_cycles(rows: int, count: float) -> float:
    """Return the cycles of one k of a register block: products, loads, latency."""
    if not rows or not count:
        return 0.0
    return max(rows * count / 2, (rows + count) * 0.55, 4.0) + 0.1
