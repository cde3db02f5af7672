# SPDX-License-Identifier: Apache-2.0
"""What the drivers of plain products share: pieces of k, and micro-kernels.

Below `product` and the drivers that pack both operands. Invariant: a micro-kernel depends on the
variant of its products and the shape of its register block alone.
"""

from __future__ import annotations

from functools import lru_cache

from ingot.cpu.emit.contraction.dot_products import DotProducts, shared_dots
from ingot.cpu.emit.contraction.microkernel import (
    FAR_ROWS_AHEAD,
    MOST_SHARED,
    MicroKernel,
    on_panels,
    shared,
)
from ingot.cpu.emit.contraction.packing import cell_type
from ingot.kernel.contraction.product_variant import ProductVariant
from ingot.kernel.contraction.register_block import narrow_lanes
from ingot.llvm.values import Value
from ingot.support.records import record, replace

MICRO_KERNELS = ("low", "tall", "low_rest", "tall_rest")
"""Slots of micro-kernels behind the parameters; `rest`: columns behind the whole blocks."""


@lru_cache(maxsize=MOST_SHARED)
def micro_kernel(variant: ProductVariant, rows: int, columns: int) -> MicroKernel | DotProducts:
    """Return the function that computes register blocks of `rows` and `columns`."""
    if variant.is_dots:
        types = None if variant.operands is None else (*variant.operands, variant.element)
        found = shared_dots(cell_type(variant.element), variant.lanes, rows, columns)
        return replace(found, converts=types, factors=variant.factors)
    is_along = variant.is_dense or variant.is_complex
    parts = 2 if variant.is_complex else 1
    cell, vectors, rest = (
        cell_type(variant.factor),
        -(-columns // variant.lanes),
        columns % variant.lanes,
    )
    common = shared(cell, variant.lanes * parts, rows, vectors, masked=rest > 0)
    if variant.has_panels:
        common = on_panels(common, variant.columns * parts)
    elif variant.fetches:
        common = replace(common, rows_ahead=FAR_ROWS_AHEAD)
    return replace(
        common,
        a_row=1 if variant.is_lhs_packed and not is_along else None,
        a_step=1 if is_along else None,
        factors=variant.factors,
        b_signed=variant.is_rhs_signed,
        begins_with_sums=variant.is_shifted,
        whole_vectors=columns // variant.lanes,
        tail_lanes=narrow_lanes(variant.lanes * parts, columns * parts, rows),
    )


@record
class Piece:
    """A piece of k of a unit.

    Attributes:
        lhs, rhs, out: first elements of the operands and the sums; the lhs begins with the matrix's
            first row, the sums with the unit's, the rhs and the sums with its first column.
        start, depth: where the piece begins, and how many products it has.
        batch: number of the matrix.
        rows: numbers of the first row block, and of the first behind.
        column, columns: first column, and how many there are.
        accumulate: whether `out` holds the sums of the pieces before.
        is_last: whether no piece follows.
    """

    lhs: Value
    rhs: Value
    out: Value
    start: Value
    depth: Value
    batch: Value
    rows: tuple[Value, Value]
    column: Value
    columns: Value
    accumulate: Value
    is_last: Value
