# SPDX-License-Identifier: Apache-2.0
"""Plain products: contractions that run in a driver that all programs share.

A product of two operands that lie in memory with constant steps is the same computation at every
size. Extents, steps and blocks are numbers that the host program passes to the driver
(`variant.ProductNumbers`), and the micro-kernels are addresses. Compiling a plain product
means choosing these numbers. If the kernel does more than store the sums, an epilogue of its own
does it.

Rows are divided into blocks of two heights that differ by one, `tall` and `low`, so that no small
block is left over, which would leave registers unused.

Rows of the lhs that lie a multiple of 4096 bytes apart are *crowded*: they share one set of the L1
cache. A large product with crowded rows packs the lhs once, in a phase before the products
(`ProductVariant.ahead`). A large product in tiles (`tiles`) packs both operands so, unless it reads
the lhs in place. Other complex operands, and operands whose type is not that of the sums, are both
packed by each unit.

Invariant: each sum adds its products in order of k, as in every other contraction kernel.
"""

from __future__ import annotations

from ingot.analysis.library import MIN_VECTOR_BITS, VECTORS
from ingot.hlo.dim import ceil_div, round_up
from ingot.kernel.contraction.micro_blocks import MicroBlock
from ingot.kernel.contraction.operands import cell_bits, stores_sums
from ingot.kernel.contraction.register_block import (
    FEW_ROWS,
    RHS_ROW_CYCLES,
    BlockSearch,
    EvenBlocks,
)
from ingot.kernel.contraction.rhs_placement import DOTS, RhsPlacement
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
from ingot.kernel.product.blocks import (
    MIN_ROWS_AHEAD,
    SQUARE,
    Blocks,
    blocks_ahead,
    scheduled_blocks,
)
from ingot.kernel.product.operands import PlainOperands, plain_operands, result_steps
from ingot.kernel.product.tiles import reads_in_place, suits_tiles, tile_blocks
from ingot.kernel.product.variant import MIN_WORD_LANES, Placement, ProductNumbers, ProductVariant
from ingot.llvm.machine_model import (
    L1_STRIDE,
    L1_WAYS,
    L2_BYTES,
    L3_BYTES,
    MANY_REGISTERS,
    PAGE_BYTES,
    Vectors,
)
from ingot.support.records import record, replace

NO_DRIVER = "no driver has its element types, or the target's vectors are too short"

SMALL_PRODUCTS = 8192
"""Products (m * n * k) of the largest matrices that one driver multiplies one after the other."""

MIN_STEP_BYTES, MIN_STEP_ROWS, FEW_PANELS, MIN_DEPTH_AHEAD = 1792, 256, 1, 64
"""An lhs is packed if its steps along k have at least MIN_STEP_BYTES and it has MIN_STEP_ROWS rows:
by units that read more than FEW_PANELS panels of an rhs in place, or ahead of a product of at least
MIN_DEPTH_AHEAD. Each k of it is in another page and cache line, for each panel again. Against
reading it in place 512x512x512 took 0.86 of the time, 1000x512x128 0.79, 1000x512x700 0.69,
2000x1000x300 0.65, 300x512x700 1.1, 1000x64x1000 1.15, eight of 1024x128x1024, as attention's
gradients have, 0.44 (AVX-512, one thread, 2026-11-27)."""

MIN_READS, MIN_READS_FEW_REGISTERS = 1280, 3072
"""So is one whose steps are shorter, if its rows times the vectors of columns that they meet are as
many: 256x1024x512 took 0.72 of the time, 384x1024x256 0.69, 128x2048x256 0.84, 256x512x1024 0.82,
128x512x192 0.98, 256x64x256 0.92, 448x128x128 0.98; fewer: 64x512x80 1.08, 32x1024x160 1.13. Of
f64 128x128x192 took 0.92, 256x512x64 0.9. With 16 registers 128x128x192 took 0.9, 256x512x192 0.97,
64x512x512 0.96, 128x128x64 1.01, 64x128x96 1.05 (sizes m x k x n, Sapphire Rapids, one thread,
2026-11-30)."""

MIN_DEPTH_BATCH_AHEAD = 256
"""Depth of several such products from which on an rhs that could be read in place is packed ahead
too: the lhs is then read in longer runs. 16x512x64x512 took 0.74 of the time, 16x512x96x512 0.72,
8x768x64x768 0.73, 8x512x512x512 0.78, 2x512x64x512 1.03, 16x512x64x128 1.09, 1x1024x64x1024 1.27
(as above)."""

MIN_CROWDED_ROWS = 1024
"""Crowded rows from which on they are packed ahead if the sets of the L1 cache have 12 lines: then
blocks of 14 rows hardly suffer. Against packing ahead 500x4096x64 took 0.77 of the time,
128x1024x128 0.83, 128x1024x256 0.81, 128x1024x512 0.95, 64x1024x1024 0.96, 512x1024x1024 1.0,
1024x1024x1024 1.01, 2048x2048x2048 1.07. If they have 8, it is from `MIN_ROWS_AHEAD` on. One panel
is never worth it: 2000x4096x32 took 0.42 (sizes m x k x n, Sapphire Rapids, one thread,
2026-11-30)."""

