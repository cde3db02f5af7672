# SPDX-License-Identifier: Apache-2.0
"""Outlining: each group becomes a `fusion` instruction with its own computation.

Members are cloned into the fused computation from the roots upwards; any other operand becomes a
parameter. Results replace the roots (through `get-tuple-element` when there are several).

A kernel computes a sum of a product as one operation, rounded once. A product that is also a
result reaches other kernels rounded, and so would a sum of it differ from kernel to kernel: of
`s = x*y + c`, no element need equal `max(s)`. Where a product is stored, a `reduce-precision` to
its own type therefore rounds it in every kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, comes_before
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.opset.elementwise import ReducePrecisionAttributes
from ingot.hlo.opset.structural import FusionAttributes, IndexAttributes
from ingot.passes.fusion.groups import Group, Grouping, GroupKind
from ingot.support.diagnostics import VerifyError
from ingot.support.graphs import reachable

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

    `stored`: products that their sums in any kernel take rounded (see the module).
    """
    edges = _take_edges(computation)
    order = {instruction: n for n, instruction in enumerate(computation.post_order())}
    groups = grouping.groups
    # Consumers first: a group's inputs are then still the original instructions.
    groups.sort(key=lambda group: -max([order[root] for root in group.roots]))
    made = [(_outline_group(computation, group, stored), group) for group in groups]
    for fusion, group in made:
        _replace_roots(computation, fusion, group)
    fusions = {group: fusion for fusion, group in made}
    for group in groups:
        for root in group.roots:
            computation.remove_dead(root)
    _put_edges(computation, edges, lambda one: [fusions[g] for g in grouping.groups_with(one)])
    return bool(groups)


_Edge = tuple[Instruction, Instruction]


def _take_edges(computation: Computation) -> list[_Edge]:
    """Remove all control dependencies; return them, the earlier instruction first."""
    later = [one for one in computation.instructions if one.control_predecessors]
    edges = [(before, one) for one in later for before in one.control_predecessors]
    for one in later:
        one.run_after(())
    return edges


def _put_edges(
    computation: Computation,
    edges: Sequence[_Edge],
    kernels: Callable[[Instruction], list[Instruction]],
) -> None:
    """Let kernels run in the order of the instructions that they compute.

    Instructions of one kernel have no order. An edge is dropped if a kernel would wait for itself.

    Args:
        computation: the computation, with its kernels.
        edges: the earlier instruction of each first.
        kernels: returns those that compute an instruction, none if it is in no kernel.
    """
    wanted: dict[Instruction, dict[Instruction, None]] = {}
    for earlier, later in edges:
        for before in kernels(earlier) or [earlier]:
            for after in kernels(later) or [later]:
                if before is not after and before in computation and after in computation:
                    wanted.setdefault(after, {})[before] = None
    for after, given in wanted.items():
        after.run_after(tuple(given))
    try:
        computation.post_order()
    except VerifyError:
        _put_without_cycles(wanted)


def _put_without_cycles(wanted: dict[Instruction, dict[Instruction, None]]) -> None:
    """Put the edges one by one, without those that close a cycle."""
    for after in wanted:
        after.run_after(())
    for after, given in wanted.items():
        for before in given:
            if not comes_before(after, [before]):
                after.run_after((*after.control_predecessors, before))


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


_MOVES = ops_with(Trait.SHAPING)
_OWN_PRECISION = {
    F32: ReducePrecisionAttributes(exponent_bits=8, mantissa_bits=23),
    F64: ReducePrecisionAttributes(exponent_bits=11, mantissa_bits=52),
}


def stored_products(groups: Iterable[Group]) -> set[Instruction]:
    """Return the products of floats whose elements are results, in whichever order."""
    found: set[Instruction] = set()
    for group in groups:
        for value in reachable(group.roots, partial(_moved, group)):
            if value.opcode == "multiply" and value.shape.dtype in _OWN_PRECISION:
                found.add(value)
    return found


def _moved(group: Group, value: Instruction) -> tuple[Instruction, ...]:
    """Return the operands of a member of a kernel that only moves them."""
    return value.operands if value.opcode in _MOVES and value in group.members else ()


def may_be_added(product: Instruction, members: Collection[Instruction]) -> bool:
    """Whether a product may be an operand of a sum among the members of a kernel."""
    return any(
        user.opcode in _MOVES or (len(user.operands) > 1 and user.opcode != "multiply")
        for user in product.users
        if user in members
    )


def rounded(product: Instruction) -> Instruction:
    """Return a product as memory would hold it: an instruction of the same computation."""
    attributes = _OWN_PRECISION[product.shape.dtype]
    return product.computation.add("reduce-precision", (product,), attributes)
