# SPDX-License-Identifier: Apache-2.0
"""Sums, products, quotients in every rounding, powers, extremes, and functions of integers.

Operands are promoted as in PyTorch. Multiplication and division of half types use a number operand
in f32; other ops first round it to the half type, as PyTorch's kernels do. Division of integers by
0 ends the program with "ZeroDivisionError", as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ingot.frontends.building import division
from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.float_bits import copy_sign
from ingot.frontends.torch.lowering.context.op import Op, Operand, Rule, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.pointwise_ops.pointwise import (
    Compute,
    computed,
    in_wide,
    is_exact,
)
from ingot.hlo.dtype import F16, F32, F64, PRED
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion

RULES = RuleTable("aten")

_DIVISION_BY_ZERO = "ZeroDivisionError: an integer is divided by 0"


# ---- sums and products


def _sum_of(op: Op, opcode: str, x: Operand, y: Operand, alpha: Scalar) -> Instruction:
    """X + alpha * y or x - alpha * y; half types with an alpha are rounded once."""
    b, element = op.b, op.dtype
    left, right = op.together(x, y, element=element)
    if alpha == 1:
        return b.emit("or" if element is PRED else opcode, left, right)
    wide = wider(element)
    factor = b.convert_to(op.scalar(alpha, element), wide)
    scaled = b.multiply(b.convert_to(right, wide), b.spread(factor, right.shape.dims))
    made = b.emit("or" if element is PRED else opcode, b.convert_to(left, wide), scaled)
    return b.convert_to(made, element)


@RULES.rule("add.Tensor", "add.Scalar")
def _add(op: Op, x: Operand, y: Operand, alpha: Scalar = 1) -> Instruction:
    return _sum_of(op, "add", x, y, alpha)


@RULES.rule("sub.Tensor", "sub.Scalar")
def _sub(op: Op, x: Operand, y: Operand, alpha: Scalar = 1) -> Instruction:
    return _sum_of(op, "subtract", x, y, alpha)


@RULES.rule("rsub.Tensor", "rsub.Scalar")
def _rsub(op: Op, x: Operand, y: Operand, alpha: Scalar = 1) -> Instruction:
    return _sum_of(op, "subtract", y, x, alpha)


def _added(opcode: str) -> Rule:
    """Start + value * (x * y) or start + value * (x / y); half types are rounded once."""

    def rule(op: Op, start: Operand, x: Operand, y: Operand, *, value: Scalar = 1) -> Instruction:
        def compute(b: ArrayBuilder, *operands: Instruction) -> Instruction:
            first, left, right = operands
            if value == 1:
                return b.add(first, b.emit(opcode, left, right))
            factor = op.scalar_like(value, left)
            return b.add(first, b.emit(opcode, b.multiply(factor, left), right))

        return computed(op, compute, start, x, y)

    return rule


RULES.add(_added("multiply"), "addcmul")
RULES.add(_added("divide"), "addcdiv")


@RULES.rule("lerp.Scalar", "lerp.Tensor")
def _lerp(op: Op, x: Operand, y: Operand, weight: Operand) -> Instruction:
    """X + weight * (y - x), from the nearer end: exact at both. Numbers are not rounded first."""

    def compute(b: ArrayBuilder, *operands: Instruction) -> Instruction:
        start, end, *rest = operands
        share = rest[0] if isinstance(weight, Instruction) else op.scalar_like(weight, start)
        gap = b.subtract(end, start)
        size = b.abs(share) if share.shape.dtype.is_complex else share
        near = b.compared("LT", b.abs(size), 0.5)
        first = b.add(start, b.multiply(share, gap))
        other = b.subtract(b.like(1, share.shape), share)
        return b.select(near, first, b.subtract(end, b.multiply(gap, other)))

    return computed(op, compute, x, y, *([weight] if isinstance(weight, Instruction) else []))


def _factors(op: Op, x: Operand, y: Operand) -> list[Instruction]:
    """Return the operands of a product or quotient; in f32 for a half type with a number."""
    numbers = [not isinstance(item, Instruction) or not item.shape.rank for item in (x, y)]
    element = op.dtype
    return op.together(x, y, element=wider(element) if any(numbers) else element)


@RULES.rule("mul.Tensor", "mul.Scalar")
def _mul(op: Op, x: Operand, y: Operand) -> Instruction:
    return op.b.convert_to(op.b.multiply(*_factors(op, x, y)), op.dtype)


# ---- quotients and remainders


def _check_divisor(op: Op, divisor: Operand) -> None:
    """Make the program end where an integer is divided by 0."""
    if isinstance(divisor, Instruction):
        b, nonzero = op.b, op.b.to_pred(divisor)
        emit_assertion(b, b.reduced("and", nonzero, range(nonzero.shape.rank)), _DIVISION_BY_ZERO)
    elif divisor == 0:
        raise op.error("the divisor is the integer 0")


@RULES.rule("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode", "true_divide.Tensor")
def _div(op: Op, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Instruction:
    b, element = op.b, op.dtype
    if is_exact(element):
        _check_divisor(op, y)
    left, right = _factors(op, x, y)
    if rounding_mode is None:
        made = b.divide(left, right)
    elif rounding_mode == "trunc":
        made = _in_f32(b, division.truncate_divide, left, right)
    elif is_exact(element):
        made = division.floor_divide(b, left, right)
    else:
        made = _in_f32(b, _floor_divide, left, right)
    return b.convert_to(made, element)


def _in_f32(b: ArrayBuilder, compute: Compute, *operands: Instruction) -> Instruction:
    return compute(b, *(b.convert_to(x, wider(x.shape.dtype)) for x in operands))


def _floor_divide(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """X / y rounded down, from the exact remainder: `div_floor_floating` of PyTorch."""
    plain, rest = b.divide(x, y), b.remainder(x, y)
    quotient = b.divide(b.subtract(x, rest), y)
    less = b.and_(b.compared("NE", rest, 0), division.signs_differ(b, rest, y))
    quotient = b.select(less, b.binary("subtract", quotient, 1), quotient)
    down = b.floor(quotient)
    gap = b.compared("GT", b.subtract(quotient, down), 0.5)
    down = b.select(gap, b.binary("add", down, 1), down)
    zero = copy_sign(b, b.zeros(x.shape), plain)
    down = b.select(b.compared("NE", quotient, 0), down, zero)
    return b.select(b.compared("EQ", y, 0), plain, down)


def _remainder_rule(compute: Compute) -> Rule:
    def rule(op: Op, x: Operand, y: Operand) -> Instruction:
        if is_exact(op.dtype):
            _check_divisor(op, y)
        return computed(op, compute, x, y)

    return rule


def _truncated_remainder(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    return b.remainder(x, y)


RULES.add(
    _remainder_rule(division.floor_modulo),
    "remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor",
)  # fmt: skip
RULES.add(_remainder_rule(_truncated_remainder), "fmod.Tensor", "fmod.Scalar")


@RULES.rule("reciprocal")
def _reciprocal(op: Op, x: Instruction) -> Instruction:
    return op.b.divide(*op.together(1, x, element=op.dtype))


# ---- powers and roots


@RULES.rule("pow.Tensor_Tensor", "pow.Scalar")
def _pow(op: Op, x: Operand, y: Operand) -> Instruction:
    b, element = op.b, op.dtype
    if not isinstance(x, Instruction) and x == 1:
        return b.like(1, op.shape)
    if isinstance(y, int) and is_exact(element) and y < 0:
        raise op.error("Integers to negative integer powers are not allowed.")
    return b.power(*op.together(x, y, element=element))


@RULES.rule("pow.Tensor_Scalar")
def _pow_by_number(op: Op, x: Instruction, exponent: Scalar) -> Instruction:
    """PyTorch's kernel treats the exponents of `_SIMPLE_POWERS` specially."""
    element = op.dtype
    simple = None
    if isinstance(exponent, int | float):
        simple = _SIMPLE_POWERS.get(exponent)
        # Integers have a special case for negative exponents, f16 one for roots.
        if (is_exact(element) and exponent < 0) or (element is F16 and abs(exponent) == 0.5):
            simple = None
    if simple is None:
        return _pow(op, x, exponent)
    return computed(op, simple, x)


