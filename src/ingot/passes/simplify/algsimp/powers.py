# SPDX-License-Identifier: Apache-2.0
"""Powers, roots, exponentials, logarithms, sines, error functions: fewer of these functions.

StableHLO without CHLO (of JAX's `gelu` on its way to a plugin, say) has erfc of f32 as the formula
of XLA's `ErfcImpl32`: 1 - x T(x^2) below 1, and beyond exp(-x^2) / |x| times one of two
polynomials of 1 / x^2. It takes 75 operations, and loses the digits that the exponential loses of
x^2; the op takes about 50, and loses none.

Source of the formula: xla/hlo/builder/lib/math.cc,
stablehlo/transforms/ChloLegalizeToStablehlo.cpp, after Cephes.
"""

from __future__ import annotations

import math

import numpy as np

from ingot.hlo.dtype import F32
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import Op, Pattern, capture, const, m, splat_of
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


def _with_minus_infinity(
    x: Instruction, root: Instruction, at_minus_infinity: float, build: RuleBuilder
) -> Instruction:
    """Return |root|, but a value of its own where x is -inf: as powers of -0 and -inf are."""
    is_minus_infinity = build.compare(x, build.full(-math.inf, x.shape), direction="EQ")
    return build.select(is_minus_infinity, build.full(at_minus_infinity, x.shape), build.abs(root))


@rule(m.power(x, const(0.5), where=is_float), fp=Fp.CONTRACT)
def power_half(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ 0.5 => x == -inf ? inf : |sqrt(x)|"""
    return _with_minus_infinity(x, build.sqrt(x), math.inf, build)


@rule(m.power(x, const(-0.5), where=is_float), fp=Fp.CONTRACT)
def power_minus_half(x: Instruction, build: RuleBuilder) -> Instruction:
    """x ^ -0.5 => x == -inf ? 0 : |rsqrt(x)|"""
    return _with_minus_infinity(x, build.rsqrt(x), 0, build)


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


# Highest power first.
NEAR_ZERO = (
    7.853861353153693e-5, -8.010193625184903e-4, 5.188327685732524e-3, -2.685381193529856e-2,
    1.128358514861418e-1, -3.761262582423300e-1, 1.128379165726710,
)  # fmt: skip
BELOW_TWO = (
    2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1,
    6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1,
    5.638259427386472e-1,
)  # fmt: skip
ABOVE_TWO = (
    -1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786,
    -1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1,
)  # fmt: skip
LOWEST = -88.7228394
"""Where -x^2 is less, the formula gives zero."""


def _single(value: float) -> Pattern:
    return const(float(np.float32(value)))


def _polynomial(variable: Pattern, row: tuple[float, ...]) -> Pattern:
    """Return the pattern of Horner's scheme, with constants to the right as rules leave them."""
    found: Pattern = m.multiply(variable, _single(row[0]), ordered=True, once=True)
    for item in row[1:-1]:
        total = m.add(found, _single(item), ordered=True, once=True)
        found = m.multiply(total, variable, ordered=True, once=True)
    return m.add(found, _single(row[-1]), ordered=True, once=True)


def _formula(x: Pattern, size: Pattern) -> Op:
    """Return the pattern of XLA's erfc of `x`; `size` is the absolute value of it."""
    square = m.multiply(x, x, name="square")
    near = m.multiply(x, _polynomial(square, NEAR_ZERO), ordered=True, once=True)
    inverse, falling = m.divide(const(1), square), m.negate(square)
    far = m.select(
        m.compare(size, const(2), direction="LT"),
        _polynomial(inverse, BELOW_TWO),
        _polynomial(inverse, ABOVE_TWO),
        once=True,
    )
    exponential = m.exponential(falling, once=True)
    scale = m.multiply(exponential, m.divide(const(1), size), ordered=True, once=True)
    tail = m.select(
        m.compare(falling, _single(LOWEST), direction="LT"),
        const(0),
        m.multiply(scale, far, ordered=True, once=True),
        name="tail",
    )
    side = m.select(
        m.compare(x, const(0), direction="LT"),
        m.subtract(const(2), tail, once=True),
        capture("tail"),
        once=True,
    )
    is_near = m.compare(size, const(1), direction="LT")
    near_result = m.subtract(const(1), near, once=True)
    return m.select(is_near, near_result, side, where=lambda i: i.shape.dtype is F32)


p = capture("p")
_positive = m.abs(y, name="x")

OF_XLA = (
    contracted(
        "erfc_of_xla: XLA's formula of erfc(x) in f32 => erfc(x)",
        _formula(x, m.abs(x, name="size")),
        m.erfc(x),
    ),
    contracted(
        "erfc_of_xla_of_abs: XLA's formula of erfc(|x|) in f32 => erfc(|x|)",
        _formula(_positive, _positive),
        m.erfc(x),
    ),
)

_erfc = capture("erfc", where=lambda i: i.opcode == "erfc" and i.use_count == 2)


@rule(m.select(p, m.subtract(const(2), _erfc, once=True), _erfc), fp=Fp.CONTRACT, example="""
        e = f32[4] erfc(f32[4] x)
        two = f32[4] constant({2, 2, 2, 2})
        s = f32[4] subtract(two, e)
        r = f32[4] select(pred[4] p, s, e)""")  # fmt: skip
def erfc_of_either_sign(p: Instruction, erfc: Instruction, build: RuleBuilder) -> Instruction:
    """select(p, 2 - erfc(x), erfc(x)) => erfc(select(p, -x, x))"""
    (x,) = erfc.operands
    return build.erfc(build.select(p, build.negate(x), x))


NORMAL = (
    # Normal distributions are written this way.
    contracted(
        "erf_beside_erfc: select(p, 1 + erf(x), erfc(y)) => erfc(select(p, -x, y))",
        m.select(p, m.add(m.erf(x, once=True), const(1), once=True), m.erfc(y, once=True)),
        m.erfc(m.select(p, m.negate(x), y)),
    ),
)
