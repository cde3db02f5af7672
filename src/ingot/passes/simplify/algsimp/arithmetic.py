# SPDX-License-Identifier: Apache-2.0
"""Identities of add, subtract, multiply, divide, remainder, negate, abs."""

from __future__ import annotations

import math
from typing import Any

from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import capture, const, m, one_of, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import (
    approximate,
    compute,
    is_bits,
    is_complex,
    is_float,
    is_integer,
    is_real,
    is_signed,
    is_unsigned,
    of,
    x,
    y,
    z,
    zero,
)

NEUTRAL = (
    identity("add_minus_zero: x + (-0) => x", m.add(x, const(-0.0, signed=True)), x),
    identity("add_zero: x + 0 => x", m.add(x, const(0)), x, fp=Fp.SIGNED_ZERO),
    identity(
        "subtract_from_zero: 0 - x => -x", m.subtract(const(0), x), m.negate(x), fp=Fp.SIGNED_ZERO
    ),
    # An infinity or NaN gives NaN here and in x * 0.
    identity("subtract_self: x - x => 0", m.subtract(x, x, where=is_integer), const(0)),
    # A complex infinity times 1 is NaN.
    identity(
        "multiply_one: x * 1 => x", m.multiply(x, const(1), where=lambda i: not is_complex(i)), x
    ),
    identity("multiply_zero: x * 0 => 0", m.multiply(x, zero, where=is_bits), zero),
    identity(
        "multiply_minus_one: x * -1 => -x", m.multiply(x, const(-1), where=is_real), m.negate(x)
    ),
    identity("divide_one: x / 1 => x", m.divide(x, const(1), where=is_real), x),
)


def has_exact_inverse(value: Any) -> bool:
    """Whether 1 / value is exact: a power of two whose inverse is a normal number."""
    if value.dtype.kind == "c":
        return False
    number = float(value)
    if not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return False
    inverse = 1.0 / number
    narrow = value.dtype.type(inverse)
    # A denormal inverse may be exact, but a machine may flush it; stay with normal numbers.
    return float(narrow) == inverse and float(narrow / value.dtype.type(2)) == inverse / 2


