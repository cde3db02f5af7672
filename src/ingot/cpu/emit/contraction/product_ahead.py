# SPDX-License-Identifier: Apache-2.0
"""Drivers of plain products whose operands are both packed: two functions, packing and products.

The first phase packs the whole rhs into the scratch, piece of k after piece, panel after panel. In
the second each unit packs its rows of the lhs beside each other on its stack, where they stay in
the L2 cache, and walks the panels, each past all its rows. See `kernel.contraction.product_blocks`.

Sums that wait for an epilogue are all those of a unit.

Without it an lhs with dense columns takes 1.0 (512x512x512) to 1.75 times as long (1024x1024x4096),
and one with crowded rows 1.1 times where it has 2048 of them, 1.0 with 512 and 1024, and 0.9 with
128 and 256 (AVX2, one thread, 2026-11-28; `MIN_ROWS_AHEAD` was set with AVX-512).

Invariant: as in `product`; a chunk of packing writes its own columns of panels and nothing else.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.microkernel import fetch
from ingot.cpu.emit.contraction.packing import Packer, Span
from ingot.cpu.emit.contraction.product import ProductDriver, emit_units
from ingot.cpu.emit.contraction.product_parts import Piece
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.contraction.product_blocks import LHS_BYTES, PACK_COLUMNS, UNIT_TILE_BYTES
from ingot.kernel.contraction.product_variant import ProductVariant
from ingot.kernel.expr import Access
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value

PACKING = "_packing"
"""Suffix of the function that packs."""

LINES_AHEAD = 8
"""How many k ahead the lhs is fetched into the cache where it is packed across: the runs of a unit
are too short for the CPU's own prefetchers."""


def emit_driver_ahead(module: ModuleBuilder, symbol: str, variant: ProductVariant) -> None:
    """Emit the two functions of a variant of products of packed operands."""
    packing = _Ahead(module, symbol + PACKING, variant)
    packing.pack_chunk()
    packing.f.ret()
    emit_units(_Ahead(module, symbol, variant))


