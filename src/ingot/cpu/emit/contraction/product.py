# SPDX-License-Identifier: Apache-2.0
"""The driver of plain products: `void product(ptr env, i64 chunk)` for every size.

Constants of a contraction kernel are parameters here (`product_variant.PARAMETERS`), loaded from
env, as are the addresses of the micro-kernels: two heights, whole and masked. One driver for each
element type and placement of the rhs serves all plain products of the process. Drivers that pack
both operands are in `product_ahead` and `product_both`. Sums go to the result, or to a tile on the
stack, from which an epilogue takes the rows of each row block.

Invariant: a unit writes its own elements of the result and nothing else.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import Packer, Panels, Span, cell_type
from ingot.cpu.emit.contraction.product_parts import MICRO_KERNELS, Piece, micro_kernel
from ingot.cpu.emit.drivers import DriverEmitter, open_driver
from ingot.cpu.emit.kernel_abi import units_of_chunk
from ingot.emit.values.types import memory_type
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.contraction.product_variant import PARAMETERS, ProductVariant
from ingot.kernel.contraction.schedule import PACK_BYTES
from ingot.kernel.contraction.unit_blocks import TILE_BYTES
from ingot.kernel.expr import Access, Expr
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value

MAX_EPILOGUE_LANES = 128
"""Lanes of sums that an epilogue may read behind the last one."""


def emit_product_driver(module: ModuleBuilder, symbol: str, variant: ProductVariant) -> None:
    """Emit the driver of a variant of products."""
    emit_units(ProductDriver(module, symbol, variant))


def emit_units(driver: ProductDriver) -> None:
    """Emit the function of a driver that runs a chunk's units."""
    f, given = driver.f, driver.given
    first, last = units_of_chunk(f, driver.chunk, given["grain"], given["units"])

    def first_unit() -> list[Value]:
        others = f.idiv(first, given["row_units"])
        unit = (
            f.irem(first, given["row_units"]),
            f.irem(others, given["column_units"]),
            f.idiv(others, given["column_units"]),
        )
        return [f.as_value(item) for item in unit]

    # A small product has one chunk, and no time to divide.
    origin = [f.const(lt.I64, 0)] * 3
    start = f.if_(f.icmp("eq", first, origin[0]), lambda: origin, first_unit)

    def one(_: Value, unit: list[Value]) -> list[Value]:
        row, column, batch = unit
        driver.unit(row, column, batch)
        zero = f.const(lt.I64, 0)
        following = f.add(row, f.const(lt.I64, 1))
        is_first = f.icmp("eq", following, given["row_units"])
        next_column = f.add(column, f.zext(is_first, lt.I64))
        is_next = f.icmp("eq", next_column, given["column_units"])
        return [
            f.select(is_first, zero, following),
            f.select(is_next, zero, next_column),
            f.add(batch, f.zext(is_next, lt.I64)),
        ]

    f.loop(first, last, 1, start, one)
    f.ret()


