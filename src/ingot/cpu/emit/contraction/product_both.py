# SPDX-License-Identifier: Apache-2.0
"""Drivers of plain products that pack both operands in each unit: operands not of the sums' type.

Packing converts, and puts the factors of several k side by side if they are multiplied in words.
One side of a product of bytes is unsigned and the other signed. If both have one sign, the lhs is
shifted by 128, and each panel of the rhs begins with a row that corrects its columns. A unit packs
its columns of the rhs for each piece of k, then the rows of each row block in turn, just before the
micro-kernels read them.

Code of the kernel's own takes 3.4 to 8 times as long for bytes and 16-bit integers. For bf16 and
f16 it takes 0.99 to 1.2 times as long, and is compiled with each program; an f32 lhs, which it
reads in place, it multiplies in 0.9 of the time (AVX2, one thread, 2026-11-28).

Invariant: as in `product`.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import Packer, Span
from ingot.cpu.emit.contraction.product import ProductDriver, emit_units
from ingot.cpu.emit.contraction.product_parts import Piece
from ingot.cpu.emit.contraction.word_packing import WordPacker, emit_corrections
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.contraction.product_variant import ProductVariant
from ingot.kernel.contraction.schedule import MAX_COLUMNS
from ingot.kernel.expr import Access
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.values import Value


def emit_driver_both(module: ModuleBuilder, symbol: str, variant: ProductVariant) -> None:
    """Emit the driver of a variant of products whose operands are both packed by each unit."""
    emit_units(BothPacked(module, symbol, variant))


class BothPacked(ProductDriver):
    """Emits the function."""

    def __init__(self, module: ModuleBuilder, symbol: str, variant: ProductVariant) -> None:
        super().__init__(module, symbol, variant)
        assert variant.operands is not None, "operands of the sums' type are not packed by units"
        self.types = variant.operands
        self.room = self.f.alloca(self.cell, self.PACKED_BYTES // self.cell.bytes, 64)

    @property
    def lhs_row(self) -> Value:
        """The step from row to row of the packed lhs, or from k to k."""
        return self.given["packed_lhs_row"]

    def lhs_steps(self, lhs_row: Value) -> tuple[Value, ...]:
        """Return the one step: rows packed across have step 1; the given step goes from k to k."""
        return (lhs_row,)

    def depth(self, piece: Piece) -> Value:
        """Return the packed elements along k."""
        return self._words(piece.depth)

    def _words(self, depth: Value) -> Value:
        factors = self.variant.factors
        return self.f.as_value(self.f.iceildiv(depth, factors)) if factors > 1 else depth

    def packer(self, k: Span) -> Packer:
        """Return what packs the rhs: converted, or in words."""
        return self._packer(k, is_shifted=False)

    def _packer(self, k: Span, *, is_shifted: bool) -> Packer:
        variant = self.variant
        if variant.factors == 1:
            return super().packer(k)
        return WordPacker(self.emitter, variant, k, is_shifted=is_shifted)

    def room_for_panels(self) -> Value | None:
        """Emit the memory of the panels, with their first rows, if they have any."""
        if not self.variant.has_panels:
            return None
        size = self.PACKED_BYTES // self.cell.bytes + MAX_COLUMNS * self.variant.is_shifted
        return self.f.alloca(self.cell, size, 64)

    def pack(self, rhs: Value, panels: Value, columns: Value, depth: Value) -> None:
        """Emit the packing of columns of the rhs, and what its panels begin with."""
        f, variant = self.f, self.variant
        if not variant.is_shifted:
            super().pack(rhs, panels, columns, depth)
            return
        super().pack(rhs, f.gep(panels, self.columns, self.cell), columns, depth)
        words = self._words(depth)

        def panel(first: Value) -> None:
            start = self.at(panels, (first, self.given["panel_depth"]))
            emit_corrections(f, variant, start, words)

        f.for_range(columns, panel, step=self.columns)

    def rows(self, piece: Piece, row: Value, rows: Value) -> Value:
        """Emit the packing of a row block's rows; return their address."""
        variant = self.variant
        first = (row, self.given["lhs_row"])
        self.emitter.buffers[0] = self.at(piece.lhs, first, cell=self.lhs_cell)
        m, k = Span("@m", 0, rows), Span("@k", 0, piece.depth)
        i, step = Dim.symbol("@m"), Dim.symbol("@k")
        if variant.is_dense:
            index = i * Dim.symbol("lhs_row") + step
        elif variant.is_complex:
            index = i * Dim.symbol("lhs_row") + step * Dim.symbol("lhs_step")
        else:
            index = step * Dim.symbol("lhs_step") + i
        operand = ex.make("load", self.types[0], (), Access(0, index))
        is_along = variant.is_dense or variant.is_complex
        packer = self._packer(k, is_shifted=variant.is_shifted)
        pack = packer.rows if is_along else packer.across
        pack(operand, self.room, m, k, self.lhs_row)
        return self.room
