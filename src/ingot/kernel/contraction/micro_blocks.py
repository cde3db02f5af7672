# SPDX-License-Identifier: Apache-2.0
"""Blocks of micro-kernels: the sums that one holds, and what it does beside their products.

C[rows, columns] (+)= A[rows, k] * B[k, columns], as `cpu.emit.contraction.microkernel` emits it.
Schedules and plans hold a block for each micro-kernel that they call.

Invariant: a block changes neither which products a sum has nor their order.
"""

from __future__ import annotations

from ingot.analysis.library import ELEMENTS, MIN_VECTOR_BITS, VECTORS
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dtype import DType
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.contraction.register_block import most_rows
from ingot.llvm.machine_model import L1_WAYS, PAGE_BYTES, Vectors
from ingot.support.records import record

PANEL_BYTES_AHEAD, ROWS_AHEAD = PAGE_BYTES, 4
"""Distance at which B is prefetched into the L1 cache: bytes of a packed panel, rows of a matrix
in place. The CPU's own prefetchers begin again at each page. Together with blocks
of all rows that registers hold the product 2048 took 0.79 of the time, 1024 0.92, 8x4096x4096 0.87
(AVX-512, 2026-11-27); eight rows were 8 % slower for two blocks of 8 rows, where four are not. C is
fetched too, where no sums are loaded from it: 702x5x1460 took 0.71 of the time, 1000x16x1000 0.95,
512x512x512 0.98."""

MIN_FETCHING_ROWS = 4
"""Rows from which on a block has enough products for each line of B to hide a prefetch."""

L2_ROWS_AHEAD = L1_WAYS
"""Rows ahead at which a B in place that no cache keeps is prefetched into the L2 cache: the next
piece of a product of few rows. Against four rows into the L1 cache, or none of less than four rows,
1, 2, 3 and 8 rows times 4096x4096 took 0.70, 0.68, 0.82 and 0.63 of the time, 16 rows 0.85, 28
0.99; 1x2048x2048 0.70, of f64 0.76, 1x4096x32000 0.75, 8x2048x3000 0.73; from a cache 1x405x675 and
1x300x4000 1.1; in short rows 14x20000x200 2.2 (AMD EPYC with AVX-512, one thread, 2026-11-28)."""

PACKED_AHEAD = 32
"""Rows ahead at which a B in place is prefetched into the L2 cache where it is packed as well.
With 16 rows 128x3072x768 took 1.04 of the time, with 64 1.02, 64x1000x1000 1.0 and 1.06; 16 and 32
rows into the L1 cache 1.03 (sizes m x k x n, Sapphire Rapids, one thread, 2026-11-30)."""

EMBEDDING_ROWS, MOST_EMBEDDED = 2, 4
"""Of how many rows of A one is broadcast by the instructions of its products, and in how many
vectors of B at most.

AVX-512 broadcasts an operand in memory, by an instruction with the product. Every second row is
read so; with all of them there are too many loads. On a core that two threads share, where
instructions limit, blocks of 14x32 in the caches took 0.92 of the time where A is packed k after k,
0.95 where its rows lie apart; by itself as long (Sapphire Rapids, one thread, 2026-11-29)."""

BROADCAST_BITS, MOST_LOADS = 512, 0.93
"""Bits of the vectors that this is for, and loads at most for each product: a cycle has as many of
both. With more 6x479x147 took 1.08 of the time."""

TAIL_HEIGHTS = (4, 1)
"""Heights of the blocks for rows left over when their number is not known."""


