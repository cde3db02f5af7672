"""Reducers: which op a two-parameter computation is, and the value that changes nothing.

Example:
    >>> from ingot.hlo.builder import scalar_computation
    >>> reducer_opcode(scalar_computation("add", "f32"))
    'add'
"""

from __future__ import annotations

from typing import Any

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opdef import Trait
from ingot.hlo.rewrite.pattern import splat_of


def reducer_opcode(reducer: Computation) -> str:
    """Return the opcode of a reducer that is one commutative op of its two parameters, or ""."""
    root = reducer.root
    if len(reducer.parameters) != 2 or not root.has(Trait.COMMUTATIVE) or len(root.operands) != 2:
        return ""
    return root.opcode if set(root.operands) == set(reducer.parameters) else ""


def identity_of(opcode: str, element: DType) -> Any:
    """Return the value e with `e op x = x` for every x of a type (0 with any sign for add)."""
    if element is PRED:
        return opcode in ("and", "minimum", "multiply")
    least = -float("inf") if element.is_float else -(1 << (element.bits - 1)) * element.is_signed
    greatest = float("inf") if element.is_float else (1 << (element.bits - element.is_signed)) - 1
    all_ones = -1 if element.is_signed else (1 << element.bits) - 1
    table = {
        "add": 0,
        "multiply": 1,
        "maximum": least,
        "minimum": greatest,
        "and": all_ones,
        "or": 0,
        "xor": 0,
    }
    return table[opcode]


def is_identity(start: Instruction, opcode: str) -> bool:
    """Whether an initial value changes nothing under `opcode`."""
    value = splat_of(start)
    return value is not None and bool(value == identity_of(opcode, start.shape.dtype))
