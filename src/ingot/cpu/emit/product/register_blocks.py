# SPDX-License-Identifier: Apache-2.0
"""Register blocks of a unit of plain products: where they lie, micro-kernels, the epilogue."""

from __future__ import annotations

from ingot.cpu.emit.driver_records import DriverStart, first_row
from ingot.cpu.emit.product.parts import Block, Part, Products, Unit, micro_kernel
from ingot.cpu.emit.product.tiles import shape_tiles
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.machine_model import LINE_BYTES
from ingot.llvm.values import Value
from ingot.native.functions import Vectors, inlined
from ingot.native.operations import address_of, memcpy
from ingot.native.pointers import Pointer, sizeof
from ingot.native.types import i64

ARGUMENTS = ("function", "a", "b", "c", "rest")
"""The fields of a block that are passed to a micro-kernel: its own address first."""


@inlined
def lhs_at(of: Products, unit: Unit, row: i64) -> Pointer:
    """Return where a row of the lhs begins in a piece of k."""
    part = unit.part
    index = unit.batch * part.lhs_batch + row * part.lhs_row + unit.start * part.lhs_step
    return unit.env.lhs + index * of.lhs_bytes


@inlined
def is_in_place(of: Products, env: DriverStart) -> bool:
    """Return whether tiles are loaded from the lhs where it lies: from whole lines of memory."""
    return of.variant.in_place and address_of(env.lhs) % LINE_BYTES == 0


@inlined
def rhs_at(of: Products, unit: Unit) -> Pointer:
    """Return where a unit's first column of the rhs begins in a piece of k."""
    part = unit.part
    rhs = unit.env.rhs + unit.batch * part.rhs_batch * of.rhs_bytes
    if of.is_transposed:
        return rhs + (unit.column * part.rhs_step + unit.start) * of.rhs_bytes
    if of.is_gathered:
        return rhs + (unit.column * part.rhs_column + unit.start * part.rhs_step) * of.rhs_bytes
    return rhs + (unit.column + unit.start * part.rhs_step) * of.rhs_bytes


@inlined
def result_at(of: Products, unit: Unit, row: i64, step: i64) -> Pointer:
    """Return where the sums of a row of a unit go in the result, whose rows are `step` apart."""
    index = unit.batch * unit.part.out_batch + row * step + unit.column
    return unit.env.result + index * of.bytes


@inlined
def finish(of: Products, unit: Unit, sums: Pointer, block: i64, last_block: i64) -> None:
    """Call the epilogue, or copy sums that wait, for row blocks `block` to `last_block` of `unit`.

    Only the last piece of k does: before that, `sums` are not complete.
    """
    part = unit.part
    epilogue = unit.env.epilogue
    if unit.start + part.k_block >= part.k:
        row = first_row(part, block)
        rows = first_row(part, last_block) - row
        if epilogue is not None:
            behind = part + sizeof(Part)
            epilogue(behind, sums, unit.batch, row, rows, 1, unit.column, unit.columns)
        elif part.copied_row != 0:
            target = result_at(of, unit, row, part.copied_row)
            for number in range(0, rows):
                source = sums + number * part.out_row * of.bytes
                to = target + number * part.copied_row * of.bytes
                memcpy(to, source, unit.columns * of.bytes)


@Vectors[[Products, Unit, Block], None]
def call_kernel(f: FunctionBuilder, of: Products, unit: Value, block: Value) -> None:
    """Call the micro-kernel of a register block."""
    variant = of.variant
    part, depth, start = (Unit.c_layout.load(f, unit, name) for name in ("part", "depth", "start"))
    function, a, b, c, rest = (Block.c_layout.load(f, block, name) for name in ARGUMENTS)

    def number(name: str) -> Value:
        return f.load(lt.I64, Part.c_layout.address(f, part, name), invariant=True)

    def parts(count: Value) -> Value:
        """Return a count of elements as micro-kernels count them: complex ones have two parts."""
        return f.shl(count, f.const(lt.I64, 1)) if variant.is_complex else count

    lhs_row = number("packed_lhs_row" if variant.is_lhs_packed else "lhs_row")
    if variant.in_place:
        in_place = Unit.c_layout.load(f, unit, "lhs_row")
        lhs_row = f.select(f.icmp("eq", in_place, f.const(lt.I64, 0)), lhs_row, in_place)
    if variant.is_dots:
        rhs_row = number("panel_depth" if variant.has_panels else "rhs_step")
        arguments = [a, b, c, depth, number("lhs_row"), rhs_row, number("out_row")]
    else:
        if variant.is_complex:
            is_in_place = f.icmp("eq", lhs_row, f.const(lt.I64, 0))
            lhs_row = f.select(is_in_place, number("lhs_row"), lhs_row)
        steps = [] if variant.packed_step else [parts(lhs_row)]
        if not variant.is_lhs_packed and not variant.is_dense:
            steps.append(number("lhs_step"))
        if of.packs or not variant.has_panels:
            steps.append(number("rhs_step"))
        if variant.factors > 1:
            depth = f.as_value(f.iceildiv(depth, variant.factors))
        goes_on = f.icmp("sgt", start, f.const(lt.I64, 0))
        steps.append(parts(number("out_row")))
        if of.packs:
            steps.append(Block.c_layout.load(f, block, "panel"))
        arguments = [a, b, c, parts(depth), goes_on, parts(rest), *steps]
    any_height = micro_kernel(variant, variant.block(1, variant.columns, packs=of.packs))
    signature = [type_ for _, type_ in any_height.params]
    f.call_indirect(function, lt.VOID, signature, arguments)


@inlined
def multiply_block(of: Products, unit: Unit, block: Block) -> None:
    """Compute a register block."""
    if of.variant.has_tiles:
        shape_tiles(unit.shapes, block.rows, min(block.rest, of.columns))
    call_kernel(of, unit, block)