MIN_CROWDED_PRODUCTS = 300_000_000
"""Products (m * n * k) from which on fewer crowded rows are, too: packing is then little of the
work. 197x3072x768 took 0.91 of the time, 197x4096x512 0.97, 256x4096x1024 0.95, 256x3072x768 0.9,
512x1024x1024 0.94, 512x4096x1024 0.92, 128x5120x1280 0.91, 128x4096x1024 1.0; below that
128x2048x1024 1.04, 197x1024x1024 1.01, 256x1024x1024 1.02 (two matrices in turn, Sapphire Rapids,
one thread, 2026-12-01)."""

MIN_COLUMNS_ACROSS = 128
"""Columns from which on an lhs that is packed ahead is transposed, so that micro-kernels read it in
one run: by estimate, as that takes 0.3 cycles for each element, and 0.03 less for each column. With
its rows along k 64x1024x10 took 0.85 of the time (Sapphire Rapids, one thread, 2026-11-29)."""

CROWDED_PANELS = 2
"""An rhs that could be read in place is packed ahead for crowded rows if it has this many panels
and a block has more rows than the L1 cache has ways; with twice as many rows, whose lines are
evicted before their next element is read, any rhs is. Against reading it in place 1000x16x1024 took
0.3 of the time, 200x10x1024 0.3, 64x10x1024 0.42, 20x16x1024 0.52, 98x256x1024 0.89, 150x200x1024
0.89, 300x64x1024 0.9, 100x256x2048 1.01; 500x32x4096, of one panel, 1.2 (AMD EPYC with AVX-512,
one thread, 2026-11-28). Where the sets of the L1 cache have 12 lines it is never: in place
1000x64x1024 took 0.64 of that, 300x64x1024 0.69, 98x64x1024 0.86, 1000x16x1024 0.74, 64x10x1024
0.97 (Sapphire Rapids, one thread, 2026-11-30)."""

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
    variant, rhs_step = _variant_of(given, schedule, even, vectors), _rhs_step(schedule, given)
    if variant is None or rhs_step is None:
        return "neither rows nor columns of an operand are dense"
    sums = _sums(given.kernel)
    if sums is not None and _is_small(given, variant, even):
        variant = _for_size(variant, given.sizes)
    division = _Division(given, even, schedule.k_block or given.sizes[2], variant)
    if variant.ahead:
        blocks = division.blocks_ahead(has_epilogue=sums is None)
    else:
        blocks = scheduled_blocks(schedule, given, even)
    values = division.parameters(blocks, sums) | {"rhs_step": rhs_step}
    rest = given.sizes[1] % variant.columns
    heights = () if variant.rows else (even.low, even.rows)
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
            for rows in heights
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
        panel_depth, is_crowded = self.panel_depth(), _is_crowded(given)
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
            or _packed_lhs_row(variant, even, panel_depth, is_crowded=is_crowded),
        }


def _is_crowded(given: PlainOperands) -> bool:
    return given.lhs.free * cell_bits(given.cell) // 8 % L1_STRIDE == 0 and given.sizes[0] > 1


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


def _fetches(given: PlainOperands, vectors: Vectors, rhs: Placement | RhsPlacement) -> bool:
    """Whether an rhs in place is fetched ahead, as no cache keeps it and its rows are long.

    The prefetchers of CPUs without AVX-512 do better alone: with fetches 1, 2, 3 and 4 rows
    times 4096x4096 took 1.17, 1.09, 1.16 and 1.2 of the time, 8 rows 1.23, 1x768x50257 1.33, and of
    rows that are not crowded 8x1500x5000 0.91 (AVX2, one thread, 2026-11-29). Rows that overlap,
    as those of a signal that a filter of 64 taps moves along, are read from a cache.
    """
    _, n, k = given.sizes
    row_bytes = n * given.cell.bytes
    own_bytes = min(n, given.rhs.inner) * given.cell.bytes
    is_long = row_bytes >= PAGE_BYTES and own_bytes * k > L3_BYTES
    return vectors.registers >= MANY_REGISTERS and rhs == "direct" and is_long


def packs_first(vectors: Vectors, rhs: Placement | RhsPlacement) -> bool:
    """Whether the first row block of a unit packs its columns as it multiplies them.

    Against packing them before, 64x1024x1024 took 0.79 of the time, 64x768x3072 0.83, 256x768x3072
    0.85, 128x768x768 0.95, 128x3072x768 0.94, 130x1000x512 0.9, 512x768x768 0.95, 64x768x768 of f64
    0.83 (sizes m x k x n, Sapphire Rapids, one thread, 2026-11-30). Low blocks read memory in
    shorter runs, and do not hide it: with 16 registers 256x768x3072 took 1.04, 64x768x3072 1.03,
    128x768x768 1.0 (AVX2, as above).
    """
    return rhs == "packed" and vectors.registers >= MANY_REGISTERS


