# SPDX-License-Identifier: Apache-2.0
"""Evaluates transfer ops: asynchronous ones at once, feeds from the device's queues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.devices import current_device
from ingot.evaluator.registry import Context, Value, evaluates
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.channels import require_done_inside
from ingot.support.diagnostics import ExecutionError
from ingot.support.trampoline import Recursion


@evaluates("async-start")
def async_start(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """Operands, the computation's value, and unused contexts."""
    require_done_inside(op, op.attributes.calls)
    result: Value = yield context.call(op.attributes.calls, operands, context)
    return tuple(operands), result, *_contexts(op.shape.elements[2:], context)


def _contexts(shapes: Sequence[Shape], context: Context) -> list[Value]:
    return [
        np.zeros(context.dims(shape), shape.dtype.numpy)
        if shape.is_array
        else tuple(_contexts(shape.elements, context))
        for shape in shapes
    ]


@evaluates("async-update")
def async_update(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The result of the start."""
    return operands[0]


@evaluates("async-done")
def async_done(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The computation's value."""
    return operands[0][1]


@evaluates("copy-start")
def copy_start(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The copy, the operand and a context."""
    return operands[0], operands[0], *_contexts(op.shape.elements[2:], context)


@evaluates("copy-done")
def copy_done(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The copy."""
    return operands[0][0]


@evaluates("infeed")
def infeed(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The next value of the device's queue, and a token."""
    queue = current_device().infeed
    if not queue:
        raise ExecutionError(
            "infeed: the host has given nothing",
            code="INGOT0508",
            hint="evaluate inside `with on_device(Device(infeed=deque([value])))`",
        )
    return queue.popleft(), ()


@evaluates("outfeed")
def outfeed(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """A token; the value goes to the device's list."""
    current_device().outfeed.append(operands[0])
    return ()
