# SPDX-License-Identifier: Apache-2.0
"""Splitting: a fused in-place update gets a parameter of its own for the array that it updates.

A fusion that updates a parameter and also reads other elements of it cannot overwrite it. If it
gets the operand twice, one parameter is only updated and the other only read; copy insertion then
sees both uses and copies once.

Invariant: afterwards every fused update of a parameter is in place (`in_place_operands`).
"""

from __future__ import annotations

from ingot.analysis.in_place import updated_parameters
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import OpPass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.support.records import record, replace

SPLIT = "updates-split"


@record
class SplitUpdates(OpPass):
    """Duplicates updated parameters that the fusion also reads elsewhere."""

    name = "split-updates"
    concerns = frozenset({"fusion"})
    ensures = frozenset({SPLIT})

    def visit(self, op: Instruction, module: Module, context: PassContext) -> bool:
        """Split the parameters of a fusion."""
        if not _shared_updates(op.attributes.calls):
            return False
        _split(module, op)
        return True


def _shared_updates(fused: Computation) -> list[tuple[Instruction, int]]:
    return [(update, number) for _, update, number, alone in updated_parameters(fused) if not alone]


def _split(module: Module, fusion: Instruction) -> None:
    fused = module.take(fusion.attributes.calls.clone())
    b = Builder(fused)
    operands = list(fusion.operands)
    for update, number in _shared_updates(fused):
        target = update.operands[number]
        own = b.parameter(len(operands), target.shape, f"{target.name}.updated")
        number_of_target: int = target.attributes.number
        operands.append(operands[number_of_target])
        fused.replace_operand(update, number, own)
    attributes = replace(fusion.attributes, calls=fused)
    computation = fusion.computation
    new = computation.add(
        "fusion", operands, attributes, name=fusion.name, metadata=fusion.metadata
    )
    new.extra = dict(fusion.extra)
    computation.replace(fusion, new)
