# SPDX-License-Identifier: Apache-2.0
"""defuser: replaces fusions that a module came with by their instructions.

XLA's dumps after its optimizations have fusions for its own emitters; Ingot decides its own. Runs
first, so that every pass sees plain ops.

Source: xla/service/defuser.cc.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.inline import called_by, inline_all
from ingot.support.records import record


@record
class Defuser(Pass):
    """Replaces every fusion by the body of its computation."""

    name = "defuser"
    concerns = frozenset({"fusion"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Inline in every reachable computation."""
        for computation in module.post_order():
            fusions = {i for i in computation.calls_and_effects if i.opcode == "fusion"}
            if fusions:
                _free(computation, fusions)
        return inline_all(module, called_by("fusion"))


def _free(computation: Computation, fusions: set[Instruction]) -> None:
    """Remove control dependencies of fusions: they ordered uses of buffers that are gone."""
    for instruction in computation.instructions:
        if instruction in fusions:
            instruction.run_after(())
        elif fusions.intersection(instruction.control_predecessors):
            others = (p for p in instruction.control_predecessors if p not in fusions)
            instruction.run_after(tuple(others))
