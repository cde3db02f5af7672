# SPDX-License-Identifier: Apache-2.0
"""What buffers of their own ask for: computations with one caller, updated parameters with one use.

Flattening: buffers are assigned per computation, so a body that two loops share would need two
buffers for one value. A computation that `call` runs stays shared: it is a function, whose callers
pass where its parameters and results are. Computations that only fusions and reducers use stay
shared as well.

Splitting: a fusion that updates a parameter and also reads other elements of it cannot overwrite
it. If it gets the operand twice, one parameter is only updated and the other only read; copy
insertion then sees both uses and copies once.

Invariant: afterwards every fused update of a parameter is in place (`analysis.in_place`).

Source: xla/service/flatten_call_graph.cc.
"""

from __future__ import annotations

from ingot.analysis.in_place import updated_parameters
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind
from ingot.hlo.module import Module, retarget, set_called
from ingot.hlo.opdef import opcodes
from ingot.hlo.rewrite.op_pass import op_pass
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.passes.unfolding import check_unfolded
from ingot.support.records import replace

_BRANCHES = opcodes(lambda row: row.regions is RegionKind.BRANCH)


@module_pass("flatten-call-graph", *_BRANCHES, ensures={"flat-call-graph"})
def flatten_call_graph(module: Module, context: PassContext) -> bool:
    """Clones computations that several whiles or conditionals call."""
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


def _shared_updates(fused: Computation) -> list[tuple[Instruction, int]]:
    return [(update, number) for _, update, number, alone in updated_parameters(fused) if not alone]


@op_pass("split-updates", "fusion", ensures=frozenset({"updates-split"}))
def split_updates(fusion: Instruction, module: Module, context: PassContext) -> bool:
    """Duplicates updated parameters that the fusion also reads elsewhere."""
    if not _shared_updates(fusion.attributes.calls):
        return False
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
    return True
