# SPDX-License-Identifier: Apache-2.0
"""The fusion pass: decides the kernels of every computation that runs instructions one by one.

These are the entry and the computations of `while`, `conditional` and `call`; reducers and other
scalar computations stay as they are. Decisions are remarks of the context
(`Executable.fusion_log`).

Before it, a concatenation of thousands of operands becomes a tree of narrow ones. A kernel searches
for each element the operand that it lies in, so with many operands its run time and LLVM's time
grow with the square of their number. In the tree each part has few operands, and is a kernel of its
own: `legality` (`why_not_each`) does not join parts.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> from ingot.hlo.rewrite.pass_base import PassContext, module_pass
    >>> b = Builder("main")
    >>> joined = b.concatenate(*[b.parameter(0, "f32[2]")] * 100, dimensions=(0,))
    >>> wide_concatenates.run(Module.of("m", b.build(joined)), PassContext())
    True
    >>> [len(part.operands) for part in b.computation.root.operands]
    [64, 36]
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.licence import Fp
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.passes.fusion.decide import alone, decide
from ingot.passes.fusion.groups import Decision
from ingot.passes.fusion.legality import IN_PLACE, MAX_PARTS
from ingot.passes.fusion.outline import outline, stored_products
from ingot.support.graphs import reachable

CONTROL = ops_with(RegionKind.BRANCH, RegionKind.CALL)


def controlled_computations(module: Module) -> list[Computation]:
    """Return the computations that run instructions one by one, callees first."""

    def called(computation: Computation) -> list[Computation]:
        control = [one for one in computation.calls_and_effects if one.opcode in CONTROL]
        return [inner for one in control for inner in one.called_computations]

    controlled = set(reachable([module.entry], called))
    return [computation for computation in module.post_order() if computation in controlled]


def own_fills(computation: Computation) -> bool:
    """Give updates in place a broadcast constant of their own where others read it, too.

    The others then compute it; else they would read it from memory, before it is updated or from a
    copy. Return whether there was one.
    """
    shared = [
        (user, number, fill)
        for fill in computation.instructions
        if fill.opcode == "broadcast" and fill.operands[0].opcode == "constant"
        for user in fill.users
        if len(fill.users) > 1 and user.opcode in IN_PLACE
        for number, operand in enumerate(user.destinations)
        if operand is fill
    ]
    for user, number, fill in shared:
        if len(fill.users) > 1:  # the last one has it for itself
            computation.replace_operand(user, number, computation.copy_of(fill, fill.operands))
    return bool(shared)


@module_pass("fusion", ensures={"fused"}, lowers=True)
def fusion(module: Module, context: PassContext) -> bool:
    """Makes kernels: loop, reduction, multi-output and contraction fusions.

    If the pass is disabled by name, it makes one kernel of each op: every op runs in some kernel.
    """
    changed = False
    decisions: list[Decision] = []
    is_left_out = "fusion" in context.disabled
    contracts = context.fp >= Fp.CONTRACT
    for computation in controlled_computations(module):
        changed |= own_fills(computation)
        grouping = alone(computation) if is_left_out else decide(computation)
        decisions.extend(grouping.decisions)
        stored = stored_products(grouping.groups) if contracts else ()
        changed |= outline(computation, grouping, stored)
    context.remarks.extend(decisions)
    return changed


@expander("wide-concatenates", "concatenate", lowers=True)
def wide_concatenates(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Splits concatenations of many operands into trees."""
    if len(op.operands) <= MAX_PARTS:
        return op
    level: list[Instruction] = list(op.operands)

    def joined(first: int) -> Instruction:
        group = level[first : first + MAX_PARTS]
        dimensions = op.attributes.dimensions
        return build.concatenate(*group, dimensions=dimensions) if len(group) > 1 else group[0]

    while len(level) > 1:
        level = [joined(first) for first in range(0, len(level), MAX_PARTS)]
    return level[0]
