# SPDX-License-Identifier: Apache-2.0
"""The vocabulary of the math functions: float arithmetic over one type, exact sums and products.

`MathEmitter` wraps a `FunctionBuilder` for one scalar or vector float type, so that a math function
reads as its formula. Invariant: no contracted op and no intrinsic that rounds differently from
target to target, so a function gives the same bits for every lane count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import F32, F64, I1, I8, I16, I32, I64, Type, vector
from ingot.llvm.values import Value, const

SCALING_BITS = 512
"""Bits of the vectors that x86 scales by powers of two (AVX-512)."""

_AVX512 = "llvm.x86.avx512"
_ROUND_AS_SET = 4
"""The operand of AVX-512's instructions that leaves rounding as it is."""

_ALL_CLASSES = 0xFF
"""What VFPCLASS tells apart: NaNs, zeros, infinities, denormals, negative numbers."""

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
        # Adding this rounds to an integer, which is then in the low bits.
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
        return const(self.type, self.single_or_double(single, double))

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number that is not denormal."""
        return 2.0 ** (1 - self.bias)

    def single_or_double(self, single: float, double: float) -> float:
        """Return the number for the element type."""
        return single if self.is_f32 else double

    def c(self, value: float) -> Value:
        """Return a float constant."""
        return const(self.type, value)

    def i(self, value: int) -> Value:
        """Return an integer constant of the float's width."""
        return const(self.integer, value)

    def add(self, a: Value, b: Value) -> Value:
        """Return a + b."""
        return self.builder.add(a, b)

    def sub(self, a: Value, b: Value) -> Value:
        """Return a - b."""
        return self.builder.sub(a, b)

    def mul(self, a: Value, b: Value) -> Value:
        """Return a * b."""
        return self.builder.mul(a, b)

    def div(self, a: Value, b: Value) -> Value:
        """Return a / b."""
        return self.builder.div(a, b)

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

    @property
    def makes_denormals_slowly(self) -> bool:
        """Whether an instruction that makes a denormal, or underflows to zero, is slow.

        Where a product with any power of two is one instruction, no denormal is made anyway.
        """
        return self.builder.module.architecture == "x86" and not self.has_scaling

    def scaled(self, a: Value, exponent: Value) -> Value:
        """Return a * 2^exponent, a whole number, rounded once; only where target `has_scaling`."""
        kind, bits = ("ps", I16) if self.is_f32 else ("pd", I8)

        def scale(register: Type, values: Sequence[Value]) -> Value:
            everywhere = const(bits, (1 << register.lanes) - 1)
            args = [*values, self.builder.zero(register), everywhere, const(I32, _ROUND_AS_SET)]
            return self.builder.intrinsic(f"{_AVX512}.mask.scalef.{kind}.512", register, args)

        return self._by_register(scale, a, exponent)

    def is_positive_normal(self, a: Value) -> Value:
        """Whether each lane is positive and neither denormal nor infinite."""
        if self.has_scaling:
            kind = "ps" if self.is_f32 else "pd"

            def other(register: Type, values: Sequence[Value]) -> Value:
                args = [*values, const(I32, _ALL_CLASSES)]
                mask = register.with_element(I1)
                return self.builder.intrinsic(f"{_AVX512}.fpclass.{kind}.512", mask, args)

            return self.builder.not_(self._by_register(other, a))
        finite = self.compare("olt", a, INFINITY)
        return self.builder.and_(self.compare("oge", a, self.smallest_normal), finite)

    def _by_register(self, emit: Callable[[Type, Sequence[Value]], Value], *values: Value) -> Value:
        """Apply an instruction on whole registers to values of any number of lanes."""
        builder, lanes = self.builder, SCALING_BITS // self.type.element.bits
        register = vector(self.type.element, lanes)
        if not self.type.is_vector:
            return builder.extract(emit(register, [builder.widened(v, lanes) for v in values]), 0)
        found: list[Value] = []
        for start in range(0, self.type.lanes, lanes):
            count = min(lanes, self.type.lanes - start)
            parts = [builder.slice_lanes(value, start, count) for value in values]
            result = emit(register, [builder.widened(part, lanes) for part in parts])
            found.append(builder.slice_lanes(result, 0, count))
        return builder.concat_lanes(found)

    def integer_to_float(self, a: Value) -> Value:
        """Return a small integer (below 2^22, 2^51) as a float."""
        if self.is_f32 and self.builder.module.architecture == "x86":
            return self.builder.sitofp(a, self.type)
        # AVX2 has no i64 conversion, and a GPU a slow one: adding to the magic number's bits is
        # one op everywhere.
        magic = self.c(self.magic)
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
        if self.has_fma:
            rest = self.builder.fma(self.neg(first), total, high)
        else:
            product, error = self.two_product(first, total)
            rest = self.sub(self.sub(high, product), error)
        rest = self.fma(self.neg(first), lost, rest)
        if low is not None:
            rest = self.add(rest, low)
        return self.fma(rest, inverse, first)

    def _split(self, a: Value) -> tuple[Value, Value]:
        scaled = self.mul(a, self.pick(4097.0, 134217729.0))
        high = self.sub(scaled, self.sub(scaled, a))
        return high, self.sub(a, high)
