# SPDX-License-Identifier: Apache-2.0
"""Plain products whose operands are packed ahead: `packing(env, chunk)`, then `units`.

The first phase packs the lhs into the scratch, piece of k after piece, row block after row block;
then each unit packs its columns of the rhs and streams the row blocks past them (`driver`). Tiles
have both operands packed: the rhs panel after panel, before the lhs. Each of their units walks the
panels, each past all its row blocks, which stay in the L2 cache. Their sums that wait for an
epilogue are those of a group of columns, or of a unit if there are several pieces of k. See
`kernel.product.blocks`.

Without it an lhs with dense columns takes 1.0 (512x512x512) to 1.75 times as long (1024x1024x4096),
and one with crowded rows 1.1 times where it has 2048 of them, 1.0 with 512 and 1024, and 0.9 with
128 and 256 (AVX2, one thread, 2026-11-28; `MIN_ROWS_AHEAD` was set with AVX-512).

Invariant: a chunk of packing writes its own columns of panels, or its own row blocks, and nothing
else.
"""

from __future__ import annotations

from ingot.cpu.emit.driver_records import DriverStart, first_row
from ingot.cpu.emit.product.packing import fetch_line, pack_columns, pack_line, pack_rows
from ingot.cpu.emit.product.parts import Block, Part, Products, Unit
from ingot.cpu.emit.product.register_blocks import (
    finish,
    is_in_place,
    lhs_at,
    multiply_block,
    rhs_at,
)
from ingot.kernel.product.blocks import PACK_COLUMNS
from ingot.native.functions import inlined, native
from ingot.native.pointers import Pointer, sizeof
from ingot.native.types import i64

LINES_AHEAD = 8
"""How many k ahead the lhs is fetched into the cache where it is packed across: the runs of a unit
are too short for the CPU's own prefetchers."""


@native
def packing(of: Products, env: DriverStart, chunk: i64) -> None:
    """Pack a chunk's columns, or its row blocks, of a piece of k of a matrix.

    There is nothing to pack if tiles are loaded from the lhs where it lies.
    """
    if is_in_place(of, env):
        return
    part = Part.at(env + sizeof(DriverStart))
    unit = Unit.on_stack()
    unit.env = env
    unit.part = part
    if chunk < part.rhs_chunks:
        blocks = (part.n + PACK_COLUMNS - 1) // PACK_COLUMNS
        begin_piece(unit, chunk // blocks)
        unit.column = chunk % blocks * PACK_COLUMNS
        unit.columns = min(PACK_COLUMNS, part.n - unit.column)
        pack_columns(of, unit, panels_at(of, unit), rhs_at(of, unit))
    else:
        number = chunk - part.rhs_chunks
        groups = (part.row_blocks + part.pack_blocks - 1) // part.pack_blocks
        begin_piece(unit, number // groups)
        unit.first_block = number % groups * part.pack_blocks
        unit.last_block = min(unit.first_block + part.pack_blocks, part.row_blocks)
        if of.variant.packs_along or of.variant.is_dense:
            pack_along(of, unit)
        else:
            pack_across(of, unit)


@inlined
def begin_piece(unit: Unit, number: i64) -> None:
    """Begin a piece of k: those of a matrix come one after the other."""
    part = unit.part
    unit.batch = number // pieces_of(part)
    unit.start = number % pieces_of(part) * part.k_block
    unit.depth = min(part.k_block, part.k - unit.start)


@inlined
def pieces_of(part: Part) -> i64:
    """Return the number of pieces of k."""
    return (part.k + part.k_block - 1) // part.k_block


@inlined
def piece_of(unit: Unit) -> i64:
    """Return the number of a piece of k among those of all matrices."""
    return unit.batch * pieces_of(unit.part) + unit.start // unit.part.k_block


@inlined
def panels_at(of: Products, unit: Unit) -> Pointer:
    """Return where the packed panel of a unit's first column lies in a piece of k."""
    part = unit.part
    column = piece_of(unit) * part.packed_columns + unit.column
    return unit.env.scratch + column * part.panel_depth * of.bytes


@inlined
def row_blocks_at(of: Products, unit: Unit) -> Pointer:
    """Return where the packed row blocks of a piece of k begin."""
    part = unit.part
    first = part.lhs_start + piece_of(unit) * part.row_blocks * part.packed_block
    return unit.env.scratch + first * of.bytes


@inlined
def multiply_packed(of: Products, unit: Unit) -> None:
    """Multiply a piece of k, group of columns by group, each followed by its epilogue.

    Without an epilogue all columns are one group.
    """
    part = unit.part
    first = unit.column
    rows = row_blocks_at(of, unit)
    last = first + unit.columns
    for column in range(first, last, part.group_columns):
        unit.column = column
        unit.columns = min(part.group_columns, last - column)
        multiply_group(of, unit, rows)
    unit.column = first
    unit.columns = last - first


@inlined
def multiply_group(of: Products, unit: Unit, rows: Pointer) -> None:
    """Multiply columns of a piece of k, panel by panel, row block by row block."""
    part = unit.part
    panels = panels_at(of, unit)
    block = Block.on_stack()
    for column in range(0, unit.columns, of.columns):
        block.rest = unit.columns - column
        low = part.low if block.rest >= of.columns else part.low_rest
        tall = part.tall if block.rest >= of.columns else part.tall_rest
        block.b = panels + column * part.panel_depth * of.bytes
        for number in range(unit.first_block, unit.last_block):
            row = first_row(part, number) - unit.top
            block.function = tall if number < part.tall_blocks else low
            block.rows = part.low_rows + 1 if number < part.tall_blocks else part.low_rows
            block.a = rows + number * part.packed_block * of.bytes
            block.c = unit.out + (row * part.block_row + column) * of.bytes
            multiply_block(of, unit, block)
    finish(of, unit, unit.out, unit.first_block, unit.last_block)


@inlined
def pack_along(of: Products, unit: Unit) -> None:
    """Pack row blocks of an lhs whose rows lie along k, one after the other."""
    part = unit.part
    for number in range(unit.first_block, unit.last_block):
        row = first_row(part, number)
        unit.rows = row_blocks_at(of, unit) + number * part.packed_block * of.bytes
        pack_rows(of, unit, lhs_at(of, unit, row), first_row(part, number + 1) - row)


@inlined
def pack_across(of: Products, unit: Unit) -> None:
    """Pack row blocks of the lhs, k after k, so that memory is read in long runs."""
    part = unit.part
    top = first_row(part, unit.first_block)
    blocks = row_blocks_at(of, unit)
    for k in range(unit.depth):
        source = lhs_at(of, unit, top) + k * part.lhs_step * of.bytes
        for number in range(unit.first_block, unit.last_block):
            row = first_row(part, number)
            line = source + (row - top) * of.bytes
            fetch_line(line + LINES_AHEAD * part.lhs_step * of.bytes)
            target = blocks + (number * part.packed_block + k * part.packed_lhs_row) * of.bytes
            pack_line(of, target, line, first_row(part, number + 1) - row)
