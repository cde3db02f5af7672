# SPDX-License-Identifier: Apache-2.0
"""Blocks of plain products: the units that chunks are made of, and what is packed ahead.

`kernel.contraction.product` asks for them. Most products have the units of any other contraction
kernel (`schedule`). Where both operands are packed, a unit has as many rows as stay in the L2
cache, and the packed rhs streams past them, panel by panel.

Invariant: blocks change neither which products a sum has nor their order.
"""

from __future__ import annotations

from ingot.kernel.contraction.product_operands import PlainOperands
from ingot.kernel.contraction.product_variant import ProductVariant
from ingot.kernel.contraction.register_block import EvenBlocks
from ingot.kernel.contraction.schedule import ContractionSchedule
from ingot.llvm.machine_model import L2_BYTES
from ingot.support.records import record

MIN_ROWS_AHEAD = 64
"""Crowded rows from which on the rhs is packed ahead. Against packing it by units 64x768x3072
took 0.92 of the time, 64x1024x1024 0.85, 128x768x2048 0.91, 256x1024x1024 0.83, 200x3000x1024 0.84;
with a transposed rhs 128x1000x1024 0.7, 64x768x3072 1.03, 48x3000x1024 1.08 (AVX-512, one thread,
2026-11-28)."""

LHS_BYTES = L2_BYTES * 3 // 8
"""Bytes of a unit's packed lhs: it lies on the stack and stays in the L2 cache."""

UNIT_TILE_BYTES = L2_BYTES // 4
"""Bytes of a unit's sums that wait for an epilogue: with the lhs they stay in the L2 cache."""

UNITS_AHEAD = 8
"""Units of such a product at least, if it has enough rows or columns."""

PACK_COLUMNS = 128
"""Columns of the rhs that one chunk packs ahead."""


@record
class Blocks:
    """How a product is cut into units.

    Attributes:
        unit_row_blocks, n_block, row_units, column_units, units, grain: see
            `product_variant.ProductNumbers`.
        packed_columns, packed_lhs_row: see there; 0 where nothing is packed ahead.
        pack_chunks: number of chunks of the phase that packs the rhs ahead.
        scratch_bytes: bytes of the rhs that is packed ahead.
    """

    unit_row_blocks: int
    n_block: int
    row_units: int
    column_units: int
    units: int
    grain: int
    packed_columns: int = 0
    packed_lhs_row: int = 0
    pack_chunks: int = 0
    scratch_bytes: int = 0

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.units // self.grain)


def scheduled_blocks(
    schedule: ContractionSchedule, given: PlainOperands, even: EvenBlocks
) -> Blocks:
    """Return the blocks of a product as contraction kernels have them."""
    batch = given.kernel.batch.extent
    assert isinstance(batch, int), "the extents are known"
    unit_row_blocks = schedule.m_block // even.rows
    row_units = -(-even.row_blocks // unit_row_blocks)
    column_units = -(-given.sizes[1] // schedule.n_block)
    units = batch * row_units * column_units
    return Blocks(unit_row_blocks, schedule.n_block, row_units, column_units, units, schedule.grain)


def blocks_ahead(
    sizes: tuple[int, int, int, int],
    even: EvenBlocks,
    depth: int,
    variant: ProductVariant,
    *,
    has_epilogue: bool,
) -> Blocks:
    """Return the blocks of products (batch, m, n, k) of packed operands, `depth` of k at a time.

    Rows of the lhs are packed one after the other (`ProductVariant.packs_along`), else k after k.
    """
    batch, _, n, k = sizes
    cell_bytes = variant.element.bits // 8
    lanes, columns, row_blocks = even.lanes, even.columns, even.row_blocks
    steps = -(-depth // variant.factors)
    if variant.packs_along:
        # One vector more keeps rows whose depth is a power of two out of each other's cache sets.
        lhs_row = round_up(steps, lanes) + lanes
        block_cells = lhs_row * even.rows
    else:
        lhs_row = round_up(even.rows, lanes)
        block_cells = lhs_row * steps
    fitting = max(1, LHS_BYTES // (block_cells * cell_bytes))
    unit_row_blocks = -(-row_blocks // -(-row_blocks // fitting))
    row_units = -(-row_blocks // unit_row_blocks)
    panels = -(-n // columns)
    column_units = min(panels, -(-UNITS_AHEAD // (batch * row_units)))
    if has_epilogue:
        row_bytes = columns * cell_bytes * unit_row_blocks * even.rows
        column_units = max(column_units, -(-panels // max(1, UNIT_TILE_BYTES // row_bytes)))
    n_block = -(-panels // column_units) * columns
    column_units = -(-n // n_block)
    pieces, packed_columns = -(-k // depth), panels * columns
    return Blocks(
        unit_row_blocks,
        n_block,
        row_units,
        column_units,
        batch * row_units * column_units,
        1,
        packed_columns,
        lhs_row,
        batch * pieces * -(-n // PACK_COLUMNS),
        batch * pieces * packed_columns * round_up(steps, lanes) * cell_bytes,
    )


def round_up(value: int, unit: int) -> int:
    """Return the smallest multiple of `unit` from `value` on."""
    return -(-value // unit) * unit
