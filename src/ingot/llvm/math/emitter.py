# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the math functions: float arithmetic over one type, exact sums and products.

`MathEmitter` wraps a `FunctionBuilder` for one scalar or vector float type, so that a math function
reads as its formula. Invariant: no fast-math flags and no intrinsics that round differently from
target to target, so a function gives the same bits for every lane count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import F32, F64, I32, I64, Type
from ingot.llvm.values import Value, const

SCALING_BITS = 512
"""Bits of the vectors that x86 scales by powers of two (AVX-512)."""

INFINITY = float("inf")
NAN = float("nan")


class MathEmitter:
    """Arithmetic over the float type of the operand, with or without a fused multiply-add."""

    __slots__ = ("bias", "builder", "has_fma", "integer", "magic", "mantissa_bits", "type")

    def __init__(self, builder: FunctionBuilder, type: Type, has_fma: bool) -> None:
        """Work on `type` (f32 or f64, any lane count) in `builder`."""
        self.builder = builder
        self.type = type
        self.has_fma = has_fma
        double = type.element is F64
        self.integer = type.with_element(I64 if double else I32)
        self.mantissa_bits = 52 if double else 23
        self.bias = 1023 if double else 127
        # Adding this rounds to an integer, which then stands in the low bits.
        self.magic = 6755399441055744.0 if double else 12582912.0

    @property
    def is_f32(self) -> bool:
        """Whether the element is f32."""
        return self.type.element is F32

    def over(self, element: Type) -> MathEmitter:
        """Return the emitter for the same lanes over another float type."""
        return MathEmitter(self.builder, self.type.with_element(element), self.has_fma)

    def pick(self, single: float, double: float) -> Value:
        """Return the constant of the element type."""
        return const(self.type, single if self.is_f32 else double)

    def c(self, value: float) -> Value:
        """Return a float constant."""
        return const(self.type, value)

    def i(self, value: int) -> Value:
        """Return an integer constant of the float's width."""
        return const(self.integer, value)

    def add(self, a: Value, b: Value) -> Value:
        """Return a + b."""
        return self.builder.add(a, b, "")

    def sub(self, a: Value, b: Value) -> Value:
        """Return a - b."""
        return self.builder.sub(a, b, "")

    def mul(self, a: Value, b: Value) -> Value:
        """Return a * b."""
        return self.builder.mul(a, b, "")

    def div(self, a: Value, b: Value) -> Value:
        """Return a / b."""
        return self.builder.div(a, b, "")

    def fma(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c: fused where the target has it, else rounded twice."""
        if self.has_fma:
            return self.builder.fma(a, b, c)
        return self.add(self.mul(a, b), c)

    def fma_once(self, a: Value, b: Value, c: Value) -> Value:
        """Return a * b + c rounded once, or hardly more where the target has no FMA."""
        if self.has_fma:
            return self.builder.fma(a, b, c)
        product, product_low = self.two_product(a, b)
        total, low = self.two_sum(product, c)
        return self.add(total, self.add(low, product_low))

    def neg(self, a: Value) -> Value:
        """Return -a."""
        return self.builder.neg(a)

    def abs(self, a: Value) -> Value:
        """Return |a|."""
        return self.builder.abs(a)

    def sqrt(self, a: Value) -> Value:
        """Return the square root, correctly rounded."""
        return self.builder.intrinsic("llvm.sqrt", self.type, [a])

    def copysign(self, a: Value, sign: Value) -> Value:
        """Return |a| with the sign of `sign`."""
        return self.builder.intrinsic("llvm.copysign", self.type, [a, sign])

    def compare(self, predicate: str, a: Value, b: Value | float) -> Value:
        """Compare; a Python number is a constant."""
        return self.builder.fcmp(predicate, a, b if isinstance(b, Value) else self.c(b))

    def select(self, condition: Value, a: Value | float, b: Value | float) -> Value:
        """Choose per lane; Python numbers are constants."""
        left = a if isinstance(a, Value) else self.c(a)
        return self.builder.select(condition, left, b if isinstance(b, Value) else self.c(b))

    def unless_all(self, ordinary: Value, result: Value, otherwise: Callable[[], Value]) -> Value:
        """Return `result` where all lanes are ordinary, else `otherwise`, in a branch rarely taken.

        `otherwise` must give the ordinary lanes the same bits.
        """
        rare = self.builder.reduce("or", self.builder.not_(ordinary))
        (found,) = self.builder.if_(rare, lambda: [otherwise()], otherwise=[result], likely=False)
        return found

    def clamp(self, a: Value, low: float, high: float) -> Value:
        """Return a between `low` and `high`; NaN stays NaN."""
        return self.at_least(self.at_most(a, high), low)

    def at_most(self, a: Value, high: float) -> Value:
        """Return the smaller; NaN stays NaN."""
        return self.select(self.compare("ogt", a, high), high, a)

    def at_least(self, a: Value, low: float) -> Value:
        """Return the larger; NaN stays NaN."""
        return self.select(self.compare("olt", a, low), low, a)

    def bits(self, a: Value) -> Value:
        """Return the float's bits as an integer."""
        return self.builder.bitcast(a, self.integer)

    def from_bits(self, a: Value) -> Value:
        """Return the float with these bits."""
        return self.builder.bitcast(a, self.type)

    def power_of_two(self, exponent: Value) -> Value:
        """Return 2^exponent for an integer within the normal range."""
        builder = self.builder
        biased = builder.add(exponent, self.i(self.bias))
        return self.from_bits(builder.shl(biased, self.i(self.mantissa_bits)))

    @property
    def has_scaling(self) -> bool:
        """Whether a product with a power of two, of any exponent, is one instruction."""
        module = self.builder.module
        return module.architecture == "x86" and module.vector_bits >= SCALING_BITS

    def scaled(self, a: Value, exponent: Value) -> Value:
        """Return a * 2^exponent, rounded once, where the target `has_scaling`."""
        return self.builder.intrinsic("llvm.ldexp", self.type, [a, exponent])

    def integer_to_float(self, a: Value) -> Value:
        """Return a small integer (below 2^22, 2^51) as a float, without a conversion op."""
        magic = self.c(self.magic)
        # AVX2 has no i64 conversion: adding to the magic number's bits is one op on every target.
        return self.sub(self.from_bits(self.builder.add(a, self.bits(magic))), magic)

    def round_product(self, a: Value, factor: float) -> tuple[Value, Value]:
        """Return (n, k): n = a * factor rounded to an integer, as a float and as an integer."""
        magic = self.c(self.magic)
        shifted = self.fma(a, self.c(factor), magic)
        integer = self.builder.sub(self.bits(shifted), self.bits(magic))
        return self.sub(shifted, magic), integer

    def polynomial(self, x: Value, coefficients: Sequence[float]) -> Value:
        """Return the polynomial with `coefficients`, lowest power first (Horner)."""
        result = self.c(coefficients[-1])
        for item in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.c(item))
        return result

    def two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return (s, e) with s + e = a + b exactly and s the rounded sum (Knuth)."""
        total = self.add(a, b)
        part = self.sub(total, a)
        error = self.add(self.sub(a, self.sub(total, part)), self.sub(b, part))
        return total, error

    def fast_two_sum(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return what `two_sum` does, given |a| >= |b| (Dekker)."""
        total = self.add(a, b)
        return total, self.sub(b, self.sub(total, a))

    def two_product(self, a: Value, b: Value) -> tuple[Value, Value]:
        """Return (p, e) with p + e = a * b exactly: by FMA, or by splitting (|a|, |b| < 2^996)."""
        product = self.mul(a, b)
        if self.has_fma:
            return product, self.builder.fma(a, b, self.neg(product))
        a_high, a_low = self._split(a)
        b_high, b_low = self._split(b)
        error = self.sub(self.mul(a_high, b_high), product)
        error = self.add(error, self.mul(a_high, b_low))
        error = self.add(error, self.mul(a_low, b_high))
        return product, self.add(error, self.mul(a_low, b_low))

    def quotient(
        self, numerator: tuple[Value, Value | None], denominator: tuple[Value, Value]
    ) -> Value:
        """Return the quotient of two unevaluated sums (high, low): one division, one correction."""
        (high, low), (total, lost) = numerator, denominator
        inverse = self.div(self.c(1.0), total)
        first = self.mul(high, inverse)
        product, error = self.two_product(first, total)
        rest = self.sub(self.sub(high, product), self.fma(first, lost, error))
        if low is not None:
            rest = self.add(rest, low)
        return self.fma(rest, inverse, first)

    def _split(self, a: Value) -> tuple[Value, Value]:
        scaled = self.mul(a, self.pick(4097.0, 134217729.0))
        high = self.sub(scaled, self.sub(scaled, a))
        return high, self.sub(a, high)
