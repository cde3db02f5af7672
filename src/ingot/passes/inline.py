# SPDX-License-Identifier: Apache-2.0
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

from collections.abc import Callable, Iterator, Mapping, Sequence

from ingot.hlo.computation import Computation, has_side_effect, reached
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.passes.unfolding import unfolding
from ingot.semantics.frontend_attributes import SCHEDULING_GROUP, read_attribute, write_attribute
from ingot.support.records import record


def inline(into: Computation, callee: Computation, operands: Sequence[Instruction]) -> Instruction:
    """Copy the instructions of `callee` into `into`, parameters replaced; return the result."""
    copies: dict[Instruction, Instruction] = dict(zip(callee.parameters, operands, strict=True))
    return copy_into(into, callee.post_order(), copies)[callee.root]


Choice = Callable[[Instruction], tuple[Computation, Sequence[Instruction]] | None]
"""Which computation stands for an instruction, and its arguments; None where the op stays."""


def inline_all(module: Module, choose: Choice) -> bool:
    """Replace every reachable op that `choose` takes by the body that it calls.

    Calls that would come to too many instructions stay (`passes.unfolding`). Callers come first:
    an op in a body is replaced where the body was copied to, so that each instruction is copied
    once for each of its copies in the result, however deep the calls are.

    Args:
        module: the program.
        choose: asked for every instruction that has effects or calls a computation.

    Raises:
        ResourceError: INGOT0403
    """
    found = unfolding(module)

    def chosen(op: Instruction) -> tuple[Computation, Sequence[Instruction]] | None:
        return None if op.opcode == "call" and found.stays(op) else choose(op)

    inlined = [_inline_in(computation, chosen) for computation in reached(module.entry)]
    return any(inlined)


def called_by(opcode: str) -> Choice:
    """Return a `choose` for every op `opcode`, which applies its computation to its operands."""

    def choose(instruction: Instruction) -> tuple[Computation, Sequence[Instruction]] | None:
        if instruction.opcode != opcode:
            return None
        return instruction.called_computations[0], instruction.operands

    return choose


def _inline_in(computation: Computation, choose: Choice) -> bool:
    """Inline in one computation.

    All bodies are copied before any op is replaced, so each use gets its final value at once, not
    one per level of calls.
    """
    bodies: dict[Instruction, _Body] = {}
    work = computation.calls_and_effects[::-1]
    while work:
        call = work.pop()
        chosen = choose(call)
        if chosen is not None:
            made = bodies[call] = _copy_body(call, *chosen)
            work.extend(one for one in reversed(made.items) if one.definition.may_have_effects)
    values: dict[Instruction, Instruction] = {}
    for call, made in reversed(bodies.items()):
        result = _value(call, bodies, values)
        computation.substitute(call, result, _effects(made, bodies))
    return bool(bodies)


def _value(
    call: Instruction,
    bodies: Mapping[Instruction, _Body],
    values: dict[Instruction, Instruction],
) -> Instruction:
    """Return the value that finally replaces a call, through calls that are results of bodies."""
    path: list[Instruction] = []
    value = call
    while value in bodies and value not in values:
        path.append(value)
        value = bodies[value].result
    value = values.get(value, value)
    values.update(dict.fromkeys(path, value))
    return value


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
            copy.run_after(tuple(copies[p] for p in instruction.control_predecessors))
    return copies


@record
class _Body:
    """A body that was copied to its call: all copies, and its result."""

    items: list[Instruction]
    result: Instruction


def replace_by_call(
    call: Instruction, callee: Computation, operands: Sequence[Instruction]
) -> None:
    """Replace `call` by the inlined body of `callee`.

    The call's control predecessors run before the whole body; its control successors run after the
    result and the body's effects.
    """
    made = _copy_body(call, callee, operands)
    call.computation.substitute(call, made.result, _effects(made, {}))


def _copy_body(call: Instruction, callee: Computation, operands: Sequence[Instruction]) -> _Body:
    """Copy the body of a call to where the call is; the call itself stays."""
    copies: dict[Instruction, Instruction] = dict(zip(callee.parameters, operands, strict=True))
    result = copy_into(call.computation, callee.post_order(), copies)[callee.root]
    items = [copy for source, copy in copies.items() if source.opcode != "parameter"]
    before = call.control_predecessors
    if before:
        for item in items:
            item.run_after((*item.control_predecessors, *before))
    group = read_attribute(call.extra, SCHEDULING_GROUP)
    if group is not None:
        for item in items:
            if read_attribute(item.extra, SCHEDULING_GROUP) is None:
                write_attribute(item.extra, SCHEDULING_GROUP, group)
    return _Body(items, result)


def _effects(body: _Body, bodies: Mapping[Instruction, _Body]) -> Iterator[Instruction]:
    """Yield a body's instructions with effects, those of bodies inlined into it included."""
    work = body.items[::-1]
    while work:
        item = work.pop()
        if item in bodies:
            work.extend(reversed(bodies[item].items))
        elif has_side_effect(item):
            yield item
