# SPDX-License-Identifier: Apache-2.0
"""Units of contractions: the rows and columns of each, by the order in which operands are read.

`schedule` asks for them. Invariant: they depend on extents and the register block alone, and an
extent is divided into blocks of nearly equal size.
"""

from __future__ import annotations

from ingot.hlo.dim import ceil_div, round_up
from ingot.llvm.machine_model import L1_BYTES

MAX_PACKED_ROWS = 512
"""Rows that one packed block serves: enough to make packing cheap."""

MIN_PACKED_ROWS, MIN_TRANSPOSED_ROWS = 128, 256
"""Rows that it serves at least where more units are wanted; packing takes longer if it transposes.
With 256 rows instead of 128 products with a transposed rhs took 0.89 of the time for 663x1763x67,
0.91 for 400x1000x100 and 500x1500x200, 0.92 for 250x2000x250; others as long (AVX-512, one thread,
2026-11-27)."""

MIN_BOTH_ROWS, MIN_BOTH_COLUMNS = 128, 64
"""Least rows that one packed block of columns serves where rows are packed too, and least columns
that one block of rows serves. Both are multiplied by the factors of a word: packing words takes the
same time, and products less. With 256 columns of bytes 88x983x784 took 216 us, with 128 326, with
32 326. Against 64 rows, 273x1723x141 of f16 took 0.93 of the time, 300x1000x300 0.85, 512x512x512
and 100x600x900 as long (AVX-512, one thread, 2026-11-27)."""

FEW_BOTH = 64
"""Rows that are enough while there are fewer than `ENOUGH_UNITS` units."""

FEW_UNITS = 16
"""Units that a kernel is cut into if each then has enough products for a chunk."""

TILE_BYTES = 3 * L1_BYTES
"""Bytes of the tile of sums of a unit: a tenth of the L2 cache."""

CHUNK_PRODUCTS = 500_000
"""Products per chunk at least: some microseconds, so that handing out chunks costs nothing."""

ENOUGH_UNITS = 4
"""Units from which on none has fewer rows and columns than packing both operands pays for."""

STREAM_BYTES, STREAM_UNITS = (8192, 16384), (4, 8)
"""Bytes of a row of the rhs that a unit of few rows reads, and units: long runs are faster.
The first four units share what makes each this long, up to eight what makes each that long. On one
core a row times 4096x4096 took 4.2 ms with runs of 3 KB and 2.9 ms with 8 KB; 4096x32000 took 31 ms
with 8 KB and 24 ms with 16 KB."""

MIN_STREAM_BYTES = 1536
"""Bytes of the longest rows that are not cut in two, for another thread. Against 3072 8x768x768
took 0.56 of the time, 1x512x512 0.73, 4x3072x768 0.74, 1x768x768 0.65; on one thread 0.92, 1.05,
1.2 and 1.07 (sizes m x k x n, Sapphire Rapids, two threads, 2026-12-01)."""


def streamed_blocks(m: int, n: int, block: tuple[int, int], bits: int) -> tuple[int, int]:
    """Return the rows and columns of a unit: all `m` rows, columns that give long runs of memory.

    The rhs has `n` columns. `block` is (rows, columns) of the register block; `bits` those of an
    element of the rhs. An even number of units is shared better: 1x2048x5632 took 0.79 of the time
    with four units instead of three, 1x1024x20000 0.86 with six instead of five, on one thread 1.02
    and 1.01 (sizes m x k x n, Sapphire Rapids, two threads, 2026-11-30).
    """
    rows, columns = block
    short, long, least = (size * 8 // bits for size in (*STREAM_BYTES, MIN_STREAM_BYTES))
    few, many = (ceil_div(n, units) for units in STREAM_UNITS)
    run = max(many, min(long, max(few, short)))
    fitting = multiple(TILE_BYTES * 8 // bits // m, columns)
    n_block = min(run, max(ceil_div(n, 2), least), fitting)
    units = ceil_div(n, n_block)
    if units > 1:
        n_block = ceil_div(n, round_up(units, 2))
    return even(m, m, rows), even(n, n_block, columns)


def packed_blocks(
    extents: tuple[int, int, int, int],
    columns: int,
    n_block: int,
    least: tuple[int, int] | None,
    *,
    is_transposed: bool,
) -> tuple[int, int]:
    """Return the blocks of a packed rhs: cut columns first, which costs nothing to pack.

    Rows are cut below the least number last. Cut before columns became one panel, 130x1000x512 took
    1.1 times as long, 130x1000x600 1.06, 250x700x520 1.03 (sizes m x k x n, Sapphire Rapids, one
    thread, 2026-11-30).

    Where rows are packed too, they are cut first while there are many: it costs more to pack them
    again for fewer columns. Once there are some units, none has fewer rows and columns than
    `least`. The extents are those of batch, m, n and k.
    """
    batch, m, n, k = extents
    packed_rows = MIN_TRANSPOSED_ROWS if is_transposed else MIN_PACKED_ROWS
    m_block = max(1, min(m, MAX_PACKED_ROWS))
    while (units := batch * ceil_div(m, m_block) * ceil_div(n, n_block)) < FEW_UNITS:
        if m_block * min(n_block, n) * k < 2 * CHUNK_PRODUCTS:
            break
        are_enough = least is not None and units >= ENOUGH_UNITS
        few = (m, columns) if least is None else (FEW_BOTH, columns)
        least_rows, least_columns = least if least is not None and are_enough else few
        if m_block >= max(2 * least_rows, 2 * n_block):
            m_block //= 2
        elif n_block > 2 * least_columns:
            n_block = multiple(n_block // 2, columns)
        elif are_enough:
            break
        elif m_block >= 2 * packed_rows:
            m_block //= 2
        elif n_block > columns:
            n_block = columns
        elif m_block > packed_rows:
            m_block //= 2
        else:
            break
    return m_block, n_block


def even(extent: int, block: int, unit: int) -> int:
    """Return a multiple of `unit` that cuts `extent` into nearly equal blocks of about `block`."""
    count = max(1, ceil_div(extent, block))
    return max(unit, ceil_div(extent, count * unit) * unit)


def multiple(value: int, unit: int) -> int:
    """Return the largest multiple of `unit` up to `value`, at least one."""
    return max(1, value // unit) * unit
