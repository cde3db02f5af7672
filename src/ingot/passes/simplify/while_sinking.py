# SPDX-License-Identifier: Apache-2.0
"""while-loop-constant-sinking: broadcasts are made inside of loops.

An element of the state that the body returns unchanged, and that is a broadcast or an iota before
the loop, becomes one in the body: the state holds the smaller value, and rules see what the element
is. Constants are sunk by `simplify-while-loops`.

Source: xla/service/while_loop_constant_sinking.cc (which sinks broadcasts of constants).
"""

from __future__ import annotations

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.while_state import (
    LoopPass,
    replace_loop,
    unchanged_elements,
    widened,
)
from ingot.support.records import record


@record
class WhileLoopConstantSinking(LoopPass):
    """Repeats elements inside of loops that only read them."""

    name = "while-loop-constant-sinking"

    def rewrite(self, loop: Instruction, module: Module, context: PassContext) -> bool:
        """Sink the elements that are smaller than their shapes; return whether there were any."""
        body: Computation = loop.attributes.body
        first, results = loop.operands[0].operands, body.root.operands
        sunk = {
            number: first[number]
            for number in sorted(unchanged_elements(body))
            if results[number].use_count > 1 and _repeats(first[number])
        }
        if not sunk:
            return False
        values = list(dict.fromkeys(value for one in sunk.values() for value in one.operands))
        made = widened(loop, values, module)
        inside = dict(zip(values, made.added, strict=True))
        for number, repeated in sunk.items():
            copy = made.body.copy_of(repeated, [inside[value] for value in repeated.operands])
            made.body.replace_all_uses(made.copies[results[number]], copy)
        made.keep_unchanged(sunk)
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
