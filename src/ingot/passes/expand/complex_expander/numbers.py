# SPDX-License-Identifier: Apache-2.0
"""Real and complex arrays of a computation being built, with Python's operators.

The formulas of `functions` use these. A `Complex` is a pair of `Real`s; a `Real` is an HLO value of
a float type (or pred, for the results of comparisons).

Magnitude and quotient are here too: they neither overflow nor underflow where the result does not.

Source: quotients as XLA's elemental_ir_emitter.cc (R. Smith's method with C99's Annex G).
"""

from __future__ import annotations

import math
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import splat_of
from ingot.hlo.shape import Shape
from ingot.support.records import record

INFINITY, NAN = float("inf"), float("nan")


class Formula(Builder):
    """A builder that adds equal ops of a formula once: constants, tests of a part, its sign."""

    def __init__(self, build: Builder) -> None:
        """Add to the computation of `build`."""
        super().__init__(build.computation, build.metadata)
        self._made: dict[tuple[object, ...], Instruction] = {}

    def emit(
        self,
        opcode: str,
        *operands: Instruction,
        shape: Shape | str | None = None,
        name: str = "",
        **attributes: Any,
    ) -> Instruction:
        """Add an op, unless there is one of equal arguments, which are those of `Builder.emit`."""
        key = (opcode, *operands, shape, *attributes.items())
        if key not in self._made:
            made = super().emit(opcode, *operands, shape=shape, name=name, **attributes)
            self._made[key] = made
        return self._made[key]

    def full(self, value: Any, like: Shape) -> Instruction:
        """Add a constant array, unless there is an equal one."""
        # By its text: zeros are equal whatever their sign.
        key = ("full", str(value), like)
        if key not in self._made:
            self._made[key] = super().full(value, like)
        return self._made[key]


@record(eq=False)
class Real:
    """A real array in a computation being built, with Python's operators."""

    build: Formula
    value: Instruction

    def constant(self, number: float) -> Real:
        """Return `number` in the shape of this value."""
        return Real(self.build, self.build.full(number, self.value.shape))

    def _with(self, other: Real | float) -> Instruction:
        return other.value if isinstance(other, Real) else self.constant(other).value

    def apply(self, opcode: str, *others: Real | float) -> Real:
        """Return the elementwise op of this value and others."""
        operands = (self._with(other) for other in others)
        return Real(self.build, self.build.emit(opcode, self.value, *operands))

    def convert(self, element: DType) -> Real:
        """Return this value in another float type."""
        return Real(self.build, self.build.convert_to(self.value, element))

    def compare(self, direction: str, other: Real | float) -> Real:
        """Return a comparison, as HLO names it."""
        made = self.build.compare(self.value, self._with(other), direction=direction)
        return Real(self.build, made)

    def choose(self, on_true: Real, on_false: Real) -> Real:
        """Return one of two values by this predicate."""
        return Real(self.build, self.build.select(self.value, on_true.value, on_false.value))

    def __add__(self, other: Real | float) -> Real:
        return self.apply("add", other)

    def __sub__(self, other: Real | float) -> Real:
        return self.apply("subtract", other)

    def __mul__(self, other: Real | float) -> Real:
        return self.apply("multiply", other)

    def __truediv__(self, other: Real | float) -> Real:
        return self.apply("divide", other)

    def __neg__(self) -> Real:
        return self.apply("negate")

    def __and__(self, other: Real) -> Real:
        return self.apply("and", other)

    def __or__(self, other: Real) -> Real:
        return self.apply("or", other)

    @property
    def magnitude(self) -> Real:
        """The absolute value."""
        return self.apply("abs")

    @property
    def is_nan(self) -> Real:
        """True where this is NaN."""
        return self.compare("NE", self)

    @property
    def is_zero(self) -> Real:
        """True where this is 0 or -0."""
        return self.compare("EQ", 0.0)

    @property
    def is_infinite(self) -> Real:
        """True where this is an infinity of either sign."""
        return self.magnitude.compare("EQ", INFINITY)

    def signed(self, size: Real | float) -> Real:
        """Return `size`, not negative, with this value's sign, that of a zero included."""
        build, like = self.build, self.value.shape
        bits = like.with_dtype(f"s{like.dtype.bits}")
        mine = build.bitcast_convert(self.value, shape=bits)
        sign = build.and_(mine, build.full(-(1 << (like.dtype.bits - 1)), bits))
        given = self._bits(self._with(size), bits)
        return Real(build, build.bitcast_convert(build.or_(sign, given), shape=like))

    def _bits(self, value: Instruction, bits: Shape) -> Instruction:
        known = splat_of(value)
        if known is None:
            return self.build.bitcast_convert(value, shape=bits)
        return self.build.full(known.view(bits.dtype.numpy), bits)


@record(eq=False)
class Complex:
    """A complex array in a computation being built: its parts."""

    re: Real
    im: Real

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.re - other.re, self.im - other.im)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __mul__(self, other: Complex) -> Complex:
        return Complex(
            self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re
        )

    def __truediv__(self, other: Complex) -> Complex:
        return divide(self, other)

    def times_i(self) -> Complex:
        """Return the value rotated by a right angle."""
        return Complex(-self.im, self.re)

    def times_minus_i(self) -> Complex:
        """Return the value rotated back by a right angle."""
        return Complex(self.im, -self.re)

    def plus(self, number: float) -> Complex:
        """Return the sum with a real number."""
        return Complex(self.re + number, self.im)

    def constant(self, number: float) -> Complex:
        """Return a real number as a complex value of this shape."""
        return Complex(self.re.constant(number), self.re.constant(0.0))


