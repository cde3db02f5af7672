# SPDX-License-Identifier: Apache-2.0
"""Keys of selections: s32 numbers whose signed order is that of the elements of a type.

Part of `topk`. Invariant: `back` gives the element of a key, bit for bit.
"""

from __future__ import annotations

from ingot.emit.values.types import memory_type
from ingot.hlo.dtype import DType
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import Value
from ingot.support.records import record


@record
class Keys:
    """Emits the keys of one element type: s32 numbers whose order is that of the result.

    Floats are in total order: a negative one's lower bits are inverted, a float of as many
    bits read as an integer.
    """

    f: FunctionBuilder
    element: DType
    largest: bool

    def of(self, bits: Value) -> Value:
        """Return the keys of elements as they lie in memory (as integers)."""
        f = self.f
        key = self._ordered(bits)
        if key.type.element is not lt.I32:
            key = f.sext(key, vector(lt.I32, key.type.lanes))
        return key if self.largest else f.not_(key)

    def back(self, key: Value) -> Value:
        """Return the element of a key, as an integer of its width."""
        f = self.f
        key = key if self.largest else f.not_(key)
        width = self.bits_type()
        return self._ordered(key if width is lt.I32 else f.trunc(key, width))

    def bits_type(self) -> lt.Type:
        """Return the integer type of an element's width."""
        return lt.I32 if self.element.bits == 32 else memory_type(self.element)

    def _ordered(self, bits: Value) -> Value:
        return in_signed_order(self.f, bits, self.element)


def in_signed_order(f: FunctionBuilder, bits: Value, element: DType) -> Value:
    """Return the bits of numbers as integers in signed order, or such integers as bits.

    It is its own inverse. Floats are in total order.

    Args:
        f: the function.
        bits: integers, as wide as the numbers are there: those of a bf16 may be those of an f32.
        element: the type of the numbers.
    """
    if element.is_signed:
        return bits
    width = bits.type.element.bits
    if not element.is_float:
        return f.xor(bits, f.const(bits.type, -(1 << (width - 1))))
    sign = f.ashr(bits, f.const(bits.type, width - 1))
    return f.xor(bits, f.and_(sign, f.const(bits.type, (1 << (width - 1)) - 1)))
