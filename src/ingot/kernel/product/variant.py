# SPDX-License-Identifier: Apache-2.0
"""Variants of plain products: what a driver's code depends on, and the numbers that it takes.

`kernel.product.product` chooses both; `cpu.emit.product.driver` and its siblings emit the
drivers.

Invariant: a variant's name says all that its code depends on, so equal names are equal code.
"""

from __future__ import annotations

from typing import Literal

from ingot.analysis.library import VECTORS
from ingot.hlo.dtype import REAL_OF, DType
from ingot.kernel.contraction.micro_blocks import (
    L2_ROWS_AHEAD,
    PACKED_AHEAD,
    BlockMaker,
    MicroBlock,
)
from ingot.kernel.contraction.register_block import narrow_lanes
from ingot.kernel.driver_parameters import RowBlocks
from ingot.native.types import i64
from ingot.support.records import record, replace

WORD_BYTES = 4
"""Bytes of a word of factors: as wide as the sum of their products."""

WORDS = {2: "pairs", WORD_BYTES: "quads"}
"""Names of words, by how many factors they hold."""

MIN_WORD_LANES = 4
"""Lanes of the narrowest vectors of words."""

Placement = Literal["direct", "packed", "transposed", "gathered", "dots", "packed dots"]
"""How the rhs is read: see `ContractionSchedule`; a complex one may have no dense axis."""


class ProductNumbers(RowBlocks, is_constant=True):
    """Numbers of a product.

    `rhs_step` goes from k to k, or from n to n in a transposed rhs; `rhs_column` from n to n.
    `out_row` goes from row to row of sums in a row block, `block_row` from row block to row block,
    for each row (0 where an epilogue takes each row block's sums before the next). Where
    `copied_row` is not 0, sums wait on the stack, and are copied to rows of the result that are so
    far apart. A unit has `unit_row_blocks` row blocks and `n_block` columns. Rows of a packed lhs
    are `packed_lhs_row` elements apart, or the elements of each k if it is packed across.

    Where both operands are packed ahead, an epilogue takes the sums of `group_columns` columns at a
    time. Each piece of k has `packed_columns` columns in whole panels, and row blocks of
    `packed_block` elements, from element `lhs_start` of the scratch on. The first `rhs_chunks`
    chunks pack the rhs; others pack `pack_blocks` row blocks each.
    """

    lhs_batch: i64
    rhs_batch: i64
    out_batch: i64
    lhs_row: i64
    lhs_step: i64
    rhs_step: i64
    rhs_column: i64
    out_row: i64
    block_row: i64
    copied_row: i64
    n: i64
    k: i64
    n_block: i64
    k_block: i64
    panel_depth: i64
    unit_row_blocks: i64
    row_units: i64
    column_units: i64
    units: i64
    grain: i64
    packed_lhs_row: i64
    group_columns: i64
    packed_columns: i64
    packed_block: i64
    lhs_start: i64
    rhs_chunks: i64
    pack_blocks: i64


