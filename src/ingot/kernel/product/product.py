# SPDX-License-Identifier: Apache-2.0
"""Plain products: contractions that run in a driver that all programs share.

A product of two operands that lie in memory with constant steps is the same computation at every
size. Extents, steps and blocks are numbers that the host program passes to the driver
(`variant.ProductNumbers`), and the micro-kernels are addresses. Compiling a plain product
means choosing these numbers. If the kernel does more than store the sums, an epilogue of its own
does it.

Rows are divided into blocks of two heights that differ by one, `tall` and `low`, so that no small
block is left over, which would leave registers unused.

Invariant: each sum adds its products in order of k, as in every other contraction kernel.
"""

from __future__ import annotations

from ingot.analysis.library import MIN_VECTOR_BITS, VECTORS
from ingot.hlo.dim import ceil_div, round_up
from ingot.kernel.contraction.micro_blocks import MicroBlock
from ingot.kernel.contraction.operands import stores_sums
from ingot.kernel.contraction.register_block import (
    FEW_ROWS,
    RHS_ROW_CYCLES,
    BlockSearch,
    EvenBlocks,
)
from ingot.kernel.contraction.rhs_placement import DOTS
from ingot.kernel.contraction.schedule import (
    MAX_PACKED_VECTORS,
    ContractionSchedule,
    column_lanes,
    schedule_contraction,
)
from ingot.kernel.contraction.unit_blocks import TILE_BYTES
from ingot.kernel.driver_parameters import DriverParameters
from ingot.kernel.expr import Expr
from ingot.kernel.ir import ContractionKernel
from ingot.kernel.product.blocks import Blocks, blocks_ahead, in_long_rows, scheduled_blocks
from ingot.kernel.product.operands import PlainOperands, plain_operands, result_steps
from ingot.kernel.product.tiles import suits_tiles, tile_blocks
from ingot.kernel.product.variant import MIN_WORD_LANES, ProductNumbers, ProductVariant
from ingot.kernel.product.ways import ProductRequest, is_crowded, way_of
from ingot.llvm.machine_model import (
    L2_BYTES,
    Vectors,
)
from ingot.support.records import record, replace

NO_DRIVER = "no driver has its element types, or the target's vectors are too short"

SMALL_PRODUCTS = 8192
"""Products (m * n * k) of the largest matrices that one driver multiplies one after the other."""

MEMORY_BYTES, MEMORY_VECTORS = L2_BYTES // 2, 8
"""A row that is multiplied with a larger rhs than MEMORY_BYTES waits for memory, which is faster if
MEMORY_VECTORS vectors of each of several rows are read in turn: 4096x4096 took 0.76 to 0.82 of the
time with 24 of each, 512x512 0.8, 512x1408 0.88; in the L2 cache 512x512 took 1.06 (AMD EPYC with
AVX-512, one thread, 2026-11-27)."""

WRITTEN_OUT = 8
"""Depth of small matrices up to which products are written out."""


@record
class Product(DriverParameters):
    """A plain product.

    Attributes:
        variant: the driver that it runs in.
        operands: buffer numbers of lhs and rhs.
        first: where in their buffers they begin (`Operand.first`).
        result: buffer number of the result, None where an epilogue takes the sums.
        blocks: how it is cut.
        micro_blocks: those that its micro-kernels compute, in the order of the driver's env.
    """

    NAMES = ProductNumbers.c_layout.names

    variant: ProductVariant
    operands: tuple[int, int]
    first: tuple[Expr | None, Expr | None]
    result: int | None
    blocks: Blocks
    micro_blocks: tuple[MicroBlock, ...]