@rule(m.divide(x, const(name="c", where=has_exact_inverse), where=is_float))
def divide_power_of_two(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """x / 2^k => x * 2^-k"""
    return build.multiply(x, build.full(1.0 / float(splat_of(c)), c.shape))


def has_rounded_inverse(value: Any) -> bool:
    """Whether 1 / value is a number, not a huge one, that has to be rounded."""
    if value.dtype.kind == "c" or has_exact_inverse(value):
        return False
    number = float(value)
    return math.isfinite(number) and abs(number) >= 1e-30


@rule(m.divide(x, const(name="c", where=has_rounded_inverse), where=is_float), fp=Fp.REASSOCIATE)
def divide_constant(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """x / c => x * (1/c)"""
    return build.multiply(x, build.full(1.0 / float(splat_of(c)), c.shape))


QUOTIENTS = (
    approximate(
        "divide_of_divide: (x / y) / z => x / (y * z)",
        m.divide(m.divide(x, y, once=True), z, where=is_float),
        m.divide(x, m.multiply(y, z)),
    ),
    approximate(
        "divide_by_divide: x / (y / z) => (x * z) / y",
        m.divide(x, m.divide(y, z, once=True), where=is_float),
        m.divide(m.multiply(x, z), y),
    ),
    approximate(
        "multiply_by_inverse: x * (1 / y) => x / y",
        m.multiply(x, m.divide(const(1), y, once=True), where=is_float),
        m.divide(x, y),
    ),
)


def _is_power_of_two(value: Any) -> bool:
    return value.dtype.kind == "u" and int(value) > 0 and int(value).bit_count() == 1


_power_of_two = const(name="c", where=_is_power_of_two)


@rule(m.divide(x, _power_of_two, where=is_unsigned))
def divide_unsigned(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """x / 2^k => x >> k on unsigned integers"""
    shift = int(splat_of(c)).bit_length() - 1
    return build.shift_right_logical(x, build.full(shift, x.shape))


@rule(m.remainder(x, _power_of_two, where=is_unsigned))
def remainder_unsigned(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """x % 2^k => x & (2^k - 1) on unsigned integers"""
    return build.and_(x, build.full(int(splat_of(c)) - 1, x.shape))


SIGNS = (
    identity("remainder_one: x % 1 => 0", m.remainder(x, const(1), where=is_integer), const(0)),
    identity("negate_negate: -(-x) => x", m.negate(m.negate(x)), x),
    identity(
        "negate_subtract: -(x - y) => y - x",
        m.negate(m.subtract(x, y)),
        m.subtract(y, x),
        fp=Fp.SIGNED_ZERO,
    ),
    identity("add_negate: x + (-y) => x - y", m.add(x, m.negate(y)), m.subtract(x, y)),
    identity("subtract_negate: x - (-y) => x + y", m.subtract(x, m.negate(y)), m.add(x, y)),
    identity(
        "multiply_negates: (-x) * (-y) => x * y",
        m.multiply(m.negate(x), m.negate(y), where=is_real),
        m.multiply(x, y),
    ),
    # On integers the least one divided by -1 has no negative.
    identity(
        "divide_negates: (-x) / (-y) => x / y",
        m.divide(m.negate(x), m.negate(y), where=is_float),
        m.divide(x, y),
    ),
)


@rule(m.multiply(m.negate(x), const(name="c"), where=is_real))
def multiply_negate_constant(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """(-x) * c => x * (-c)"""
    return build.multiply(x, build.full(compute("negate", c), c.shape))


@rule(m.negate(m.multiply(x, const(name="c"), once=True), where=is_real))
def negate_multiply_constant(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """-(x * c) => x * (-c)"""
    return build.multiply(x, build.full(compute("negate", c), c.shape))


_EVEN = ("abs", "cosine", "cosh")
_NEVER_NEGATIVE = ("exponential", "logistic")
inner = capture("inner")

EVEN = (
    identity(
        "even_of_negate: f(-x) => f(x) where f is even",
        one_of(_EVEN, m.negate(x), where=is_signed),
        one_of(_EVEN, x),
    ),
    identity(
        "abs_square: |x * x| => x * x", m.abs(m.multiply(x, x, name="inner", where=is_float)), inner
    ),
    identity(
        "abs_positive: |f(x)| => f(x) where f is never negative",
        m.abs(one_of(_NEVER_NEGATIVE, x, name="inner", where=is_float)),
        inner,
    ),
)

_IDEMPOTENT = opcodes(lambda row: row.has(Trait.IDEMPOTENT) and row.arity == (1, 1))


@rule(
    one_of(_IDEMPOTENT, one_of(_IDEMPOTENT, x, name="inner")),
    example="""
        a = f32[4] reduce-precision(f32[4] x), exponent_bits=5, mantissa_bits=10
        b = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=10""",
)
def idempotent(root: Instruction, inner: Instruction) -> Instruction | None:
    """f(f(x)) => f(x) where f is idempotent"""
    same = root.definition is inner.definition and root.attributes == inner.attributes
    return inner if same else None


_ROUNDINGS = ("floor", "ceil", "round-nearest-afz", "round-nearest-even")

ROUNDINGS_AND_PARTS = (
    identity(
        "round_integer: floor(float(i)) => float(i)",
        one_of(_ROUNDINGS, m.convert(x, name="inner", where=of(is_bits))),
        inner,
        example="""
            a = f32[4] convert(s32[4] x)
            b = f32[4] floor(a)""",
    ),
    identity(
        "round_rounded: floor(round(x)) => round(x), whatever the directions are",
        one_of(_ROUNDINGS, one_of(_ROUNDINGS, x, name="inner")),
        inner,
    ),
    identity("real_of_complex: real(complex(x, y)) => x", m.real(m.complex(x, y)), x),
    identity("imag_of_complex: imag(complex(x, y)) => y", m.imag(m.complex(x, y)), y),
    identity(
        "complex_of_parts: complex(real(x), imag(x)) => x",
        m.complex(m.real(x), m.imag(x), where=of(of(is_complex))),
        x,
    ),
    identity("real_of_real: real(x) => x where x is real", m.real(x, where=of(is_float)), x),
    identity("imag_of_real: imag(x) => 0 where x is real", m.imag(x, where=of(is_float)), const(0)),
)
