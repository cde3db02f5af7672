# SPDX-License-Identifier: Apache-2.0
"""Evaluates control ops: call, while, conditional."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.registry import Context, Value, evaluates
from ingot.hlo.computation import has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.support.trampoline import Recursion

_FIRST_LOOK = 1024
"""Iterations after which a loop's state is compared with the previous one; doubled each time."""


@evaluates("call")
def call(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """The computation's value."""
    return (yield context.call(op.attributes.to_apply, operands, context))


@evaluates("while")
def while_(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """The loop state when the condition first fails.

    A state that the body does not change any more is the result: such a loop would never end, so
    the program may assume that it does.
    """
    state: Value = operands[0]
    steps, look = 0, _FIRST_LOOK
    while (yield context.call(op.attributes.condition, [state], context)):
        context.step(op)
        before, state = state, (yield context.call(op.attributes.body, [state], context))
        steps += 1
        if steps == look:
            if _same(before, state) and not has_side_effect(op):
                break
            look *= 2
    return state


def _same(before: Value, after: Value) -> bool:
    """Whether two states have the same bits."""
    if isinstance(before, tuple) and isinstance(after, tuple):
        return all(map(_same, before, after))
    return before is after or np.asarray(before).tobytes() == np.asarray(after).tobytes()


@evaluates("conditional")
def conditional(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """The chosen branch on its own operand; an index out of range takes the last branch."""
    index, *arguments = operands
    branches = op.attributes.branch_computations
    if index.dtype == np.bool_:
        chosen = 0 if index else 1
    else:
        chosen = int(index) if 0 <= int(index) < len(branches) else len(branches) - 1
    return (yield context.call(branches[chosen], [arguments[chosen]], context))
