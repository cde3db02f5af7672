# SPDX-License-Identifier: Apache-2.0
"""Loops whose state gets more elements: a copy of a loop, for passes that move work out of it.

A pass makes the values that the loop is to carry in the caller, asks for the wider copy
(`widened`), edits the body of the copy, and lets it take the loop's place (`replace_loop`).

Invariant: the loop itself and its computations stay as they are until the copy replaces it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.operand_order import operands_behind
from ingot.hlo.rewrite.op_pass import OpPass, Visit, op_pass
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.shape import Shape
from ingot.passes.inline import copy_into
from ingot.passes.simplify.while_loops.trip_count import element_index
from ingot.support.records import record

MOVES = ops_with(Trait.RESHAPE_LIKE, also=("transpose",))
"""Linear ops between a summand and the addition: they may also come after the sum."""
_STAYS = ops_with(
    RegionKind.BRANCH,
    RegionKind.CALL,
    RegionKind.SCAN,
    RegionKind.FOREIGN,
    Trait.BARRIER,
    also=("parameter",),
)
"""Ops that depend on where they stand, and those that may fail or not end."""


@record
class WideLoop:
    """A copy of a loop whose state has more elements at its end.

    Attributes:
        loop: the copy, in the same caller.
        body: its body.
        copies: the body's instruction for each one of the old body.
        added: the new elements, as the body reads them; it returns them unchanged.
    """

    loop: Instruction
    body: Computation
    copies: Mapping[Instruction, Instruction]
    added: tuple[Instruction, ...]

    def keep_unchanged(self, numbers: Iterable[int]) -> None:
        """Let the body return elements of the state as it got them."""
        state = self.body.parameters[0]
        build = Builder(self.body, self.loop.metadata)
        read = {element_index(user, state): user for user in state.users}
        for number in numbers:
            element = read.get(number) or build.get_tuple_element(state, index=number)
            self.body.replace_operand(self.body.root, number, element)


@record
class LoopPass(OpPass):
    """Rewrites the plain loops of a module, inner ones first."""

    concerns = frozenset({"while"})

    def visit(self, op: Instruction, module: Module, context: PassContext) -> bool:
        """Rewrite a loop if it is plain."""
        return is_plain(op) and self.rewrite(op, module, context)

    @abstractmethod
    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Rewrite a plain loop, or replace it; return whether anything changed."""


def loop_pass(pass_name: str) -> Callable[[Visit], OpPass]:
    """Make the decorated function the pass `pass_name`, which rewrites plain loops."""

    def make(function: Visit) -> OpPass:
        @op_pass(pass_name, "while")
        @wraps(function)
        def visit(op: Instruction, module: Module, context: PassContext) -> bool:
            return is_plain(op) and function(op, module, context)

        return visit

    return make


def is_plain(loop: Instruction) -> bool:
    """Whether a loop starts with a tuple, ends with one, and reads its state by elements.

    One that has to wait for others is not.
    """
    body: Computation = loop.attributes.body
    condition: Computation = loop.attributes.condition
    states = (body.parameters[0], condition.parameters[0])
    return (
        not loop.control_predecessors
        and loop.operands[0].opcode == "tuple"
        and body.root.opcode == "tuple"
        and all(element_index(user, state) is not None for state in states for user in state.users)
    )


def unchanged_elements(body: Computation) -> set[int]:
    """Return the elements of the state that a loop's body gives back as it got them."""
    state, results = body.parameters[0], body.root.operands
    return {n for n, result in enumerate(results) if element_index(result, state) == n}


def sole_reader(loop: Instruction, number: int) -> Instruction | None:
    """Return the only instruction that is an element of the state, if the condition has none."""
    body: Computation = loop.attributes.body
    condition: Computation = loop.attributes.condition
    found = [
        user
        for state in (body.parameters[0], condition.parameters[0])
        for user in state.users
        if element_index(user, state) == number
    ]
    return found[0] if len(found) == 1 and found[0].parent is body else None


