# SPDX-License-Identifier: Apache-2.0
"""Variants, units and micro-kernels that the drivers of plain products share.

`driver`, `packed_ahead` and `packing` use them. Invariant: a micro-kernel depends on the
variant of its products and the shape of its register block alone.
"""

from __future__ import annotations

from functools import lru_cache

from ingot.cpu.emit.contraction.dot_products import DotProducts, shared_dots
from ingot.cpu.emit.contraction.microkernel import MOST_SHARED, MicroKernel, on_panels, shared
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.cpu.emit.driver_records import DriverStart
from ingot.cpu.emit.product.tiles import TileKernel, TileShapes
from ingot.emit.values.types import memory_type
from ingot.hlo.dim import ceil_div
from ingot.hlo.dtype import DType
from ingot.kernel.contraction.micro_blocks import MicroBlock
from ingot.kernel.contraction.schedule import MAX_COLUMNS, PACK_BYTES
from ingot.kernel.contraction.unit_blocks import TILE_BYTES
from ingot.kernel.product.blocks import UNIT_RHS_BYTES, UNIT_TILE_BYTES
from ingot.kernel.product.tiles import SIDE
from ingot.kernel.product.variant import ProductNumbers, ProductVariant
from ingot.llvm.types import Type
from ingot.native.pointers import Pointer, Struct
from ingot.native.types import Known, i64
from ingot.support.records import record, replace

Kernel = MicroKernel | DotProducts | TileKernel

MAX_EPILOGUE_LANES = 128
"""Lanes of sums that an epilogue may read behind the last one."""


@record
class Products(Known):
    """Products of a variant: what their driver's code depends on.

    Attributes:
        variant: the variant.
        packs: whether their register blocks pack their columns: those of a unit's first row block,
            if the variant `packs_first`.
    """

    variant: ProductVariant
    packs: bool = False

    @property
    def packing(self) -> Products:
        """The same products, packing their columns."""
        return replace(self, packs=True)

    @property
    def kernels(self) -> int:
        """Bytes of a `Part` before the micro-kernels: low, tall, then those of the rest."""
        return Part.c_layout.offset("low_packing" if self.packs else "low")

    @property
    def cell(self) -> Type:
        """The type of a sum and of a packed element."""
        return cell_type(self.variant.element)

    @property
    def bytes(self) -> int:
        """Bytes of a sum."""
        return self.cell.bytes

    @property
    def operands(self) -> tuple[DType, DType]:
        """The element types of the operands."""
        return self.variant.operands or (self.variant.element, self.variant.element)

    @property
    def lhs_bytes(self) -> int:
        """Bytes of an element of the lhs."""
        return memory_type(self.operands[0]).bytes

    @property
    def rhs_bytes(self) -> int:
        """Bytes of an element of the rhs."""
        return memory_type(self.operands[1]).bytes

    @property
    def columns(self) -> int:
        """Columns of a whole register block."""
        return self.variant.columns

    @property
    def is_transposed(self) -> bool:
        """Whether the rhs is dense along k, where it lies."""
        return self.variant.rhs in ("transposed", "dots")

    @property
    def is_gathered(self) -> bool:
        """Whether the rhs is dense along no axis."""
        return self.variant.rhs == "gathered"

    @property
    def packs_blocks(self) -> bool:
        """Whether the rows of a row block are packed just before they are multiplied."""
        return self.variant.operands is not None and not self.variant.is_dots

    @property
    def packs_words(self) -> bool:
        """Whether operands are packed into words of several factors."""
        return self.packs_blocks and self.variant.factors > 1

    @property
    def is_shifted(self) -> bool:
        """Whether bytes of the lhs are shifted, and panels begin with a row that corrects that."""
        return self.packs_blocks and self.variant.is_shifted

    @property
    def tile_bytes(self) -> int:
        """Bytes of the sums that wait for an epilogue, or to be copied."""
        sums = UNIT_TILE_BYTES if self.variant.ahead else TILE_BYTES
        return sums + (self.columns + MAX_EPILOGUE_LANES) * self.bytes

    @property
    def panels_bytes(self) -> int:
        """Bytes of the columns that a unit packs, with the panels' first rows."""
        if self.variant.is_rhs_ahead or not self.variant.has_panels:
            return 0
        if self.variant.ahead:
            return UNIT_RHS_BYTES
        first_rows = MAX_COLUMNS * self.bytes * self.is_shifted
        return PACK_BYTES * (1 + self.variant.is_complex) + first_rows

    @property
    def rows_bytes(self) -> int:
        """Bytes of the rows that a unit packs."""
        is_packed = self.packs_blocks and not self.variant.ahead
        return PACK_BYTES * (1 + self.variant.is_complex) if is_packed else 0


