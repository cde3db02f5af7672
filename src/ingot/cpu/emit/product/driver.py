# SPDX-License-Identifier: Apache-2.0
"""The driver of plain products, a native function: `units(env, chunk)` for every size.

The numbers of a product are in env (`kernel.product.variant.ProductNumbers`), as are
the addresses of the micro-kernels: two heights, whole and masked. One driver for each variant
serves all plain products of the process. Sums go to the result, or to a tile on the stack, from
which an epilogue takes the rows of each row block, or a copy (`ProductNumbers.copied_row`).

A unit multiplies piece of k by piece, row block by row block, panel by panel. Its columns are
packed before, or by the micro-kernels of its first row block, which read them where they lie: so
memory is read while products are computed (`ProductVariant.packs_first`). The phase that packs
before the units, and the units of both operands packed, are in `packed_ahead`; packing is in
`packing`.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from ingot.cpu.emit.driver_records import DriverStart, first_row
from ingot.cpu.emit.product.packed_ahead import multiply_packed, packing, row_blocks_at
from ingot.cpu.emit.product.packing import pack_columns, pack_rows
from ingot.cpu.emit.product.parts import Block, Part, Products, Unit
from ingot.cpu.emit.product.register_blocks import (
    finish,
    is_in_place,
    lhs_at,
    multiply_block,
    result_at,
    rhs_at,
)
from ingot.cpu.emit.product.tiles import TileShapes, no_shapes, release_tiles
from ingot.native.functions import inlined, native
from ingot.native.pointers import Array, Pointer, sizeof
from ingot.native.types import i64


@native
def units(of: Products, env: DriverStart, chunk: i64) -> None:
    """Multiply a chunk of units: rows go fastest, then columns, then batch."""
    part = Part.at(env + sizeof(DriverStart))
    unit = Unit.on_stack()
    unit.env = env
    unit.part = part
    unit.tile = Array[i64].on_stack(of.tile_bytes // 8)
    unit.panels = Array[i64].on_stack(of.panels_bytes // 8)
    unit.rows = Array[i64].on_stack(of.rows_bytes // 8)
    if of.variant.has_tiles:
        unit.shapes = TileShapes.on_stack()
        no_shapes(unit.shapes)
        unit.lhs_row = 0
        if is_in_place(of, env):
            unit.lhs_row = part.lhs_row // of.variant.factors
    first = chunk * part.grain
    row: i64 = 0
    column: i64 = 0
    unit.batch = 0
    # A small product has one chunk, and no time to divide.
    if first != 0:
        row = first % part.row_units
        column = first // part.row_units % part.column_units
        unit.batch = first // part.row_units // part.column_units
    for _ in range(first, min(first + part.grain, part.units)):
        multiply_unit(of, unit, row, column)
        row += 1
        if row == part.row_units:
            row = 0
            column += 1
            if column == part.column_units:
                column = 0
                unit.batch += 1
    if of.variant.has_tiles:
        release_tiles()


@inlined
def multiply_unit(of: Products, unit: Unit, row: i64, column: i64) -> None:
    """Multiply a unit, piece of k by piece."""
    part = unit.part
    unit.first_block = row * part.unit_row_blocks
    unit.last_block = min(unit.first_block + part.unit_row_blocks, part.row_blocks)
    unit.top = first_row(part, unit.first_block)
    unit.column = column * part.n_block
    unit.columns = min(part.n_block, part.n - unit.column)
    unit.out = unit.tile
    if unit.env.epilogue is None and part.copied_row == 0:
        unit.out = result_at(of, unit, unit.top, part.out_row)
    # No products are a piece as well, which writes zeros.
    for start in range(0, max(part.k, 1), part.k_block):
        unit.start = start
        unit.depth = min(part.k_block, part.k - start)
        if of.variant.is_rhs_ahead:
            multiply_packed(of, unit)
        else:
            multiply_piece(of, unit)


@inlined
def multiply_piece(of: Products, unit: Unit) -> None:
    """Multiply a piece of k, row block by row block, each followed by its epilogue."""
    rhs = rhs_at(of, unit)
    first = unit.first_block
    if of.variant.packs_first:
        multiply_rows(of.packing, unit, first, rhs)
        first += 1
    elif of.variant.has_panels:
        pack_columns(of, unit, unit.panels, rhs)
    if of.variant.has_panels:
        rhs = unit.panels
    for number in range(first, unit.last_block):
        multiply_rows(of, unit, number, rhs)


@inlined
def multiply_rows(of: Products, unit: Unit, number: i64, rhs: Pointer) -> None:
    """Multiply a row block with the columns of a unit, panel by panel, then run its epilogue."""
    part = unit.part
    row = first_row(part, number)
    sums = unit.out + (row - unit.top) * part.block_row * of.bytes
    whole = unit.columns // of.columns * of.columns
    block = Block.on_stack()
    block.rows = first_row(part, number + 1) - row
    block.a = rows_of(of, unit, number, block.rows)
    block.rest = of.columns
    kernels = Array[Pointer].at(part + of.kernels)
    is_tall = i64(number < part.tall_blocks)
    block.function = kernels[is_tall]
    for column in range(0, whole, of.columns):
        block.c = sums + column * of.bytes
        multiply_columns(of, unit, block, rhs, column)
    if whole < unit.columns:
        block.rest = unit.columns - whole
        block.function = kernels[2 + is_tall]
        block.c = sums + whole * of.bytes
        multiply_columns(of, unit, block, rhs, whole)
    finish(of, unit, sums, number, number + 1)


@inlined
def multiply_columns(of: Products, unit: Unit, block: Block, rhs: Pointer, column: i64) -> None:
    """Compute the register block of a row block that begins at a column of the unit."""
    block.b = column_of(of, unit.part, rhs, column)
    if of.packs:
        block.panel = unit.panels + column * unit.part.panel_depth * of.bytes
    multiply_block(of, unit, block)


@inlined
def rows_of(of: Products, unit: Unit, number: i64, rows: i64) -> Pointer:
    """Return where a row block's rows of the lhs lie for its products; pack them if need be."""
    lhs = lhs_at(of, unit, first_row(unit.part, number))
    if of.variant.in_place and unit.lhs_row != 0:
        return lhs
    if of.variant.ahead:
        return row_blocks_at(of, unit) + number * unit.part.packed_block * of.bytes
    if of.variant.is_complex and unit.part.packed_lhs_row == 0:
        return lhs
    if of.packs_blocks:
        pack_rows(of, unit, lhs, rows)
        return unit.rows
    return lhs


@inlined
def column_of(of: Products, part: Part, rhs: Pointer, column: i64) -> Pointer:
    """Return where a column of the rhs begins, or its panel."""
    if of.variant.has_panels and not of.packs:
        return rhs + column * part.panel_depth * of.bytes
    if of.is_transposed:
        return rhs + column * part.rhs_step * of.rhs_bytes
    return rhs + column * of.rhs_bytes


FUNCTIONS = {"units": units}
FUNCTIONS_AHEAD = {"units": units, "packing": packing}
"""The functions of the driver, and of one that packs before its units."""
