# SPDX-License-Identifier: Apache-2.0
"""Scalar arithmetic on real or complex numbers, for emitted loops over elements of either.

A number is a tuple of one or two `Value`s. Division and absolute value scale first, so that they
overflow only if the result does (Smith's method), as C++'s `std::complex` does.
"""

from __future__ import annotations

from ingot.hlo.dtype import DType
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import F32, F64, I1, I32, I64, Type
from ingot.llvm.values import Value
from ingot.support.records import record

Number = tuple[Value, ...]
_PARTS: dict[str, tuple[Type, int]] = {
    "s32": (I32, 1), "s64": (I64, 1), "f32": (F32, 1), "f64": (F64, 1), "c64": (F32, 2),
    "c128": (F64, 2),
}  # fmt: skip


@record
class Scalars:
    """Emits arithmetic on numbers of one element type."""

    f: FunctionBuilder
    part: Type
    count: int

    @staticmethod
    def of(f: FunctionBuilder, element: DType) -> Scalars:
        """Return the arithmetic of an element type (s32, s64, f32, f64, c64, c128)."""
        return Scalars(f, *_PARTS[element.name])

    def at(self, base: Value, index: Index) -> Value:
        """Emit the address of an element."""
        f = self.f
        return f.gep(base, f.as_value(f.imul(index, self.count * self.part.bytes)))

    def load(self, base: Value, index: Index) -> Number:
        """Emit base[index]."""
        at = self.at(base, index)
        return tuple(
            self.f.load(self.part, self.f.gep(at, n, self.part)) for n in range(self.count)
        )

    def store(self, number: Number, base: Value, index: Index) -> None:
        """Emit base[index] = number."""
        at = self.at(base, index)
        for n, value in enumerate(number):
            self.f.store(value, self.f.gep(at, n, self.part))

    def constant(self, value: float) -> Number:
        """Return a real constant."""
        zero = self.f.zero(self.part)
        return (self.f.const(self.part, value), zero)[: self.count]

    def add(self, a: Number, b: Number) -> Number:
        """Emit a + b."""
        return tuple(self.f.add(x, y) for x, y in zip(a, b, strict=True))

    def subtract(self, a: Number, b: Number) -> Number:
        """Emit a - b."""
        return tuple(self.f.sub(x, y) for x, y in zip(a, b, strict=True))

    def scale(self, a: Number, real: Value) -> Number:
        """Emit a times a real number."""
        return tuple(self.f.mul(x, real) for x in a)

    def multiply(self, a: Number, b: Number) -> Number:
        """Emit a * b."""
        f = self.f
        if self.count == 1:
            return (f.mul(a[0], b[0]),)
        real = f.sub(f.mul(a[0], b[0]), f.mul(a[1], b[1]))
        return real, f.add(f.mul(a[0], b[1]), f.mul(a[1], b[0]))

    def divide(self, a: Number, b: Number) -> Number:
        """Emit a / b."""
        f = self.f
        if self.count == 1:
            return (f.div(a[0], b[0]),)
        swapped = f.fcmp("olt", f.abs(b[0]), f.abs(b[1]))
        large, little = f.select(swapped, b[1], b[0]), f.select(swapped, b[0], b[1])
        ratio = f.div(little, large)
        below = f.add(large, f.mul(little, ratio))
        first, second = f.select(swapped, a[1], a[0]), f.select(swapped, a[0], a[1])
        real = f.div(f.add(first, f.mul(second, ratio)), below)
        other = f.div(f.sub(second, f.mul(first, ratio)), below)
        # With real and imaginary part exchanged, the imaginary part comes out negated.
        return real, f.select(swapped, f.neg(other), other)

    def magnitude(self, a: Number) -> Value:
        """Emit |a|."""
        f = self.f
        if self.count == 1:
            return f.abs(a[0])
        one, other = f.abs(a[0]), f.abs(a[1])
        bigger = f.fcmp("oge", one, other)
        large, little = f.select(bigger, one, other), f.select(bigger, other, one)
        ratio = f.div(little, large)
        inside = f.add(f.const(self.part, 1.0), f.mul(ratio, ratio))
        length = f.mul(large, f.intrinsic("llvm.sqrt", self.part, [inside]))
        return f.select(f.fcmp("oeq", large, f.zero(self.part)), large, length)

    def is_zero(self, a: Number) -> Value:
        """Emit a == 0."""
        f = self.f
        found = f.const(I1, True)
        for value in a:
            found = f.and_(found, f.fcmp("oeq", value, f.zero(self.part)))
        return found
