# SPDX-License-Identifier: Apache-2.0
"""while-loop-invariant-code-motion: values that are the same in each trip are computed before it.

An instruction of the body is invariant if it reads only elements of the state that the body returns
unchanged, constants, and other invariants. It moves to the loop's caller, and its result becomes
one more unchanged element of the state. Ops that only move or repeat elements stay, unless an
instruction that moves needs them: recomputing them is cheaper than keeping their results.

Invariant: a loop that is not entered may compute more than before, but has no effect and cannot
fail.

Source: xla/service/while_loop_invariant_code_motion.cc; results larger than what they are computed
from are hoisted if they are dear (while_loop_expensive_invariant_code_motion.cc).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.dim import Dim
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, RegionKind, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.hlo.shape import Shape
from ingot.passes.simplify.inline import copy_into
from ingot.passes.simplify.trip_count import element_index

_CHEAP = ops_with(Trait.SHAPING, Trait.CONSTANT_LIKE, Trait.TUPLE, also=("copy",))
"""Ops that are not worth an element of the state."""

_STAYS = ops_with(
    RegionKind.BRANCH,
    RegionKind.CALL,
    RegionKind.SCAN,
    RegionKind.FOREIGN,
    Trait.BARRIER,
    also=("parameter",),
)
"""Ops that depend on where they stand, and those that may fail or not end."""

_DEAR = ops_with(FusionClass.CONTRACTION, FusionClass.REDUCTION, FusionClass.OPAQUE)
"""Ops whose results are kept whatever memory they take."""


@dataclass(frozen=True, slots=True)
class WhileLoopInvariantCodeMotion(Pass):
    """Moves invariant instructions out of loops.

    Attributes:
        least_elements: smaller results stay: they are computed in registers, and an element of
            the state costs as much.
    """

    name: ClassVar[str] = "while-loop-invariant-code-motion"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"while"})
    least_elements: int = 65

    def run(self, module: Module, context: PassContext) -> bool:
        """Visit the loops of every reachable computation, inner ones first."""
        changed = False
        for computation in module.post_order():
            for loop in [i for i in computation.post_order() if i.opcode == "while"]:
                if loop.parent is not None:
                    changed = self._hoist(loop, module) or changed
        return changed

    def _hoist(self, loop: Instruction, module: Module) -> bool:
        if not can_be_widened(loop):
            return False
        invariant = _invariants(loop.attributes.body)
        hoistable = [
            one
            for one in invariant
            if self._is_worth(one)
            and any(user not in invariant or not self._is_worth(user) for user in one.users)
        ]
        moved = [one for one in hoistable if _is_read(one, invariant, hoistable)]
        if moved:
            widen(loop, moved, module)
        return bool(moved)

    def _is_worth(self, one: Instruction) -> bool:
        """Whether a result is worth an element of the state."""
        if one.opcode in _CHEAP:
            return False
        if not one.shape.is_array or not _at_least(one.shape, self.least_elements):
            return one.opcode in _DEAR and one.shape.is_array
        return one.opcode in _DEAR or one.has(Trait.EXPENSIVE) or not _is_inflated(one)


def _at_least(shape: Shape, least: int) -> bool:
    return not isinstance(shape.size, int) or shape.size >= least


def _is_inflated(one: Instruction) -> bool:
    """Whether a result is larger than all that it is computed from in memory."""
    inner, seen = [one], {one}
    read: int | Dim = 0
    while inner:
        for operand in inner.pop().operands:
            if operand in seen:
                continue
            seen.add(operand)
            if operand.opcode == "get-tuple-element":
                read = read + operand.shape.bytes
            else:
                inner.append(operand)
    size = one.shape.bytes
    return isinstance(size, int) and isinstance(read, int) and size > read


def _invariants(body: Computation) -> dict[Instruction, None]:
    """Return the instructions that are the same in each trip, operands first."""
    state, effects = body.parameters[0], dict[Computation, bool]()
    pinned = {p for one in body.instructions for p in one.control_predecessors}
    found: dict[Instruction, None] = {}
    for one in body.post_order():
        index = element_index(one, state)
        if index is not None:
            if body.root.operands[index] is one:
                found[one] = None
        elif (
            one.opcode not in _STAYS
            and not one.is_root
            and one not in pinned
            and not one.control_predecessors
            and not has_side_effect(one, effects)
            and all(operand in found for operand in one.operands)
        ):
            found[one] = None
    return found


def _is_read(
    one: Instruction, invariant: dict[Instruction, None], hoistable: list[Instruction]
) -> bool:
    """Whether an instruction that stays in the loop needs a result, be it through cheap ops."""
    stack, seen = [one], {one}
    while stack:
        for user in stack.pop().users:
            if user not in invariant:
                return True
            if user not in seen and user not in hoistable:
                seen.add(user)
                stack.append(user)
    return False


def can_be_widened(loop: Instruction) -> bool:
    """Whether all that a loop and its computations do with the state is to take it apart."""
    body: Computation = loop.attributes.body
    condition: Computation = loop.attributes.condition
    start, states = loop.operands[0], (body.parameters[0], condition.parameters[0])
    if start.opcode != "tuple" or body.root.opcode != "tuple" or loop.control_predecessors:
        return False
    return all(element_index(user, state) is not None for state in states for user in state.users)


def widen(loop: Instruction, moved: list[Instruction], module: Module) -> None:
    """Replace a loop by one whose state also has `moved`, instructions of its body.

    They are computed before it, from elements of the state that the body returns unchanged. The
    loop `can_be_widened`.
    """
    caller, body = loop.computation, loop.attributes.body
    first = loop.operands[0].operands
    state: Instruction = body.parameters[0]
    copies = {
        read: first[index]
        for read in state.users
        if (index := element_index(read, state)) is not None
    }
    copy_into(caller, _behind(moved, copies), copies)
    values = [*first, *(copies[one] for one in moved)]
    shape = Shape.tuple(tuple(value.shape for value in values))
    build = Builder(caller, loop.metadata)
    made = build.while_(
        build.tuple(*values),
        condition=module.take(_widened(loop.attributes.condition, shape, (), len(first))),
        body=module.take(_widened(body, shape, moved, len(first))),
    )
    made.extra = dict(loop.extra)
    caller.transfer_control_deps(loop, made)
    results = [build.get_tuple_element(made, index=n) for n in range(len(first))]
    caller.replace_all_uses(loop, build.tuple(*results))
    caller.remove(loop)


def _behind(roots: list[Instruction], known: dict[Instruction, Instruction]) -> list[Instruction]:
    """Return the instructions that `roots` need and that are not `known`, operands first."""
    found: dict[Instruction, None] = {}
    stack = list(reversed(roots))
    while stack:
        item = stack[-1]
        waiting = [one for one in item.operands if one not in found and one not in known]
        if waiting:
            stack += waiting
        else:
            found[stack.pop()] = None
    return list(found)


def _widened(
    source: Computation, shape: Shape, moved: list[Instruction] | tuple[()], count: int
) -> Computation:
    """Return a copy of a body or condition for a state with `moved` at its end."""
    made = Computation(source.name)
    build = Builder(made)
    old = source.parameters[0]
    state = build.parameter(0, shape, old.name)
    copies = {old: state}
    for number, one in enumerate(moved, count):
        copies[one] = build.get_tuple_element(state, index=number)
    copy_into(made, source.post_order(), copies)
    root = copies[source.root]
    if source.root.shape.is_tuple:
        added = [copies[one] for one in moved]
        root = build.tuple(*root.operands, *added)
    made.set_root(root)
    return made
