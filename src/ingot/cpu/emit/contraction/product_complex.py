# SPDX-License-Identifier: Apache-2.0
"""Drivers of products of complex matrices: real products of their parts in memory.

A complex matrix [m, k] lies in memory as a real one, [m, 2k], both parts of a number beside each
other. So does the product, where each row of the rhs is packed twice: as it is, and times i.

    [ar ai] [[br bi] [-bi br]]  =  [ar br - ai bi,  ar bi + ai br]

Sizes, steps and addresses count complex numbers; micro-kernels count their parts.

Invariant: as in `product`; it does the work of four products of parts, and adds in their order.
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import Packer, Panels, Span
from ingot.cpu.emit.contraction.product import emit_units
from ingot.cpu.emit.contraction.product_both import BothPacked
from ingot.cpu.emit.contraction.product_parts import Piece
from ingot.emit.values.types import part_type
from ingot.kernel.contraction.product_variant import ProductVariant
from ingot.kernel.contraction.schedule import PACK_BYTES
from ingot.kernel.expr import Expr
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value


def emit_complex_driver(module: ModuleBuilder, symbol: str, variant: ProductVariant) -> None:
    """Emit the driver of a variant of products of complex matrices."""
    emit_units(_Complex(module, symbol, variant))


class _Complex(BothPacked):
    """Emits the function."""

    PACKED_BYTES = 2 * PACK_BYTES

    @property
    def lhs_row(self) -> Value:
        packed = self.given["packed_lhs_row"]
        return self.f.select(self._is_in_place, self.given["lhs_row"], packed)

    @property
    def _is_in_place(self) -> Value:
        """Whether rows of the lhs are read where they lie."""
        return self.f.icmp("eq", self.given["packed_lhs_row"], self.f.const(lt.I64, 0))

    def rows(self, piece: Piece, row: Value, rows: Value) -> Value:
        f = self.f
        found = f.if_(
            self._is_in_place,
            lambda: [self.at(piece.lhs, (row, self.given["lhs_row"]))],
            lambda: [super(_Complex, self).rows(piece, row, rows)],
        )
        return found[0]

    def lhs_steps(self, lhs_row: Value) -> tuple[Value, ...]:
        return (self.cells(lhs_row),)

    def depth(self, piece: Piece) -> Value:
        return self.cells(piece.depth)

    def packer(self, k: Span) -> Packer:
        del k
        return _RowsTwice(self.emitter, self.variant.element, self.variant.lanes)

    def cells(self, count: Value) -> Value:
        return self.f.shl(count, self.f.const(lt.I64, 1))


class _RowsTwice(Packer):
    """Packs each row of the rhs twice; rows of the lhs as they are."""

    def panels(
        self,
        operand: Expr,
        buffer: Value,
        n: Span,
        k: Span,
        layout: Panels,
    ) -> None:
        """Pack as `Packer.panels` does, with rows `2 k` and `2 k + 1` for each k."""
        f, emitter = self.f, self.emitter
        lanes, columns, depth = self.lanes, layout.columns, layout.depth

        def line(number: Value) -> None:
            emitter.names[k.axis] = f.iadd(k.start, number)

            def at(position: Value, mask: Value | None) -> None:
                # An operand's row is read whole, past all panels.
                row = f.iadd(f.imul(f.idiv(position, columns), depth), f.imul(number, 2))
                index = f.iadd(f.imul(row, columns), f.irem(position, columns))
                value = self.evaluate(operand, n, position, lanes, mask)
                target = f.gep(buffer, index, self.cell)
                f.store(value, target, self.cell.alignment)
                f.store(self._times_i(value), f.gep(target, columns, self.cell), 8)

            self.vectors(n.count, lanes, at)

        f.for_range(k.count, line)

    def _times_i(self, value: Value) -> Value:
        """Return complex numbers times i, as their parts: the imaginary part's negative first."""
        f, lanes = self.f, value.type.lanes
        parts = f.bitcast(value, vector(part_type(value), 2 * lanes))
        order = [item for lane in range(0, 2 * lanes, 2) for item in (lane + 1, 2 * lanes + lane)]
        return f.shuffle(f.neg(parts), parts, order)