def choose(predicate: Real, on_true: Complex, on_false: Complex) -> Complex:
    """Return one of two values by a predicate."""
    return Complex(
        predicate.choose(on_true.re, on_false.re), predicate.choose(on_true.im, on_false.im)
    )


# ---- magnitude and angle


def scaled(re: Real, im: Real) -> tuple[Real, Real]:
    """Return (larger magnitude, smaller / larger): hypot is larger * sqrt(1 + ratio^2).

    The ratio is 1 where both are equal, so that zeros and infinities need no care afterwards; an
    infinite part makes the larger infinite even beside a NaN.
    """
    one, other = re.magnitude, im.magnitude
    larger, smaller = one.apply("maximum", other), one.apply("minimum", other)
    infinite = one.compare("EQ", INFINITY) | other.compare("EQ", INFINITY)
    unit = one.constant(1.0)
    ratio = (infinite | one.compare("EQ", other)).choose(unit, smaller / larger)
    return infinite.choose(one.constant(INFINITY), larger), ratio


def absolute(z: Complex) -> Real:
    """|z|."""
    larger, ratio = scaled(z.re, z.im)
    return larger * (ratio * ratio + 1.0).apply("sqrt")


def angle(z: Complex) -> Real:
    """The argument, from -pi to pi."""
    return z.im.apply("atan2", z.re)


# ---- quotients


def divide(a: Complex, b: Complex) -> Complex:
    """Return a / b by Smith's method; zeros and infinities as in C99's Annex G."""
    if splat_of(a.re.value) == 1 and splat_of(a.im.value) == 0:
        return reciprocal(b)
    imaginary = b.re.magnitude.compare("LT", b.im.magnitude)
    larger, smaller = imaginary.choose(b.im, b.re), imaginary.choose(b.re, b.im)
    u, v = imaginary.choose(a.re, a.im), imaginary.choose(a.im, a.re)
    ratio = smaller / larger
    denominator = larger + ratio * smaller
    across = ratio * v
    found = Complex(
        (ratio * u + v) / denominator,
        imaginary.choose(across - u, u - across) / denominator,
    )
    lost = found.re.is_nan & found.im.is_nan
    if _is_real_number(b):
        # `_special_quotient` reduces to this: infinite parts stay infinite.
        return Complex(
            (lost & a.re.is_infinite).choose(a.re * b.re, found.re),
            (lost & a.im.is_infinite).choose(a.im * b.re, found.im),
        )
    return choose(lost, _special_quotient(a, b, found), found)


def _is_real_number(z: Complex) -> bool:
    """Whether a number is a known real one, neither zero nor infinite."""
    re, im = splat_of(z.re.value), splat_of(z.im.value)
    return re is not None and im is not None and im == 0 != re and math.isfinite(re)


def reciprocal(z: Complex) -> Complex:
    """Return 1 / z, as `divide` does."""
    imaginary = z.re.magnitude.compare("LT", z.im.magnitude)
    larger, smaller = imaginary.choose(z.im, z.re), imaginary.choose(z.re, z.im)
    ratio = smaller / larger
    denominator = larger + ratio * smaller
    zero, one = ratio.constant(0.0), ratio.constant(1.0)
    # 0 + ratio and 0 - ratio: zeros have the signs that they have in `divide`.
    re = imaginary.choose(ratio, one) + imaginary.choose(zero, -zero)
    im = imaginary.choose(-one, zero) - imaginary.choose(zero, ratio)
    re, im = re / denominator, im / denominator
    pole = z.re.is_zero & z.im.is_zero
    re = pole.choose(z.re.signed(INFINITY), re)
    # Where an infinite part makes the ratio NaN, the quotient is a zero.
    lost = re.is_nan & _is_infinite(z)
    zero_im = z.im.is_infinite.choose((-z.im).signed(zero), zero)
    return Complex(lost.choose(z.re.signed(zero), re), lost.choose(zero_im, im))


def _special_quotient(a: Complex, b: Complex, otherwise: Complex) -> Complex:
    """The quotient where Smith's method gives no number.

    Two infinite numbers have none, which `otherwise` is then.
    """
    a_infinite, b_infinite = _is_infinite(a), _is_infinite(b)
    # Beside an infinite part all that is finite is nothing: only directions count. What is divided
    # and infinite has no finite part here, so that the sign of such a nothing is never seen.
    u, v = choose(a_infinite, _direction(a), a), choose(b_infinite, _ones(b), b)
    size = a_infinite.choose(a.re.constant(INFINITY), a.re.constant(0.0))
    directed = Complex((u.re * v.re + u.im * v.im) * size, (u.im * v.re - u.re * v.im) * size)
    result = choose(a_infinite.apply("xor", b_infinite), directed, otherwise)
    pole = b.re.signed(INFINITY)
    return choose(b.re.is_zero & b.im.is_zero, Complex(pole * a.re, pole * a.im), result)


def _ones(z: Complex) -> Complex:
    """Infinite parts as 1, others as 0, with their signs."""
    one, zero = z.re.constant(1.0), z.re.constant(0.0)
    parts = [part.signed(part.is_infinite.choose(one, zero)) for part in (z.re, z.im)]
    return Complex(*parts)


def _direction(z: Complex) -> Complex:
    """Infinite parts as 1 with their signs, others as 0."""
    zero = z.re.constant(0.0)
    parts = [part.is_infinite.choose(part.signed(1.0), zero) for part in (z.re, z.im)]
    return Complex(*parts)


def _is_infinite(z: Complex) -> Real:
    return z.re.is_infinite | z.im.is_infinite
