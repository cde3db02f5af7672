# SPDX-License-Identifier: Apache-2.0
"""Plain products whose operands are both packed ahead: `packing(env, chunk)`, then `units`.

The first phase packs the whole rhs into the scratch, piece of k after piece, panel after panel. In
the second each unit packs its rows of the lhs beside each other on its stack, where they stay in
the L2 cache, and walks the panels, each past all its rows. See `kernel.contraction.product_blocks`.

Sums that wait for an epilogue are all those of a unit.

Without it an lhs with dense columns takes 1.0 (512x512x512) to 1.75 times as long (1024x1024x4096),
and one with crowded rows 1.1 times where it has 2048 of them, 1.0 with 512 and 1024, and 0.9 with
128 and 256 (AVX2, one thread, 2026-11-28; `MIN_ROWS_AHEAD` was set with AVX-512).

Invariant: a chunk of packing writes its own columns of panels and nothing else.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.product_blocks import (
    finish,
    lhs_at,
    multiply_block,
    rhs_at,
)
from ingot.cpu.emit.contraction.product_packing import (
    fetch_line,
    pack_columns,
    pack_line,
    pack_rows,
)
from ingot.cpu.emit.contraction.product_parts import Block, Part, Products, Unit
from ingot.cpu.emit.driver_records import DriverStart, first_row
from ingot.kernel.contraction.product_blocks import PACK_COLUMNS
from ingot.native.functions import inlined, native
from ingot.native.pointers import Pointer, sizeof
from ingot.native.types import i64

LINES_AHEAD = 8
"""How many k ahead the lhs is fetched into the cache where it is packed across: the runs of a unit
are too short for the CPU's own prefetchers."""


@native
def packing(of: Products, env: DriverStart, chunk: i64) -> None:
    """Pack a chunk's columns of a piece of k of a matrix."""
    part = Part.at(env + sizeof(DriverStart))
    unit = Unit.on_stack()
    unit.env = env
    unit.part = part
    blocks = (part.n + PACK_COLUMNS - 1) // PACK_COLUMNS
    piece = chunk // blocks
    unit.batch = piece // pieces_of(part)
    unit.start = piece % pieces_of(part) * part.k_block
    unit.depth = min(part.k_block, part.k - unit.start)
    unit.column = chunk % blocks * PACK_COLUMNS
    unit.columns = min(PACK_COLUMNS, part.n - unit.column)
    pack_columns(of, unit, panels_at(of, unit), rhs_at(of, unit))


@inlined
def pieces_of(part: Part) -> i64:
    """Return how many pieces of k there are."""
    return (part.k + part.k_block - 1) // part.k_block


@inlined
def panels_at(of: Products, unit: Unit) -> Pointer:
    """Return where the packed panel of a unit's first column lies in a piece of k."""
    part = unit.part
    piece = unit.batch * pieces_of(part) + unit.start // part.k_block
    column = piece * part.packed_columns + unit.column
    return unit.env.scratch + column * part.panel_depth * of.bytes


@inlined
def multiply_packed(of: Products, unit: Unit) -> None:
    """Multiply a piece of k, panel by panel, row block by row block; then call the epilogue."""
    part = unit.part
    if of.variant.packs_along:
        rows = first_row(part, unit.last_block) - unit.top
        pack_rows(of, unit, lhs_at(of, unit, unit.top), rows)
    else:
        pack_across(of, unit)
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
            block.a = unit.rows + packed_row(of, unit, number) * part.packed_lhs_row * of.bytes
            block.c = unit.out + (row * part.block_row + column) * of.bytes
            multiply_block(of, unit, block)
    finish(unit, unit.out, unit.first_block, unit.last_block)


@inlined
def packed_row(of: Products, unit: Unit, block: i64) -> i64:
    """Return the first packed row of a row block: rows along k, or a row for each k."""
    if of.variant.packs_along:
        return first_row(unit.part, block) - unit.top
    return (block - unit.first_block) * unit.depth


@inlined
def pack_across(of: Products, unit: Unit) -> None:
    """Pack the unit's rows of the lhs, k after k, so that memory is read in long runs."""
    part = unit.part
    for k in range(unit.depth):
        source = lhs_at(of, unit, unit.top) + k * part.lhs_step * of.bytes
        for number in range(unit.first_block, unit.last_block):
            row = first_row(part, number)
            line = source + (row - unit.top) * of.bytes
            packed = packed_row(of, unit, number) + k
            fetch_line(line + LINES_AHEAD * part.lhs_step * of.bytes)
            target = unit.rows + packed * part.packed_lhs_row * of.bytes
            pack_line(of, target, line, first_row(part, number + 1) - row)
