# SPDX-License-Identifier: Apache-2.0
"""Flattening: every computation that loops and branches run gets one caller.

Buffers are assigned per computation, so a body that two loops share would need two buffers for one
value. A computation that `call` runs stays shared: it is a function, whose callers pass where its
parameters and results are. Computations that only fusions and reducers use stay shared as well.

Source: xla/service/flatten_call_graph.cc.
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.interfaces import RegionKind
from ingot.hlo.module import Module, retarget, set_called
from ingot.hlo.opdef import opcodes
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.unfolding import check_unfolded
from ingot.support.records import record

FLAT = "flat-call-graph"
_BRANCHES = opcodes(lambda row: row.regions is RegionKind.BRANCH)


@record
class FlattenCallGraph(Pass):
    """Clones computations that several whiles or conditionals call."""

    name = "flatten-call-graph"
    concerns = frozenset(_BRANCHES)
    ensures = frozenset({FLAT})

    def run(self, module: Module, context: PassContext) -> bool:
        """Clone from the entry down, so that clones of callers are visited too."""
        check_unfolded(module)
        seen: set[Computation] = {module.entry}
        functions: dict[Computation, Computation] = {}
        work = [module.entry]
        changed = False
        while work:
            computation = work.pop()
            for instruction in computation.calls_and_effects:
                if instruction.opcode == "call":
                    callee: Computation = instruction.attributes.to_apply
                    if callee not in functions:
                        functions[callee] = _own(module, callee, seen)
                        work.append(functions[callee])
                    if functions[callee] is not callee:
                        retarget(instruction, functions)
                        changed = True
                    continue
                if instruction.opcode not in _BRANCHES:
                    continue
                own = [_own(module, callee, seen) for callee in instruction.called_computations]
                changed = changed or own != [*instruction.called_computations]
                set_called(instruction, own)
                work.extend(own)
        return changed


def _own(module: Module, callee: Computation, seen: set[Computation]) -> Computation:
    if callee in seen:
        callee = module.take(callee.clone())
    seen.add(callee)
    return callee
