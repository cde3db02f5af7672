# SPDX-License-Identifier: Apache-2.0
"""Asynchronous pairs made synchronous: `latency-hiding-scheduler` makes pairs of its own, later.

The start becomes the tuple that it declares: operands, the value (computed at once), unused
contexts; update becomes its operand, done the value. The simplifier then removes the tuple.

Control dependencies of the start become those of the op that it runs. If there are any, or if the
done has some, the value passes a barrier, which takes those of the done
(`foreign_calls.ends_at_barrier`).

Source: xla/hlo/transforms/collectives/convert_async_collectives_to_sync.cc.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import find
from ingot.hlo.rewrite.op_pass import Expander
from ingot.hlo.shape import Shape
from ingot.semantics.channels import require_done_inside
from ingot.support.records import record

_COLLECTIVES = {
    "all-gather-start": "all-gather",
    "collective-permute-start": "collective-permute",
}
_ELEMENT = {
    "async-update": None,
    "async-done": 1,
    "copy-done": 0,
    "all-gather-done": 1,
    "all-reduce-done": None,
    "collective-permute-done": 1,
}
"""The element of its operand that each of these ops becomes; None: the whole operand."""


@record
class AsyncToSync(Expander):
    """Rewrites start, update and done of every kind of asynchronous op."""

    name = "async-to-sync"
    concerns = frozenset(
        {"async-start", "copy-start", "all-reduce-start", *_COLLECTIVES, *_ELEMENT}
    )

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the synchronous form."""
        if op.opcode in _ELEMENT:
            (state,), index = op.operands, _ELEMENT[op.opcode]
            value = state if index is None else build.element_of(state, index)
            is_pair = op.opcode != "async-update" and (op.is_ordered or state.is_ordered)
            return build.emit("opt-barrier", value) if is_pair else value
        if op.opcode == "all-reduce-start":
            return _synchronous(op, "all-reduce", op.shape)
        if op.opcode == "copy-start":
            copy = build.copy(op.operands[0])
            return build.tuple(copy, op.operands[0], *_contexts(op, build))
        if op.opcode == "async-start":
            require_done_inside(op, op.attributes.calls)
            value = build.call(*op.operands, to_apply=op.attributes.calls)
            return build.tuple(build.tuple(*op.operands), value, *_contexts(op, build))
        value = _synchronous(op, _COLLECTIVES[op.opcode], op.shape.elements[1])
        given = op.operands[0] if len(op.operands) == 1 else build.tuple(*op.operands)
        return build.tuple(given, value, *_contexts(op, build))


def _synchronous(op: Instruction, opcode: str, shape: Shape) -> Instruction:
    """Add the op that a collective's start performs."""
    definition = find(opcode)
    given: dict[str, Any] = {
        row.name: getattr(op.attributes, row.name) for row in fields(definition.attributes)
    }
    made = op.computation.add(
        opcode, op.operands, definition.attributes(**given), shape=shape, metadata=op.metadata
    )
    made.extra = dict(op.extra)
    return made


def _contexts(op: Instruction, build: Builder) -> list[Instruction]:
    return [_zero(shape, build) for shape in op.shape.elements[2:]]


def _zero(shape: Shape, build: Builder) -> Instruction:
    if shape.is_tuple:
        return build.tuple(*(_zero(element, build) for element in shape.elements))
    return build.full(0, shape) if shape.is_array else build.after_all()
