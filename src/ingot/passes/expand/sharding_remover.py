# SPDX-License-Identifier: Apache-2.0
"""Placement annotations and `domain` removed: a program computes the same without them.

Some annotations ask for host or device memory, which are the same on a CPU; layouts do not affect
results. A note about an order becomes a control dependency. A `domain` marks the border of a
placement region.

Source: xla/service/sharding_remover.cc, xla/hlo/transforms/hlo_domain_remover.cc.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.computation import comes_before
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.semantics.custom_calls import ORDER, is_annotation, is_note
from ingot.semantics.foreign_calls import ends_at_barrier

_NOT_RUN = ops_with(Trait.LEAF, also=("tuple",))
"""Ops that have no time at which they run."""
_CHANGES = ops_with(Trait.RESHAPE_LIKE, also=("convert",))
"""Ops between a collective of the runtime and the value that the program asked for."""


@module_pass("sharding-remover", "custom-call")
def sharding_remover(module: Module, context: PassContext) -> bool:
    """Replaces annotations of unchanged shape by their operands."""
    changed = False
    for computation in module.post_order():
        for item in [i for i in computation.instructions if is_annotation(i)]:
            computation.replace_all_uses(item, item.operands[0])
            computation.remove(item)
            changed = True
        for note in [i for i in computation.instructions if is_note(i)]:
            if not note.users and not note.is_root:
                keep_order(note)
                computation.remove(note)
                changed = True
    return changed


def keep_order(note: Instruction) -> None:
    """Let the second operand of a note about an order run after the first.

    Nothing is done if one of them does not run, or if the first needs the second. Of a collective
    the second operand is the start, and so is the first if a barrier is its end.
    """
    if note.attributes.custom_call_target != ORDER or len(note.operands) != 2:
        return
    before, after = map(_made_by, note.operands)
    begun, after = _exchange(before), _exchange(after) or after
    if begun is not None and ends_at_barrier(begun):
        before = begun
    if before.opcode in _NOT_RUN or after.opcode in _NOT_RUN or comes_before(after, [before]):
        return
    after.run_after((*dict.fromkeys((*after.control_predecessors, before)),))


def _exchange(value: Instruction) -> Instruction | None:
    """Return the collective whose result a value is, but for its type or dimensions."""
    while value.opcode in _CHANGES:
        (value,) = value.operands
    return value if value.has(Trait.EXCHANGE) else None


def _made_by(value: Instruction) -> Instruction:
    """Return the op that makes a value, which may be an element of its result."""
    while value.opcode == "get-tuple-element":
        value = value.operands[0]
    return value


@expander("domain_remover", "domain")
def domain_remover(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Replaces `domain` by its operand."""
    return op.operands[0]
