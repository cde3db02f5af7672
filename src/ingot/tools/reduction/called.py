# SPDX-License-Identifier: Apache-2.0
"""Programs of the computations that an instruction runs, with the arguments that they get.

A loop has one for each iteration. `ingot diff` searches them for a difference.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ingot.evaluator import Value, evaluate
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.tools.programs.cases import Case

MOST_ITERATIONS = 1000
"""The most iterations of a loop that are examined."""
CALLERS = frozenset({"call", "conditional", "while"})


def called_cases(
    module: Module, caller: Instruction, operands: tuple[Value, ...]
) -> Iterator[tuple[str, Case]]:
    """Yield the programs that `caller` runs on operands of these values, with descriptions."""
    if caller.opcode == "call":
        (called,) = caller.called_computations
        yield f"what {caller.name} calls", Case(program_of(module, called.name), operands)
    elif caller.opcode == "conditional":
        branches = caller.attributes.branch_computations
        number = _branch(operands[0], len(branches))
        made = program_of(module, branches[number].name)
        yield f"branch {number} of {caller.name}", Case(made, (operands[number + 1],))
    elif caller.opcode == "while":
        yield from _iterations(module, caller, operands[0])


def _iterations(module: Module, loop: Instruction, state: Value) -> Iterator[tuple[str, Case]]:
    condition = program_of(module, loop.attributes.condition.name)
    body = program_of(module, loop.attributes.body.name)
    for number in range(MOST_ITERATIONS):
        if not np.asarray(evaluate(condition, (state,))).item():
            return
        yield f"iteration {number} of {loop.name}", Case(body, (state,))
        state = evaluate(body, (state,))


def _branch(index: Value, count: int) -> int:
    """Return the branch of an index; a pred chooses the first if it is true."""
    value = np.asarray(index)
    if value.dtype == np.bool_:
        return 0 if value.item() else 1
    number = int(value.item())
    return number if 0 <= number < count else count - 1


def program_of(module: Module, computation: str) -> Module:
    """Return a copy of a module whose entry is another of its computations."""
    made = module.clone()
    made.set_entry(made.computations[computation])
    for unused in set(made.computations.values()) - set(made.post_order()):
        made.remove(unused)
    made.aliases = ()
    made.extra = {}
    made.name = f"{module.name}.{computation}"
    return made
