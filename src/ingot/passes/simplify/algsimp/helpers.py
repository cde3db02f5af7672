# SPDX-License-Identifier: Apache-2.0
"""Helpers of the rules: captures, conditions on element types, arithmetic on splat values.

Invariant: arithmetic here gives bit for bit what the op gives at run time (wrapping integers).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ingot.hlo.dtype import PRED, Kind, from_numpy, greatest, least
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pattern import Condition, capture, const, splat_of
from ingot.hlo.rewrite.rule import identity

x, y, z = capture("x"), capture("y"), capture("z")
zero = const(0, name="zero")

contracted = partial(identity, fp=Fp.CONTRACT)
"""An identity that rounds less often than the program says, or another rounding of it."""
approximate = partial(identity, fp=Fp.REASSOCIATE)
"""An identity of real numbers that holds of floats but for rounding and special values."""


def dimensions_of(instruction: Instruction) -> tuple[int, ...]:
    """Return the attribute `dimensions` of `instruction`."""
    found: tuple[int, ...] = instruction.attributes.dimensions
    return found


def keeps_dims(instruction: Instruction) -> bool:
    """Whether the result has the dimensions of the first operand."""
    return instruction.shape.dims == instruction.operands[0].shape.dims


def of(condition: Condition) -> Condition:
    """Return the condition that the first operand meets `condition`."""
    return lambda instruction: condition(instruction.operands[0])


def is_complex(instruction: Instruction) -> bool:
    """Whether elements are complex."""
    return instruction.shape.dtype.is_complex


def is_pred(instruction: Instruction) -> bool:
    """Whether elements are truth values."""
    return instruction.shape.dtype is PRED


def is_real(instruction: Instruction) -> bool:
    """Whether elements are floats or integers."""
    return instruction.shape.dtype.kind in (Kind.FLOAT, Kind.SIGNED, Kind.UNSIGNED)


def is_float(instruction: Instruction) -> bool:
    """Whether elements are floats."""
    return instruction.shape.dtype.is_float


def is_integer(instruction: Instruction) -> bool:
    """Whether elements are integers."""
    return instruction.shape.dtype.is_integer


def is_signed(instruction: Instruction) -> bool:
    """Whether elements are floats or signed integers."""
    return instruction.shape.dtype.kind in (Kind.FLOAT, Kind.SIGNED)


def is_unsigned(instruction: Instruction) -> bool:
    """Whether elements are unsigned integers."""
    return instruction.shape.dtype.kind is Kind.UNSIGNED


def is_bits(instruction: Instruction) -> bool:
    """Whether elements are integers or pred."""
    return instruction.shape.dtype.is_integer or instruction.shape.dtype is PRED


def is_twice(instruction: Instruction) -> bool:
    """Whether an operand has the instruction's own opcode."""
    return instruction.opcode in [operand.opcode for operand in instruction.operands]


# NumPy's function for each op on splat values.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "negate": np.negative,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def compute(opcode: str, *instructions: Instruction) -> Any:
    """Return the value of `opcode` on splat constants, as a NumPy scalar of their type."""
    values = [np.asarray(splat_of(instruction)) for instruction in instructions]
    with np.errstate(all="ignore"):
        result = np.asarray(_FUNCTIONS[opcode](*values))
    return result.astype(values[0].dtype)[()]


def is_least(value: Any) -> bool:
    """Whether a NumPy scalar is the least of its type."""
    element = from_numpy(value.dtype)
    return (element.is_float or element.is_integer) and bool(value == least(element))


def is_greatest(value: Any) -> bool:
    """Whether a NumPy scalar is the greatest of its type."""
    element = from_numpy(value.dtype)
    return (element.is_float or element.is_integer) and bool(value == greatest(element))


def is_all_ones(value: Any) -> bool:
    """Whether every bit of a NumPy integer (or pred) is one."""
    element = from_numpy(value.dtype)
    if element is PRED:
        return bool(value)
    return element.is_integer and int(value) in (-1, (1 << element.bits) - 1)