@record
class MicroBlock:
    """What a micro-kernel computes, but for its strides and element types.

    Attributes:
        rows: rows of sums.
        columns: columns of sums: vectors that they do not fill are masked; 0: counted as it runs.
        vectors: vectors of a row; columns, of dot products.
        is_shared: whether the library has its code, which then fits all strides.
        rows_ahead: how many rows ahead of its products B is fetched into the cache; 0: it is not.
        is_far: whether B is fetched into the L2 cache only.
        tail_lanes: lanes of the last vector where they are fewer; 0: it is like the others.
        embeds: whether every second row of A is broadcast by the instructions of its products.
        fetches_next: whether the block of A behind this one is fetched into the L2 cache.
        packs_to: columns of the packed panel that B, which lies in place, is stored to as it is
            multiplied; 0: it is not.
    """

    rows: int
    columns: int
    vectors: int
    is_shared: bool = False
    rows_ahead: int = 0
    is_far: bool = False
    tail_lanes: int = 0
    embeds: bool = False
    fetches_next: bool = False
    packs_to: int = 0


@record
class BlockMaker:
    """Makes the blocks of a kernel.

    Attributes:
        element: type of the sums.
        lanes: lanes of a vector.
        panel: columns of the packed panels of B, None where it lies in place.
        knows_rows: whether code knows the step from row to row of a B in place.
        factors: how many factors a word of A and B holds.
    """

    element: DType
    lanes: int
    panel: int | None = None
    knows_rows: bool = False
    factors: int = 1

    def block(
        self, rows: int, columns: int, vectors: int = 0, *, is_shared: bool = True
    ) -> MicroBlock:
        """Return the block of `rows` and `columns`; `vectors` a row, 0: what the columns take."""
        vectors = vectors or ceil_div(columns, self.lanes)
        knows_rows = self.panel is not None or (self.knows_rows and not is_shared)
        embeds = self._embeds(rows, vectors, knows_rows=knows_rows)
        return MicroBlock(rows, columns, vectors, is_shared, self._rows_ahead(rows), embeds=embeds)

    def in_panels(self, heights: tuple[int, ...], rest: int) -> tuple[MicroBlock, ...]:
        """Return the blocks of some heights: those of whole panels, then of `rest` columns."""
        assert self.panel is not None, "B lies in place"
        widths = (self.panel, rest or self.panel)
        return tuple(self.block(rows, columns) for columns in widths for rows in heights)

    def _rows_ahead(self, rows: int) -> int:
        """Return how many rows ahead a block of `rows` rows fetches B."""
        if rows < MIN_FETCHING_ROWS:
            return 0
        if self.panel is None:
            return ROWS_AHEAD
        return max(1, PANEL_BYTES_AHEAD // (self.panel * cell_bits(self.element) // 8))

    def _embeds(self, rows: int, vectors: int, *, knows_rows: bool) -> bool:
        is_wide = self.lanes * cell_bits(self.element) == BROADCAST_BITS
        is_fused = self.element.is_float and self.factors == 1
        if not (is_wide and is_fused and 1 < vectors <= MOST_EMBEDDED):
            return False
        # A vector in place lies in two lines of the cache at worst.
        of_b = vectors * (1 if knows_rows else 2)
        again = (vectors - 1) * ceil_div(rows, EMBEDDING_ROWS)
        return of_b + rows + again <= MOST_LOADS * rows * vectors


def heights_behind(extent: int | Dim | None, rows: int) -> tuple[int, ...]:
    """Return the heights of the blocks for rows left over behind whole ones of `rows` rows.

    `extent` is that of all rows; high blocks come first.
    """
    if isinstance(extent, int):
        return (extent % rows,) * (extent % rows > 0)
    return tuple(height for height in TAIL_HEIGHTS if height < rows)


def heights_of(vectors: Vectors) -> range:
    """Return the heights that blocks of a target's large products have."""
    most = most_rows(VECTORS, vectors)
    return range(most // 2, most + 1)


def shared_heights(element: DType, lanes: int, vectors: Vectors) -> range:
    """Return the heights of the blocks that the library has for sums of a type.

    Their rows have `VECTORS` vectors of `lanes`, and their lhs is dense along k or m.
    """
    is_whole = lanes == vectors.lanes(cell_bits(element), 1)
    has_library = element in ELEMENTS and vectors.bits >= MIN_VECTOR_BITS and is_whole
    return heights_of(vectors) if has_library else range(0)
