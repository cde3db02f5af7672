# SPDX-License-Identifier: Apache-2.0
"""Evaluates collective ops: one exchange of operands among a group's devices each.

A program that is evaluated without `evaluate_replicated` is a single device: groups of others are
errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from ingot.evaluator.devices import current_device
from ingot.evaluator.numbers import rounded
from ingot.evaluator.pointwise import apply
from ingot.evaluator.reduction import is_float_sum
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.semantics.channels import channel_pairs, require_done
from ingot.semantics.device_groups import group_of, groups_of, pairs_of
from ingot.support.diagnostics import UnsupportedError
from ingot.support.trampoline import Recursion


def _gathered(op: Instruction, operands: Sequence[Any]) -> tuple[list[Any], int]:
    """Return the operands of every device of the group, and this device's position in it."""
    device = current_device()
    group = group_of(groups_of(op, device.grid), device.number)
    key = op.attributes.channel_id or op.name
    values = device.board.exchange(key, group, device.number, tuple(operands))
    return values, group.index(device.number)


def _joined(op: Instruction, values: Sequence[Any]) -> Value:
    return tuple(values) if len(op.operands) != 1 else values[0]


def _folded(computation: Computation, parts: Sequence[Array], context: Context) -> Recursion[Array]:
    """Return the parts combined, in the group's order."""
    if is_float_sum(computation):
        # Not `np.sum`, which starts with +0.
        total = reduce(np.add, [part.astype(np.float64) for part in parts])
        return rounded(total, computation.root.shape.dtype)
    total = parts[0]
    for part in parts[1:]:
        (total,) = yield from apply(computation, [total, part], context)
    return total


@evaluates("all-reduce", "all-reduce-start")
def all_reduce(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """Each element combined over the group."""
    values, _ = _gathered(op, operands)
    called = op.attributes.to_apply
    results: list[Array] = []
    for parts in zip(*values):  # noqa: B905
        results.append((yield from _folded(called, parts, context)))
    return _joined(op, results)


@evaluates("all-reduce-done")
def done(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The result of the start."""
    return operands[0]


@evaluates("all-gather-done", "collective-permute-done")
def second(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The results from the tuple of the start."""
    return operands[0][1]


@evaluates("reduce-scatter")
def reduce_scatter(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """This device's part of the all-reduce."""
    values, position = _gathered(op, operands)
    (along,) = op.attributes.dimensions
    results: list[Array] = []
    for parts in zip(*values):  # noqa: B905
        whole = yield from _folded(op.attributes.to_apply, parts, context)
        results.append(np.split(whole, len(values), axis=along)[position])
    return _joined(op, results)


@evaluates("all-gather")
def all_gather(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operands of the group along a dimension."""
    values, _ = _gathered(op, operands)
    (along,) = op.attributes.dimensions
    return _joined(op, [np.concatenate(parts, axis=along) for parts in zip(*values)])  # noqa: B905


@evaluates("all-gather-start")
def all_gather_start(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operands, and the result of all-gather."""
    return _joined(op, operands), all_gather(op, operands, context)


@evaluates("all-to-all")
def all_to_all(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """This device's part of each device's operand, one after the other; or as a tuple."""
    values, position = _gathered(op, operands)
    if not op.attributes.dimensions:
        parts = tuple(given[position] for given in values)
        return parts if op.shape.is_tuple else parts[0]
    (along,) = op.attributes.dimensions
    parts = [np.split(given[0], len(values), axis=along)[position] for given in values]
    return np.concatenate(parts, axis=along)


@evaluates("ragged-all-to-all")
def ragged_all_to_all(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The output, with the rows that each device sends to this one at the sender's offsets."""
    values, position = _gathered(op, operands)
    result: Array = np.array(operands[1])
    for given in values:
        rows, _, starts, sizes, targets, _ = given
        count = len(starts) // len(values)
        for number in range(position * count, (position + 1) * count):
            start, size, target = (int(each[number]) for each in (starts, sizes, targets))
            result[target : target + size] = rows[start : start + size]
    return result


@evaluates("collective-broadcast")
def collective_broadcast(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operands of the first device; zeros on devices that are in no group."""
    device = current_device()
    values, _ = _gathered(op, operands)
    inside = any(device.number in group for group in groups_of(op, device.grid))
    return _joined(op, values[0] if inside else [np.zeros_like(value) for value in operands])


@evaluates("collective-permute")
def collective_permute(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operands of this device's source, zeros when it has none."""
    if op.attributes.slice_sizes:
        raise UnsupportedError(
            "collective-permute of slices in place is made by TPU's compiler only",
            code="INGOT0254",
            instruction=repr(op),
            hint="write dynamic-slice, collective-permute and dynamic-update-slice",
        )
    device = current_device()
    everyone = tuple(range(device.grid.devices))
    key = op.attributes.channel_id or op.name
    values = device.board.exchange(key, everyone, device.number, tuple(operands))
    source = {target: source for source, target in pairs_of(op, device.grid)}.get(device.number)
    found = operands if source is None else values[source]
    return _joined(op, [np.zeros_like(v) if source is None else v for v in found])


@evaluates("collective-permute-start")
def collective_permute_start(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The operands, the result of collective-permute, and unused contexts."""
    result = collective_permute(op, operands, context)
    contexts = (np.zeros((), e.dtype.numpy) for e in op.shape.elements[2:])
    return _joined(op, operands), result, *contexts


@evaluates("partition-id")
def partition_id(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The number of this device's partition."""
    device = current_device()
    return np.array(device.grid.partition(device.number), np.uint32)


@evaluates("replica-id")
def replica_id(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The number of this device's replica."""
    device = current_device()
    return np.array(device.grid.replica(device.number), np.uint32)


def _partners(op: Instruction) -> tuple[tuple[int, int], ...]:
    return channel_pairs(op, current_device().grid.devices)


@evaluates("send")
def send(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Leaves the value for this device's target."""
    device = current_device()
    for source, target in _partners(op):
        if source == device.number:
            device.board.send(op.attributes.channel_id, source, target, operands[0])
    return operands[0], np.zeros((), np.uint32), ()


@evaluates("send-done")
def send_done(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """A token."""
    return ()


@evaluates("recv")
def recv(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Zeros: the value comes with recv-done."""
    require_done(op)
    receives = current_device().receives
    receives.append(op)
    return _zeros(op.shape.elements[0], context), np.array(len(receives) - 1, np.uint32), ()


def _zeros(shape: Any, context: Context) -> Value:
    if shape.is_tuple:
        return tuple(_zeros(element, context) for element in shape.elements)
    return np.zeros(context.dims(shape), shape.dtype.numpy)


@evaluates("recv-done")
def recv_done(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The value that this device's source sent, zeros when it has none."""
    device = current_device()
    value, number, _ = operands[0]
    start = device.receives[int(number)]
    for source, target in _partners(start):
        if target == device.number:
            channel = start.attributes.channel_id
            return device.board.receive(channel, source, target), ()
    return value, ()
