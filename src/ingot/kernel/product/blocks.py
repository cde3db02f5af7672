# SPDX-License-Identifier: Apache-2.0
"""Blocks of plain products: the units that chunks are made of, and what is packed ahead.

`kernel.product.product` asks for them. Most products have the units of any other contraction
kernel (`schedule`). Where both operands are packed, a unit has as many rows as stay in the L2
cache, and the packed rhs streams past them, panel by panel.

Invariant: blocks change neither which products a sum has nor their order.
"""

from __future__ import annotations

from ingot.hlo.dim import ceil_div, round_up
from ingot.kernel.contraction.register_block import EvenBlocks
from ingot.kernel.contraction.schedule import PACK_BYTES, ContractionSchedule
from ingot.kernel.contraction.unit_blocks import TILE_BYTES
from ingot.kernel.product.operands import PlainOperands
from ingot.kernel.product.variant import ProductVariant
from ingot.llvm.machine_model import L2_BYTES, LINE_BYTES
from ingot.support.records import record, replace

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

LONG_ROWS_BLOCKS, LONG_ROWS_BYTES, LONG_ROWS_SUMS, LEAST_PIECE = 3, 4 * L2_BYTES, L2_BYTES // 2, 32
"""Row blocks and bytes of the rhs at least, and bytes of the sums at most, of products whose units
are half of the columns, in pieces of k of `LEAST_PIECE` at least. A unit that packs one panel over
all of k reads two lines of each page, and comes back to it for the next panel. Against that
32x1024x1024 took 0.83 of the time, 32x2048x512 0.83, 32x3072x768 0.84, 32x768x3072 0.87,
32x1024x4096 0.67 to 0.9, 32x4096x1024 0.81, 64x3072x768 0.87, 64x4096x1024 0.85, 96x3072x768 0.9,
96x4096x1024 1.0; of two threads 0.81 to 0.95. Of more sums 96x768x3072 took 0.99 to 1.09, of rows
that begin within lines 64x1100x1001 1.09, of two row blocks 28x3072x768 1.0, of smaller matrices
64x768x768 1.04 (sizes m x k x n, three or four matrices in turn, Sapphire Rapids, one thread,
2026-12-01)."""

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
        return ceil_div(self.units, self.grain)


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
    row_units = ceil_div(even.row_blocks, unit_row_blocks)
    column_units = ceil_div(given.sizes[1], schedule.n_block)
    units = batch * row_units * column_units
    return Blocks(unit_row_blocks, schedule.n_block, row_units, column_units, units, schedule.grain)