def _has_long_steps(given: PlainOperands) -> bool:
    """Whether the lhs is dense along its rows' axis, and its elements of each k lie far apart."""
    step_bytes = given.lhs.inner * cell_bits(given.cell) // 8
    return given.lhs.free == 1 and step_bytes >= MIN_STEP_BYTES and given.sizes[0] >= MIN_STEP_ROWS


def _is_read_often(given: PlainOperands, vectors: Vectors) -> bool:
    """Whether an lhs that is dense along its rows' axis meets so many columns that packing pays."""
    rows, columns, _ = given.sizes
    reads = rows * ceil_div(columns, vectors.lanes(given.cell.bits, 1))
    least = MIN_READS if vectors.registers >= MANY_REGISTERS else MIN_READS_FEW_REGISTERS
    return _has_long_steps(given) or (given.lhs.free == 1 and reads >= least)


def _is_ahead(given: PlainOperands, schedule: ContractionSchedule, vectors: Vectors) -> bool:
    """Whether both operands of a product of much work are packed."""
    m, n, k = given.sizes
    if schedule.rhs not in ("packed", "transposed"):
        return False
    if given.lhs.inner == 1:
        # Of several matrices, packing costs more than the crowded rows: 8x1024x128x1024 took 1.14.
        least = MIN_ROWS_AHEAD if vectors.l1_ways <= L1_WAYS else MIN_CROWDED_ROWS
        is_large = m >= least or m * n * k >= MIN_CROWDED_PRODUCTS
        is_one = given.kernel.batch.extent == 1
        return is_one and _is_crowded(given) and is_large and n > schedule.columns
    return _is_read_often(given, vectors) and k >= MIN_DEPTH_AHEAD


def _is_direct_ahead(
    given: PlainOperands, schedule: ContractionSchedule, even: EvenBlocks, vectors: Vectors
) -> bool:
    """Whether an rhs that could be read in place is packed ahead, as the lhs is slow to read."""
    if schedule.rhs != "direct" or schedule.columns > MAX_PACKED_VECTORS * schedule.lanes:
        return False
    m, n, k = given.sizes
    if given.kernel.batch.extent != 1:
        return k >= MIN_DEPTH_BATCH_AHEAD and _has_long_steps(given)
    if given.lhs.inner != 1 or not _is_crowded(given) or vectors.l1_ways > L1_WAYS:
        return False
    are_again = even.rows > L1_WAYS and m >= MIN_ROWS_AHEAD and n >= CROWDED_PANELS * even.columns
    return even.rows > 2 * L1_WAYS or are_again


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


def _variant_of(
    given: PlainOperands, schedule: ContractionSchedule, even: EvenBlocks, vectors: Vectors
) -> ProductVariant | None:
    is_dense = given.lhs.inner == 1 or given.sizes[2] == 1
    rhs: Placement | RhsPlacement = schedule.rhs
    packs_rows = not is_dense and rhs == "direct" and given.sizes[1] > FEW_PANELS * even.columns
    plain = ProductVariant(given.cell, schedule.lanes, rhs, is_dense, even.vectors)
    packs_across = not is_dense or (given.cell.is_float and given.sizes[1] >= MIN_COLUMNS_ACROSS)
    step = round_up(even.rows, max(schedule.lanes, SQUARE)) if packs_across else 0
    if given.are_cells and _is_direct_ahead(given, schedule, even, vectors):
        first = packs_first(vectors, "packed")
        return replace(plain, rhs="packed", ahead=True, packed_step=step, packs_first=first)
    if given.are_cells and not (packs_rows and _is_read_often(given, vectors)):
        plain = replace(plain, packs_first=packs_first(vectors, rhs))
        if rhs not in DOTS and _is_ahead(given, schedule, vectors):
            return replace(plain, ahead=True, packed_step=step)
        return replace(plain, fetches=_fetches(given, vectors, rhs))
    if not is_dense and given.lhs.free != 1 and not given.cell.is_complex:
        return None
    if given.cell.is_complex and given.rhs.free > 1 and given.rhs.inner != 1:
        rhs = "gathered"
    types = (given.lhs.dtype, given.rhs.dtype)
    lanes = schedule.lanes if rhs == "dots" else even.lanes
    variant = ProductVariant(given.cell, lanes, rhs, is_dense, even.vectors, False, types)
    if not suits_tiles(given, vectors):
        return replace(variant, factors=given.factors(vectors))
    ahead = given.sizes[0] >= MIN_ROWS_AHEAD
    variant = replace(variant, factors=given.word_factors, has_tiles=True, ahead=ahead)
    return replace(variant, in_place=reads_in_place(given))


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
