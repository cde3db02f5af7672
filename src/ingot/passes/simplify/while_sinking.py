# SPDX-License-Identifier: Apache-2.0
"""while-loop-constant-sinking: what only repeats elements is repeated inside of loops.

An element of the state that the body returns unchanged, and that is a broadcast or an iota before
the loop, becomes one in the body and in the condition: the state holds the smaller value, and rules
see what the element is. Constants are sunk by `simplify-while-loops`.

Source: xla/service/while_loop_constant_sinking.cc (which sinks broadcasts of constants).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import Pass, PassContext
from ingot.passes.simplify.trip_count import element_index
from ingot.passes.simplify.while_state import is_plain, replace_loop, widened


@dataclass(frozen=True, slots=True)
class WhileLoopConstantSinking(Pass):
    """Repeats elements inside of loops that only read them."""

    name: ClassVar[str] = "while-loop-constant-sinking"
    concerns: ClassVar[frozenset[str] | None] = frozenset({"while"})

    def run(self, module: Module, context: PassContext) -> bool:
        """Visit the loops of every reachable computation, outer ones first."""
        changed = False
        for computation in reversed(module.post_order()):
            for loop in [i for i in computation.post_order() if i.opcode == "while"]:
                if loop.parent is not None and is_plain(loop):
                    changed = _sink(loop, module) or changed
        return changed


def _sink(loop: Instruction, module: Module) -> bool:
    body: Computation = loop.attributes.body
    state = body.parameters[0]
    unchanged = {
        number: loop.operands[0].operands[number]
        for number, result in enumerate(body.root.operands)
        if element_index(result, state) == number
    }
    sunk = {
        number: first
        for number, first in unchanged.items()
        if _repeats(first) and _is_read(loop, number)
    }
    if not sunk:
        return False
    values = list(dict.fromkeys(value for first in sunk.values() for value in first.operands))
    made = widened(loop, values, module)
    inside = dict(zip(values, made.added, strict=True))
    build = Builder(made.body, loop.metadata)
    for read in made.body.parameters[0].users:
        number = element_index(read, made.body.parameters[0])
        if number is None or number not in sunk or read.use_count == 1:
            continue
        first = sunk[number]
        copy = build.computation.copy_of(first, [inside[value] for value in first.operands])
        made.body.replace_all_uses(read, copy)
        made.keep_unchanged([number])
    replace_loop(loop, made.loop)
    return True


def _repeats(value: Instruction) -> bool:
    """Whether a value is smaller than its shape: an iota, or a broadcast of fewer elements."""
    if value.opcode == "iota":
        return True
    if value.opcode != "broadcast":
        return False
    size, whole = value.operands[0].shape.size, value.shape.size
    return isinstance(size, int) and isinstance(whole, int) and size < whole


def _is_read(loop: Instruction, number: int) -> bool:
    """Whether the body reads an element of the state besides returning it."""
    state = loop.attributes.body.parameters[0]
    reads = [one for one in state.users if element_index(one, state) == number]
    return len(reads) == 1 and reads[0].use_count > 1
