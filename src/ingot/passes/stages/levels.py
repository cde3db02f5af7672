# SPDX-License-Identifier: Apache-2.0
"""In which stage each instruction of a computation runs.

*Nodes* run between stages: definitions of sizes, and loops and branches that define sizes inside.
A node of level `k` comes after stage `k`; its users are in stage `k + 1` at the earliest. An
instruction without effects goes to the last stage that all of its users allow, where it is fused
with them; one with effects to the first that is possible.

Invariant: whatever an instruction needs is in its own stage, an earlier one, or a node before it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.hlo.size_definitions import (
    definitions,
    in_size_order,
    is_size_definition,
    parameter_symbols,
    used_symbols,
)
from ingot.support.levels import assign_levels
from ingot.support.records import record

VIEWS = ops_with(Trait.TUPLE, also=("parameter",))
"""Values that pass between stages unchanged, and never make a stage by themselves."""

_CONTROL = ops_with(RegionKind.BRANCH)


@record
class Levels:
    """Which stage each instruction of a computation is in.

    Attributes:
        nodes: the nodes of each level, in order.
        stages: the instructions of each stage, in order.
    """

    nodes: tuple[tuple[Instruction, ...], ...]
    stages: tuple[tuple[Instruction, ...], ...]


_LITERAL = ops_with(Trait.CONSTANT_LIKE)


def is_cheap(instruction: Instruction) -> bool:
    """Whether an instruction is cloned wherever it is needed: a constant, broadcast or not."""
    if instruction.opcode == "broadcast":
        return instruction.operands[0].opcode in _LITERAL
    return instruction.opcode in _LITERAL


def is_node(instruction: Instruction, known: Iterable[str]) -> bool:
    """Whether an instruction is a node; `known`: the sizes from outside."""
    if is_size_definition(instruction):
        return True
    if instruction.opcode not in _CONTROL:
        return False
    return any(_defines(called, frozenset(known)) for called in instruction.called_computations)


def _defines(computation: Computation, known: frozenset[str]) -> bool:
    """Whether a computation, or a loop or branch in it, defines sizes."""
    pending = [(computation, known)]
    seen: set[Computation] = set()
    while pending:
        inside, outer = pending.pop()
        if definitions(inside, outer):
            return True
        seen.add(inside)
        bound = outer | parameter_symbols(inside)
        controls = [one for one in inside.calls_and_effects if one.opcode in _CONTROL]
        called = [inner for one in controls for inner in one.called_computations]
        pending += [(inner, bound) for inner in called if inner not in seen]
    return False


def levels_of(computation: Computation, known: frozenset[str]) -> Levels:
    """Return which stage each instruction is in; `known`: the sizes from outside."""
    found = definitions(computation, known)
    inside = known | parameter_symbols(computation)
    order = in_size_order(computation.post_order(), found)
    nodes = {one for one in computation.calls_and_effects if is_node(one, inside)}
    nodes.update(found.values())
    needs: dict[Instruction, list[Instruction]] = {}
    for one in order:
        symbols = used_symbols(one) if found else frozenset[str]()
        definers = [found[name] for name in symbols if name in found and found[name] is not one]
        needs[one] = [*one.operands, *one.control_predecessors, *definers]
    fixed = {one for one in order if one.control_predecessors or has_side_effect(one)}
    level = assign_levels(order, needs, nodes, fixed)
    count = 1 + max(level.values(), default=0)
    return Levels(
        tuple(tuple(o for o in order if o in nodes and level[o] == k) for k in range(count)),
        tuple(
            tuple(o for o in order if o not in nodes and o.opcode not in VIEWS and level[o] == k)
            for k in range(count)
        ),
    )
