# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops that are one opcode, or nearly: transcendentals, comparisons, logic, selection.

Operands are promoted as in PyTorch, then broadcast; most rules are one opcode.
"""

from __future__ import annotations

import math

from ingot.frontends.building import float_bits
from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.lowering.context.op import Op, Operand, Rule
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.pointwise_ops.pointwise import Compute, in_wide
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")
PRIMS = RuleTable("prims")

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atanh": "atanh", "bitwise_not": "not", "ceil": "ceil", "cos": "cosine", "cosh": "cosh",
    "erf": "erf", "erfc": "erfc", "exp": "exponential", "expm1": "exponential-minus-one",
    "floor": "floor", "log": "log", "log1p": "log-plus-one", "neg": "negate",
    "round": "round-nearest-even", "rsqrt": "rsqrt", "sigmoid": "logistic", "sin": "sine",
    "sinh": "sinh", "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "maximum": "maximum", "minimum": "minimum", "atan2": "atan2",
    **{
        f"bitwise_{opcode}.{overload}": opcode
        for opcode in ("and", "or", "xor")
        for overload in ("Tensor", "Scalar", "Scalar_Tensor")
    },
}  # fmt: skip
_COMPARISONS = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
_LOGICAL = {"logical_and": "and", "logical_or": "or", "logical_xor": "xor"}
_INTEGERS_UNCHANGED = ("ceil", "floor", "round-nearest-even")


def _unary(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction) -> Instruction:
        if opcode in _INTEGERS_UNCHANGED and not x.shape.dtype.is_float:
            return x
        if opcode == "abs" and x.shape.dtype.is_complex:
            return op.b.abs(x)
        # Functions of integers and truth values give floats; others keep the type.
        return op.b.emit(opcode, op.b.convert_to(x, op.dtype))

    return rule


def _binary(opcode: str) -> Rule:
    def rule(op: Op, x: Operand, y: Operand) -> Instruction:
        return op.b.emit(opcode, *op.together(x, y, element=op.dtype))

    return rule


def _comparison(direction: str) -> Rule:
    def rule(op: Op, x: Operand, y: Operand) -> Instruction:
        return op.b.compare(*op.together(x, y), direction=direction)

    return rule


def _logical(opcode: str) -> Rule:
    def rule(op: Op, x: Instruction, y: Instruction) -> Instruction:
        return op.b.emit(opcode, *op.together(op.b.to_pred(x), op.b.to_pred(y), element=PRED))

    return rule


def _log(function: Compute, base: float) -> Compute:
    """A logarithm; of complex numbers a multiple of the natural one."""

    def compute(b: ArrayBuilder, x: Instruction) -> Instruction:
        if x.shape.dtype.is_complex:
            return b.multiply(b.log(x), b.like(1 / math.log(base), x.shape))
        return function(b, x)

    return compute


def _exp2(b: ArrayBuilder, x: Instruction) -> Instruction:
    if x.shape.dtype.is_complex:
        return b.exponential(b.multiply(x, b.like(math.log(2), x.shape)))
    return float_bits.exp2(b, x)


def _atan(b: ArrayBuilder, x: Instruction) -> Instruction:
    if not x.shape.dtype.is_complex:
        return b.atan2(x, b.like(1, x.shape))
    # atan(z) = -i atanh(i z)
    rotated = b.atanh(b.complex(b.negate(b.imag(x)), b.real(x)))
    return b.complex(b.imag(rotated), b.negate(b.real(rotated)))


RULES.add(in_wide(_atan), "atan")
RULES.add(in_wide(_exp2), "exp2")
RULES.add(in_wide(_log(float_bits.log2, 2)), "log2")
RULES.add(in_wide(_log(float_bits.log10, 10)), "log10")

for _name, _opcode in _UNARY.items():
    RULES.add(_unary(_opcode), _name)
for _name, _opcode in _BINARY.items():
    RULES.add(_binary(_opcode), _name)
for _name, _direction in _COMPARISONS.items():
    RULES.add(_comparison(_direction), f"{_name}.Tensor", f"{_name}.Scalar")
for _name, _opcode in _LOGICAL.items():
    RULES.add(_logical(_opcode), _name)


@RULES.rule("logical_not")
def _logical_not(op: Op, x: Instruction) -> Instruction:
    return op.b.not_(op.b.to_pred(x))


@RULES.rule("where.self")
def _where(op: Op, condition: Instruction, x: Operand, y: Operand) -> Instruction:
    chosen = op.b.spread(op.b.to_pred(condition), op.dims)
    return op.b.select(chosen, *op.together(x, y, element=op.dtype))


@RULES.rule("_to_copy", "clone", "alias", "detach", "lift_fresh_copy")
def _same(op: Op, x: Operand) -> Instruction:
    return op.operand(x, op.dtype)


@PRIMS.rule("convert_element_type")
def _convert_element_type(op: Op, x: Instruction, dtype: object) -> Instruction:
    del dtype  # the result's
    return op.b.convert_to(x, op.dtype)


@PRIMS.rule("fma")
def _fma(op: Op, x: Operand, y: Operand, added: Operand) -> Instruction:
    """X * y + added; PyTorch's own kernel rounds the product, too."""
    left, right, last = op.together(x, y, added, element=op.dtype)
    return op.b.add(op.b.multiply(left, right), last)
