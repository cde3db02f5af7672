# SPDX-License-Identifier: Apache-2.0
"""Blocks of plain products: the units that chunks are made of, and what is packed ahead.

`kernel.product.product` asks for them. Most products have the units of any other contraction
kernel (`schedule`). Where both operands are packed, a unit has as many rows as stay in the L2
cache, and the packed rhs streams past them, panel by panel.

Invariant: blocks change neither which products a sum has nor their order.
"""

from __future__ import annotations

from ingot.kernel.contraction.register_block import EvenBlocks
from ingot.kernel.contraction.schedule import ContractionSchedule
from ingot.kernel.product.operands import PlainOperands
from ingot.kernel.product.variant import ProductVariant
from ingot.llvm.machine_model import L2_BYTES
from ingot.support.records import record

MIN_ROWS_AHEAD = 64
"""Crowded rows from which on the rhs is packed ahead. Against packing it by units 64x768x3072
took 0.92 of the time, 64x1024x1024 0.85, 128x768x2048 0.91, 256x1024x1024 0.83, 200x3000x1024 0.84;
with a transposed rhs 128x1000x1024 0.7, 64x768x3072 1.03, 48x3000x1024 1.08 (AVX-512, one thread,
2026-11-28)."""

LHS_BYTES = L2_BYTES * 3 // 8
"""Bytes of a unit's packed lhs, which stays in the L2 cache."""

UNIT_TILE_BYTES = L2_BYTES // 4
"""Bytes of a unit's sums that wait for an epilogue: with the lhs they stay in the L2 cache."""

UNIT_RHS_BYTES = L2_BYTES // 2
"""Bytes of the columns that a unit packs past which a packed lhs streams: they stay in the L2
cache, each with half as much of the lhs. Against packing the whole rhs ahead too, which then comes
from memory again, 64x2048x2048 took 0.7 of the time, 100x1024x700 0.85, 98x1024x256 0.83,
2048x2048x2048 0.88, 8x1024x128x1024 with dense columns of the lhs 0.76, 1024x1024x1024 0.95 (sizes
m x k x n, Sapphire Rapids, one thread, 2026-11-29); with 16 registers 0.92 to 1.01. Twice the bytes
took 1.0 to 1.1, half of them 0.98 to 1.02."""

MIN_UNIT_PANELS, MIN_TILE_PANELS, MIN_UNIT_ROWS = 2, 4, 256
"""Panels, those of tiles, and rows of such a unit at least, where more units are wanted."""

SQUARE = 8
"""Side of the squares that packing transposes in registers; LLVM is slow at larger ones. They are
written whole."""

UNITS_AHEAD = 8
"""Units of such a product at least, if it has enough rows or columns."""

PACK_COLUMNS, PACK_ROWS = 128, 128
"""Columns of the rhs that one chunk packs ahead, and rows of an lhs that is dense along k. A chunk
packs at least `MIN_UNIT_ROWS` rows of an lhs that is dense along its rows, for long runs."""


