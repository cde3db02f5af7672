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
from ingot.kernel.attention.bounds import Bounds, key_bounds
from ingot.kernel.contraction.micro_blocks import BlockMaker, MicroBlock, shared_heights
from ingot.kernel.contraction.operands import assumed, cell_bits, is_plain, stride
from ingot.kernel.contraction.product_blocks import round_up
from ingot.kernel.contraction.register_block import most_rows
from ingot.kernel.contraction.schedule import CHUNK_PRODUCTS
from ingot.kernel.contraction.unit_blocks import even
from ingot.kernel.expr import Expr
from ingot.kernel.ir import AttentionKernel, Axis
from ingot.llvm.machine_model import Vectors
from ingot.support.records import record, replace

MAX_QUERIES = 64
"""Rows of queries of a unit at most: operands, scores and sums stay in the L1 and L2 cache."""

MAX_KEYS = 140
"""Keys of a block, about: scores of more leave the L1 cache before they are read again."""

TAIL_KEYS = (4, 1)
"""Heights of the register blocks for keys left over when their number is not known."""


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
        bounds: the keys that a mask of positions leaves.
        depth, width: elements of a row of packed keys or queries, and of packed values or sums.
        transposes_queries: whether loads of queries walk along their depth, and squares of them are
            transposed in registers as they are packed.
        reads_keys, reads_values: whether they are read where they lie, not packed.
        scores: the register blocks of the first product by height: of `block_keys`, then of keys
            left over, high ones first.
        tall_sums, low_sums: those of the second product in tall and low rows: of `columns`, then
            of columns left over if there are any.
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
    bounds: Bounds
    depth: int
    width: int
    transposes_queries: bool
    reads_keys: bool
    reads_values: bool
    scores: tuple[MicroBlock, ...]
    tall_sums: tuple[MicroBlock, ...]
    low_sums: tuple[MicroBlock, ...]


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
    bounds = key_bounds(kernel)
    depth, width = (round_up(_known(axis), lanes) for axis in (kernel.k, kernel.e))
    reads_keys = _lies_along(kernel, kernel.rhs, kernel.k)
    reads_values = _lies_along(kernel, kernel.values, kernel.e)
    heights = (most, *_tail_keys(kernel, most, is_cut=bool(bounds)))
    of_scores = _Blocks(BlockMaker(kernel.accumulate, lanes, columns), vectors)
    knows_rows = not reads_values or isinstance(_step(kernel, kernel.values), int)
    of_sums = _Blocks(BlockMaker(kernel.accumulate, lanes, None, knows_rows), vectors)
    rest = _known(kernel.e) % columns
    widths = (columns, rest) if rest else (columns,)
    return AttentionSchedule(
        lanes,
        columns,
        rows,
        most,
        keys,
        low,
        tall,
        units,
        grain,
        chunks,
        bounds,
        depth,
        width,
        _walks(kernel),
        reads_keys,
        reads_values,
        tuple(of_scores.block(height, columns) for height in heights),
        tuple(of_sums.block(low + 1, width) for width in widths),
        tuple(of_sums.block(low, width) for width in widths),
    )


@record
class _Blocks:
    """Makes register blocks: those of the library where it has them."""

    maker: BlockMaker
    vectors: Vectors

    def block(self, rows: int, columns: int) -> MicroBlock:
        maker = self.maker
        heights = shared_heights(maker.element, maker.lanes, self.vectors)
        is_shared = rows in heights and -(-columns // maker.lanes) == VECTORS
        maker = replace(maker, knows_rows=False) if is_shared else maker
        return maker.block(rows, columns, is_shared=is_shared)


def _known(axis: Axis) -> int:
    extent = axis.extent
    assert isinstance(extent, int), "attention fusion takes known depths alone"
    return extent


def _tail_keys(kernel: AttentionKernel, most: int, *, is_cut: bool) -> tuple[int, ...]:
    """Return the heights of blocks behind those of `most` keys; `is_cut`: by bounds."""
    extent = kernel.n.extent
    if isinstance(extent, int) and not is_cut:
        return (extent % most,) * (extent % most > 0)
    return tuple(height for height in TAIL_KEYS if height < most)


def _step(kernel: AttentionKernel, operand: Expr) -> int | Dim | None:
    """Return the step from key to key of an operand that is plain."""
    return stride(operand.payload.index, kernel.n.name)


def _walks(kernel: AttentionKernel) -> bool:
    """Whether the loads of the queries walk along their depth."""
    names, queries = (kernel.m.name, kernel.k.name), kernel.lhs
    if queries.op != "load":
        return False
    along = [stride(queries.payload.index, name) for name in names]
    return along[1] == 1 and along[0] != 1


def _lies_along(kernel: AttentionKernel, operand: Expr, axis: Axis) -> bool:
    """Whether keys or values can be read where they lie: dense along `axis`."""
    if not is_plain(operand, (kernel.n.name, axis.name), kernel.accumulate):
        return False
    return axis.extent == 1 or stride(operand.payload.index, axis.name) == 1
