# SPDX-License-Identifier: Apache-2.0
"""Outlining: each group becomes a `fusion` instruction with its own computation.

Members are cloned into the fused computation from the roots upwards; any other operand becomes a
parameter. Results replace the roots (through `get-tuple-element` when there are several).
"""

from __future__ import annotations

from collections.abc import Collection

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.structural import FusionAttributes, IndexAttributes
from ingot.passes.fusion.groups import Group, Grouping, GroupKind
from ingot.passes.fusion.stored_products import may_be_added, rounded

_NAMES = {
    GroupKind.LOOP: "loop_fusion",
    GroupKind.REDUCTION: "reduce_fusion",
    GroupKind.CONTRACTION: "dot_fusion",
    GroupKind.IN_PLACE: "update_fusion",
}


def outline(
    computation: Computation,
    grouping: Grouping,
    stored: Collection[Instruction] = (),
) -> bool:
    """Replace every group of `computation` by a fusion; return whether there was one.

    `stored`: products that their sums in any kernel take rounded (`stored_products`).
    """
    order = {instruction: n for n, instruction in enumerate(computation.post_order())}
    groups = grouping.groups
    # Consumers first: a group's inputs are then still the original instructions.
    groups.sort(key=lambda group: -max([order[root] for root in group.roots]))
    made = [(_outline_group(computation, group, stored), group) for group in groups]
    for fusion, group in made:
        _replace_roots(computation, fusion, group)
    for group in groups:
        for root in group.roots:
            computation.remove_dead(root)
    return bool(groups)


def _outline_group(
    computation: Computation, group: Group, stored: Collection[Instruction]
) -> Instruction:
    assert computation.module is not None
    name = f"fused_{_NAMES[group.kind].removesuffix('_fusion')}"
    fused = computation.module.take(Computation(name))
    builder = Builder(fused)
    clones: dict[Instruction, Instruction] = {}
    operands: list[Instruction] = []
    members, stack = group.members, group.roots[::-1]
    while stack:
        item = stack.pop()
        if item in clones:
            continue
        if item not in members:
            clones[item] = builder.parameter_like(item)
            operands.append(item)
            continue
        inner = item.operands
        pending = [operand for operand in inner if operand not in clones]
        if pending:
            stack.append(item)
            stack += pending[::-1]
        else:
            clone = fused.copy_of(item, [clones[operand] for operand in inner])
            is_rounded = item in stored and may_be_added(item, members)
            clones[item] = rounded(clone) if is_rounded else clone
    roots = [clones[root] for root in group.roots]
    builder.build(roots[0] if len(roots) == 1 else builder.tuple(*roots))
    attributes = FusionAttributes(group.kind.value, fused)
    return computation.add(
        "fusion",
        operands,
        attributes,
        name=_NAMES[group.kind],
        metadata=group.main.metadata,
    )


def _replace_roots(computation: Computation, fusion: Instruction, group: Group) -> None:
    for number, root in enumerate(group.roots):
        result = fusion
        if len(group.roots) > 1:
            result = computation.add(
                "get-tuple-element", (fusion,), IndexAttributes(number), metadata=root.metadata
            )
        computation.replace_all_uses(root, result)
