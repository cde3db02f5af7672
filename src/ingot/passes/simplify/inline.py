"""Inlining: a computation's instructions put where they are called.

Example:
    >>> from ingot.hlo.builder import Builder
    >>> b = Builder("square")
    >>> p = b.parameter(0, "f32[2]")
    >>> square = b.build(b.multiply(p, p))
    >>> c = Builder("main")
    >>> inline(c.computation, square, (c.parameter(0, "f32[2]"),)).opcode
    'multiply'
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module


def inline(into: Computation, callee: Computation, operands: Sequence[Instruction]) -> Instruction:
    """Copy the instructions of `callee` into `into`, parameters replaced; return the result."""
    copies: dict[Instruction, Instruction] = dict(zip(callee.parameters, operands, strict=True))
    return copy_into(into, callee.post_order(), copies)[callee.root]


def inline_all(module: Module, opcode: str) -> bool:
    """Replace every op `opcode` that the program reaches by the body that it calls.

    From the callers down: an op in a body is replaced where the body was copied to, so that each
    instruction is copied once for each place that it comes to, however deep the calls are.
    """
    changed = False
    for computation in _reached_otherwise(module, opcode):
        work = [i for i in computation.actors if i.opcode == opcode][::-1]
        changed = changed or bool(work)
        while work:
            call = work.pop()
            body = replace_by_call(call, call.called_computations[0], call.operands)
            work.extend(i for i in reversed(body) if i.opcode == opcode)
    return changed


def _reached_otherwise(module: Module, opcode: str) -> list[Computation]:
    """Return what the entry reaches through other ops than `opcode` and the ops in their bodies."""
    direct: dict[Computation, None] = {module.entry: None}
    for computation in reversed(module.post_order()):
        for op in computation.actors:
            if op.opcode != opcode:
                direct.update(dict.fromkeys(op.called_computations))
    return list(direct)


def copy_into(
    into: Computation, instructions: Sequence[Instruction], copies: dict[Instruction, Instruction]
) -> dict[Instruction, Instruction]:
    """Copy instructions (operands first) that `copies` does not hold yet; return `copies`."""
    for instruction in instructions:
        if instruction in copies:
            continue
        copy = into.copy_of(instruction, [copies[o] for o in instruction.operands])
        copies[instruction] = copy
        if instruction.control_predecessors:
            copy.control_predecessors = tuple(copies[p] for p in instruction.control_predecessors)
    return copies


def replace_by_call(
    call: Instruction, callee: Computation, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Replace `call` by the inlined body of `callee`, which is returned.

    All of the body comes after what the call had to come after, and what had to come after the call
    comes after the result and after the body's effects.
    """
    caller = call.computation
    copies: dict[Instruction, Instruction] = dict(zip(callee.parameters, operands, strict=True))
    result = copy_into(caller, callee.post_order(), copies)[callee.root]
    body = [copy for source, copy in copies.items() if source.opcode != "parameter"]
    before = call.control_predecessors
    if before:
        for item in body:
            item.control_predecessors = (*item.control_predecessors, *before)
    caller.hand_on_order(call, result, (item for item in body if has_side_effect(item)))
    caller.replace_all_uses(call, result)
    if not call.users and not call.is_root:
        caller.remove(call)
    return body
