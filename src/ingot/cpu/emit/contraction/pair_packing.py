# SPDX-License-Identifier: Apache-2.0
"""Packing of operands whose factors are multiplied in pairs: a word holds those of two k.

The lower half is the even k's, as `MicroKernel.is_of_pairs` takes them: 16-bit integers, or the
bits of bf16. Positions along k count words here, sizes of spans elements.

Invariant: where the depth is odd, the last word's upper half is zero in both operands.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.cpu.emit.contraction.packing import Packer, Span
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.values import ValueEmitter
from ingot.hlo.dtype import DType
from ingot.kernel.expr import Expr
from ingot.llvm import types as lt
from ingot.llvm.types import vector
from ingot.llvm.values import Value

HALF = 16
"""Bits of a factor."""


class PairPacker(Packer):
    """Packs one operand; its spans along k begin at 0."""

    def __init__(self, emitter: ValueEmitter, accumulate: DType, lanes: int, k: Span) -> None:
        """Pack pairs along `k`."""
        super().__init__(emitter, accumulate, lanes)
        self.k = k
        self.cell = lt.I32

    def depth(self, k: Span) -> IndexValue:
        """Return how many words there are along k."""
        return self.f.iceildiv(k.count, 2)

    def vectors(
        self, count: IndexValue, lanes: int, body: Callable[[Value, Value | None], None]
    ) -> None:
        """Run `body(position, mask)` for words; the mask is that of their halves."""
        f = self.f
        super().vectors(
            count, 2 * lanes, lambda position, mask: body(f.as_value(f.idiv(position, 2)), mask)
        )

    def evaluate(
        self, operand: Expr, along: Span, offset: IndexValue, lanes: int, mask: Value | None
    ) -> Value:
        """Return words: two elements along k each, whichever axis the lanes run along."""
        f = self.f
        if along.axis == self.k.axis:
            value = super().evaluate(operand, along, f.imul(offset, 2), 2 * lanes, mask)
            halves = f.trunc(self._upper(value, shifted=True), vector(lt.I16, 2 * lanes))
            return f.bitcast(halves, vector(lt.I32, lanes))
        names = self.emitter.names
        word = names[self.k.axis]
        first = f.imul(word, 2)
        second = f.iadd(first, 1)

        def half(number: IndexValue) -> Value:
            names[self.k.axis] = number
            return super(PairPacker, self).evaluate(operand, along, offset, lanes, mask)

        low = half(first)
        is_there = f.as_condition(f.ilt(second, self.k.count))
        high = half(f.imin(second, f.isub(self.k.count, 1)))
        names[self.k.axis] = word
        mask_low = f.const(vector(lt.I32, lanes), (1 << HALF) - 1)
        low = f.and_(self._upper(low, shifted=True), mask_low)
        high = self._upper(high, shifted=False)
        return f.or_(low, f.select(is_there, high, f.zero(high.type)))

    def _upper(self, value: Value, *, shifted: bool) -> Value:
        """Return elements as halves of words: the lower ones if they are shifted."""
        f, wide = self.f, vector(lt.I32, value.type.lanes)
        shift = f.const(wide, HALF)
        if value.type.element.is_float:
            bits = f.bitcast(value, wide)
            return f.lshr(bits, shift) if shifted else bits
        return value if shifted else f.shl(value, shift)
