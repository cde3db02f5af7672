# SPDX-License-Identifier: Apache-2.0
"""Identities of add, subtract, multiply, divide, remainder, negate, abs."""

from __future__ import annotations

import math
from typing import Any

from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import const, m, one_of, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import (
    compute,
    is_bits,
    is_float,
    is_integer,
    is_real,
    is_signed,
    is_unsigned,
    x,
    y,
    z,
)


@rule(m.add(x, const(-0.0, signed=True)))
def add_minus_zero(x: Instruction) -> Instruction:
    """x + (-0) => x"""
    return x


@rule(m.add(x, const(0)), fp=Fp.SIGNED_ZERO)
def add_zero(x: Instruction) -> Instruction:
    """x + 0 => x"""
    return x


@rule(m.subtract(x, const(0, signed=True), where=is_real))
def subtract_zero(x: Instruction) -> Instruction:
    """x - (+0) => x"""
    return x


@rule(m.subtract(const(0), x), fp=Fp.SIGNED_ZERO)
def subtract_from_zero(x: Instruction, build: RuleBuilder) -> Instruction:
    """0 - x => -x"""
    return build.negate(x)


@rule(m.subtract(x, x, where=is_integer))
def subtract_self(root: Instruction, build: RuleBuilder) -> Instruction:
    """x - x => 0 (an infinity or NaN gives NaN, so only on integers)"""
    return build.full(0, root.shape)


@rule(m.multiply(x, const(1), where=lambda root: not root.shape.dtype.is_complex))
def multiply_one(x: Instruction) -> Instruction:
    """x * 1 => x (a complex infinity gives NaN, so only on real numbers)"""
    return x


@rule(m.multiply(x, const(0, name="zero"), where=is_bits))
def multiply_zero(zero: Instruction) -> Instruction:
    """x * 0 => 0 (an infinity or NaN gives NaN, so only on integers)"""
    return zero


@rule(m.multiply(x, const(-1), where=is_real))
def multiply_minus_one(x: Instruction, build: RuleBuilder) -> Instruction:
    """x * -1 => -x"""
    return build.negate(x)


@rule(m.divide(x, const(1), where=is_real))
def divide_one(x: Instruction) -> Instruction:
    """x / 1 => x"""
    return x


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


@rule(m.divide(m.divide(x, y, once=True), z, where=is_float), fp=Fp.REASSOCIATE)
def divide_of_divide(
    x: Instruction, y: Instruction, z: Instruction, build: RuleBuilder
) -> Instruction:
    """(x / y) / z => x / (y * z)"""
    return build.divide(x, build.multiply(y, z))


@rule(m.divide(x, m.divide(y, z, once=True), where=is_float), fp=Fp.REASSOCIATE)
def divide_by_divide(
    x: Instruction, y: Instruction, z: Instruction, build: RuleBuilder
) -> Instruction:
    """x / (y / z) => (x * z) / y"""
    return build.divide(build.multiply(x, z), y)


