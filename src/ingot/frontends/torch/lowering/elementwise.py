# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops: arithmetic, comparisons, logic, transcendentals, conversions, selection.

Operands are promoted as PyTorch promotes them, then broadcast; most rules are one opcode.
"""

from __future__ import annotations

from ingot.frontends.torch.lowering.op import Op, Operand, Rule, Scalar
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.hlo.dtype import PRED, DType
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")
PRIMS = RuleTable("prims")

_UNARY = {
    "abs": "abs", "acos": "acos", "acosh": "acosh", "asin": "asin", "asinh": "asinh",
    "atanh": "atanh", "bitwise_not": "not", "ceil": "ceil", "cos": "cosine", "cosh": "cosh",
    "erf": "erf", "exp": "exponential", "expm1": "exponential-minus-one", "floor": "floor",
    "log": "log", "log1p": "log-plus-one", "neg": "negate", "round": "round-nearest-even",
    "rsqrt": "rsqrt", "sigmoid": "logistic", "sign": "sign", "sin": "sine", "sinh": "sinh",
    "sqrt": "sqrt", "tan": "tan", "tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "maximum": "maximum", "minimum": "minimum", "mul.Tensor": "multiply", "mul.Scalar": "multiply",
    "bitwise_and.Tensor": "and", "bitwise_and.Scalar": "and", "bitwise_or.Tensor": "or",
    "bitwise_or.Scalar": "or", "bitwise_xor.Tensor": "xor", "bitwise_xor.Scalar": "xor",
    "atan2": "atan2",
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
        return op.b.emit(opcode, *op.together(op.b.truth(x), op.b.truth(y), element=PRED))

    return rule


for _name, _opcode in _UNARY.items():
    RULES.add(_unary(_opcode), _name)
for _name, _opcode in _BINARY.items():
    RULES.add(_binary(_opcode), _name)
for _name, _direction in _COMPARISONS.items():
    RULES.add(_comparison(_direction), f"{_name}.Tensor", f"{_name}.Scalar")
for _name, _opcode in _LOGICAL.items():
    RULES.add(_logical(_opcode), _name)


def _scaled(op: Op, x: Operand, alpha: Scalar, element: DType) -> Operand:
    if alpha == 1:
        return x
    factor = op.scalar(alpha, element)
    made = op.operand(x, element)
    return op.b.binary("multiply", made, op.b.spread(factor, made.shape.dims))


@RULES.rule("add.Tensor", "add.Scalar")
def _add(op: Op, x: Operand, y: Operand, alpha: Scalar = 1) -> Instruction:
    element = op.dtype
    opcode = "or" if element is PRED else "add"
    return op.b.emit(opcode, *op.together(x, _scaled(op, y, alpha, element), element=element))


@RULES.rule("sub.Tensor", "sub.Scalar")
def _sub(op: Op, x: Operand, y: Operand, alpha: Scalar = 1) -> Instruction:
    element = op.dtype
    return op.b.subtract(*op.together(x, _scaled(op, y, alpha, element), element=element))


@RULES.rule("div.Tensor", "div.Scalar")
def _div(op: Op, x: Operand, y: Operand) -> Instruction:
    return op.b.divide(*op.together(x, y, element=op.dtype))


@RULES.rule("reciprocal")
def _reciprocal(op: Op, x: Instruction) -> Instruction:
    return op.b.divide(*op.together(1, x, element=op.dtype))


@RULES.rule("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(op: Op, x: Operand, y: Operand) -> Instruction:
    b, element = op.b, op.dtype
    if isinstance(y, int | float) and element.is_float:
        if y == 2:
            base = op.operand(x, element)
            return b.multiply(base, base)
        if y == 0.5:
            return b.sqrt(op.operand(x, element))
    return b.power(*op.together(x, y, element=element))


@RULES.rule("logical_not")
def _logical_not(op: Op, x: Instruction) -> Instruction:
    return op.b.not_(op.b.truth(x))


@RULES.rule("where.self")
def _where(op: Op, condition: Instruction, x: Operand, y: Operand) -> Instruction:
    chosen = op.b.spread(op.b.truth(condition), op.dims)
    return op.b.select(chosen, *op.together(x, y, element=op.dtype))


@RULES.rule("relu")
def _relu(op: Op, x: Instruction) -> Instruction:
    return op.b.maximum(x, op.b.zeros(x.shape))


@RULES.rule("_to_copy", "clone", "alias", "detach", "lift_fresh_copy")
def _same(op: Op, x: Instruction) -> Instruction:
    return op.b.convert_to(x, op.dtype)


@PRIMS.rule("convert_element_type")
def _convert_element_type(op: Op, x: Instruction, dtype: object) -> Instruction:
    del dtype  # the result's
    return op.b.convert_to(x, op.dtype)
