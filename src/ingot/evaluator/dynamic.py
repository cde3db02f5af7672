"""Evaluates ops on dynamic dimensions: an array simply has the size that it has.

A dimension declared `<=n` holds at most n elements here, so every rule that goes by its operands'
own shapes (elementwise ops, reductions, dots, concatenations) means the right thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.evaluator.registry import Context, Value, evaluates
from ingot.hlo.instruction import Instruction


@evaluates("set-dimension-size")
def set_dimension_size(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The first elements of a dimension; all of them when the result has no dynamic dimension."""
    operand, size = operands
    (place,) = op.attributes.dimensions
    if not (op.shape.bounded and op.shape.bounded[place]):
        return operand
    return operand[(slice(None),) * place + (slice(max(0, int(size))),)]


@evaluates("dynamic-reshape")
def dynamic_reshape(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The elements in row-major order, in the sizes given."""
    operand, *sizes = operands
    return operand.reshape([int(size) for size in sizes])
