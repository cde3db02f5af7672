# SPDX-License-Identifier: Apache-2.0
"""Elementwise ops of two or more operands: arithmetic, comparison, logic, selection.

All broadcast as NumPy does. Integer division and remainder are TensorFlow's: FloorDiv and FloorMod
round down, Div and TruncateDiv towards zero, and a divisor of 0 is an error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.division import floor_divide, floor_modulo, truncate_divide
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import TensorList, Value
from ingot.frontends.tensorflow.lowering.list_ops.tensor_lists import add_lists
from ingot.hlo.instruction import Instruction

OPCODES = {
    "Add": "add", "AddV2": "add", "Atan2": "atan2", "BitwiseAnd": "and", "BitwiseOr": "or",
    "BitwiseXor": "xor", "LogicalAnd": "and", "LogicalOr": "or",
    "Maximum": "maximum", "Minimum": "minimum", "Mul": "multiply",
    "RealDiv": "divide", "Sub": "subtract",
}  # fmt: skip
DIRECTIONS = {
    "Equal": "EQ", "NotEqual": "NE", "Less": "LT", "LessEqual": "LE", "Greater": "GT",
    "GreaterEqual": "GE",
}  # fmt: skip

Compute = Callable[[TensorBuilder, Instruction, Instruction], Instruction]


def _operands(op: Op) -> tuple[Instruction, Instruction]:
    left, right = op.b.together(op.tensor(0), op.tensor(1))
    return left, right


def _opcode(opcode: str) -> Rule:
    return lambda op: op.b.emit(opcode, *_operands(op))


def _comparison(direction: str) -> Rule:
    return lambda op: op.b.emit("compare", *_operands(op), direction=direction)


def _composed(compute: Compute) -> Rule:
    return lambda op: compute(op.b, *_operands(op))


def _division(compute: Compute) -> Rule:
    """Divide; integers by 0 are an error, as on CPU in TensorFlow."""

    def rule(op: Op) -> Value:
        known = op.known(1)
        if _is_integer(op) and (known is None or not np.all(known)):
            assert_everywhere(op.b, op.b.to_pred(op.tensor(1)), "Integer division by zero")
        return compute(op.b, *_operands(op))

    return rule


def _power(op: Op) -> Value:
    """Raise to a power; a negative one of integers is an error, as on CPU in TensorFlow."""
    known = op.known(1)
    if _is_integer(op) and op.dtype(1).is_signed and (known is None or np.any(known < 0)):
        text = "Integers to negative integer powers are not allowed"
        assert_everywhere(op.b, op.b.compared("GE", op.tensor(1), 0), text)
    return op.b.emit("power", *_operands(op))


def _is_integer(op: Op) -> bool:
    return not (op.dtype(1).is_float or op.dtype(1).is_complex)


def _zero_where(direction_operand: int, opcode: str) -> Compute:
    """Return `opcode`, but 0 where the chosen operand is 0, whatever the other is."""

    def compute(b: TensorBuilder, x: Instruction, y: Instruction) -> Instruction:
        chosen = (x, y)[direction_operand]
        return b.select(b.compared("EQ", chosen, 0), b.zeros(x.shape), b.emit(opcode, x, y))

    return compute


def _zero_where_left(combine: Compute) -> Compute:
    def compute(b: TensorBuilder, x: Instruction, y: Instruction) -> Instruction:
        return b.select(b.compared("EQ", x, 0), b.zeros(x.shape), combine(b, x, y))

    return compute


def _squared_difference(b: TensorBuilder, x: Instruction, y: Instruction) -> Instruction:
    gap = b.subtract(x, y)
    if not gap.shape.dtype.is_complex:
        return b.multiply(gap, gap)
    return b.multiply(gap, b.complex(b.real(gap), b.negate(b.imag(gap))))


def _shift(op: Op, opcode: str) -> Value:
    """Shift; TensorFlow holds the distance inside 0..bits-1."""
    x, y = _operands(op)
    most = x.shape.dtype.bits - 1
    b = op.b
    held = b.maximum(b.minimum(y, b.like(most, y.shape)), b.zeros(y.shape))
    return b.emit(opcode, x, held)


def _right_shift(op: Op) -> Value:
    signed = op.dtype(0).is_signed
    return _shift(op, "shift-right-arithmetic" if signed else "shift-right-logical")


def _approximate_equal(op: Op) -> Value:
    x, y = _operands(op)
    gap = op.b.abs(op.b.subtract(x, y))
    return op.b.compared("LT", gap, float(op.attribute("tolerance", 1e-5)))


def _add_n(op: Op) -> Value:
    if isinstance(op.values[0], TensorList):
        return add_lists(op)
    total, *others = op.tensors()
    for other in others:
        total = op.b.add(*op.b.together(total, other))
    return total


def _select(op: Op) -> Value:
    """Select: a vector condition chooses whole rows; otherwise as SelectV2."""
    condition, on_true, on_false = op.tensors()
    if condition.shape.rank == 1 and on_true.shape.rank > 1:
        condition = op.b.spread(condition, (condition.shape.dims[0], *on_true.shape.dims[1:]), (0,))
    return op.b.select(condition, on_true, on_false)


def _select_v2(op: Op) -> Value:
    return op.b.select(*op.b.together(*op.tensors()))


def _clip(op: Op) -> Value:
    value, low, high = op.b.together(*op.tensors())
    return op.b.maximum(op.b.minimum(value, high), low)


RULES: dict[str, Rule] = {
    **{name: _opcode(opcode) for name, opcode in OPCODES.items()},
    **{name: _comparison(direction) for name, direction in DIRECTIONS.items()},
    "AddN": _add_n,
    "ApproximateEqual": _approximate_equal,
    "ClipByValue": _clip,
    "DivNoNan": _composed(_zero_where(1, "divide")),
    "Div": _division(lambda b, x, y: b.divide(x, y)),
    "FloorDiv": _division(floor_divide),
    "FloorMod": _division(floor_modulo),
    "Mod": _division(lambda b, x, y: b.remainder(x, y)),
    "TruncateDiv": _division(truncate_divide),
    "TruncateMod": _division(lambda b, x, y: b.remainder(x, y)),
    "LeftShift": lambda op: _shift(op, "shift-left"),
    "MulNoNan": _composed(_zero_where(1, "multiply")),
    "Pow": _power,
    "RightShift": _right_shift,
    "Select": _select,
    "SelectV2": _select_v2,
    "SquaredDifference": _composed(_squared_difference),
    "Xdivy": _composed(_zero_where(0, "divide")),
    "Xlog1py": _composed(_zero_where_left(lambda b, x, y: b.multiply(x, b.log_plus_one(y)))),
    "Xlogy": _composed(_zero_where_left(lambda b, x, y: b.multiply(x, b.log(y)))),
}
