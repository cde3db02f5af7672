# SPDX-License-Identifier: Apache-2.0
"""Powers, roots, exponentials, logarithms, sines: fewer transcendental functions."""

from __future__ import annotations

from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import const, m, splat_of
from ingot.hlo.rewrite.rule import RuleBuilder, identity, rule
from ingot.passes.simplify.algsimp.helpers import (
    approximate,
    contracted,
    is_float,
    is_real,
    x,
    y,
    z,
)

SMALL_POWERS = (
    # For NaN too.
    identity("power_zero: x ^ 0 => 1", m.power(x, const(0), where=is_real), const(1)),
    identity("power_one: x ^ 1 => x", m.power(x, const(1), where=is_real), x),
    contracted("power_two: x ^ 2 => x * x", m.power(x, const(2), where=is_real), m.multiply(x, x)),
    contracted(
        "power_three: x ^ 3 => (x * x) * x",
        m.power(x, const(3), where=is_real),
        m.multiply(m.multiply(x, x), x),
    ),
)


@rule(m.power(x, const(4), where=is_real), fp=Fp.CONTRACT)
def power_four(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 4 => (x * x) * (x * x)"""
    square = build.multiply(x, x)
    return build.multiply(square, square)


POWERS_AND_ROOTS = (
    contracted(
        "power_minus_one: x ^ -1 => 1 / x",
        m.power(x, const(-1), where=is_float),
        m.divide(const(1), x),
    ),
    approximate(
        "power_minus_two: x ^ -2 => 1 / (x * x)",
        m.power(x, const(-2), where=is_float),
        m.divide(const(1), m.multiply(x, x)),
    ),
    # The next two differ at -inf and -0.
    approximate(
        "power_half: x ^ 0.5 => sqrt(x)", m.power(x, const(0.5), where=is_float), m.sqrt(x)
    ),
    approximate(
        "power_minus_half: x ^ -0.5 => rsqrt(x)",
        m.power(x, const(-0.5), where=is_float),
        m.rsqrt(x),
    ),
    contracted(
        "inverse_of_sqrt: 1 / sqrt(x) => rsqrt(x)",
        m.divide(const(1), m.sqrt(x, once=True), where=is_float),
        m.rsqrt(x),
    ),
    contracted(
        "inverse_of_rsqrt: 1 / rsqrt(x) => sqrt(x)",
        m.divide(const(1), m.rsqrt(x, once=True), where=is_float),
        m.sqrt(x),
    ),
    contracted(
        "divide_by_sqrt: x / sqrt(y) => x * rsqrt(y)",
        m.divide(x, m.sqrt(y, once=True), where=is_float),
        m.multiply(x, m.rsqrt(y)),
    ),
)


def _repeats(broadcast: Instruction) -> bool:
    """Whether the operand has fewer dimensions, so that work on it is cheaper."""
    return broadcast.operands[0].shape.rank < broadcast.shape.rank


@rule(
    m.divide(x, m.broadcast(m.sqrt(y, once=True), name="wide", once=True, where=_repeats),
             where=is_float),
    fp=Fp.CONTRACT,
    example="""
        a = f32[4] sqrt(f32[4] y)
        b = f32[3,4] broadcast(a), dimensions={1}
        c = f32[3,4] divide(f32[3,4] x, b)""",
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
        b = f32[3,4] broadcast(f32[4] y), dimensions={1}
        c = f32[3,4] divide(f32[3,4] x, b)""",
)
def divide_by_broadcast(
    x: Instruction, y: Instruction, wide: Instruction, build: RuleBuilder
) -> Instruction | None:
    """x / broadcast(y) => x * broadcast(1 / y)"""
    if splat_of(y) is not None or splat_of(x) is not None or x.opcode == "broadcast":
        return None
    inverse = build.divide(build.full(1, y.shape), y)
    return build.multiply(x, build.like(wide, inverse, shape=wide.shape))


INVERSES = (
    contracted(
        "divide_by_rsqrt: x / rsqrt(y) => x * sqrt(y)",
        m.divide(x, m.rsqrt(y, once=True), where=is_float),
        m.multiply(x, m.sqrt(y)),
    ),
    approximate(
        "divide_by_exponential: x / exp(y) => x * exp(-y)",
        m.divide(x, m.exponential(y, once=True), where=is_float),
        m.multiply(x, m.exponential(m.negate(y))),
    ),
    approximate(
        "divide_by_power: x / y^z => x * y^(-z)",
        m.divide(x, m.power(y, z, once=True), where=is_float),
        m.multiply(x, m.power(y, m.negate(z))),
    ),
    approximate(
        "sqrt_of_square: sqrt(x * x) => |x|",
        m.sqrt(m.multiply(x, x, once=True), where=is_float),
        m.abs(x),
    ),
    approximate("log_of_exponential: log(exp(x)) => x", m.log(m.exponential(x), where=is_float), x),
    approximate(
        "log_of_sqrt: log(sqrt(x)) => 0.5 * log(x)",
        m.log(m.sqrt(x, once=True), where=is_float),
        m.multiply(m.log(x), const(0.5)),
    ),
    approximate(
        "multiply_exponentials: exp(x) * exp(y) => exp(x + y)",
        m.multiply(m.exponential(x, once=True), m.exponential(y, once=True), where=is_float),
        m.exponential(m.add(x, y)),
    ),
    contracted(
        "sigmoid: 1 / (exp(-x) + 1) => logistic(x)",
        m.divide(
            const(1),
            m.add(m.exponential(m.negate(x), once=True), const(1), once=True),
            where=is_float,
        ),
        m.logistic(x),
    ),
    # Beside cos(-x) => cos(x): sine and cosine of one value are computed together.
    identity(
        "sine_of_negate: sin(-x) => -sin(x)",
        m.sine(m.negate(x, once=True, where=is_real)),
        m.negate(m.sine(x)),
    ),
)
