# SPDX-License-Identifier: Apache-2.0
"""Powers, roots, exponentials, logarithms, sines: fewer transcendental functions."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import const, m, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, rule
from ingot.passes.simplify.algsimp.helpers import is_float, is_real, x, y, z


@rule(m.power(x, const(0), where=is_real))
def power_zero(root: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 0 => 1, for NaN too"""
    return build.full(1, root.shape)


@rule(m.power(x, const(1), where=is_real))
def power_one(x: Instruction) -> Instruction:
    """x ^ 1 => x"""
    return x


@rule(m.power(x, const(2), where=is_real), fp=Fp.CONTRACT)
def power_two(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 2 => x * x"""
    return build.multiply(x, x)


@rule(m.power(x, const(3), where=is_real), fp=Fp.CONTRACT)
def power_three(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 3 => (x * x) * x"""
    return build.multiply(build.multiply(x, x), x)


@rule(m.power(x, const(4), where=is_real), fp=Fp.CONTRACT)
def power_four(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 4 => (x * x) * (x * x)"""
    square = build.multiply(x, x)
    return build.multiply(square, square)


@rule(m.power(x, const(-1), where=is_float), fp=Fp.CONTRACT)
def power_minus_one(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ -1 => 1 / x"""
    return build.divide(build.full(1, x.shape), x)


@rule(m.power(x, const(-2), where=is_float), fp=Fp.REASSOCIATE)
def power_minus_two(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ -2 => 1 / (x * x)"""
    return build.divide(build.full(1, x.shape), build.multiply(x, x))


@rule(m.power(x, const(0.5), where=is_float), fp=Fp.REASSOCIATE)
def power_half(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 0.5 => sqrt(x) (they differ at -inf and -0)"""
    return build.sqrt(x)


@rule(m.power(x, const(-0.5), where=is_float), fp=Fp.REASSOCIATE)
def power_minus_half(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ -0.5 => rsqrt(x) (they differ at -inf and -0)"""
    return build.rsqrt(x)


@rule(m.divide(const(1), m.sqrt(x, once=True), where=is_float), fp=Fp.CONTRACT)
def inverse_of_sqrt(x: Instruction, build: RuleBuilder) -> Instruction:
    """1 / sqrt(x) => rsqrt(x)"""
    return build.rsqrt(x)


@rule(m.divide(const(1), m.rsqrt(x, once=True), where=is_float), fp=Fp.CONTRACT)
def inverse_of_rsqrt(x: Instruction, build: RuleBuilder) -> Instruction:
    """1 / rsqrt(x) => sqrt(x)"""
    return build.sqrt(x)


@rule(m.divide(x, m.sqrt(y, once=True), where=is_float), fp=Fp.CONTRACT)
def divide_by_sqrt(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """x / sqrt(y) => x * rsqrt(y)"""
    return build.multiply(x, build.rsqrt(y))


def _repeats(broadcast: Instruction) -> bool:
    """Whether the operand has fewer dimensions, so that work on it is cheaper."""
    return broadcast.operands[0].shape.rank < broadcast.shape.rank


@rule(
    m.divide(x, m.broadcast(m.sqrt(y, once=True), name="wide", once=True, where=_repeats),
             where=is_float),
    fp=Fp.CONTRACT,
    example="""
        x = f32[3,4] parameter(0)
        y = f32[4] parameter(1)
        a = f32[4] sqrt(y)
        b = f32[3,4] broadcast(a), dimensions={1}
        ROOT c = f32[3,4] divide(x, b)""",
)  # fmt: skip
def divide_by_broadcast_sqrt(
    x: Instruction, y: Instruction, wide: Instruction, build: RuleBuilder
) -> Instruction:
    """x / broadcast(sqrt(y)) => x * broadcast(rsqrt(y))"""
    return build.multiply(x, build.like(wide, build.rsqrt(y), shape=wide.shape))


@rule(
    m.divide(x, m.broadcast(y, name="wide", once=True, where=_repeats), where=is_float),
    fp=Fp.REASSOCIATE,
    example="""
        x = f32[3,4] parameter(0)
        y = f32[4] parameter(1)
        b = f32[3,4] broadcast(y), dimensions={1}
        ROOT c = f32[3,4] divide(x, b)""",
)
def divide_by_broadcast(
    x: Instruction, y: Instruction, wide: Instruction, build: RuleBuilder
) -> Instruction | None:
    """x / broadcast(y) => x * broadcast(1 / y)"""
    if splat_of(y) is not None or splat_of(x) is not None or x.opcode == "broadcast":
        return None
    inverse = build.divide(build.full(1, y.shape), y)
    return build.multiply(x, build.like(wide, inverse, shape=wide.shape))


@rule(m.divide(x, m.rsqrt(y, once=True), where=is_float), fp=Fp.CONTRACT)
def divide_by_rsqrt(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """x / rsqrt(y) => x * sqrt(y)"""
    return build.multiply(x, build.sqrt(y))


@rule(m.divide(x, m.exponential(y, once=True), where=is_float), fp=Fp.REASSOCIATE)
def divide_by_exponential(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """x / exp(y) => x * exp(-y)"""
    return build.multiply(x, build.exponential(build.negate(y)))


@rule(m.divide(x, m.power(y, z, once=True), where=is_float), fp=Fp.REASSOCIATE)
def divide_by_power(
    x: Instruction, y: Instruction, z: Instruction, build: RuleBuilder
) -> Instruction:
    """x / y^z => x * y^(-z)"""
    return build.multiply(x, build.power(y, build.negate(z)))


@rule(m.sqrt(m.multiply(x, x, once=True), where=is_float), fp=Fp.REASSOCIATE)
def sqrt_of_square(x: Instruction, build: RuleBuilder) -> Instruction:
    """sqrt(x * x) => |x|"""
    return build.abs(x)


@rule(m.log(m.exponential(x), where=is_float), fp=Fp.REASSOCIATE)
def log_of_exponential(x: Instruction) -> Instruction:
    """log(exp(x)) => x"""
    return x


@rule(m.log(m.sqrt(x, once=True), where=is_float), fp=Fp.REASSOCIATE)
def log_of_sqrt(x: Instruction, build: RuleBuilder) -> Instruction:
    """log(sqrt(x)) => 0.5 * log(x)"""
    return build.multiply(build.log(x), build.full(0.5, x.shape))


@rule(
    m.multiply(m.exponential(x, once=True), m.exponential(y, once=True), where=is_float),
    fp=Fp.REASSOCIATE,
)
def multiply_exponentials(x: Instruction, y: Instruction, build: RuleBuilder) -> Instruction:
    """exp(x) * exp(y) => exp(x + y)"""
    return build.exponential(build.add(x, y))


@rule(
    m.divide(const(1), m.add(m.exponential(m.negate(x), once=True), const(1), once=True),
             where=is_float),
    fp=Fp.CONTRACT,
)  # fmt: skip
def sigmoid(x: Instruction, build: RuleBuilder) -> Instruction:
    """1 / (exp(-x) + 1) => logistic(x)"""
    return build.logistic(x)


@rule(m.sine(m.negate(x, once=True, where=is_real)))
def sine_of_negate(x: Instruction, build: RuleBuilder) -> Instruction:
    """sin(-x) => -sin(x), next to cos(-x) => cos(x): both are computed at once"""
    return build.negate(build.sine(x))
