# SPDX-License-Identifier: Apache-2.0
"""map-to-scan: a `map` whose computation has a loop runs element after element.

Elementwise computations become ops on whole arrays (`map-inliner`); loops cannot, as each element
has its own number of steps. So these few maps become a `scan` over the elements in a row. Branches
stay branches there, as a loop in a branch that is not taken may never end.

Source: xla/service/cpu/ir_emitter.cc, which runs `map` element after element.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import Expander
from ingot.passes.expand.element_loops import applied, has_loop
from ingot.support.records import record


@record
class MapToScan(Expander):
    """Rewrites `map` over computations with loops, reductions, sorts or custom calls."""

    name = "map-to-scan"
    concerns = frozenset({"map"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the elements' results; `op` itself where there is no loop or no element."""
        mapped: Computation = op.attributes.to_apply
        if op.shape.size == 0 or not has_loop(mapped):
            return op
        return applied(build, module, mapped, op.operands)[0]
