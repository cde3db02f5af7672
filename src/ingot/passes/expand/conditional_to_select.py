# SPDX-License-Identifier: Apache-2.0
"""conditional-to-select: conditionals in reducers, comparators and `map` as selects.

Such a computation runs for each element, often for several at once, so both branches are computed
and one result is selected. Loops and branches of the program itself are not changed.

Source: xla/service/conditional_to_select.cc, which does it for `map`.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.inline import inline
from ingot.support.records import record

_CONTROL = ops_with(
    RegionKind.BRANCH, RegionKind.CALL, RegionKind.FUSION, RegionKind.SCAN, RegionKind.FOREIGN
)


@record
class ConditionalToSelect(Pass):
    """Replaces conditionals in computations that are applied to elements."""

    name = "conditional-to-select"
    concerns = frozenset({"conditional"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Rewrite the computations that reachable ops apply to elements."""
        changed = False
        for computation in module.post_order():
            for op in computation.instructions:
                if op.opcode not in _CONTROL:
                    for applied in op.called_computations:
                        changed = _flatten(applied) or changed
        return changed


def _flatten(computation: Computation) -> bool:
    changed = False
    # Branches may contain conditionals, which the next round finds.
    while found := [i for i in computation.post_order() if i.opcode == "conditional"]:
        for conditional in found:
            computation.replace(conditional, _selected(computation, conditional))
        changed = True
    return changed


def _selected(computation: Computation, conditional: Instruction) -> Instruction:
    """Return the result of the selected branch; of the last one if the index is out of range."""
    build = Builder(computation, conditional.metadata)
    index, *operands = conditional.operands
    branches = conditional.attributes.branch_computations
    results = [inline(computation, b, (o,)) for b, o in zip(branches, operands, strict=True)]
    value = results[-1]
    for number in range(len(results) - 2, -1, -1):
        taken = index
        if index.shape.dtype is not PRED:
            this = build.constant(number, index.shape.dtype)
            taken = build.compare(index, this, direction="EQ")
        value = _select(build, taken, results[number], value)
    return value


def _select(build: Builder, taken: Instruction, yes: Instruction, no: Instruction) -> Instruction:
    if not yes.shape.is_tuple:
        return build.select(taken, yes, no)
    elements = range(len(yes.shape.elements))
    pairs = [(build.element_of(yes, n), build.element_of(no, n)) for n in elements]
    return build.tuple(*(_select(build, taken, *pair) for pair in pairs))