def _one_over(b: ArrayBuilder, x: Instruction) -> Instruction:
    return b.divide(b.like(1, x.shape), x)


def _square(b: ArrayBuilder, x: Instruction) -> Instruction:
    return b.multiply(x, x)


_SIMPLE_POWERS: dict[int | float, Callable[[ArrayBuilder, Instruction], Instruction]] = {
    0: lambda b, x: b.like(1, x.shape),
    1: lambda b, x: x,
    2: _square,
    3: lambda b, x: b.multiply(_square(b, x), x),
    -1: _one_over,
    -2: lambda b, x: _one_over(b, _square(b, x)),
    0.5: lambda b, x: b.sqrt(x),
    -0.5: lambda b, x: b.rsqrt(x),
}


def _hypot(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """The length of (x, y), without overflow; infinite if either is, even if the other is NaN."""
    element = x.shape.dtype
    left, right = b.abs(x), b.abs(y)
    infinite = b.or_(b.compared("EQ", left, math.inf), b.compared("EQ", right, math.inf))
    if element is F32:
        wide = [b.convert_to(item, F64) for item in (left, right)]
        made = b.convert_to(b.sqrt(b.add(*(_square(b, item) for item in wide))), F32)
    else:
        most, least = b.maximum(left, right), b.minimum(left, right)
        ratio = b.divide(least, most)
        made = b.multiply(most, b.sqrt(b.binary("add", _square(b, ratio), 1)))
        made = b.select(b.compared("EQ", most, 0), most, made)
    return b.select(infinite, b.like(math.inf, x.shape), made)


RULES.add(in_wide(_hypot), "hypot")


# ---- extremes


@RULES.rule("clamp", "clamp.Tensor")
def _clamp(
    op: Op, x: Operand, least: Operand | None = None, most: Operand | None = None
) -> Instruction:
    """Max, then min: if the bounds cross, the result is the upper one. NaN stays."""
    b, element = op.b, op.dtype
    (made,) = op.together(x, element=element)
    if least is not None:
        made = b.maximum(made, *op.together(least, element=element))
    if most is not None:
        made = b.minimum(made, *op.together(most, element=element))
    return made


def _ignoring_nan(opcode: str) -> Compute:
    def compute(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
        made = b.emit(opcode, x, y)
        if not x.shape.dtype.is_float:
            return made
        made = b.select(b.compare(y, y, direction="NE"), x, made)
        return b.select(b.compare(x, x, direction="NE"), y, made)

    return compute


RULES.add(in_wide(_ignoring_nan("maximum")), "fmax")
RULES.add(in_wide(_ignoring_nan("minimum")), "fmin")


# ---- signs and rounding


def _sign(b: ArrayBuilder, x: Instruction) -> Instruction:
    """-1, 0 or 1; 0 for NaN."""
    element = x.shape.dtype
    if element is PRED:
        return x
    made = b.select(b.compared("GT", x, 0), b.like(1, x.shape), b.zeros(x.shape))
    if not element.is_float and not element.is_signed:
        return made
    return b.select(b.compared("LT", x, 0), b.like(-1, x.shape), made)


RULES.add(in_wide(_sign), "sign")
RULES.add(in_wide(division.truncate), "trunc")


@RULES.rule("round.decimals")
def _round_decimals(op: Op, x: Instruction, *, decimals: int = 0) -> Instruction:
    """Round to a multiple of 10^-decimals; integers are unchanged."""

    def compute(b: ArrayBuilder, x: Instruction) -> Instruction:
        power = b.like(10.0 ** abs(decimals), x.shape)
        if decimals < 0:
            return b.multiply(b.round_nearest_even(b.divide(x, power)), power)
        return b.divide(b.round_nearest_even(b.multiply(x, power)), power)

    return x if is_exact(op.dtype) else computed(op, compute, x)


# ---- integers


@RULES.rule("gcd")
def _gcd(op: Op, x: Instruction, y: Instruction) -> Instruction:
    return division.greatest_common_divisor(op.b, *op.together(x, y, element=op.dtype))


@RULES.rule("lcm")
def _lcm(op: Op, x: Instruction, y: Instruction) -> Instruction:
    """|x / gcd * y|; 0 where both are 0."""
    b = op.b
    left, right = op.together(x, y, element=op.dtype)
    common = division.greatest_common_divisor(b, left, right)
    none = b.compared("EQ", common, 0)
    divisor = b.select(none, b.like(1, common.shape), common)
    made = b.multiply(b.divide(left, divisor), right)
    return b.abs(made) if op.dtype.is_signed else made