def in_long_rows(
    schedule: ContractionSchedule, given: PlainOperands, even: EvenBlocks, *, waits: bool
) -> ContractionSchedule:
    """Return the schedule with units that read long rows of the rhs, if rows of the lhs are few.

    Args:
        schedule: of a product whose units pack the rhs as they multiply it.
        given: the product.
        even: the register blocks that the rows are cut into.
        waits: whether sums of several pieces of k wait for an epilogue.
    """
    m, n, k = given.sizes
    cell = given.cell.bytes
    is_large = n * k * cell >= LONG_ROWS_BYTES and given.kernel.batch.extent == 1
    are_few = even.row_blocks >= LONG_ROWS_BLOCKS and m * n * cell <= LONG_ROWS_SUMS
    has_all_rows = schedule.m_block >= m
    if not (is_large and are_few and has_all_rows) or n * cell % LINE_BYTES:
        return schedule
    cells = PACK_BYTES // cell
    most = min(cells // LEAST_PIECE, TILE_BYTES // (m * cell) if waits else n)
    units = round_up(ceil_div(n, max(most, even.columns)), 2)
    columns = round_up(ceil_div(n, units), even.columns)
    piece = max(LEAST_PIECE, cells // columns // even.lanes * even.lanes)
    if columns <= schedule.n_block:
        return schedule
    return replace(schedule, n_block=columns, k_block=min(piece, schedule.k_block or k))


@record
class _Packed:
    """How the operands of a product lie packed, piece of k after piece.

    Attributes:
        sizes: (batch, m, n, k).
        even: the register blocks that the rows are cut into.
        depth: of k, multiplied at a time: a piece.
        variant: the driver.
    """

    sizes: tuple[int, int, int, int]
    even: EvenBlocks
    depth: int
    variant: ProductVariant

    @property
    def batch(self) -> int:
        """Products of a batch."""
        return self.sizes[0]

    @property
    def pieces(self) -> int:
        """Pieces of k."""
        return ceil_div(self.sizes[3], self.depth)

    @property
    def panels(self) -> int:
        """Panels of columns of the rhs."""
        return ceil_div(self.sizes[2], self.even.columns)

    @property
    def steps(self) -> int:
        """Steps along k of a piece."""
        return ceil_div(self.depth, self.variant.factors)

    @property
    def cell_bytes(self) -> int:
        """Bytes of a packed factor, or of a sum."""
        return self.variant.element.bits // 8

    @property
    def lhs_row(self) -> int:
        """Elements from one step along k of a row block to the next; along k, from row to row."""
        if self.variant.packs_along:
            # One vector more keeps rows whose depth is a power of two out of each other's sets.
            return round_up(self.steps, self.even.lanes) + self.even.lanes
        return self.variant.packed_step

    @property
    def block_cells(self) -> int:
        """Elements of a row block of the lhs."""
        rows = self.even.rows if self.variant.packs_along else self.steps
        return self.lhs_row * round_up(rows, SQUARE)

    @property
    def panel_cells(self) -> int:
        """Elements of a panel of the rhs."""
        return self.even.columns * round_up(self.steps, self.even.lanes)

    @property
    def tile_panels(self) -> int:
        """Panels of one row block whose sums may wait for an epilogue."""
        return UNIT_TILE_BYTES // (self.even.columns * self.cell_bytes * self.even.rows)

    @property
    def pack_blocks(self) -> int:
        """Row blocks of the lhs that a chunk packs."""
        if self.variant.packs_along or self.variant.is_dense:
            return max(1, PACK_ROWS // self.even.rows)
        return max(MIN_UNIT_ROWS // self.even.rows, ceil_div(self.even.row_blocks, UNITS_AHEAD))


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
    packed = _Packed(sizes, even, depth, variant)
    choose = _units_past_rhs if variant.is_rhs_ahead else _units_past_lhs
    row_blocks, panels, group = choose(packed, has_epilogue=has_epilogue)
    row_units, column_units = ceil_div(even.row_blocks, row_blocks), ceil_div(packed.panels, panels)
    matrices = packed.batch * packed.pieces
    rhs_chunks = matrices * ceil_div(sizes[2], PACK_COLUMNS) if variant.is_rhs_ahead else 0
    rhs_cells = matrices * packed.panels * packed.panel_cells if variant.is_rhs_ahead else 0
    lhs_cells = matrices * even.row_blocks * packed.block_cells
    return Blocks(
        row_blocks,
        panels * even.columns,
        row_units,
        column_units,
        units=packed.batch * row_units * column_units,
        grain=1,
        group_columns=min(group, panels) * even.columns,
        packed_columns=packed.panels * even.columns,
        packed_lhs_row=packed.lhs_row,
        packed_block=packed.block_cells,
        lhs_start=rhs_cells,
        rhs_chunks=rhs_chunks,
        pack_blocks=packed.pack_blocks,
        pack_chunks=rhs_chunks + matrices * ceil_div(even.row_blocks, packed.pack_blocks),
        scratch_bytes=(rhs_cells + lhs_cells) * packed.cell_bytes,
    )


def _units_past_rhs(packed: _Packed, *, has_epilogue: bool) -> tuple[int, int, int]:
    """Return row blocks and panels of a unit that streams packed panels past packed rows.

    The third number is of the panels whose sums wait for an epilogue together.
    """
    all_blocks, panels = packed.even.row_blocks, packed.panels
    row_blocks = _even_count(all_blocks, LHS_BYTES // (packed.block_cells * packed.cell_bytes))
    rows = packed.batch * ceil_div(all_blocks, row_blocks)
    column_units = min(panels, ceil_div(UNITS_AHEAD, rows))
    group = max(1, packed.tile_panels // row_blocks) if has_epilogue else panels
    if packed.pieces > 1:
        # The sums of all pieces wait together.
        column_units = max(column_units, ceil_div(panels, group))
    return row_blocks, ceil_div(panels, column_units), group


def _units_past_lhs(packed: _Packed, *, has_epilogue: bool) -> tuple[int, int, int]:
    """Return row blocks and panels of a unit that packs panels and streams packed rows past them.

    The third number is of the panels whose sums wait for an epilogue together: all.
    """
    even, all_panels = packed.even, packed.panels
    panels = _even_count(all_panels, UNIT_RHS_BYTES // (packed.panel_cells * packed.cell_bytes))
    least = MIN_TILE_PANELS if packed.variant.has_tiles else MIN_UNIT_PANELS
    wanted = min(ceil_div(UNITS_AHEAD, packed.batch), all_panels // least)
    panels = min(panels, ceil_div(all_panels, max(1, wanted)))
    row_units = ceil_div(UNITS_AHEAD, packed.batch * ceil_div(all_panels, panels))
    row_blocks = max(MIN_UNIT_ROWS // even.rows, ceil_div(even.row_blocks, row_units))
    if has_epilogue and packed.pieces > 1:
        row_blocks = min(row_blocks, packed.tile_panels // panels)
    return _even_count(even.row_blocks, row_blocks), panels, all_panels


def _even_count(count: int, most: int) -> int:
    """Return the size of parts if `count` is cut into the fewest equal ones of at most `most`."""
    return ceil_div(count, ceil_div(count, max(1, most)))