class ProductDriver(DriverEmitter):
    """Emits one function of a driver; `given` are its parameters."""

    TILE_BYTES = TILE_BYTES
    """Bytes of the sums that wait for an epilogue."""

    PACKED_BYTES = PACK_BYTES
    """Bytes of what a unit packs of an operand."""

    def __init__(self, module: ModuleBuilder, symbol: str, variant: ProductVariant) -> None:
        """Open the function `void symbol(ptr env, i64 chunk)`."""
        f, env = open_driver(module, symbol, PARAMETERS, len(MICRO_KERNELS))
        super().__init__(f, env, cell_type(variant.element))
        self.chunk = env.chunk
        self.micro = dict(zip(MICRO_KERNELS, self.env.micro_kernels, strict=True))
        self.emitter = ValueEmitter(f, {}, self.given, fma=True)
        self.variant = variant
        types = variant.operands or (variant.element, variant.element)
        self.lhs_cell, self.rhs_cell = map(memory_type, types)
        self.columns = variant.columns
        self.signature = [type_ for _, type_ in micro_kernel(variant, 1, variant.columns).params]
        one = f.const(lt.I64, 1)
        step = self.given["rhs_step"]
        self.rhs_column, self.rhs_row = {
            "transposed": (step, one),
            "dots": (step, one),
            "gathered": (self.given["rhs_column"], step),
        }.get(variant.rhs, (one, step))
        self.panels = self.room_for_panels()

    def room_for_panels(self) -> Value | None:
        """Emit the room where a unit packs its columns of the rhs, if it does."""
        size = self.PACKED_BYTES // self.cell.bytes
        return self.f.alloca(self.cell, size, 64) if self.variant.has_panels else None

    def unit(self, row_unit: Value, column_unit: Value, batch: Value) -> None:
        """Emit a unit; rows go fastest, then columns, then batch."""
        f, given, env = self.f, self.given, self.env
        column = f.mul(column_unit, given["n_block"])
        first = f.mul(row_unit, given["unit_row_blocks"])
        last = f.as_value(f.imin(f.iadd(first, given["unit_row_blocks"]), given["row_blocks"]))
        columns = self.up_to(column, given["n_block"], given["n"])
        lhs = self.at(env.lhs, (batch, given["lhs_batch"]), cell=self.lhs_cell)
        columns_at = (column, self.rhs_column)
        rhs = self.at(env.rhs, (batch, given["rhs_batch"]), columns_at, cell=self.rhs_cell)
        steps = ((batch, given["out_batch"]), (self.first_row(first), given["out_row"]))
        result = f.gep(self.at(env.result, *steps), column, self.cell)
        size = self.TILE_BYTES // self.cell.bytes + self.columns + MAX_EPILOGUE_LANES
        tile = f.alloca(self.cell, size, 64)
        out = f.select(env.is_plain(f), result, tile)

        def piece(start: Value) -> None:
            following = f.add(start, given["k_block"])
            self.piece(
                Piece(
                    self.at(lhs, (start, given["lhs_step"]), cell=self.lhs_cell),
                    self.at(rhs, (start, self.rhs_row), cell=self.rhs_cell),
                    out,
                    start,
                    self.up_to(start, given["k_block"], given["k"]),
                    batch,
                    (first, last),
                    column,
                    columns,
                    f.as_condition(f.igt(start, 0)),
                    f.icmp("sge", following, given["k"]),
                )
            )

        f.for_range(given["k"], piece, step=given["k_block"], at_least_once=True)

    def up_to(self, start: Value, count: Value, end: Value) -> Value:
        """Return how many of `count` positions from `start` on lie before `end`."""
        return self.f.as_value(self.f.isub(self.f.imin(self.f.iadd(start, count), end), start))

    def piece(self, piece: Piece) -> None:
        """Emit the products of one piece of k: row block by row block, panel by panel."""
        f, given = self.f, self.given
        rhs = piece.rhs
        top = self.first_row(piece.rows[0])
        if self.panels is not None:
            self.pack(piece.rhs, self.panels, piece.columns, piece.depth)
            rhs = self.panels
        whole = f.as_value(f.imul(f.idiv(piece.columns, self.columns), self.columns))

        def row_block(number: Value) -> None:
            is_tall = f.icmp("slt", number, given["tall_blocks"])
            row = self.first_row(number)
            lhs = self.rows(piece, row, f.add(given["low_rows"], f.zext(is_tall, lt.I64)))
            out = self.at(piece.out, (f.sub(row, top), given["block_row"]))
            run = f.select(is_tall, self.micro["tall"], self.micro["low"])

            def block(first: Value, run: Value, rest: Value) -> None:
                target = f.gep(out, first, self.cell)
                self.run(run, piece, (lhs, self._panel(rhs, first), target), self.lhs_row, rest)

            f.for_range(whole, lambda at: block(at, run, f.const(lt.I64, 0)), step=self.columns)

            def rest() -> None:
                masked = f.select(is_tall, self.micro["tall_rest"], self.micro["low_rest"])
                block(whole, masked, f.sub(piece.columns, whole))

            f.if_(f.icmp("slt", whole, piece.columns), rest)
            self.finish(piece, out, number, f.as_value(f.iadd(number, 1)))

        f.for_range(piece.rows[1], row_block, start=piece.rows[0], at_least_once=True)

    @property
    def lhs_row(self) -> Value:
        """The step from row to row of the lhs, where it is multiplied."""
        return self.given["lhs_row"]

    def rows(self, piece: Piece, row: Value, rows: Value) -> Value:
        """Return the address of a row block's rows of the lhs."""
        del rows
        return self.at(piece.lhs, (row, self.given["lhs_row"]), cell=self.lhs_cell)

    def finish(self, piece: Piece, sums: Value, first: Value, last: Value) -> None:
        """Emit the epilogue of some row blocks, if their sums are whole."""
        f, row = self.f, self.first_row(first)
        rows = f.sub(self.first_row(last), row)
        block = [piece.batch, row, rows, f.const(lt.I64, 1), piece.column, piece.columns]
        f.if_(piece.is_last, lambda: self.env.finish(f, sums, block))

    def run(
        self,
        function: Value,
        piece: Piece,
        addresses: tuple[Value, Value, Value],
        lhs_row: Value,
        rest: Value,
    ) -> None:
        """Call a micro-kernel on one register block; `rest` columns of it, if it is masked."""
        given = self.given
        if self.variant.is_dots:
            rhs_row = given["panel_depth" if self.variant.has_panels else "rhs_step"]
            args = [*addresses, piece.depth, lhs_row, rhs_row, given["out_row"]]
        else:
            rhs_steps = () if self.variant.has_panels else (given["rhs_step"],)
            strides = (*self.lhs_steps(lhs_row), *rhs_steps, self.cells(given["out_row"]))
            rest = self.cells(rest)
            args = [*addresses, self.depth(piece), piece.accumulate, rest, *strides]
        self.f.call_indirect(function, lt.VOID, self.signature, args)

    def cells(self, count: Value) -> Value:
        """Return a count of elements as its micro-kernels count them."""
        return count

    def lhs_steps(self, lhs_row: Value) -> tuple[Value, ...]:
        """Return the steps of the lhs that its micro-kernels take."""
        return (lhs_row,) if self.variant.is_dense else (lhs_row, self.given["lhs_step"])

    def depth(self, piece: Piece) -> Value:
        """Return how many products, or pairs of them, a piece has."""
        return piece.depth

    def _panel(self, rhs: Value, first: Value) -> Value:
        """Return the address of the panel whose first column is `first`."""
        if self.panels is None:
            return self.at(rhs, (first, self.rhs_column), cell=self.rhs_cell)
        return self.at(rhs, (first, self.given["panel_depth"]))

    def pack(self, rhs: Value, panels: Value, columns: Value, depth: Value) -> None:
        """Emit the packing of columns of the rhs."""
        self.emitter.buffers[0] = rhs
        n, k = Span("@n", 0, columns), Span("@k", 0, depth)
        if self.variant.is_dots:
            self.packer(k).rows(self._operand(), panels, n, k, self.given["panel_depth"])
            return
        is_transposed = self.variant.rhs == "transposed"
        variant = Panels(self.columns, self.given["panel_depth"], is_transposed)
        self.packer(k).panels(self._operand(), panels, n, k, variant)

    def packer(self, k: Span) -> Packer:
        """Return what packs operands."""
        del k
        return Packer(self.emitter, self.variant.element, self.variant.lanes)

    def _operand(self) -> Expr:
        step, n, k = (Dim.symbol(name) for name in ("rhs_step", "@n", "@k"))
        index = n * step + k if self.variant.rhs == "transposed" else k * step + n
        if self.variant.rhs == "gathered":
            index = k * step + n * Dim.symbol("rhs_column")
        element = (
            self.variant.element if self.variant.operands is None else self.variant.operands[1]
        )
        return ex.make("load", element, (), Access(0, index))
