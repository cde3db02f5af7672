# SPDX-License-Identifier: Apache-2.0
"""A topological order of the instructions of one computation.

`Computation.post_order` caches the result of `operands_first` until the next edit.

Invariant: every instruction comes after its operands and control predecessors; independent ones
stay in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from ingot.hlo.instruction import Instruction
from ingot.support.diagnostics import VerifyError
from ingot.support.graphs import needs_first


def operands_first(instructions: Collection[Instruction]) -> list[Instruction]:
    """Return `instructions`, all those of a computation, operands before users.

    Raises:
        VerifyError: the graph has a cycle.
    """
    if _is_in_order(instructions):
        return list(instructions)
    order: list[Instruction] = []
    state: dict[Instruction, bool] = {}
    for start in instructions:
        if start in state:
            continue
        # Most instructions were added after their operands.
        for need in start.operands:
            if need not in state:
                break
        else:
            if not start.control_predecessors:
                state[start] = True
                order.append(start)
                continue
        _visit(start, state, order)
    return order


def operands_behind(
    roots: Iterable[Instruction], known: Container[Instruction]
) -> list[Instruction]:
    """Return the instructions that `roots` need and that are not `known`, operands first.

    What the last operand needs comes before what the others need.
    """
    return needs_first([*roots], lambda one: one.operands[::-1], known)


def is_order(instructions: Collection[Instruction], count: int) -> bool:
    """Whether these are `count` different instructions in a topological order."""
    seen: set[Instruction] = set()
    for instruction in instructions:
        if not seen.issuperset((*instruction.operands, *instruction.control_predecessors)):
            return False
        seen.add(instruction)
    return len(seen) == len(instructions) == count


def _is_in_order(instructions: Collection[Instruction]) -> bool:
    """Whether insertion order is a topological order, as in most computations."""
    seen: set[Instruction] = set()
    for instruction in instructions:
        if instruction.control_predecessors or not seen.issuperset(instruction.operands):
            return False
        seen.add(instruction)
    return True


def _visit(start: Instruction, state: dict[Instruction, bool], order: list[Instruction]) -> None:
    """Append `start` and its predecessors to `order`, depth first, without recursion.

    `state` is False while an instruction is open (on the path from `start`), True when it is done;
    meeting an open one again is a cycle.
    """
    stack = [start]
    while stack:
        item = stack[-1]
        if item in state:
            stack.pop()
            if not state[item]:
                state[item] = True
                order.append(item)
            continue
        state[item] = False
        for need in reversed((*item.operands, *item.control_predecessors)):
            done = state.get(need)
            if done is None:
                stack.append(need)
            elif not done:
                raise VerifyError(
                    f"%{need.name} needs its own result, by operands or control predecessors",
                    instruction=repr(need),
                )
