# SPDX-License-Identifier: Apache-2.0
"""Packing of operands whose factors are multiplied in words: a word holds those of two or four k.

The lowest part is the first k's, as `MicroKernel.factors` takes them: bytes, 16-bit integers, or
the bits of bf16. Positions along k count words here, sizes of spans elements.

Invariant: the part of a last word behind the depth is zero in the rhs. In tiles both operands are
zero up to a whole step.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.cpu.emit.contraction.packing import Packer, Panels, Span
from ingot.cpu.emit.contraction.words import INTEGERS, SHIFT, WORD_BITS, add_shifts
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.squares import transpose
from ingot.emit.values.values import ValueEmitter
from ingot.kernel.expr import Expr
from ingot.kernel.product.blocks import SQUARE
from ingot.kernel.product.variant import ProductVariant
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value


class WordPacker(Packer):
    """Packs one operand. Words along k are counted from where its span begins."""

    def __init__(
        self, emitter: ValueEmitter, variant: ProductVariant, k: Span, *, is_shifted: bool = False
    ) -> None:
        """Pack words along `k` for a variant; `is_shifted`: bytes are shifted by 128."""
        total = variant.element
        super().__init__(
            emitter, total if total.is_float else INTEGERS[variant.factors], variant.lanes
        )
        self.k = k
        self.cell = lt.I32
        self.factors = variant.factors
        self.part_bits = WORD_BITS // variant.factors
        self.is_shifted = is_shifted
        self.has_tiles = variant.has_tiles
        self.left: IndexValue | None = None
        self.behind: IndexValue | None = None

    def panels(self, operand: Expr, buffer: Value, n: Span, k: Span, layout: Panels) -> None:
        """Pack columns of the rhs as `Packer.panels` does, and zeros to the depth that tiles read.

        The arguments are those of `Packer.panels`.
        """
        super().panels(operand, buffer, n, k, layout)
        if not self.has_tiles:
            return
        f, columns = self.f, layout.columns
        words = f.iceildiv(k.count, self.factors)
        end = f.imul(f.iceildiv(words, self.lanes), self.lanes)

        def panel(first: Value) -> None:
            start = f.gep(buffer, f.imul(first, layout.depth), self.cell)

            def row(number: Value) -> None:
                target = f.gep(start, f.imul(number, columns), self.cell)
                f.store(f.zero(vector(self.cell, columns)), target, self.cell.alignment)

            f.for_range(end, row, start=words)

        f.for_range(n.count, panel, step=columns)

    def transposed_rows(
        self, operand: Expr, buffer: Value, m: Span, k: Span, row_step: IndexValue
    ) -> None:
        """Pack rows of an lhs that is dense along m, in squares that registers transpose.

        Element (i, word) goes to `buffer[i * row_step + word]`; rows and words go up to a whole
        square, those behind the depth are zeros.
        """
        f = self.f
        step = SQUARE * self.factors
        whole = f.imul(f.idiv(k.count, step), step)

        def group(first: Value) -> None:
            word = f.idiv(first, self.factors)

            def square(position: Value, mask: Value | None) -> None:
                lines = list[Value]()
                for number in range(SQUARE):
                    self.emitter.names[k.axis] = f.iadd(word, number)
                    if self.behind is not None:
                        self.left = f.isub(self.behind, number * self.factors)
                    lines.append(self.evaluate(operand, m, position, SQUARE, mask))
                self.left = None
                for number, line in enumerate(transpose(f, lines)):
                    row = f.imul(f.iadd(position, number), row_step)
                    target = f.gep(buffer, f.iadd(row, word), self.cell)
                    f.store(line, target, self.cell.alignment)

            Packer.vectors(self, m.count, SQUARE, square)

        f.for_range(whole, group, step=step)
        end = f.imul(f.iceildiv(k.count, self.lanes * self.factors), self.lanes * self.factors)

        def rest(first: Value) -> None:
            self.behind = f.isub(k.count, first)
            group(first)
            self.behind = None

        f.for_range(end, rest, start=whole, step=step)

    def steps(self, k: Span, body: Callable[[Value], None]) -> None:
        """Run `body` for the words along k: whole ones, then a partial last one if there is one."""
        f = self.f
        whole = f.idiv(k.count, self.factors)
        f.for_range(whole, body)
        left = f.isub(k.count, f.imul(whole, self.factors))

        def rest() -> None:
            self.left = left
            body(f.as_value(whole))
            self.left = None

        f.if_(f.igt(left, 0), rest)

    def vectors(
        self, count: IndexValue, lanes: int, body: Callable[[Value, Value | None], None]
    ) -> None:
        """Run `body(position, mask)` for words; the mask is that of their factors."""
        f, factors = self.f, self.factors
        super().vectors(
            count,
            factors * lanes,
            lambda position, mask: body(f.as_value(f.idiv(position, factors)), mask),
        )

    def evaluate(
        self, operand: Expr, along: Span, offset: IndexValue, lanes: int, mask: Value | None
    ) -> Value:
        """Return words of elements along k, whichever axis the lanes run along."""
        f = self.f
        if along.axis == self.k.axis:
            words = self._words_along(operand, along, offset, lanes, mask)
        else:
            words = self._words_across(operand, along, offset, lanes, mask)
        if not self.is_shifted:
            return words
        return f.xor(words, f.const(words.type, int.from_bytes(bytes([SHIFT] * 4)) - (1 << 32)))

    def _words_along(
        self, operand: Expr, along: Span, offset: IndexValue, lanes: int, mask: Value | None
    ) -> Value:
        f, count = self.f, self.factors * lanes
        value = super().evaluate(operand, along, f.imul(offset, self.factors), count, mask)
        if value.type.element.is_float:
            value = f.trunc(self._part(value, 0), vector(lt.I16, count))
        return f.bitcast(value, vector(lt.I32, lanes))

    def _words_across(
        self, operand: Expr, along: Span, offset: IndexValue, lanes: int, mask: Value | None
    ) -> Value:
        f, names = self.f, self.emitter.names
        word = names[self.k.axis]
        first = f.imul(word, self.factors)
        found: Value | None = None
        for number in range(self.factors):
            at = f.iadd(first, number)
            if self.left is not None:
                at = f.imin(at, f.isub(self.k.count, 1))
            names[self.k.axis] = f.iadd(self.k.start, at)
            part = self._part(super().evaluate(operand, along, offset, lanes, mask), number)
            if self.left is not None:
                is_there = f.as_condition(f.igt(self.left, number))
                part = f.select(is_there, part, f.zero(part.type))
            found = part if found is None else f.or_(found, part)
        names[self.k.axis] = word
        assert found is not None, "a word has factors"
        return found

    def _part(self, value: Value, number: int) -> Value:
        """Return elements as part `number` of words whose other parts are zero."""
        f, wide = self.f, vector(lt.I32, value.type.lanes)
        shift = f.const(wide, self.part_bits * number)
        if value.type.element.is_float:
            # The bits of bf16 are the upper ones of f32.
            bits = f.bitcast(value, wide)
            return bits if number else f.lshr(bits, f.const(wide, self.part_bits))
        part = f.zext(value, wide)
        return f.shl(part, shift) if number else part


def emit_corrections(
    f: FunctionBuilder, variant: ProductVariant, panel: Value, words: IndexValue
) -> None:
    """Emit the first row of a packed panel: the corrections of the columns' sums for A's shift.

    Behind it lie `words` rows of words of B, bytes of four k each.
    """
    wide, columns = vector(lt.I32, variant.lanes), variant.columns
    for first in range(0, columns, variant.lanes):
        start = f.gep(panel, first, lt.I32)

        def add(word: Value, sums: list[Value], start: Value = start) -> list[Value]:
            address = f.gep(start, f.imul(f.iadd(word, 1), columns), lt.I32)
            row = f.load(wide, address, lt.I32.alignment)
            return [add_shifts(f, row, sums[0], b_signed=variant.is_rhs_signed)]

        (total,) = f.loop(0, words, 1, [f.zero(wide)], add)
        f.store(f.sub(f.zero(wide), total), start, lt.I32.alignment)