@rule(m.multiply(x, m.divide(const(1), y, once=True), where=is_float), fp=Fp.REASSOCIATE)
def multiply_by_inverse(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """x * (1 / y) => x / y"""
    return build.divide(x, y)


def _is_power_of_two(value: Any) -> bool:
    return int(value) > 0 and int(value).bit_count() == 1


@rule(
    m.divide(x, const(name="c", where=lambda v: v.dtype.kind == "u" and _is_power_of_two(v)),
             where=is_unsigned),
)  # fmt: skip
def divide_unsigned(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """x / 2^k => x >> k on unsigned integers"""
    shift = int(splat_of(c)).bit_length() - 1
    return build.shift_right_logical(x, build.full(shift, x.shape))


@rule(
    m.remainder(x, const(name="c", where=lambda v: v.dtype.kind == "u" and _is_power_of_two(v)),
                where=is_unsigned),
)  # fmt: skip
def remainder_unsigned(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """x % 2^k => x & (2^k - 1) on unsigned integers"""
    return build.and_(x, build.full(int(splat_of(c)) - 1, x.shape))


@rule(m.remainder(x, const(1), where=is_integer))
def remainder_one(root: Instruction, build: RuleBuilder) -> Instruction:
    """x % 1 => 0 on integers"""
    return build.full(0, root.shape)


@rule(m.negate(m.negate(x)))
def negate_negate(x: Instruction) -> Instruction:
    """-(-x) => x"""
    return x


@rule(m.negate(m.subtract(x, y)), fp=Fp.SIGNED_ZERO)
def negate_subtract(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """-(x - y) => y - x"""
    return build.subtract(y, x)


@rule(m.add(x, m.negate(y)))
def add_negate(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """x + (-y) => x - y"""
    return build.subtract(x, y)


@rule(m.subtract(x, m.negate(y)))
def subtract_negate(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """x - (-y) => x + y"""
    return build.add(x, y)


@rule(m.multiply(m.negate(x), m.negate(y), where=is_real))
def multiply_negates(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """(-x) * (-y) => x * y"""
    return build.multiply(x, y)


@rule(m.divide(m.negate(x), m.negate(y), where=is_float))
def divide_negates(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """(-x) / (-y) => x / y (on integers min / -1 is in the way)"""
    return build.divide(x, y)


@rule(m.multiply(m.negate(x), const(name="c"), where=is_real))
def multiply_negate_constant(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """(-x) * c => x * (-c)"""
    return build.multiply(x, build.full(compute("negate", c), c.shape))


@rule(m.negate(m.multiply(x, const(name="c"), once=True), where=is_real))
def negate_multiply_constant(x: Instruction, c: Instruction, build: RuleBuilder) -> Instruction:
    """-(x * c) => x * (-c)"""
    return build.multiply(x, build.full(compute("negate", c), c.shape))


@rule(one_of(("abs", "cosine", "cosh"), m.negate(x), where=is_signed))
def even_of_negate(root: Instruction, x: Instruction, build: RuleBuilder) -> Instruction:
    """f(-x) => f(x) where f is even"""
    return build.like(root, x)


@rule(m.abs(m.multiply(x, x, name="square", where=is_float)))
def abs_square(square: Instruction) -> Instruction:
    """|x * x| => x * x"""
    return square


@rule(m.abs(one_of(("exponential", "logistic"), x, name="inner", where=is_float)))
def abs_positive(inner: Instruction) -> Instruction:
    """|f(x)| => f(x) where f is never negative"""
    return inner


_IDEMPOTENT = opcodes(lambda row: row.has(Trait.IDEMPOTENT) and row.arity == (1, 1))


@rule(
    one_of(_IDEMPOTENT, one_of(_IDEMPOTENT, x, name="inner")),
    example="""
        x = f32[4] parameter(0)
        a = f32[4] reduce-precision(x), exponent_bits=5, mantissa_bits=10
        ROOT b = f32[4] reduce-precision(a), exponent_bits=5, mantissa_bits=10""",
)
def idempotent(root: Instruction, inner: Instruction) -> Instruction | None:
    """f(f(x)) => f(x) where f is idempotent"""
    same = root.definition is inner.definition and root.attributes == inner.attributes
    return inner if same else None


_ROUNDINGS = ("floor", "ceil", "round-nearest-afz", "round-nearest-even")


@rule(
    one_of(_ROUNDINGS, m.convert(x, name="inner", where=lambda i: is_bits(i.operands[0]))),
    example="""
        x = s32[4] parameter(0)
        a = f32[4] convert(x)
        ROOT b = f32[4] floor(a)""",
)
def round_integer(inner: Instruction) -> Instruction:
    """floor(float(i)) => float(i): an integer is rounded already"""
    return inner


@rule(one_of(_ROUNDINGS, one_of(_ROUNDINGS, x, name="inner")))
def round_rounded(inner: Instruction) -> Instruction:
    """floor(round(x)) => round(x), whatever the directions are"""
    return inner


@rule(m.real(m.complex(x, y)))
def real_of_complex(x: Instruction) -> Instruction:
    """real(complex(x, y)) => x"""
    return x


@rule(m.imag(m.complex(x, y)))
def imag_of_complex(y: Instruction) -> Instruction:
    """imag(complex(x, y)) => y"""
    return y


@rule(
    m.complex(
        m.real(x), m.imag(x), where=lambda i: i.operands[0].operands[0].shape.dtype.is_complex
    )
)
def complex_of_parts(x: Instruction) -> Instruction:
    """complex(real(x), imag(x)) => x"""
    return x


@rule(m.real(x, where=lambda i: is_float(i.operands[0])))
def real_of_real(x: Instruction) -> Instruction:
    """real(x) => x where x is real"""
    return x


@rule(m.imag(x, where=lambda i: is_float(i.operands[0])))
def imag_of_real(root: Instruction, build: RuleBuilder) -> Instruction:
    """imag(x) => 0 where x is real"""
    return build.full(0, root.shape)