@record
class ProductVariant:
    """The properties that products must share to use one driver.

    Attributes:
        element: type of the sums, integers signed.
        lanes: lanes of one vector.
        rhs: how the rhs is read.
        is_dense: whether the lhs has step 1 along k.
        vectors: vectors of a row of register blocks; columns of dot products.
        ahead: whether the lhs is packed by a phase of its own (tiles: both operands, unless they
            are read in place).
        operands: types of lhs and rhs where they are packed and not of the sums' type.
        factors: how many factors a packed word holds: two of 16 bits, or four of 8.
        has_tiles: whether words are multiplied in tiles (`kernel.product.tiles`).
        in_place: whether tiles are loaded from the lhs where it lies, if it begins with a line of
            memory; it is packed if it does not.
        rows, depth: sizes of matrices that one register block holds; 0: any sizes.
        has_rest: whether the columns of those do not fill it.
        fetches: whether few rows meet an rhs in place that no cache keeps.
        packs_first: whether the first row block of a unit packs its columns as it multiplies them.
        packed_step: elements of each k of an lhs that is packed ahead k after k, else 0.
    """

    element: DType
    lanes: int
    rhs: Placement
    is_dense: bool
    vectors: int = VECTORS
    ahead: bool = False
    operands: tuple[DType, DType] | None = None
    factors: int = 1
    has_tiles: bool = False
    in_place: bool = False
    rows: int = 0
    depth: int = 0
    has_rest: bool = False
    fetches: bool = False
    packs_first: bool = False
    packed_step: int = 0

    @property
    def name(self) -> str:
        """A name that says all of it."""
        words = [f"{self.element.name}x{self.lanes}x{self.vectors}"]
        words += ["dense" if self.is_dense else "across", self.rhs.replace(" ", "_")]
        words += [f"ahead{self.packed_step or ''}"] * self.ahead + ["fetching"] * self.fetches
        words += ["first"] * self.packs_first
        words += [] if self.operands is None else [item.name for item in self.operands]
        words += [WORDS[self.factors]] if self.factors > 1 else []
        words += ["tiles"] * self.has_tiles + ["in_place"] * self.in_place
        if self.rows:
            words += [f"{self.rows}x{self.depth}" + "masked" * self.has_rest]
        return "_".join(words)

    @property
    def is_rhs_signed(self) -> bool:
        """Whether the factors of the rhs are signed."""
        return self.operands is None or self.operands[1].is_signed

    @property
    def is_shifted(self) -> bool:
        """Whether bytes of the lhs are shifted by 128: one side is unsigned, the other signed.

        Tiles have an instruction for each pair of signs.
        """
        lhs, rhs = self.operands or (self.element, self.element)
        has_quads = self.factors == WORD_BYTES and not self.has_tiles
        return has_quads and lhs.is_signed == rhs.is_signed

    @property
    def is_rhs_ahead(self) -> bool:
        """Whether the rhs is packed by that phase too, else by units."""
        return self.ahead and self.has_tiles and not self.in_place

    @property
    def packs_along(self) -> bool:
        """Whether a packed lhs has its rows along k."""
        return not self.packed_step and (self.is_dense or self.is_complex or self.has_tiles)

    @property
    def is_lhs_packed(self) -> bool:
        """Whether micro-kernels read rows of the lhs that a unit has packed."""
        return self.ahead or self.operands is not None

    @property
    def is_complex(self) -> bool:
        """Whether the numbers are complex; lanes and columns count them."""
        return self.element.is_complex

    @property
    def has_panels(self) -> bool:
        """Whether the rhs is packed into panels as wide as a register block."""
        return self.rhs not in ("direct", "dots")

    @property
    def is_dots(self) -> bool:
        """Whether sums are dot products, lanes along k; then panels are columns."""
        return self.rhs in ("dots", "packed dots")

    @property
    def factor(self) -> DType:
        """Type of the sums of micro-kernels: those of parts, if numbers are complex."""
        return REAL_OF.get(self.element, self.element)

    def block(self, rows: int, columns: int, *, packs: bool = False) -> MicroBlock:
        """Return the block of `rows` and `columns`; complex numbers count as two each.

        `packs`: whether it reads the rhs where it lies, and packs it.
        """
        if self.is_dots or self.has_tiles:
            return MicroBlock(rows, columns, columns, is_shared=True)
        parts = 1 + self.is_complex
        panel = self.columns * parts if self.has_panels else None
        lanes, columns = self.lanes * parts, columns * parts
        found = BlockMaker(self.factor, lanes, panel, factors=self.factors).block(rows, columns)
        tail = narrow_lanes(lanes, columns, rows)
        is_narrow = tail >= MIN_WORD_LANES or self.factors == 1
        found = replace(found, tail_lanes=tail if is_narrow else 0)
        if packs:
            return replace(found, packs_to=self.columns, rows_ahead=PACKED_AHEAD, is_far=True)
        if self.rows:
            return replace(found, rows_ahead=0)
        if self.has_panels and self.packed_step:
            return replace(found, rows_ahead=0, fetches_next=True)
        return replace(found, rows_ahead=L2_ROWS_AHEAD, is_far=True) if self.fetches else found

    @property
    def columns(self) -> int:
        """Columns of a whole register block."""
        return self.vectors if self.is_dots else self.vectors * self.lanes
