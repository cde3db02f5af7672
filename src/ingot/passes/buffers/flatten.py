"""Flattening: every computation that control flow runs gets one caller.

Buffers are assigned per computation, so a body that two loops share would have two buffers at one
place. Computations that only fusions and reducers use are left shared.

Source: xla/service/flatten_call_graph.cc.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from ingot.analysis.liveness import called_by_control_flow
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.inline import check_unfolded

FLAT = "flat-call-graph"


@dataclass(frozen=True, slots=True)
class FlattenCallGraph(Pass):
    """Clones computations that several whiles or conditionals call."""

    name: ClassVar[str] = "flatten-call-graph"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"while", "conditional"})
    ensures: ClassVar[frozenset[str]] = frozenset({FLAT})

    def run(self, module: Module, context: PassContext) -> bool:
        """Clone from the entry down, so that clones of callers are visited too."""
        check_unfolded(module)
        seen: set[Computation] = {module.entry}
        work = [module.entry]
        changed = False
        while work:
            computation = work.pop()
            for instruction in computation.instructions:
                called = called_by_control_flow(instruction)
                if not called:
                    continue
                own = tuple(_own(module, callee, seen) for callee in called)
                if any(new is not old for new, old in zip(own, called, strict=True)):
                    _call(instruction, own)
                    changed = True
                work.extend(own)
        return changed


def _own(module: Module, callee: Computation, seen: set[Computation]) -> Computation:
    if callee in seen:
        callee = module.take(callee.clone())
    seen.add(callee)
    return callee


def _call(instruction: Instruction, called: tuple[Computation, ...]) -> None:
    attributes = instruction.attributes
    if instruction.opcode == "while":
        attributes = replace(attributes, condition=called[0], body=called[1])
    else:
        attributes = replace(attributes, branch_computations=called)
    instruction.computation.set_attributes(instruction, attributes)
