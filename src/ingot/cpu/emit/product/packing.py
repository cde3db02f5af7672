# SPDX-License-Identifier: Apache-2.0
"""Packing of the operands of plain products, as vectors.

Packing converts, and puts the factors of several k side by side if they are multiplied in words.
One side of a product of bytes is unsigned and the other signed. If both have one sign, the lhs is
shifted by 128, and each panel of the rhs begins with a row that corrects its columns.

A complex matrix [m, k] lies in memory as a real one, [m, 2k], both parts of a number beside each
other. So does the product, where each row of the rhs is packed twice: as it is, and times i.

    [ar ai] [[br bi] [-bi br]]  =  [ar br - ai bi,  ar bi + ai br]

Sizes, steps and addresses count complex numbers; micro-kernels count their parts.

Units that convert pack the rows of each row block just before the micro-kernels read them. Code of
the kernel's own takes 3.4 to 8 times as long for bytes and 16-bit integers. For bf16 and f16 it
takes 0.99 to 1.2 times as long, and is compiled with each program; an f32 lhs, which it reads in
place, it multiplies in 0.9 of the time (AVX2, one thread, 2026-11-28).
"""

from __future__ import annotations

from ingot.cpu.emit.contraction.packing import Packer, Panels, Span
from ingot.cpu.emit.product.parts import Part, Products, Unit
from ingot.cpu.emit.product.word_packing import WordPacker, emit_corrections
from ingot.emit.values.types import part_type
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import DType
from ingot.kernel import expr as ex
from ingot.kernel.expr import Access, Expr
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.native.functions import Vectors
from ingot.native.pointers import Pointer
from ingot.native.types import i64

STEPS = ("lhs_row", "lhs_step", "rhs_step", "rhs_column", "packed_lhs_row", "panel_depth")
"""Numbers that operands are read and packed by."""


class _Packing:
    """Emits packing in a function that has a unit.

    Attributes:
        depth, columns: the unit's.
        steps: numbers of the product.
    """

    def __init__(self, f: FunctionBuilder, of: Products, unit: Value) -> None:
        self.f, self.of, self.variant = f, of, of.variant
        part, self.depth, self.columns = (
            Unit.c_layout.load(f, unit, name) for name in ("part", "depth", "columns")
        )
        self.steps = {name: Part.c_layout.load(f, part, name) for name in STEPS}
        self.emitter = ValueEmitter(f, {}, dict(self.steps), fma=True)

    def operand(self, dtype: DType, index: int | Dim, address: Value) -> Expr:
        """Return the element of an operand in the memory at an address."""
        self.emitter.buffers[0] = address
        return ex.make("load", dtype, (), Access(0, index))

    def packer(self, k: Span, *, is_lhs: bool) -> Packer:
        """Return what packs an operand: as it is, converted, or in words."""
        variant = self.variant
        if self.of.packs_words:
            is_shifted = is_lhs and self.of.is_shifted
            return WordPacker(self.emitter, variant, k, is_shifted=is_shifted)
        kind = _RowsTwice if variant.is_complex else Packer
        return kind(self.emitter, variant.element, variant.lanes)

    def columns_of_rhs(self, target: Value, source: Value) -> None:
        """Emit the packing of the unit's columns: panels, or columns of dot products."""
        f, of, variant = self.f, self.of, self.variant
        step, n, k = (Dim.symbol(name) for name in ("rhs_step", "@n", "@k"))
        index = n * step + k if variant.rhs == "transposed" else k * step + n
        if of.is_gathered:
            index = k * step + n * Dim.symbol("rhs_column")
        operand = self.operand(of.operands[1], index, source)
        span, along = Span("@n", 0, self.columns), Span("@k", 0, self.depth)
        packer, depth = self.packer(along, is_lhs=False), self.steps["panel_depth"]
        if variant.is_dots:
            packer.rows(operand, target, span, along, depth)
            return
        panels = target
        if of.is_shifted:
            panels = f.gep(target, variant.columns, of.cell)
        layout = Panels(variant.columns, depth, of.is_transposed)
        packer.panels(operand, panels, span, along, layout)
        if of.is_shifted:
            self._correct(target)

    def _correct(self, panels: Value) -> None:
        """Emit the first rows of panels."""
        f, variant = self.f, self.variant
        words = f.as_value(f.iceildiv(self.depth, variant.factors))

        def panel(first: Value) -> None:
            start = f.gep(panels, f.mul(first, self.steps["panel_depth"]), self.of.cell)
            emit_corrections(f, variant, start, words)

        f.for_range(self.columns, panel, step=variant.columns)

    def rows_of_lhs(self, target: Value, source: Value, rows: Value) -> None:
        """Emit the packing of rows: along k, or across it."""
        variant = self.variant
        m, k = Span("@m", 0, rows), Span("@k", 0, self.depth)
        row, i, step = Dim.symbol("lhs_row"), Dim.symbol("@m"), Dim.symbol("@k")
        index = step * Dim.symbol("lhs_step") + i
        if variant.is_dense or variant.is_complex:
            index = i * row + (step if variant.is_dense else step * Dim.symbol("lhs_step"))
        operand = self.operand(self.of.operands[0], index, source)
        packer = self.packer(k, is_lhs=True)
        if variant.packed_step:
            layout = Panels(variant.packed_step, self.depth, is_transposed=True)
            packer.panels(operand, target, m, k, layout)
            return
        if variant.is_dense or variant.is_complex:
            pack = packer.rows
        elif variant.packs_along:
            pack = WordPacker(self.emitter, variant, k).transposed_rows
        else:
            pack = packer.across
        pack(operand, target, m, k, self.steps["packed_lhs_row"])


class _RowsTwice(Packer):
    """Packs each row of the rhs twice; rows of the lhs as they are."""

    def panels(self, operand: Expr, buffer: Value, n: Span, k: Span, layout: Panels) -> None:
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


@Vectors[[Products, Unit, Pointer, Pointer], None]
def pack_columns(
    f: FunctionBuilder, of: Products, unit: Value, target: Value, source: Value
) -> None:
    """Pack the columns of a unit in a piece of k, which begin at `source`."""
    _Packing(f, of, unit).columns_of_rhs(target, source)


@Vectors[[Products, Unit, Pointer, i64], None]
def pack_rows(f: FunctionBuilder, of: Products, unit: Value, source: Value, rows: Value) -> None:
    """Pack rows of the lhs in a piece of k, which begin at `source`, to `unit.rows`."""
    target = Unit.c_layout.load(f, unit, "rows")
    _Packing(f, of, unit).rows_of_lhs(target, source, rows)


@Vectors[[Products, Pointer, Pointer, i64], None]
def pack_line(f: FunctionBuilder, of: Products, target: Value, source: Value, rows: Value) -> None:
    """Pack the elements of some rows at one k, which lie side by side."""
    emitter = ValueEmitter(f, {}, {}, fma=True)
    emitter.buffers[0] = source
    packer = Packer(emitter, of.variant.element, of.variant.lanes)
    operand = ex.make("load", of.variant.element, (), Access(0, Dim.symbol("@m")))

    def at(position: Value, mask: Value | None) -> None:
        span = Span("@m", 0, rows)
        value = packer.evaluate(operand, span, position, of.variant.lanes, mask)
        f.store(value, f.gep(target, position, of.cell), of.cell.alignment)

    packer.vectors(rows, of.variant.lanes, at)


fetch_line = Vectors[[Pointer], None](FunctionBuilder.prefetch)
"""Fetches a line of memory into the L1 cache."""
