# SPDX-License-Identifier: Apache-2.0
"""The fusion pass: decides the kernels of every computation that runs instructions one by one.

These are the entry and the computations of `while`, `conditional` and `call`; reducers and other
scalar computations stay as they are. Decisions are remarks of the context
(`Executable.fusion_log`).
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.interfaces import RegionKind, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.fusion.decide import alone, decide
from ingot.passes.fusion.groups import Decision
from ingot.passes.fusion.outline import outline, stored_products
from ingot.support.records import record

CONTROL = ops_with(RegionKind.BRANCH, RegionKind.CALL)


def controlled_computations(module: Module) -> list[Computation]:
    """Return the computations that run instructions one by one, callees first."""
    seen, stack = {module.entry}, [module.entry]
    while stack:
        calls = stack.pop().calls_and_effects
        called = [c for i in calls if i.opcode in CONTROL for c in i.called_computations]
        stack.extend(c for c in called if c not in seen)
        seen.update(called)
    return [computation for computation in module.post_order() if computation in seen]


@record
class Fusion(Pass):
    """Makes kernels: loop, reduction, multi-output and contraction fusions.

    If the pass is disabled by name, it makes one kernel of each op: every op runs in some kernel.
    """

    name = "fusion"
    ensures = frozenset({"fused"})
    lowers = True

    def run(self, module: Module, context: PassContext) -> bool:
        """Fuse every controlled computation."""
        changed = False
        decisions: list[Decision] = []
        is_left_out = self.name in context.disabled
        contracts = context.fp >= Fp.CONTRACT
        for computation in controlled_computations(module):
            grouping = alone(computation) if is_left_out else decide(computation)
            decisions.extend(grouping.decisions)
            stored = stored_products(grouping.groups) if contracts else ()
            changed |= outline(computation, grouping, stored)
        context.remarks.extend(decisions)
        return changed
