# SPDX-License-Identifier: Apache-2.0
"""Ops in two halves made whole: asynchronous pairs, and `send` with `recv`.

Asynchronous pairs are made synchronous; `latency-hiding-scheduler` makes pairs of its own, later.
The start becomes the tuple that it declares: operands, the value (computed at once), unused
contexts; update becomes its operand, done the value. The simplifier then removes the tuple. Control
dependencies of the start become those of the op that it runs. If there are any, or if the done has
some, the value passes a barrier, which takes those of the done (`foreign_calls.ends_at_barrier`).

`send` and `recv` of one channel become a `collective-permute`. Both are in the program of every
device; the frontend attribute `_xla_send_recv_source_target_pairs` has the sources and targets.
Together they pass a value on, without an order between the two ends that could deadlock. A transfer
to the host is an `outfeed`.

Source: xla/hlo/transforms/collectives/convert_async_collectives_to_sync.cc;
xla/service/collective_permute_decomposer.cc, the other way round.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation, comes_before
from ingot.hlo.dtype import U32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import find
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.rewrite.pass_base import PassContext, module_pass
from ingot.hlo.shape import Shape
from ingot.semantics.channels import DONE_OF, channel_pairs, require_done, require_done_inside
from ingot.semantics.device_groups import FLATTENED, grid_of
from ingot.support.diagnostics import UnsupportedError

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


@expander(
    "async-to-sync",
    *("async-start", "copy-start", "all-reduce-start", *_COLLECTIVES, *_ELEMENT),
)
def async_to_sync(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites start, update and done of every kind of asynchronous op."""
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


_OPCODES = frozenset({*DONE_OF, *DONE_OF.values()})


@module_pass("send-recv-to-permute", *_OPCODES)
def send_recv_to_permute(module: Module, context: PassContext) -> bool:
    """Rewrites `send`, `recv` and their done."""
    changed = False
    for computation in module.post_order():
        ops = [i for i in computation.post_order() if i.opcode in _OPCODES]
        if ops:
            _rewrite(computation, ops, module)
            changed = True
    return changed


def _rewrite(computation: Computation, ops: list[Instruction], module: Module) -> None:
    sends = _by_channel([op for op in ops if op.opcode == "send"])
    receives = _by_channel([op for op in ops if op.opcode == "recv"])
    for channel in sends.keys() ^ receives.keys():
        alone = sends.get(channel) or receives[channel]
        raise _unsupported(alone, f"{alone.opcode} on channel {channel} has no partner here")
    for channel, receive in receives.items():
        send = sends[channel]
        require_done(receive)
        if comes_before(receive, [send.operands[0]]):
            raise _unsupported(send, "what is sent depends on what is received on the channel")
        build = Builder(computation, receive.metadata)
        value = build.collective_permute(
            send.operands[0],
            source_target_pairs=channel_pairs(receive, grid_of(module).devices),
            mode=FLATTENED,
        )
        context = build.constant(0, U32)
        # The token of the recv comes after the value.
        started = build.tuple(value, context, receive.operands[0])
        computation.replace_all_uses(receive, started)
        computation.replace_all_uses(send, build.tuple(send.operands[0], context, send.operands[1]))
    for op in ops:
        build = Builder(computation, op.metadata)
        if op.opcode == "send-done":
            computation.replace_all_uses(op, build.element_of(op.operands[0], 2))
        elif op.opcode == "recv-done":
            parts = (build.element_of(op.operands[0], n) for n in (0, 2))
            computation.replace_all_uses(op, build.tuple(*parts))
    for op in reversed(ops):
        computation.remove(op)


def _by_channel(ops: list[Instruction]) -> dict[object, Instruction]:
    found: dict[object, Instruction] = {}
    for op in ops:
        if op.attributes.is_host_transfer:
            raise _unsupported(op, f"{op.opcode} to the host")
        channel = op.attributes.channel_id or f"pairs {op.extra.get('frontend_attributes', '')}"
        if channel in found:
            raise _unsupported(op, f"a second {op.opcode} on channel {channel}")
        found[channel] = op
    return found


def _unsupported(op: Instruction, message: str) -> UnsupportedError:
    return UnsupportedError(
        message,
        instruction=repr(op),
        location=op.metadata.location,
        hint="send and recv of a channel must stand in one computation; for the host use "
        "infeed and outfeed",
    )