class Part(ProductNumbers, is_constant=True):
    """The part of env behind its start: the numbers, and micro-kernels of two heights.

    Those of the rest are for the columns behind the whole register blocks. The last four pack the
    rhs as they multiply it; without `packs_first` they are the first four.
    """

    low: Pointer
    tall: Pointer
    low_rest: Pointer
    tall_rest: Pointer
    low_packing: Pointer
    tall_packing: Pointer
    low_rest_packing: Pointer
    tall_rest_packing: Pointer


class Unit(Struct):
    """A unit: row blocks by columns of a matrix, of which a piece of k is multiplied.

    `top` is its first row; `first_block` to `last_block` are its row blocks. A piece begins at
    `start` and has `depth` products. `out` is the unit's first sum: in the result, or in the tile,
    which an epilogue or a copy takes. Columns are packed to `panels`, rows to `rows`. `lhs_row` is
    the step in words from row to row of an lhs that tiles are loaded from in place; 0 where it is
    packed.
    """

    env: DriverStart
    part: Part
    batch: i64
    first_block: i64
    last_block: i64
    top: i64
    column: i64
    columns: i64
    start: i64
    depth: i64
    out: Pointer
    tile: Pointer
    panels: Pointer
    rows: Pointer
    lhs_row: i64
    shapes: TileShapes


class Block(Struct):
    """A register block: its micro-kernel, A, B, C, the columns from its first one on, its rows.

    It packs its columns to `panel`, if it packs them.
    """

    function: Pointer
    a: Pointer
    b: Pointer
    c: Pointer
    rest: i64
    rows: i64
    panel: Pointer


@lru_cache(maxsize=MOST_SHARED)
def micro_kernel(variant: ProductVariant, block: MicroBlock) -> Kernel:
    """Return the function that computes a block of sums."""
    rows, columns, cell = block.rows, block.columns, cell_type(variant.factor)
    if variant.has_tiles:
        lhs, rhs = variant.operands or (variant.element, variant.element)
        tiles = ceil_div(rows, SIDE), ceil_div(columns, SIDE)
        return TileKernel(cell, (lhs.is_signed, rhs.is_signed), *tiles, variant.columns)
    if variant.is_dots:
        types = None if variant.operands is None else (*variant.operands, variant.element)
        found = shared_dots(cell, variant.lanes, rows, columns)
        return replace(found, converts=types, factors=variant.factors)
    is_along = (variant.is_dense or variant.is_complex) and not variant.packed_step
    parts = 1 + variant.is_complex
    lanes = variant.lanes * parts
    common = shared(cell, lanes, block, masked=columns % lanes > 0)
    if variant.has_panels and not block.packs_to:
        common = on_panels(common, variant.columns * parts)
    return replace(
        common,
        a_row=1 if variant.is_lhs_packed and not is_along else None,
        a_step=1 if is_along else variant.packed_step or None,
        factors=variant.factors,
        b_signed=variant.is_rhs_signed,
        begins_with_sums=variant.is_shifted,
        whole_vectors=columns // lanes,
    )
