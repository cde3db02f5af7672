# SPDX-License-Identifier: Apache-2.0
"""Ops on bits: of integers (shifts, logic), and of floats (signs, exponents, kinds of values)."""

from __future__ import annotations

import math

from ingot.frontends.building import float_bits
from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.torch.lowering.context.op import Op, Operand, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.pointwise_ops.pointwise import computed, in_wide, is_exact
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_LOG_2 = math.log(2)
_SHIFTS = {"lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}


def _shift(left: bool) -> Rule:
    """Shift; a distance outside of 0..bits-1 shifts out everything except the sign."""

    def rule(op: Op, x: Operand, y: Operand) -> Instruction:
        right = "shift-right-arithmetic" if op.dtype.is_signed else "shift-right-logical"
        return op.b.emit("shift-left" if left else right, *op.together(x, y, element=op.dtype))

    return rule


for _short, _long in _SHIFTS.items():
    RULES.add(
        _shift(_short == "lshift"),
        *(f"__{_short}__.{overload}" for overload in ("Tensor", "Scalar")),
        *(f"{_long}.{overload}" for overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
    )


@RULES.rule("signbit")
def _signbit(op: Op, x: Instruction) -> Instruction:
    b, element = op.b, x.shape.dtype
    if element.is_float:
        return float_bits.sign_bit(b, x)
    return b.compared("LT", x, 0) if element.is_signed else b.like(False, op.shape)


RULES.add(in_wide(float_bits.copy_sign), "copysign.Tensor", "copysign.Scalar")


@RULES.rule("nextafter")
def _nextafter(op: Op, x: Instruction, y: Instruction) -> Instruction:
    return float_bits.next_after(op.b, *op.together(x, y))


@RULES.rule("frexp.Tensor")
def _frexp(op: Op, x: Instruction) -> tuple[Instruction, Instruction]:
    b, element = op.b, x.shape.dtype
    significand, exponent = float_bits.split(b, b.convert_to(x, wider(element)))
    return b.convert_to(significand, element), b.convert_to(exponent, op.shape_of(1).dtype)


@RULES.rule("ldexp.Tensor")
def _ldexp(op: Op, x: Operand, y: Operand) -> Instruction:
    """X * 2^y as in PyTorch: infinite or NaN if 2^y alone overflows."""

    def compute(b: ArrayBuilder, left: Instruction, right: Instruction) -> Instruction:
        if right.shape.dtype.is_complex:
            return b.multiply(left, b.exponential(b.multiply(right, b.like(_LOG_2, right.shape))))
        return b.multiply(left, float_bits.exp2(b, right))

    return computed(op, compute, x, y)


def _is_nan(b: ArrayBuilder, x: Instruction) -> Instruction:
    return b.compare(x, x, direction="NE")


def _is_infinite(b: ArrayBuilder, x: Instruction) -> Instruction:
    return b.compared("EQ", b.abs(x), math.inf)


@RULES.rule("isnan")
def _isnan(op: Op, x: Instruction) -> Instruction:
    return op.b.like(False, op.shape) if is_exact(x.shape.dtype) else _is_nan(op.b, x)


@RULES.rule("isinf")
def _isinf(op: Op, x: Instruction) -> Instruction:
    b, element = op.b, x.shape.dtype
    if is_exact(element):
        return b.like(False, op.shape)
    if element.is_complex:
        return b.or_(_is_infinite(b, b.real(x)), _is_infinite(b, b.imag(x)))
    return _is_infinite(b, x)
