# SPDX-License-Identifier: Apache-2.0
"""How a contraction kernel runs: register block, cache blocks, packing, chunks.

A unit is a block of `m_block` rows by `n_block` columns of one batch element; a chunk is several
units. In a unit the products run in order of k, in pieces of `k_block`; between two pieces the sums
are in memory. So every tiling and every number of threads gives the same bits. All choices depend
on the kernel, its extents and the target's vectors alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.dim import Dim, ceil_div
from ingot.kernel.contraction.operands import (
    assumed,
    cell_bits,
    has_masks,
    has_plain_lhs,
    is_dense_along_k,
    oriented,
    stores_sums,
)
from ingot.kernel.contraction.register_block import register_block
from ingot.kernel.contraction.rhs_placement import (
    CROWDED_STEP,
    DOT_BLOCK_ROWS,
    DOTS,
    MAX_DEPTH,
    UNPACKED_BYTES,
    Factors,
    RhsPlacement,
    are_few,
    rhs_placement,
    suits_column_dots,
    suits_dots,
)
from ingot.kernel.contraction.unit_blocks import (
    CHUNK_PRODUCTS,
    FEW_UNITS,
    MIN_BOTH_COLUMNS,
    MIN_BOTH_ROWS,
    STREAM_BYTES,
    TILE_BYTES,
    even,
    multiple,
    packed_blocks,
    streamed_blocks,
)
from ingot.kernel.ir import ContractionKernel
from ingot.llvm.machine_model import L1_WAYS, L2_BYTES, MANY_REGISTERS, Vectors
from ingot.support.records import record

PACK_BYTES = L2_BYTES // 4
"""Bytes of a packed block of the rhs: it lies on the stack and stays in the L2 cache."""

MAX_PACKED_VECTORS = 4
"""Vectors of a packed panel: one of MAX_DEPTH fits into PACK_BYTES."""

MAX_COLUMNS = 1024
"""Columns of a unit at most."""

MAX_CHUNK_PRODUCTS = 16_000_000
"""Products that a unit aims at, at most."""

MIN_COLUMN_DOT_ROWS = 256
"""Rows of a unit of these convolutions, which pay for packing the columns."""

SHORT_PIECE = 32
"""Rows of the rhs in a piece of k of a product of few rows, if they are shorter than the runs that
memory delivers fastest. Against pieces of 8 rows 14x768x909 took 0.89 of the time, 12x768x1500
0.83, 10x2000x2000 0.91; 8x768x3072, whose rows are longer, 1.13 to 1.22. Against `BLOCKS_PIECE`
28x1000x1000 took 0.89 (AVX-512, one thread, 2026-11-27)."""

CACHED_PIECE, CACHED_BYTES = 64, 2 * L2_BYTES
"""The same if a cache near the core keeps all CACHED_BYTES of the rhs. Against `SHORT_PIECE`
30x500x500 took 0.88 of the time, 24x700x333 0.91, 38x1106x277 0.93, 7x45x1846 0.90; with the rhs in
no near cache 0.90, 0.96, 0.97. Unlimited pieces took 0.94 of that in the cache, 1.3 out of it
(AVX-512, one thread, 2026-11-27). Neither suits rows that fall into few cache sets, by
`CROWDED_STEP`: with them 8x4096x1024 took 2.1 times as long, 8x1024x1024 1.48, 4x1024x1024 1.46,
16x1024x1024 1.21, 4x512x512 1.2, 2x2048x512 1.2, 1x1024x1024 1.05 (AVX2, one thread,
2026-11-29)."""

PIECES: Mapping[RhsPlacement, int] = {"direct": L1_WAYS, "packed": 128}
"""Products summed before sums go to memory where a product of few rows streams a large rhs.

