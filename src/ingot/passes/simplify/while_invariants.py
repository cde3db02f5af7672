# SPDX-License-Identifier: Apache-2.0
"""while-loop-invariant-code-motion: values that are the same in each trip are computed before it.

An instruction of the body is invariant if it reads only elements of the state that the body returns
unchanged, constants, and other invariants. It moves to the loop's caller, and its result becomes
one more unchanged element of the state. Ops that only move or repeat elements stay, unless an
instruction that moves needs them: recomputing them is cheaper than keeping their results.

Invariant: a loop that is not entered may compute more than before, but has no effect and cannot
fail.

Source: xla/service/while_loop_invariant_code_motion.cc; results larger than what they are computed
from are hoisted if they are dear (while_loop_expensive_invariant_code_motion.cc).
"""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.shape import Shape
from ingot.passes.simplify.while_state import LoopPass, hoist, invariants
from ingot.support.records import record

_CHEAP = ops_with(Trait.SHAPING, Trait.CONSTANT_LIKE, Trait.TUPLE, also=("copy",))
"""Ops that are not worth an element of the state."""

_DEAR = ops_with(FusionClass.CONTRACTION, FusionClass.REDUCTION, FusionClass.OPAQUE)
"""Ops whose results are kept whatever memory they take."""


@record
class WhileLoopInvariantCodeMotion(LoopPass):
    """Moves invariant instructions out of loops.

    Attributes:
        least_elements: smaller results stay: they are computed in registers, and an element of
            the state costs as much.
    """

    name = "while-loop-invariant-code-motion"
    least_elements: int = 65

    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Hoist what is worth an element of the state; return whether anything was."""
        invariant = invariants(loop.attributes.body)
        hoistable = [
            one
            for one in invariant
            if self._is_worth(one)
            and any(user not in invariant or not self._is_worth(user) for user in one.users)
        ]
        moved = [one for one in hoistable if _is_read(one, invariant, hoistable)]
        if moved:
            hoist(loop, moved, module)
        return bool(moved)

    def _is_worth(self, one: Instruction) -> bool:
        """Whether a result is worth an element of the state."""
        if one.opcode in _CHEAP:
            return False
        if not one.shape.is_array or not _at_least(one.shape, self.least_elements):
            return one.opcode in _DEAR and one.shape.is_array
        return one.opcode in _DEAR or one.has(Trait.EXPENSIVE) or not _is_inflated(one)


def _at_least(shape: Shape, least: int) -> bool:
    return not isinstance(shape.size, int) or shape.size >= least


def _is_inflated(one: Instruction) -> bool:
    """Whether a result is larger than all that it is computed from in memory."""
    inner, seen = [one], {one}
    read: int | Dim = 0
    while inner:
        for operand in inner.pop().operands:
            if operand in seen:
                continue
            seen.add(operand)
            if operand.opcode == "get-tuple-element":
                read = read + operand.shape.bytes
            else:
                inner.append(operand)
    size = one.shape.bytes
    return isinstance(size, int) and isinstance(read, int) and size > read


def _is_read(
    one: Instruction, invariant: dict[Instruction, None], hoistable: list[Instruction]
) -> bool:
    """Whether an instruction that stays in the loop needs a result, perhaps through cheap ops."""
    stack, seen = [one], {one}
    while stack:
        for user in stack.pop().users:
            if user not in invariant:
                return True
            if user not in seen and user not in hoistable:
                seen.add(user)
                stack.append(user)
    return False
