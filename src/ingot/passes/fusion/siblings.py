# SPDX-License-Identifier: Apache-2.0
"""Siblings: kernels over the same points that read the same array become one.

Neither needs the other's result, so no fusion of producers into consumers joins them: the two sums
of a batch norm's gradient, or two masks of one activation. Together they read shared operands once.

Source: XLA's sibling fusion (xla/service/multi_output_fusion.cc).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.opset.reduction import ReduceAttributes
from ingot.passes.fusion.groups import Group, Grouping, GroupKind
from ingot.passes.fusion.legality import is_full, why_not_output
from ingot.passes.fusion.recompute import STEPS

LEAST_SHARED = 16_384
"""Elements of a shared array below which reading it twice costs less than what a kernel with two
results may lose."""

MAX_STEPS = 24
"""Instructions that are visited on the way from a result to its shared operands."""

MAX_SIBLINGS = 4
"""Results of one kernel, at most, that share only operands."""


def sibling_of(grouping: Grouping, producer: Instruction) -> Group | None:
    """Return a kernel that may take `producer`, a result with none yet, as a further one.

    It has a result of the same kind at the same points, and reads an array that `producer` reads.
    """
    seen: set[Group] = set()
    for value in _read_by(producer):
        for group in _readers(grouping, value, producer):
            if group not in seen and _takes(grouping, group, producer):
                return group
            seen.add(group)
    return None


def _readers(grouping: Grouping, value: Instruction, producer: Instruction) -> Iterator[Group]:
    """Yield the groups that read an array, or will, through ops that are not decided yet."""
    stack, seen = [value], {value, producer}
    while stack and len(seen) < MAX_STEPS:
        for user in islice(stack.pop().users, MAX_STEPS):
            if user in seen:
                continue
            seen.add(user)
            groups = grouping.groups_with(user)
            yield from groups
            if not groups and user.opcode in STEPS and user.shape.dims == value.shape.dims:
                stack.append(user)


def _takes(grouping: Grouping, group: Group, producer: Instruction) -> bool:
    main = group.main
    if len(group.roots) >= MAX_SIBLINGS or is_full(group) or group.dot is not None:
        return False
    if main.shape.dims != producer.shape.dims:
        return False
    if any(group in grouping.groups_with(user) for user in producer.users):
        return False  # It waits for `producer`, which it does not compute.
    if producer.opcode == "reduce":
        if group.kind is not GroupKind.REDUCTION or not _reduces_alike(group, producer):
            return False
    elif not group.is_plain:
        return False
    group.frames.note(producer, group.frames.frames[main])
    reason = why_not_output(grouping, producer, group)
    if reason:
        group.frames.frames.pop(producer)
    return not reason


def _reduces_alike(group: Group, producer: Instruction) -> bool:
    """Whether all reductions of a kernel go over the points that `producer` goes over."""
    operand, dimensions = producer.operands[0].shape, _reduced(producer)
    reductions = [one for one in group.members if one.opcode == "reduce"]
    return bool(reductions) and all(
        one.operands[0].shape.dims == operand.dims
        and _reduced(one) == dimensions
        and group.frames.frames.get(one) == group.frames.frames[group.main]
        for one in reductions
    )


def _reduced(reduce: Instruction) -> tuple[int, ...]:
    return tuple(sorted(reduce.as_(ReduceAttributes).dimensions))


def _read_by(producer: Instruction) -> list[Instruction]:
    """Return the arrays from which `producer` is computed point by point, nearest first."""
    if producer.opcode == "reduce" and producer.shape.is_array:
        start = producer.operands[0]
        found = [start]
    elif producer.has(Trait.ELEMENTWISE):
        start, found = producer, []
    else:
        return []
    size = start.shape.size
    if isinstance(size, int) and size < LEAST_SHARED:
        return []
    stack = [start]
    while stack and len(found) < MAX_STEPS:
        item = stack.pop()
        if item.opcode not in STEPS:
            continue
        for operand in item.operands:
            if operand.shape.dims == start.shape.dims and operand not in found:
                found.append(operand)
                stack.append(operand)
    return found
