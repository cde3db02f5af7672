# SPDX-License-Identifier: Apache-2.0
"""Dead code, and common subexpressions.

`dce` removes instructions that no result needs and computations that nobody calls. Parameters stay,
as callers give them; unused elements of loop states are `while-loop-simplifier`'s. `cse` merges
instructions that compute the same, and equal reducers.

Source: xla/hlo/transforms/simplifiers/hlo_dce.cc, hlo_cse.cc,
xla/service/hlo_computation_deduplicator.cc.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import attrgetter

from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.hlo.module import Module, retarget
from ingot.hlo.rewrite.fingerprint import Representatives
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.semantics.assertions import always_holds
from ingot.support.graphs import reachable


@module_pass("dce")
def dead_code_elimination(module: Module, context: PassContext) -> bool:
    """Removes instructions that neither a result nor a side effect needs."""
    effects: dict[Computation, bool] = {}
    changed = False
    for computation in module.post_order():
        changed = _clean(computation, effects) or changed
    reachable = set(module.post_order())
    for computation in [c for c in module.computations.values() if c not in reachable]:
        module.remove(computation)
        changed = True
    return changed


def live_instructions(
    computation: Computation, effects: dict[Computation, bool]
) -> set[Instruction]:
    """Return the instructions that the root and side effects need; not assertions that always hold.

    A control dependency alone keeps no instruction alive.
    """
    needed = [
        one
        for one in computation.calls_and_effects
        if has_side_effect(one, effects) and not always_holds(one)
    ]
    return set(reachable([*needed, computation.root], attrgetter("operands")))


def _clean(computation: Computation, effects: dict[Computation, bool]) -> bool:
    live = live_instructions(computation, effects)
    if len(live) == len(computation):
        return False
    changed = False
    for instruction in reversed(computation.post_order()):
        if instruction not in live and instruction.opcode != "parameter":
            computation.remove(instruction)
            changed = True
    return changed


# Ops that call a scalar computation: only these share it, as loops and branches may be rewritten
# with their caller in mind.
_SCALAR_CALLERS = ops_with(RegionKind.ELEMENT, RegionKind.DEVICE)
_NEVER = ops_with(Trait.BARRIER, also=("parameter",))


@module_pass("cse")
def common_subexpression_elimination(module: Module, context: PassContext) -> bool:
    """Keeps the first of several instructions with equal op, operands, shape and attributes."""
    called = Representatives()
    changed = _merge_reducers(module, called)
    effects: dict[Computation, bool] = {}
    for computation in module.post_order():
        changed = _merge(computation, called, effects) or changed
    return changed


def _merge(
    computation: Computation, called: Representatives, effects: dict[Computation, bool]
) -> bool:
    first: dict[Hashable, Instruction] = {}
    numbers: dict[Instruction, int] = {}
    changed = False
    for instruction in computation.post_order():
        numbers[instruction] = len(numbers)
        if not may_merge(instruction, effects):
            continue
        key = expression_key(instruction, numbers, called)
        found = first.setdefault(key, instruction)
        if found is not instruction:
            computation.replace(instruction, found)
            changed = True
    return changed


def may_merge(instruction: Instruction, effects: dict[Computation, bool]) -> bool:
    """Whether an instruction gives the same value wherever it has the same operands."""
    if instruction.opcode in _NEVER or instruction.control_predecessors:
        return False
    return not (instruction.definition.may_have_effects and has_side_effect(instruction, effects))


def expression_key(
    instruction: Instruction, numbers: dict[Instruction, int], called: Representatives
) -> Hashable:
    """Return a key that instructions of equal value share; `numbers` identifies operands."""
    operands = [numbers[operand] for operand in instruction.operands]
    if instruction.has(Trait.COMMUTATIVE):
        operands.sort()
    callees: tuple[Computation, ...] = ()
    attributes = instruction.attributes
    if instruction.definition.callees:
        callees = tuple(map(called.of, instruction.called_computations))
        fields = instruction.definition.fields
        values = (getattr(attributes, row.name) for row in fields)
        attributes = tuple(repr(v) for v in values if not _holds_computations(v))
    extra = tuple(sorted(instruction.extra.items())) if instruction.extra else ()
    return (instruction.opcode, tuple(operands), instruction.shape, attributes, callees, extra)


def _holds_computations(value: object) -> bool:
    if isinstance(value, tuple):
        return any(isinstance(item, Computation) for item in value)  # pyright: ignore
    return isinstance(value, Computation)


def _merge_reducers(module: Module, reducers: Representatives) -> bool:
    """Make ops with equal scalar computations call the same one."""
    changed = False
    for computation in module.post_order():
        if computation.opcodes.isdisjoint(_SCALAR_CALLERS):
            continue
        for instruction in computation.instructions:
            if instruction.opcode not in _SCALAR_CALLERS:
                continue
            replacements = {
                called: reducers.of(called) for called in instruction.called_computations
            }
            if any(old is not new for old, new in replacements.items()):
                retarget(instruction, replacements)
                changed = True
    return changed