def added_to(loop: Instruction, number: int) -> Instruction | None:
    """Return the value that a loop adds to an element of its state, read by nothing else."""
    result = loop.attributes.body.root.operands[number]
    if result.opcode != "add" or result.use_count != 1 or result.control_predecessors:
        return None
    old = sole_reader(loop, number)
    if old is None or old.use_count != 1 or old not in result.operands:
        return None
    left, right = result.operands
    return right if left is old else left


def invariants(body: Computation) -> dict[Instruction, None]:
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


def copy_before(loop: Instruction, wanted: Iterable[Instruction]) -> dict[Instruction, Instruction]:
    """Compute invariant instructions of a loop's body in its caller; return the copies of all."""
    state: Instruction = loop.attributes.body.parameters[0]
    first = loop.operands[0].operands
    copies = {
        read: first[index]
        for read in state.users
        if (index := element_index(read, state)) is not None
    }
    copy_into(loop.computation, operands_behind(wanted, copies), copies)
    return copies


def widened(
    loop: Instruction,
    values: Sequence[Instruction],
    module: Module,
    stand_for: Sequence[Instruction] = (),
) -> WideLoop:
    """Return a copy of a plain loop whose state also has `values`, in the loop's caller.

    Args:
        loop: the loop.
        values: the first values of the new elements.
        module: gets the copies of the loop's computations.
        stand_for: instructions of the body that the first new elements replace.
    """
    first = loop.operands[0].operands
    values = [*first, *values]
    shape = Shape.tuple(tuple(value.shape for value in values))
    build = Builder(loop.computation, loop.metadata)
    state = build.tuple(*values)
    condition, _, _ = _wide_copy(loop.attributes.condition, shape, len(first), ())
    condition = module.take(condition)
    body, copies, added = _wide_copy(loop.attributes.body, shape, len(first), stand_for)
    body = module.take(body)
    made = build.while_(state, condition=condition, body=body)
    made.extra = dict(loop.extra)
    return WideLoop(made, body, copies, added)


def hoist(loop: Instruction, moved: Sequence[Instruction], module: Module) -> None:
    """Compute invariant instructions of a plain loop's body before it, as elements of its state."""
    copies = copy_before(loop, moved)
    made = widened(loop, [copies[one] for one in moved], module, moved)
    replace_loop(loop, made.loop)


def replace_loop(
    loop: Instruction, made: Instruction, results: Mapping[int, Instruction] | None = None
) -> None:
    """Let a wider copy take a loop's place; `results`: what replaces single elements after it."""
    caller = loop.computation
    build = Builder(caller, loop.metadata)
    caller.transfer_control_deps(loop, made)
    other = results or {}
    elements = [
        other[n] if n in other else build.get_tuple_element(made, index=n)
        for n in range(len(loop.shape.elements))
    ]
    caller.replace_all_uses(loop, build.tuple(*elements))
    caller.remove(loop)


def _wide_copy(
    source: Computation, shape: Shape, count: int, stand_for: Sequence[Instruction]
) -> tuple[Computation, dict[Instruction, Instruction], tuple[Instruction, ...]]:
    """Return a copy of a body or condition, its instructions, and its new elements."""
    made = Computation(source.name)
    build = Builder(made)
    old = source.parameters[0]
    state = build.parameter(0, shape, old.name)
    copies = {old: state}
    if not source.root.shape.is_tuple:
        copy_into(made, source.post_order(), copies)
        made.set_root(copies[source.root])
        return made, copies, ()
    numbers = range(count, len(shape.elements))
    added = tuple(build.get_tuple_element(state, index=number) for number in numbers)
    copies.update(zip(stand_for, added, strict=False))
    inner = [one for one in source.post_order() if not one.is_root or one.users]
    copy_into(made, inner, copies)
    results = (copies[result] for result in source.root.operands)
    made.set_root(build.tuple(*results, *added))
    return made, copies, added
