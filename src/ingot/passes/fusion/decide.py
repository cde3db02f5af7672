# SPDX-License-Identifier: Apache-2.0
"""Decisions: which instructions share a kernel, and the reason for each edge.

Instructions are visited consumers first. A producer is fused into the kernels of all its consumers
when that is legal (`legality`) and recomputing it is cheaper than a trip through memory; otherwise
it is a result: of a consumer's kernel if it is computed there anyway (multi-output fusion), of a
kernel that reads the same at the same points, else of a kernel of its own.

The last step joins siblings, which no fusion of producers into consumers joins, as neither needs
the other's result: the two sums of a batch norm's gradient, or two masks of one activation.
Together they read shared operands once.

Costs are counted in bytes and recomputed expensive ops, as XLA's `InstructionFusion` does; its
sibling fusion is in xla/service/multi_output_fusion.cc.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ingot.analysis.frames import ONE, grid_of
from ingot.analysis.scans import is_scan
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import FusionClass, Trait, ops_with
from ingot.hlo.opset.reduction import ReduceAttributes
from ingot.passes.fusion.groups import Decision, Group, Grouping, GroupKind
from ingot.passes.fusion.legality import (
    ALONE,
    IN_PLACE,
    is_full,
    is_fusible,
    reads_from_memory,
    why_not_each,
    why_not_output,
)
from ingot.passes.fusion.products import CONTRACTIONS, REDUCTIONS, feeds_prologue
from ingot.passes.fusion.recompute import (
    LITERALS,
    MAX_RECOMPUTED,
    RESHAPES,
    STEPS,
    chooses_often,
    indices_in,
    is_cheap_to_recompute,
    reads_what_is_there,
)

MAX_COPIES = 3
"""Kernels that may each recompute a cheap producer of several arrays."""

Reached = list[tuple[Instruction, list[Group]]]
"""The users of a producer, each with the groups that compute it."""

_COSTLY = ops_with(
    FusionClass.REDUCTION, FusionClass.CONTRACTION, Trait.EXPENSIVE, also=("gather",)
)
"""Ops that are computed once, however many kernels read them."""

ONLY_CONSUMER = "its only consumer: the value never reaches memory"


def decide(computation: Computation) -> Grouping:
    """Return the groups of `computation`."""
    grouping = Grouping()
    order = computation.post_order()
    for instruction in reversed(order):
        _visit(grouping, instruction)
        if not grouping.groups_with(instruction):
            grouping.note_height(instruction, instruction)
    return grouping


def alone(computation: Computation) -> Grouping:
    """Return groups of one instruction each, with the constants that it reads."""
    grouping = Grouping()
    for instruction in reversed(computation.post_order()):
        if not is_fusible(instruction) or not (instruction.users or instruction.is_root):
            continue
        if instruction.opcode == "constant":
            _visit(grouping, instruction)
        elif instruction.opcode not in RESHAPES:
            _materialize(grouping, instruction, {}, {})
    return grouping


def _visit(grouping: Grouping, producer: Instruction) -> None:
    if not is_fusible(producer) or (not producer.users and not producer.is_root):
        return
    reached = [(user, grouping.groups_with(user)) for user in producer.users]
    chain = _chain_through(reached, producer)
    if chain is not None:
        _continue(grouping, producer, chain)
        return
    consumers, outside = _consumers(reached, producer)
    if producer.opcode == "constant":
        if consumers:
            _fuse(grouping, producer, list(consumers))
        return
    _note_frames(reached, consumers, producer)
    reasons = why_not_each(grouping, producer, consumers)
    legal = [group for group, reason in reasons.items() if not reason]
    if _may_fuse_everywhere(producer, consumers, legal, outside):
        _fuse(grouping, producer, legal)
        for group in legal:
            _record(grouping, producer, group, True, _fuse_reason(legal))
    elif producer.opcode in RESHAPES and outside and not legal:
        _forget(consumers, producer)
    else:
        _materialize(grouping, producer, consumers, reasons)


def _chain_through(reached: Reached, producer: Instruction) -> Group | None:
    """Return the one kernel that needs `producer` at its own points, if that settles the question.

    Most members of large kernels are decided here; all rules would decide the same.
    """
    if producer.is_root or not producer.shape.dims:
        return None
    if producer.opcode not in STEPS:
        return None
    groups = reached[0][1]
    group = groups[0] if len(groups) == 1 else None
    if group is None or not group.is_plain or is_full(group):
        return None
    frames = group.frames.frames
    frame = frames.get(group.main)
    for user, others in reached:
        if not user.has(Trait.ELEMENTWISE) or frames.get(user) != frame or others != groups:
            return None
    return group


def _continue(grouping: Grouping, producer: Instruction, group: Group) -> None:
    """Fuse `producer` into a kernel that needs it at its own points."""
    frame = group.frames.frames[producer] = group.frames.frames[group.main]
    grouping.fused_into[producer] = [group]
    group.indices[producer] = frozenset((frame,))
    group.members[producer] = None
    _record(grouping, producer, group, True, ONLY_CONSUMER)


def _consumers(reached: Reached, producer: Instruction) -> tuple[dict[Group, None], bool]:
    """Return the groups that would compute `producer`, and whether others need it from memory."""
    outside = producer.is_root
    consumers: dict[Group, None] = {}
    for user, groups in reached:
        outside = outside or not groups
        for group in groups:
            if reads_from_memory(group, user, producer):
                outside = True
            else:
                consumers[group] = None
    return consumers, outside


def _note_frames(reached: Reached, groups: dict[Group, None], producer: Instruction) -> None:
    """Note in each group how it reads `producer`; each user is visited once."""
    for user, readers in reached:
        for group in readers:
            if group in groups:
                group.frames.note_operand(user, producer)


def _forget(groups: dict[Group, None], producer: Instruction) -> None:
    for group in groups:
        if producer not in group.members:
            group.frames.frames.pop(producer, None)


def _may_fuse_everywhere(
    producer: Instruction, consumers: dict[Group, None], legal: list[Group], outside: bool
) -> bool:
    if outside or not consumers or len(legal) < len(consumers):
        return False
    if len(consumers) == 1:
        return True
    if producer.opcode in _COSTLY or is_scan(producer):
        return False
    if producer.opcode in LITERALS:
        return True
    if chooses_often(producer):
        return False
    if len(consumers) <= MAX_COPIES:
        return is_cheap_to_recompute(producer)
    # More kernels may do as much work in all, if the value in memory would save them none to read.
    most = MAX_RECOMPUTED * MAX_COPIES // len(consumers)
    return is_cheap_to_recompute(producer, most) and reads_what_is_there(producer)


def _fuse_reason(groups: list[Group]) -> str:
    if len(groups) == 1:
        return ONLY_CONSUMER
    return f"cheap: recomputed in {len(groups)} kernels instead of a trip through memory"


def _fuse(grouping: Grouping, producer: Instruction, groups: list[Group]) -> None:
    grouping.fused_into.setdefault(producer, []).extend(groups)
    for group in groups:
        group.indices[producer] = indices_in(group, producer)
        group.members[producer] = None
        if group.dot is not None and feeds_prologue(group, producer):
            group.prologue[producer] = None
        _adopt(group, producer)


def _adopt(group: Group, member: Instruction) -> None:
    """Update a group for a new member."""
    if member.opcode in REDUCTIONS:
        frame = group.frames.frames.get(member) or ()
        group.grid = grid_of(frame)
        if group.kind is GroupKind.LOOP:
            group.kind = GroupKind.REDUCTION
    elif member.opcode in CONTRACTIONS:
        group.dot = member
        group.kind = GroupKind.CONTRACTION
    elif is_scan(member):
        group.scan = member
        group.kind = GroupKind.IN_PLACE
        group.frames.frames[member] = None


def _materialize(
    grouping: Grouping,
    producer: Instruction,
    consumers: dict[Group, None],
    reasons: dict[Group, str],
) -> None:
    """Make the producer a result: of one of its consumers' kernels, or of a kernel of its own."""
    home: Group | None = None
    for group in consumers:
        reason = reasons[group] or why_not_output(grouping, producer, group)
        if home is None and not reason:
            home = group
            _record(grouping, producer, group, True, "computed there anyway: an extra result")
        else:
            reason = reason or "read from memory: it is already a result of another kernel"
            _record(grouping, producer, group, False, reason)
    _forget({g: None for g in consumers if g is not home}, producer)
    sibling = sibling_of(grouping, producer) if home is None else None
    if sibling is not None:
        home = sibling
        home.roots.append(producer)
        _record(grouping, producer, home, True, "it reads the same: a further result")
    elif home is None and producer.opcode in RESHAPES:
        return  # it is a view of its operand, which is in memory then
    elif home is None:
        home = _new_group(producer)
    else:
        home.roots.append(producer)
    home.members[producer] = None
    grouping.group_of[producer] = home
    grouping.note_height(producer, home)
    _adopt(home, producer)


def _new_group(root: Instruction) -> Group:
    group = Group([root])
    frames = group.frames
    if root.opcode in IN_PLACE or root.opcode in ALONE or is_scan(root):
        group.kind = GroupKind.IN_PLACE
        frames.frames[root] = None
    elif root.shape.is_tuple:
        frame = frames.axes_for(root.shape.elements[0].dims)
        frames.main_axes = tuple(axis for axis in frame if axis != ONE)
        frames.frames[root] = frame
    else:
        frames.start(root)
    return group


def _record(
    grouping: Grouping, producer: Instruction, group: Group, fused: bool, reason: str
) -> None:
    grouping.decisions.append(Decision(producer.name, group.main.name, fused, reason))


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