It reads this many rows of the rhs at once, each from end to end: in place, the lines of a set of
the L1 cache; packed, enough for a packed block with a long run of each."""

STREAMED_ROWS = 4
"""Rows of a product that take as long as one, if the rhs is not in the L1 cache: as many products
of one row are a chunk a quarter as large. With two threads 1x300x700 took 0.74 of the time, four of
them in turn 0.54 (m x k x n, Sapphire Rapids, 2026-12-01)."""

BLOCKS_PIECE = 2 * L1_WAYS
"""Rows of the rhs in a piece of k of a product of few rows, if these are several register blocks:
the first block streams a piece, the others find it in the cache but pay for sums in memory. Against
the pieces of one block 28x1024x1024 took 0.8 of the time, 16x2048x2048 0.93, 16x768x3072 1.05;
with longer pieces the last took 1.2 (AVX-512, 2026-11-27). With 16 registers the blocks are low,
and these pieces take longer than those of one block: 8x4096x4096 1.26 times, of f64 1.17,
8x2048x2048 1.3, 16x1024x4096 1.13, 16x768x3072 1.07 (AVX2, one thread, 2026-11-29)."""


@record
class ContractionSchedule:
    """How a contraction kernel runs.

    Attributes:
        swapped: whether lhs and rhs, m and n are exchanged (see `oriented`).
        lanes: lanes of one vector.
        rows: rows of the register block.
        columns: columns of the register block.
        m_block: rows of a unit.
        n_block: columns of a unit.
        k_block: products summed before the sums go to memory; None: all of them.
        pack_lhs: whether `rows` rows of the lhs are evaluated into a buffer first.
        rhs: read where it lies; or evaluated into a buffer, lanes along n, or along k and
            transposed; or dot products with lanes along k, read where it lies or from a buffer.
        store_direct: whether sums go straight to the result, else through a tile to the epilogue.
        units: number of units: batch, then column blocks, then row blocks (fastest).
        grain: units per chunk.
        chunks: number of chunks.
    """

    swapped: bool
    lanes: int
    rows: int
    columns: int
    m_block: int
    n_block: int
    k_block: int | None
    pack_lhs: bool
    rhs: RhsPlacement
    store_direct: bool
    units: int | Dim
    grain: int
    chunks: int | Dim


def schedule_contraction(
    kernel: ContractionKernel,
    vectors: Vectors,
    block: tuple[int, int] | None = None,
    factors: int = 1,
    *,
    converts: bool = False,
) -> ContractionSchedule:
    """Return the schedule for a target's vectors.

    Args:
        kernel: the contraction.
        vectors: what schedules must know of the target.
        block: a register block (rows, columns) to keep to.
        factors: how many factors along k a packed element holds.
        converts: whether dot products convert operands that are of another type than the sums.
    """
    swapped = kernel.n.extent == 1 and kernel.m.extent != 1 and kernel.patches is None
    kernel = oriented(kernel) if swapped else kernel
    m, n, k = (assumed(axis.extent) for axis in (kernel.m, kernel.n, kernel.k))
    sizes = Sizes(m, n, k, factors)
    shape = _block_shape(kernel, vectors, sizes, block, converts=converts)
    m_block, n_block = _unit_blocks(kernel, sizes, shape)
    row_blocks = ceil_div(kernel.m.extent, m_block)
    column_blocks = ceil_div(kernel.n.extent, n_block)
    units = kernel.batch.extent * column_blocks * row_blocks
    unit_rows = max(min(m_block, m), STREAMED_ROWS * shape.is_streamed)
    unit_products = unit_rows * min(n_block, n) * sizes.steps
    grain = max(1, CHUNK_PRODUCTS // 2 // max(1, unit_products))
    return ContractionSchedule(
        swapped,
        shape.lanes,
        shape.rows,
        shape.columns,
        m_block,
        n_block,
        shape.depth,
        not has_plain_lhs(kernel),
        shape.rhs,
        shape.store_direct,
        units,
        grain,
        ceil_div(units, grain),
    )


@record
class Sizes:
    """Rows, columns and depth of a contraction, and how many factors a packed element holds."""

    m: int
    n: int
    k: int
    factors: int

    @property
    def steps(self) -> int:
        """Steps along k of products of all factors."""
        return ceil_div(self.k, self.factors)


@record
class _BlockShape:
    """The register blocks of a contraction, and how they read the rhs.

    Attributes:
        rhs: see `ContractionSchedule`.
        is_streamed: whether few rows read a large rhs, so that `PIECES` may bound the depth.
        lanes, rows, columns: sizes of a register block.
        depth: products summed before sums go to memory; None: all of them.
        store_direct: see `ContractionSchedule`.
    """

    rhs: RhsPlacement
    is_streamed: bool
    lanes: int
    rows: int
    columns: int
    depth: int | None
    store_direct: bool


def _block_shape(
    kernel: ContractionKernel,
    vectors: Vectors,
    sizes: Sizes,
    block: tuple[int, int] | None,
    *,
    converts: bool,
) -> _BlockShape:
    """Return the register blocks; the arguments are those of `schedule_contraction`."""
    bits, (m, n, k) = cell_bits(kernel.accumulate), (sizes.m, sizes.n, sizes.k)
    lanes = column_lanes(kernel, vectors)
    rows, columns = block or register_block(m, n, lanes, vectors)
    masks = _has_masks(kernel, vectors, lanes, bits)
    are_few = suits_column_dots(kernel, vectors.lanes(bits, 1))
    rhs: RhsPlacement = "dots" if are_few and is_dense_along_k(kernel) else "packed dots"
    if not are_few:
        kind: Factors = "words" if sizes.factors > 1 else "converted"
        is_dots = converts and suits_dots(kernel, kind)
        rhs = "dots" if is_dots else rhs_placement(kernel, bits, rows, vectors, masks=masks)
    depth: int | None = _depth(kernel, k, lanes, sizes.factors)
    if are_few:
        lanes, depth = vectors.lanes(bits, 1), k
        rows, columns = max(1, min(m, (vectors.registers - 2) // (n + 1))), n
    elif rhs == "dots":
        lanes, depth = vectors.lanes(bits, 1), None
        rows = ceil_div(m, max(1, ceil_div(m, DOT_BLOCK_ROWS)))
        columns = _dot_columns(rows, vectors)
    elif rhs != "direct":
        columns = min(columns, MAX_PACKED_VECTORS * lanes)
    is_streamed = _is_streamed(kernel, bits, rows)
    if is_streamed and rhs in PIECES:
        row_bytes = n * bits // 8
        has_blocks = m > rows and vectors.registers >= MANY_REGISTERS
        depth = _piece(rhs, row_bytes * k, row_bytes, has_blocks=has_blocks)
    store_direct = (masks or rhs in DOTS) and stores_sums(kernel)
    return _BlockShape(rhs, is_streamed, lanes, rows, columns, depth, store_direct)


def _unit_blocks(kernel: ContractionKernel, sizes: Sizes, shape: _BlockShape) -> tuple[int, int]:
    """Return the rows and columns of a unit; sums that go through a tile fit into it."""
    bits, block = cell_bits(kernel.accumulate), (shape.rows, shape.columns)
    padded = ceil_div(shape.depth or sizes.k, shape.lanes * sizes.factors) * shape.lanes
    is_low = are_few(kernel, bits, shape.rows)
    n_block = _column_block(sizes.n, shape.columns, padded * bits, shape.rhs, is_low)
    if shape.is_streamed and shape.rhs == "direct":
        m_block, n_block = streamed_blocks(sizes.m, sizes.n, block, bits)
    else:
        m_block, n_block = _blocks(kernel, sizes, block, n_block, shape.rhs)
    if shape.store_direct:
        return m_block, n_block
    tile = TILE_BYTES * 8 // bits
    if is_split(kernel, shape.depth):
        return min(m_block, multiple(tile // n_block, shape.rows)), n_block
    return m_block, min(n_block, multiple(tile // shape.rows, shape.columns))


def is_split(kernel: ContractionKernel, k_block: int | None) -> bool:
    """Whether k may take several blocks, so that sums go on through memory."""
    extent = kernel.k.extent
    return k_block is not None and (not isinstance(extent, int) or extent > k_block)


def column_lanes(kernel: ContractionKernel, vectors: Vectors) -> int:
    """Return the lanes along n: at most twice the extent of n."""
    lanes, extent = vectors.lanes(cell_bits(kernel.accumulate), 1), kernel.n.extent
    while isinstance(extent, int) and lanes > 1 and lanes // 2 >= extent:
        lanes //= 2
    return lanes


def _dot_columns(rows: int, vectors: Vectors) -> int:
    """Return how many columns of sums fit into registers beside the rows' vectors."""
    return max(1, min(8, (vectors.registers - 2 - rows) // (rows + 1)))


def _has_masks(kernel: ContractionKernel, vectors: Vectors, lanes: int, bits: int) -> bool:
    """Whether vectors along n may be loaded and stored in place, the last one under a mask."""
    extent = kernel.n.extent
    if isinstance(extent, int) and extent % lanes == 0:
        return True
    return lanes > 1 and has_masks(bits, vectors.bits)


# ---- cache blocks and chunks


def _depth(kernel: ContractionKernel, k: int, lanes: int, factors: int) -> int:
    """Return how many products are summed before sums go to memory."""
    if isinstance(kernel.k.extent, int):
        lanes *= factors
        parts = max(1, ceil_div(k, MAX_DEPTH * factors))
        if parts > 1 and kernel.patches is not None and kernel.patches.k:
            segment = kernel.patches.k[-1].extent
            if isinstance(segment, int) and segment <= MAX_DEPTH:
                segments = k // segment
                fitting = MAX_DEPTH // segment
                return ceil_div(segments, ceil_div(segments, fitting)) * segment
        return max(1, k) if parts == 1 else ceil_div(k, parts * lanes) * lanes
    return MAX_DEPTH


def _column_block(n: int, columns: int, bits: int, rhs: RhsPlacement, is_low: bool) -> int:
    """Return the columns of a unit; `bits` are those of a packed one, `is_low`: rows are few."""
    fitting = PACK_BYTES * 8 // bits
    if rhs in DOTS or (rhs == "direct" and is_low):
        fitting = MAX_COLUMNS
    return multiple(min(fitting, MAX_COLUMNS, n + columns - 1), columns)


def _piece(rhs: RhsPlacement, rhs_bytes: int, row_bytes: int, *, has_blocks: bool) -> int:
    """Return the products that are summed before sums go to memory; `has_blocks`: high ones."""
    if rhs == "direct":
        if row_bytes % CROWDED_STEP:
            if rhs_bytes <= CACHED_BYTES:
                return CACHED_PIECE
            if row_bytes < STREAM_BYTES[0]:
                return SHORT_PIECE
        if has_blocks:
            return BLOCKS_PIECE
    return PIECES[rhs]


def _blocks(
    kernel: ContractionKernel,
    sizes: Sizes,
    register_block: tuple[int, int],
    n_block: int,
    rhs: RhsPlacement,
) -> tuple[int, int]:
    """Return the rows and columns of a unit: enough work each, and enough units to share."""
    m, n, k = sizes.m, sizes.n, sizes.steps
    rows, columns = register_block
    batch = assumed(kernel.batch.extent)
    target = min(max(batch * m * n * k // FEW_UNITS, CHUNK_PRODUCTS), MAX_CHUNK_PRODUCTS)
    if rhs == "packed dots":
        m_block = max(MIN_COLUMN_DOT_ROWS, target // (n * k))
    elif rhs in ("direct", "dots"):
        m_block = max(rows, multiple(target // max(1, min(n_block, n) * k), rows))
        if kernel.patches is not None and k > MAX_DEPTH:
            # Each unit streams the whole rhs through the cache: few units, of many rows.
            m_block = max(m_block, multiple(m * batch // (FEW_UNITS // 2), rows))
        elif min(n_block, n) * k * rows > 2 * target:
            n_block = min(n_block, multiple(target // max(1, rows * k), columns))
    else:
        packs_both = kernel.patches is None and not has_plain_lhs(kernel)
        both = (MIN_BOTH_ROWS * sizes.factors, MIN_BOTH_COLUMNS * sizes.factors)
        least = both if packs_both else None
        is_transposed = rhs == "transposed"
        extents = (batch, m, n, k)
        m_block, n_block = packed_blocks(
            extents, columns, n_block, least, is_transposed=is_transposed
        )
    return even(m, m_block, rows), even(n, n_block, columns)


def _is_streamed(kernel: ContractionKernel, bits: int, rows: int) -> bool:
    """Return whether few rows, a known number, read a rhs that the cache does not keep."""
    n, k = kernel.n.extent, kernel.k.extent
    if kernel.patches is not None or not (isinstance(n, int) and isinstance(k, int)):
        return False
    return are_few(kernel, bits, rows) and n * k * bits // 8 > UNPACKED_BYTES