class _Ahead(ProductDriver):
    """Emits one of the two functions."""

    TILE_BYTES = UNIT_TILE_BYTES

    def room_for_panels(self) -> Value:
        return self.env.scratch

    def _panels_at(self, batch: Value, start: Value, column: Value) -> Value:
        """Return where the panel of a column lies, in the piece of k that begins at `start`."""
        f, given = self.f, self.given
        piece = f.as_value(f.iadd(f.imul(batch, self._pieces()), f.idiv(start, given["k_block"])))
        first = f.add(f.mul(piece, given["packed_columns"]), column)
        return self.at(self.env.scratch, (first, given["panel_depth"]))

    def _pieces(self) -> Value:
        """Return how many pieces of k there are."""
        return self.f.as_value(self.f.iceildiv(self.given["k"], self.given["k_block"]))

    def pack_chunk(self) -> None:
        """Emit the packing of one chunk's columns of one piece of k of a matrix."""
        f, given = self.f, self.given
        width = f.const(lt.I64, PACK_COLUMNS)
        blocks = f.as_value(f.iceildiv(given["n"], width))
        piece, pieces = f.as_value(f.idiv(self.chunk, blocks)), self._pieces()
        batch = f.as_value(f.idiv(piece, pieces))
        start = f.mul(f.as_value(f.irem(piece, pieces)), given["k_block"])
        column = f.mul(f.as_value(f.irem(self.chunk, blocks)), width)
        first = ((batch, given["rhs_batch"]), (column, self.rhs_column), (start, self.rhs_row))
        columns = self.up_to(column, width, given["n"])
        depth = self.up_to(start, given["k_block"], given["k"])
        panels = self._panels_at(batch, start, column)
        self.pack(self.at(self.env.rhs, *first), panels, columns, depth)

    def lhs_steps(self, lhs_row: Value) -> tuple[Value, ...]:
        """Return the one step: rows packed across have step 1; the given step goes from k to k."""
        return (lhs_row,)

    def piece(self, piece: Piece) -> None:
        """Emit the products of one piece of k: panel by panel, row block by row block."""
        f, given = self.f, self.given
        top = self.first_row(piece.rows[0])
        room = f.alloca(self.cell, LHS_BYTES // self.cell.bytes, 64)
        pack = self._pack_rows if self.variant.is_dense else self._pack_across
        pack(piece, top, room)
        panels = self._panels_at(piece.batch, piece.start, piece.column)

        def panel(first: Value) -> None:
            rest = f.as_value(f.isub(piece.columns, first))
            is_whole = f.icmp("sge", rest, f.const(lt.I64, self.columns))
            low = f.select(is_whole, self.micro["low"], self.micro["low_rest"])
            tall = f.select(is_whole, self.micro["tall"], self.micro["tall_rest"])
            rhs = self.at(panels, (first, given["panel_depth"]))

            def row_block(number: Value) -> None:
                run = f.select(f.icmp("slt", number, given["tall_blocks"]), tall, low)
                row = f.sub(self.first_row(number), top)
                rows = self._packed(room, piece, number, row)
                target = f.gep(self.at(piece.out, (row, given["block_row"])), first, self.cell)
                self.run(run, piece, (rows, rhs, target), given["packed_lhs_row"], rest)

            f.for_range(piece.rows[1], row_block, start=piece.rows[0], at_least_once=True)

        f.for_range(piece.columns, panel, step=self.columns, at_least_once=True)
        self.finish(piece, piece.out, *piece.rows)

    def _packed(self, room: Value, piece: Piece, number: Value, row: Value) -> Value:
        """Return where a row block's rows lie among the unit's packed ones."""
        f = self.f
        if self.variant.is_dense:
            return self.at(room, (row, self.given["packed_lhs_row"]))
        size = f.mul(piece.depth, self.given["packed_lhs_row"])
        return self.at(room, (f.sub(number, piece.rows[0]), size))

    def _pack_rows(self, piece: Piece, top: Value, room: Value) -> None:
        """Emit the packing of the unit's rows of the lhs, one after the other."""
        f, given = self.f, self.given
        self.emitter.buffers[0] = self.at(piece.lhs, (top, given["lhs_row"]))
        m, k = Span("@m", 0, f.sub(self.first_row(piece.rows[1]), top)), Span("@k", 0, piece.depth)
        index = Dim.symbol("@m") * Dim.symbol("lhs_row") + Dim.symbol("@k")
        operand = ex.make("load", self.variant.element, (), Access(0, index))
        packer = Packer(self.emitter, self.variant.element, self.variant.lanes)
        packer.rows(operand, room, m, k, given["packed_lhs_row"])

    def _pack_across(self, piece: Piece, top: Value, room: Value) -> None:
        """Emit the packing of the unit's rows, k after k, so that memory is read in long runs."""
        f, given = self.f, self.given
        packer = Packer(self.emitter, self.variant.element, self.variant.lanes)
        index = Dim.symbol("@m") + Dim.symbol("@k") * Dim.symbol("lhs_step")
        operand = ex.make("load", self.variant.element, (), Access(0, index))
        self.emitter.buffers[0] = self.at(piece.lhs, (top, given["lhs_row"]))

        def line(k: Value) -> None:
            self.emitter.names["@k"] = k
            start = self.at(room, (k, given["packed_lhs_row"]))
            later = f.as_value(f.iadd(k, LINES_AHEAD))
            ahead = self.at(self.emitter.buffers[0], (later, given["lhs_step"]))

            def row_block(number: Value) -> None:
                row = self.first_row(number)
                rows = f.sub(self.first_row(f.as_value(f.iadd(number, 1))), row)
                span = Span("@m", f.sub(row, top), rows)
                target = self._packed(start, piece, number, row)

                fetch(f, f.gep(ahead, f.sub(row, top), self.cell))

                def at(position: Value, mask: Value | None) -> None:
                    value = packer.evaluate(operand, span, position, self.variant.lanes, mask)
                    f.store(value, f.gep(target, position, self.cell), self.cell.alignment)

                packer.vectors(rows, self.variant.lanes, at)

            f.for_range(piece.rows[1], row_block, start=piece.rows[0], at_least_once=True)

        f.for_range(piece.depth, line)
