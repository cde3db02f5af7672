# SPDX-License-Identifier: Apache-2.0
"""The ways to run a plain product: which operands are packed, when, and by whom.

`way_of` asks the ways in the order of a table (`_WAYS`); the first that suits the product gives the
driver's variant. Whether one does is a question of where the operands lie (`operands`) and of what
packing costs against what it saves, by measurements.

Rows of the lhs that lie a multiple of 4096 bytes apart are *crowded*: they share one set of the L1
cache. A large product with crowded rows packs the lhs once, in a phase before the products
(`ProductVariant.ahead`). A large product in tiles (`tiles`) packs both operands so, unless it reads
the lhs in place. Other complex operands, and operands whose type is not that of the sums, are both
packed by each unit.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.hlo.dim import ceil_div, round_up
from ingot.kernel.contraction.operands import cell_bits
from ingot.kernel.contraction.register_block import EvenBlocks
from ingot.kernel.contraction.rhs_placement import RhsPlacement
from ingot.kernel.contraction.schedule import MAX_PACKED_VECTORS, ContractionSchedule
from ingot.kernel.product.blocks import MIN_ROWS_AHEAD, SQUARE
from ingot.kernel.product.operands import PlainOperands
from ingot.kernel.product.tiles import reads_in_place, suits_tiles
from ingot.kernel.product.variant import Placement, ProductVariant
from ingot.llvm.machine_model import (
    L1_STRIDE,
    L1_WAYS,
    L3_BYTES,
    MANY_REGISTERS,
    PAGE_BYTES,
    Vectors,
)
from ingot.support.records import record, replace

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


@record
class ProductRequest:
    """A product and its register blocks, which a way is chosen for.

    Attributes:
        given: its operands and sizes.
        schedule: of a contraction kernel with the same blocks.
        even: its register blocks.
        vectors: the target's.
    """

    given: PlainOperands
    schedule: ContractionSchedule
    even: EvenBlocks
    vectors: Vectors

    @property
    def is_dense(self) -> bool:
        """Whether rows of the lhs are read along k."""
        return self.given.lhs.inner == 1 or self.given.sizes[2] == 1

    @property
    def reads_lhs(self) -> bool:
        """Whether units read the lhs where it lies."""
        given, columns = self.given, self.given.sizes[1]
        packs_rows = (
            not self.is_dense
            and self.schedule.rhs == "direct"
            and columns > FEW_PANELS * self.even.columns
        )
        return given.are_cells and not (packs_rows and self.reads_lhs_often)

    @property
    def reads_lhs_often(self) -> bool:
        """Whether an lhs that is dense along m meets so many columns that packing it pays."""
        rows, columns, _ = self.given.sizes
        reads = rows * ceil_div(columns, self.vectors.lanes(self.given.cell.bits, 1))
        has_many = self.vectors.registers >= MANY_REGISTERS
        least = MIN_READS if has_many else MIN_READS_FEW_REGISTERS
        return _has_long_steps(self.given) or (self.given.lhs.free == 1 and reads >= least)

    @property
    def plain(self) -> ProductVariant:
        """The variant of operands of plain cells that lie in memory as they are read."""
        cell, lanes, vectors = self.given.cell, self.schedule.lanes, self.even.vectors
        return ProductVariant(cell, lanes, self.schedule.rhs, self.is_dense, vectors)

    @property
    def ahead(self) -> ProductVariant:
        """The same, packed in a phase before the products."""
        is_wide = self.given.cell.is_float and self.given.sizes[1] >= MIN_COLUMNS_ACROSS
        packs_across = not self.is_dense or is_wide
        step = round_up(self.even.rows, max(self.schedule.lanes, SQUARE)) if packs_across else 0
        return replace(self.plain, ahead=True, packed_step=step)


def way_of(asked: ProductRequest) -> ProductVariant | None:
    """Return the driver of a product, None where neither rows nor columns of the lhs are dense."""
    return next((found for way in _WAYS if (found := way(asked)) is not None), None)


def _rhs_ahead(asked: ProductRequest) -> ProductVariant | None:
    """Pack an rhs ahead that could be read in place, as the lhs is slow to read."""
    if not (asked.given.are_cells and _is_lhs_slow(asked)):
        return None
    first = packs_first(asked.vectors, "packed")
    return replace(asked.ahead, rhs="packed", packs_first=first)


def _both_ahead(asked: ProductRequest) -> ProductVariant | None:
    """Pack both operands of a product of much work ahead."""
    if not asked.reads_lhs or not _is_large(asked):
        return None
    return replace(asked.ahead, packs_first=packs_first(asked.vectors, asked.schedule.rhs))


def _lhs_in_place(asked: ProductRequest) -> ProductVariant | None:
    """Read the lhs in place, and the rhs as scheduled."""
    if not asked.reads_lhs:
        return None
    first = packs_first(asked.vectors, asked.schedule.rhs)
    return replace(asked.plain, packs_first=first, fetches=_fetches(asked))


def _in_tiles(asked: ProductRequest) -> ProductVariant | None:
    """Multiply words in tiles; large products pack ahead."""
    given, packed = asked.given, _by_units(asked)
    if packed is None or not suits_tiles(given, asked.vectors):
        return None
    ahead, in_place = given.sizes[0] >= MIN_ROWS_AHEAD, reads_in_place(given)
    factors = given.word_factors
    return replace(packed, factors=factors, has_tiles=True, ahead=ahead, in_place=in_place)


def _by_units(asked: ProductRequest) -> ProductVariant | None:
    """Pack both operands in each unit, converted to what is multiplied."""
    given, even = asked.given, asked.even
    if not asked.is_dense and given.lhs.free != 1 and not given.cell.is_complex:
        return None
    rhs: Placement | RhsPlacement = asked.schedule.rhs
    if given.cell.is_complex and given.rhs.free > 1 and given.rhs.inner != 1:
        rhs = "gathered"
    types = (given.lhs.dtype, given.rhs.dtype)
    lanes = asked.schedule.lanes if rhs == "dots" else even.lanes
    factors = given.factors(asked.vectors)
    packed = ProductVariant(given.cell, lanes, rhs, asked.is_dense, even.vectors, False, types)
    return replace(packed, factors=factors)


_WAYS: tuple[Callable[[ProductRequest], ProductVariant | None], ...] = (
    _rhs_ahead,
    _both_ahead,
    _lhs_in_place,
    _in_tiles,
    _by_units,
)
"""In the order in which they are asked: each returns its variant of the driver, or None."""


def is_crowded(given: PlainOperands) -> bool:
    """Whether rows of the lhs share one set of the L1 cache."""
    return given.lhs.free * cell_bits(given.cell) // 8 % L1_STRIDE == 0 and given.sizes[0] > 1


def _fetches(asked: ProductRequest) -> bool:
    """Whether an rhs in place is fetched ahead, as no cache keeps it and its rows are long.

    The prefetchers of CPUs without AVX-512 do better alone: with fetches 1, 2, 3 and 4 rows
    times 4096x4096 took 1.17, 1.09, 1.16 and 1.2 of the time, 8 rows 1.23, 1x768x50257 1.33, and of
    rows that are not crowded 8x1500x5000 0.91 (AVX2, one thread, 2026-11-29). Rows that overlap,
    as those of a signal that a filter of 64 taps moves along, are read from a cache.
    """
    given, vectors = asked.given, asked.vectors
    _, n, k = given.sizes
    row_bytes = n * given.cell.bytes
    own_bytes = min(n, given.rhs.inner) * given.cell.bytes
    is_long = row_bytes >= PAGE_BYTES and own_bytes * k > L3_BYTES
    return vectors.registers >= MANY_REGISTERS and asked.schedule.rhs == "direct" and is_long


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


def _is_large(asked: ProductRequest) -> bool:
    """Whether packing both operands is little of the work, and spares slow reads of the lhs."""
    given, schedule = asked.given, asked.schedule
    m, n, k = given.sizes
    if schedule.rhs not in ("packed", "transposed"):
        return False
    if given.lhs.inner == 1:
        # Of several matrices, packing costs more than the crowded rows: 8x1024x128x1024 took 1.14.
        least = MIN_ROWS_AHEAD if asked.vectors.l1_ways <= L1_WAYS else MIN_CROWDED_ROWS
        is_large = m >= least or m * n * k >= MIN_CROWDED_PRODUCTS
        is_one = given.kernel.batch.extent == 1
        return is_one and is_crowded(given) and is_large and n > schedule.columns
    return asked.reads_lhs_often and k >= MIN_DEPTH_AHEAD


def _is_lhs_slow(asked: ProductRequest) -> bool:
    """Whether the lhs is so slow to read in place that an rhs which could be is packed as well."""
    given, schedule, even, ways = asked.given, asked.schedule, asked.even, asked.vectors.l1_ways
    if schedule.rhs != "direct" or schedule.columns > MAX_PACKED_VECTORS * schedule.lanes:
        return False
    m, n, k = given.sizes
    if given.kernel.batch.extent != 1:
        return k >= MIN_DEPTH_BATCH_AHEAD and _has_long_steps(given)
    if given.lhs.inner != 1 or not is_crowded(given) or ways > L1_WAYS:
        return False
    are_again = even.rows > L1_WAYS and m >= MIN_ROWS_AHEAD and n >= CROWDED_PANELS * even.columns
    return even.rows > 2 * L1_WAYS or are_again