def plain_product(kernel: ContractionKernel, vectors: Vectors) -> Product | str:
    """Return how the shared driver runs a contraction, or why it cannot."""
    has_drivers = vectors.bits >= MIN_VECTOR_BITS or kernel.accumulate.is_complex
    given = plain_operands(kernel, vectors) if has_drivers else NO_DRIVER
    if isinstance(given, str):
        return given
    even, schedule = _scheduled(given, vectors)
    variant = way_of(ProductRequest(given, schedule, even, vectors))
    rhs_step = _rhs_step(schedule, given)
    if variant is None or rhs_step is None:
        return "neither rows nor columns of an operand are dense"
    sums = _sums(given.kernel)
    if sums is not None and _is_small(given, variant, even):
        variant = _for_size(variant, given.sizes)
    if variant.packs_first and not variant.ahead:
        schedule = in_long_rows(schedule, given, even, waits=sums is None)
    division = _Division(given, even, schedule.k_block or given.sizes[2], variant)
    if variant.ahead:
        blocks = division.blocks_ahead(has_epilogue=sums is None)
    else:
        blocks = scheduled_blocks(schedule, given, even)
    values = division.parameters(blocks, sums) | {"rhs_step": rhs_step}
    rest = given.sizes[1] % variant.columns
    heights = () if variant.rows else (even.low, even.rows)
    # The one unit of all rows begins with a tall block, which packs.
    packing = heights[1:] * 2 if blocks.row_units == 1 else heights
    return Product(
        tuple(values[name] for name in Product.NAMES),
        variant,
        (given.lhs.buffer, given.rhs.buffer),
        (given.lhs.first, given.rhs.first),
        None if sums is None else kernel.stores[0].buffer,
        blocks,
        tuple(
            variant.block(rows, columns, packs=packs)
            for packs in (False, variant.packs_first)
            for columns in (variant.columns, rest or variant.columns)
            for rows in (packing if packs else heights)
        ),
    )


def _for_size(variant: ProductVariant, sizes: tuple[int, int, int]) -> ProductVariant:
    """Return the driver of small matrices, whose rows and short depths are part of its code."""
    m, n, k = sizes
    has_rest = n % variant.columns > 0
    return replace(variant, rows=m, depth=k if k <= WRITTEN_OUT else 0, has_rest=has_rest)


@record
class _Division:
    """How a product is divided; gives the driver's parameters.

    Attributes:
        given: its operands and sizes.
        even: its register blocks.
        depth: products of a sum that are added in one go.
        variant: the driver that it runs in.
    """

    given: PlainOperands
    even: EvenBlocks
    depth: int
    variant: ProductVariant

    def blocks_ahead(self, *, has_epilogue: bool) -> Blocks:
        """Return the units of a product whose rhs is packed in a phase of its own."""
        batch = self.given.kernel.batch.known_extent
        sizes = (batch, *self.given.sizes)
        return blocks_ahead(sizes, self.even, self.depth, self.variant, has_epilogue=has_epilogue)

    def panel_depth(self) -> int:
        """Return the elements of a packed column of the rhs."""
        variant = self.variant
        if variant.rhs == "packed dots":
            # One vector more keeps columns out of each other's cache sets.
            return round_up(self.depth, variant.lanes) + variant.lanes
        # Each row of a complex rhs is packed twice.
        words = round_up(ceil_div(self.depth, variant.factors), self.even.lanes)
        return words * (1 + variant.is_complex) + variant.is_shifted

    def out_steps(self, blocks: Blocks) -> tuple[int, int, int]:
        """Return `out_batch`, `out_row` and `block_row` of sums that an epilogue takes."""
        if self.variant.is_rhs_ahead:
            return 0, blocks.group_columns, blocks.group_columns
        return 0, blocks.n_block, blocks.n_block if self.depth < self.given.sizes[2] else 0

    def waits(self, blocks: Blocks) -> bool:
        """Whether sums of several pieces wait on the stack: units share rows of the result.

        Else the prefetchers of one CPU fetch what another one adds to, time and again. By waiting
        8x512x512 took 0.68 of the time, 16x1024x1024 0.75, 8x1024x1024 0.64, 8x2048x2048 0.96, on
        one thread 1.0 to 1.04 (sizes m x k x n, Sapphire Rapids, two threads, 2026-12-01).
        """
        rows = min(blocks.unit_row_blocks * self.even.rows, self.given.sizes[0])
        fits = rows * blocks.n_block * self.given.cell.bytes <= TILE_BYTES
        are_several = blocks.column_units > 1 and self.depth < self.given.sizes[2]
        return are_several and fits and not self.variant.ahead

    def parameters(self, blocks: Blocks, sums: tuple[int, int, int] | None) -> dict[str, int]:
        """Return `ProductNumbers` but `rhs_step`; `sums`: steps of sums that are the result."""
        given, even, variant = self.given, self.even, self.variant
        panel_depth, crowded = self.panel_depth(), is_crowded(given)
        out_batch, out_row, block_row = sums or self.out_steps(blocks)
        copied_row = 0
        if sums is not None and self.waits(blocks):
            copied_row = out_row
            _, out_row, block_row = self.out_steps(blocks)
        return {
            "lhs_batch": given.lhs.batch,
            "rhs_batch": given.rhs.batch,
            "lhs_row": given.lhs.free,
            "lhs_step": given.lhs.inner,
            "rhs_column": given.rhs.free,
            "out_batch": out_batch,
            "out_row": out_row,
            "block_row": block_row,
            "copied_row": copied_row,
            "n": given.sizes[1],
            "k": given.sizes[2],
            "n_block": blocks.n_block,
            "k_block": self.depth,
            "panel_depth": panel_depth,
            "low_rows": even.low,
            "tall_blocks": even.tall,
            "row_blocks": even.row_blocks,
            "unit_row_blocks": blocks.unit_row_blocks,
            "row_units": blocks.row_units,
            "column_units": blocks.column_units,
            "units": blocks.units,
            "grain": blocks.grain,
            "group_columns": blocks.group_columns,
            "packed_columns": blocks.packed_columns,
            "packed_block": blocks.packed_block,
            "lhs_start": blocks.lhs_start,
            "rhs_chunks": blocks.rhs_chunks,
            "pack_blocks": blocks.pack_blocks,
            "packed_lhs_row": blocks.packed_lhs_row
            or _packed_lhs_row(variant, even, panel_depth, is_crowded=crowded),
        }


