# SPDX-License-Identifier: Apache-2.0
"""Dead code: instructions that no result needs, computations that nobody calls.

Parameters stay, as callers give them; unused elements of loop states are `while-loop-simplifier`'s.
Source: xla/hlo/transforms/simplifiers/hlo_dce.cc.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.semantics.assertions import always_holds
from ingot.support.records import record


@record
class DeadCodeElimination(Pass):
    """Removes instructions that neither a result nor a side effect needs."""

    name = "dce"

    def run(self, module: Module, context: PassContext) -> bool:
        """Clean every reachable computation, callees first, and drop the unreachable ones."""
        effects: dict[Computation, bool] = {}
        changed = False
        for computation in module.post_order():
            changed = _clean(computation, effects) or changed
        reachable = set(module.post_order())
        for computation in [c for c in module.computations.values() if c not in reachable]:
            module.remove(computation)
            changed = True
        return changed


def live_instructions(
    computation: Computation, effects: dict[Computation, bool]
) -> set[Instruction]:
    """Return the instructions that the root and side effects need; not assertions that always hold.

    A control dependency alone keeps no instruction alive.
    """
    live: set[Instruction] = set()
    stack = [
        i
        for i in computation.calls_and_effects
        if has_side_effect(i, effects) and not always_holds(i)
    ]
    stack.append(computation.root)
    while stack:
        item = stack.pop()
        if item not in live:
            live.add(item)
            stack.extend(item.operands)
    return live


def _clean(computation: Computation, effects: dict[Computation, bool]) -> bool:
    live = live_instructions(computation, effects)
    if len(live) == len(computation):
        return False
    changed = False
    for instruction in reversed(computation.post_order()):
        if instruction not in live and instruction.opcode != "parameter":
            computation.remove(instruction)
            changed = True
    return changed
