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

from collections.abc import Iterator, Sequence

from ingot.hlo.computation import Computation, has_side_effect
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.support.diagnostics import ResourceError


def inline(into: Computation, callee: Computation, operands: Sequence[Instruction]) -> Instruction:
    """Copy the instructions of `callee` into `into`, parameters replaced; return the result."""
    copies: dict[Instruction, Instruction] = dict(zip(callee.parameters, operands, strict=True))
    return copy_into(into, callee.post_order(), copies)[callee.root]


MAX_GROWTH = 4
MAX_UNFOLDED = 250_000
"""Instructions of a program with each called computation copied to where it is called: at most so
many, or so many times what is written. Thirty lines of computations that each call the next twice
come to 2^30."""


def check_unfolded(module: Module) -> None:
    """Refuse a program whose calls, fusions, loops and branches come to too many instructions.

    Raises:
        ResourceError: INGOT0403
    """
    sizes: dict[Computation, int] = {}
    for computation in module.post_order():
        called = [inner for op in computation.actors for inner in op.called_computations]
        sizes[computation] = len(computation) + sum(sizes[inner] for inner in called)
    most = max(MAX_UNFOLDED, MAX_GROWTH * module.instruction_count)
    size = sizes[module.entry]
    if size > most:
        count = str(size) if size < 1 << 40 else f"2^{size.bit_length() - 1}"
        raise ResourceError(
            f"the program comes to {count} instructions when each computation stands where it is "
            f"called, and {most} are the most that are compiled",
            code="INGOT0403",
            hint="call a computation in a loop, not from many places",
        )


def inline_all(module: Module, opcode: str) -> bool:
    """Replace every op `opcode` that the program reaches by the body that it calls.

    From the callers down: an op in a body is replaced where the body was copied to, so that each
    instruction is copied once for each place that it comes to, however deep the calls are.

    Raises:
        ResourceError: INGOT0403
    """
    check_unfolded(module)
    changed = False
    for computation in from_callers(module):
        work = [i for i in computation.actors if i.opcode == opcode][::-1]
        changed = changed or bool(work)
        while work:
            call = work.pop()
            body = replace_by_call(call, call.called_computations[0], call.operands)
            work.extend(i for i in reversed(body) if i.opcode == opcode)
    return changed


def from_callers(module: Module) -> Iterator[Computation]:
    """Yield the entry, then what those that were yielded call by then, each once."""
    seen, pending = {module.entry}, [module.entry]
    while pending:
        computation = pending.pop()
        yield computation
        called = [inner for inner in computation.callees() if inner not in seen]
        seen.update(called)
        pending.extend(reversed(called))


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
