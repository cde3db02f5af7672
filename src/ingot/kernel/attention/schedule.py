# SPDX-License-Identifier: Apache-2.0
"""How an attention kernel runs: blocks of queries and keys.

A unit is a block of query rows of one batch element. It loops over blocks of keys. The scores of a
block are stored transposed, with lanes along the queries: so a fold along the keys is elementwise,
keys and values are read in place, and the powers are columns of the second product's lhs.

Invariant: blocks depend on sizes and vectors alone, and so does the order of sums.
"""

from __future__ import annotations

from ingot.analysis.library import VECTORS
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.contraction.operands import assumed, cell_bits
from ingot.kernel.contraction.register_block import most_rows
from ingot.kernel.contraction.schedule import CHUNK_PRODUCTS
from ingot.kernel.contraction.unit_blocks import even
from ingot.kernel.ir import AttentionKernel
from ingot.llvm.machine_model import Vectors
from ingot.support.records import record

MAX_QUERIES = 64
"""Rows of queries of a unit at most: operands, scores and sums stay in the L1 and L2 cache."""

MAX_KEYS = 140
"""Keys of a block, about: scores of more leave the L1 cache before they are read again."""


@record
class AttentionSchedule:
    """The numbers of an attention kernel.

    Attributes:
        lanes: lanes of a vector of sums.
        columns: queries side by side in a register block of scores.
        rows: queries of a unit, whole `columns`.
        block_keys: keys of a register block of scores.
        keys: keys of a block, whole `block_keys`.
        low, tall: the unit's rows as register blocks of the second product: those of `low + 1` rows
            come first, `tall` of them.
        units, grain, chunks: units, how many a chunk runs, and chunks.
    """

    lanes: int
    columns: int
    rows: int
    block_keys: int
    keys: int
    low: int
    tall: int
    units: int | Dim
    grain: int
    chunks: int | Dim


def schedule_attention(kernel: AttentionKernel, vectors: Vectors) -> AttentionSchedule:
    """Return the schedule for a target's vectors."""
    lanes = vectors.lanes(cell_bits(kernel.accumulate), 1)
    columns = lanes * VECTORS
    m, n = assumed(kernel.m.extent), assumed(kernel.n.extent)
    rows = even(m, MAX_QUERIES, columns)
    most = max(1, most_rows(VECTORS, vectors))
    keys = even(n, MAX_KEYS, most)
    row_blocks = -(-rows // most)
    low, tall = divmod(rows, row_blocks)
    units = kernel.batch.extent * dim.floordiv(kernel.m.extent + (rows - 1), rows)
    products = rows * n * (assumed(kernel.k.extent) + assumed(kernel.e.extent))
    grain = max(1, CHUNK_PRODUCTS // max(1, products))
    chunks = dim.floordiv(units + (grain - 1), grain)
    return AttentionSchedule(lanes, columns, rows, most, keys, low, tall, units, grain, chunks)