def _is_small(given: PlainOperands, variant: ProductVariant, even: EvenBlocks) -> bool:
    """Whether this is many products of matrices that one register block holds."""
    m, n, k = given.sizes
    return (
        variant.rhs == "direct"
        and variant.operands is None  # others are packed, which these are not
        and given.kernel.batch.extent != 1
        and even.row_blocks == 1
        and n <= variant.columns
        and m * n * k <= SMALL_PRODUCTS
    )


def _scheduled(given: PlainOperands, vectors: Vectors) -> tuple[EvenBlocks, ContractionSchedule]:
    """Return the register blocks, and the schedule of a contraction kernel that has them."""
    if suits_tiles(given, vectors):
        return tile_blocks(given)
    m, n, _ = given.sizes
    lanes = column_lanes(given.kernel, vectors)
    factors = given.factors(vectors)
    if factors > 1:
        lanes = max(lanes, MIN_WORD_LANES)
    converts = given.converts_in_place(vectors)
    search = BlockSearch(lanes, vectors)
    is_from_memory = m == 1 and n * given.sizes[2] * given.rhs.dtype.bits > 8 * MEMORY_BYTES
    even = search.even(m, n, most=MEMORY_VECTORS) if is_from_memory else search.even(m, n)
    block = (even.rows, even.columns)
    schedule = schedule_contraction(given.kernel, vectors, block, factors, converts=converts)
    if schedule.rhs == "direct" and m > FEW_ROWS:
        wider = replace(search, more=RHS_ROW_CYCLES).even(m, n, most=VECTORS + 1)
        block = (wider.rows, wider.columns)
        found = schedule_contraction(given.kernel, vectors, block, factors, converts=converts)
        if found.rhs == "direct":
            even, schedule = wider, found
    if schedule.rhs not in ("direct", *DOTS) and even.vectors > MAX_PACKED_VECTORS:
        even = search.even(m, n, most=MAX_PACKED_VECTORS)
        block = (even.rows, even.columns)
        schedule = schedule_contraction(given.kernel, vectors, block, factors, converts=converts)
    if schedule.rhs in DOTS:
        row_blocks = ceil_div(m, schedule.rows)
        even = EvenBlocks(1, schedule.columns, row_blocks, *divmod(m, row_blocks))
    return even, schedule


def _rhs_step(schedule: ContractionSchedule, given: PlainOperands) -> int | None:
    """Return the step of the rhs that is not 1, None where neither is."""
    rhs, columns = given.rhs, given.sizes[1]
    if schedule.rhs in ("transposed", "dots") and rhs.inner == 1:
        return rhs.free
    return rhs.inner if rhs.free == 1 or columns == 1 or rhs.dtype.is_complex else None


def _sums(kernel: ContractionKernel) -> tuple[int, int, int] | None:
    """Return the steps of the result, None where the sums are not it or lie otherwise."""
    steps = result_steps(kernel) if stores_sums(kernel) else None
    return None if steps is None else (*steps, steps[1])


def _packed_lhs_row(
    variant: ProductVariant, even: EvenBlocks, panel_depth: int, *, is_crowded: bool
) -> int:
    """Return the step from row to row of an lhs that units pack, or from k to k if m is dense.

    0: it is read in place.
    """
    if variant.operands is None or (variant.is_complex and variant.is_dense and not is_crowded):
        return 0
    # One vector more keeps rows whose depth is a power of two out of each other's cache sets.
    if variant.packs_along:
        return panel_depth + variant.lanes
    return round_up(even.rows, variant.lanes)