@record
class Blocks:
    """How a product is cut into units.

    Attributes:
        unit_row_blocks, n_block, row_units, column_units, units, grain: see
            `variant.ProductNumbers`.
        group_columns, packed_columns, packed_lhs_row, packed_block, lhs_start, rhs_chunks,
            pack_blocks: see there; 0 where nothing is packed ahead.
        pack_chunks: number of chunks of the phase that packs ahead.
        scratch_bytes: bytes of what is packed ahead.
    """

    unit_row_blocks: int
    n_block: int
    row_units: int
    column_units: int
    units: int
    grain: int
    group_columns: int = 0
    packed_columns: int = 0
    packed_lhs_row: int = 0
    packed_block: int = 0
    lhs_start: int = 0
    rhs_chunks: int = 0
    pack_blocks: int = 0
    pack_chunks: int = 0
    scratch_bytes: int = 0

    @property
    def chunks(self) -> int:
        """Number of chunks."""
        return -(-self.units // self.grain)


def scheduled_blocks(
    schedule: ContractionSchedule, given: PlainOperands, even: EvenBlocks
) -> Blocks:
    """Return the blocks of a product as contraction kernels have them: no operand is packed ahead.

    Args:
        schedule: the rows and columns of a unit, and units per chunk.
        given: the product; its batch extent is known.
        even: the register blocks that the rows are cut into.
    """
    batch = given.kernel.batch.known_extent
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
    """Return the blocks of products (batch, m, n, k) whose lhs is packed ahead, or both operands.

    `depth` of k are multiplied at a time.
    """
    batch, _, n, k = sizes
    columns, row_blocks = even.columns, even.row_blocks
    cell_bytes = variant.element.bits // 8
    steps = -(-depth // variant.factors)
    lhs_row = variant.packed_step
    block_cells = lhs_row * round_up(steps, SQUARE)
    if variant.packs_along:
        # One vector more keeps rows whose depth is a power of two out of each other's cache sets.
        lhs_row = round_up(steps, even.lanes) + even.lanes
        block_cells = lhs_row * round_up(even.rows, SQUARE)
    pieces, panels = -(-k // depth), -(-n // columns)
    panel_cells = columns * round_up(steps, even.lanes)
    # Rows by columns of sums that wait for an epilogue.
    tile_panels = UNIT_TILE_BYTES // (columns * cell_bytes * even.rows)
    group = panels
    if variant.is_rhs_ahead:
        unit_row_blocks = _even_count(row_blocks, LHS_BYTES // (block_cells * cell_bytes))
        row_units = -(-row_blocks // unit_row_blocks)
        column_units = min(panels, -(-UNITS_AHEAD // (batch * row_units)))
        if has_epilogue:
            group = max(1, tile_panels // unit_row_blocks)
        if pieces > 1:
            # The sums of all pieces wait together.
            column_units = max(column_units, -(-panels // group))
        unit_panels = -(-panels // column_units)
    else:
        unit_panels = _even_count(panels, UNIT_RHS_BYTES // (panel_cells * cell_bytes))
        least = MIN_TILE_PANELS if variant.has_tiles else MIN_UNIT_PANELS
        wanted = min(-(-UNITS_AHEAD // batch), panels // least)
        unit_panels = min(unit_panels, -(-panels // max(1, wanted)))
        row_units = -(-UNITS_AHEAD // (batch * -(-panels // unit_panels)))
        unit_row_blocks = max(MIN_UNIT_ROWS // even.rows, -(-row_blocks // row_units))
        if has_epilogue and pieces > 1:
            unit_row_blocks = min(unit_row_blocks, tile_panels // unit_panels)
        unit_row_blocks = _even_count(row_blocks, unit_row_blocks)
        row_units = -(-row_blocks // unit_row_blocks)
    n_block = unit_panels * columns
    column_units = -(-n // n_block)
    pack_blocks = max(1, PACK_ROWS // even.rows)
    if not (variant.packs_along or variant.is_dense):
        pack_blocks = max(MIN_UNIT_ROWS // even.rows, -(-row_blocks // UNITS_AHEAD))
    rhs_chunks = batch * pieces * -(-n // PACK_COLUMNS) if variant.is_rhs_ahead else 0
    rhs_cells = batch * pieces * panels * panel_cells if variant.is_rhs_ahead else 0
    lhs_cells = batch * pieces * row_blocks * block_cells
    return Blocks(
        unit_row_blocks,
        n_block,
        row_units,
        column_units,
        batch * row_units * column_units,
        1,
        min(group, unit_panels) * columns,
        panels * columns,
        lhs_row,
        block_cells,
        rhs_cells,
        rhs_chunks,
        pack_blocks,
        rhs_chunks + batch * pieces * -(-row_blocks // pack_blocks),
        (rhs_cells + lhs_cells) * cell_bytes,
    )


def _even_count(count: int, most: int) -> int:
    """Return the size of parts if `count` is cut into the fewest equal ones of at most `most`."""
    return -(-count // -(-count // max(1, most)))


def round_up(value: int, unit: int) -> int:
    """Return the smallest multiple of `unit` from `value` on."""
    return -(-value // unit) * unit
