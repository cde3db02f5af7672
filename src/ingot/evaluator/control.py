"""Evaluates control ops: call, while, conditional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.registry import Context, Value, evaluates
from ingot.hlo.instruction import Instruction


@evaluates("call")
def call(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The computation's value."""
    return context.call(op.attributes.to_apply, operands, context)


@evaluates("while")
def while_(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The loop state when the condition first fails."""
    state: Value = operands[0]
    while context.call(op.attributes.condition, [state], context):
        context.step(op)
        state = context.call(op.attributes.body, [state], context)
    return state


@evaluates("conditional")
def conditional(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The chosen branch on its own operand; an index out of range takes the last branch."""
    index, *arguments = operands
    branches = op.attributes.branch_computations
    if index.dtype == np.bool_:
        chosen = 0 if index else 1
    else:
        chosen = int(index) if 0 <= int(index) < len(branches) else len(branches) - 1
    return context.call(branches[chosen], [arguments[chosen]], context)
