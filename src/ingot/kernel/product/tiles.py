# SPDX-License-Identifier: Apache-2.0
"""Plain products of tiles: bf16 and bytes on CPUs with AMX, whose registers hold matrices.

A tile holds 16 rows of 16 words; one instruction multiplies two of them and adds the product to a
third. A register block is two by two tiles of sums. The rhs is packed as panels of words with zeros
behind the depth. So are the rows of the lhs, as words along k, unless they are whole lines of
memory. Asked by `kernel.product.product`; `cpu.emit.product.tiles` emits the micro-kernels.

Invariant: a sum adds its products in groups of 16 words, whatever the blocks.
Source: Intel, "Architecture Instruction Set Extensions Programming Reference", chapter 3.
"""

from __future__ import annotations

from ingot.hlo.dim import ceil_div, round_up
from ingot.hlo.dtype import F32
from ingot.kernel.contraction.register_block import EvenBlocks
from ingot.kernel.contraction.schedule import PACK_BYTES, ContractionSchedule
from ingot.kernel.contraction.unit_blocks import CHUNK_PRODUCTS, TILE_BYTES, even, multiple
from ingot.kernel.product.blocks import MIN_ROWS_AHEAD
from ingot.kernel.product.operands import PlainOperands
from ingot.kernel.product.variant import WORD_BYTES
from ingot.llvm.machine_model import LINE_BYTES, Vectors

SIDE = 16
"""Rows of a tile, and words of a row; bytes of a word."""

BLOCK_ROWS = 2 * SIDE
"""Most rows of a register block."""

MOST_COLUMNS = TILE_BYTES // (MIN_ROWS_AHEAD * WORD_BYTES)
"""Columns of a unit whose sums all wait for an epilogue."""

CHUNK_WORDS = 4 * CHUNK_PRODUCTS
"""Products of words in a chunk at least."""

MAX_TILE_DEPTH = 512
"""Words of k that are multiplied in one go. With 256 products of bf16 of 512x1024x1024 took 1.16
times as long, 1024x1024x1024 1.18; with 128 1.42 (Sapphire Rapids, one thread, 2026-11-29)."""

MAX_DEPTH_IN_PLACE = 2048
"""The same where many rows of the lhs are read in place. Against packing both operands ahead
64x1024x1024 (m x k x n) took 0.62 of the time, 64x3072x768 0.57, 256x2048x1024 0.79, 512x1024x1024
0.81, 1024x1024x1024 0.9, 2048x2048x2048 0.81, 4096x256x256 0.76, 128x4096x4096 0.84, 256x4096x1024
1.09, bytes of 512x1024x1024 0.83 (Sapphire Rapids, one thread, 2026-11-30)."""

MIN_TILE_ROWS, MIN_TRANSPOSED_ROWS = 2, 6
"""Rows of the smallest products of tiles; the latter of an rhs that is dense along k, which others
multiply as it lies. Against these 2x1024x1024 took 0.64 of the time, 4x1024x1024 0.73, 16x256x256
0.47, 32x1024x1024 0.37; with a transposed rhs 2x1024x1024 2.0, 4x1024x1024 1.55, 8x1024x1024 0.77,
16x1024x1024 0.42. Bytes took 0.93 for 2x256x256, 0.69 for 8x1024x1024, 0.55 for 16x1024x1024 (as
above)."""

MIN_TILE_COLUMNS, MIN_TILE_WORDS = 8, 8
"""Columns and words of k of those. Against other products 1024x10x512 took 0.33 of the time,
1024x16x64 0.56, 1024x64x16 0.94, 16x16x16 of a batch 0.93 (as above)."""


def suits_tiles(given: PlainOperands, vectors: Vectors) -> bool:
    """Whether a product is one of tiles."""
    m, n, k = given.sizes
    factors = given.word_factors
    is_float = factors > 1 and given.cell is F32
    if not (vectors.has_bf16_tiles if is_float else vectors.has_tiles and factors == WORD_BYTES):
        return False
    least = MIN_TILE_ROWS if given.rhs.free == 1 else MIN_TRANSPOSED_ROWS
    is_large = m >= least and n >= MIN_TILE_COLUMNS and k >= MIN_TILE_WORDS * factors
    return is_large and all(1 in (item.free, item.inner) for item in (given.lhs, given.rhs))


def tile_blocks(given: PlainOperands) -> tuple[EvenBlocks, ContractionSchedule]:
    """Return the register blocks of a product of tiles, and its schedule."""
    m, n, k = given.sizes
    batch = given.kernel.batch.known_extent
    row_blocks = ceil_div(m, BLOCK_ROWS)
    blocks = EvenBlocks(SIDE, min(2, ceil_div(n, SIDE)), row_blocks, *divmod(m, row_blocks))
    words = ceil_div(k, given.word_factors)
    most = MAX_TILE_DEPTH
    if m >= MIN_ROWS_AHEAD and reads_in_place(given):
        most = MAX_DEPTH_IN_PLACE
    depth = round_up(ceil_div(words, ceil_div(words, most)), SIDE)
    fitting = multiple(PACK_BYTES // (depth * WORD_BYTES), blocks.columns)
    n_block = even(n, min(fitting, MOST_COLUMNS), blocks.columns)
    units = batch * ceil_div(n, n_block)
    grain = max(1, CHUNK_WORDS // (m * n_block * words))
    schedule = ContractionSchedule(
        swapped=False,
        lanes=SIDE,
        rows=blocks.rows,
        columns=blocks.columns,
        m_block=row_blocks * blocks.rows,
        n_block=n_block,
        k_block=depth * given.word_factors,
        pack_lhs=True,
        rhs="packed" if given.rhs.free == 1 else "transposed",
        store_direct=False,
        units=units,
        grain=grain,
        chunks=ceil_div(units, grain),
    )
    return blocks, schedule


def reads_in_place(given: PlainOperands) -> bool:
    """Whether rows of the lhs are whole lines of memory, which tiles are loaded from.

    Those of many rows are multiplied in one go: sums that wait for the next piece of k would take
    the place of the rhs in the cache.
    """
    m, _, k = given.sizes
    lhs, line = given.lhs, LINE_BYTES // given.lhs.dtype.bytes
    if lhs.inner != 1 or any(step % line for step in (k, lhs.free, lhs.batch)):
        return False
    return m < MIN_ROWS_AHEAD or k <= MAX_DEPTH_IN_PLACE * given.word_factors
