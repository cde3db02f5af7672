# SPDX-License-Identifier: Apache-2.0
"""Groups: the kernels being formed, grown from their results towards their inputs.

A group has roots (results that reach memory) and instructions that are fused into it. An
instruction may be fused into several groups (it is then computed in each) and may be a root of one.
Instructions that are neither a root nor fused stay outside: parameters, calls, tuples, free
reshapes.

Invariant: the graph of groups has no cycle; every reduction in a group varies along the same grid.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from ingot.analysis.frames import ONE, Frame, FrameMap
from ingot.hlo.dim import Dim, product
from ingot.hlo.instruction import Instruction
from ingot.support.records import fresh, mutable, record

MAX_SEARCHED = 500
"""Values through which a path from one group to another is searched: in a network of many layers
and its gradient nearly all groups depend on each other, over paths as long as the network."""


class GroupKind(Enum):
    """The kind of kernel that a group becomes, by XLA's fusion kinds."""

    LOOP = "kLoop"
    REDUCTION = "kInput"
    CONTRACTION = "kOutput"
    IN_PLACE = "kCustom"


@mutable(eq=False)
class Group:
    """One kernel being formed.

    Attributes:
        roots: results, the main one (which defines the axes) first.
        kind: the kind of kernel that it becomes.
        frames: the axes along which each member varies.
        members: roots and instructions fused into them.
        indices: where each fused member is computed, relative to a point (`recompute.indices_in`).
        moves: how many moves lie between a fused member and a point; computed on demand
            (`recompute.moves_to`).
        grid: axes that all reductions vary along, once there is one.
        dot: the contraction, once there is one.
        scan: the scan, once there is one.
        prologue: fused members through which the contraction reads its operands.
    """

    roots: list[Instruction]
    kind: GroupKind = GroupKind.LOOP
    frames: FrameMap = field(default_factory=FrameMap)
    members: dict[Instruction, None] = fresh(factory=dict)
    indices: dict[Instruction, frozenset[object]] = fresh(factory=dict)
    moves: dict[Instruction, int] = fresh(factory=dict)
    grid: frozenset[int] | None = None
    dot: Instruction | None = None
    scan: Instruction | None = None
    prologue: dict[Instruction, None] = fresh(factory=dict)

    @property
    def main(self) -> Instruction:
        """The root that defines the axes."""
        return self.roots[0]

    @property
    def is_plain(self) -> bool:
        """Whether it computes every point of one array independently, and nothing else."""
        plain = self.kind is GroupKind.LOOP and self.grid is None and self.dot is None
        return plain and not self.main.shape.is_tuple

    @property
    def main_frame(self) -> Frame:
        """The frame of the main root."""
        return tuple(self.frames.main_axes)

    @property
    def points(self) -> int | Dim:
        """Number of points of the main root."""
        return product(self.frames.extents[axis] for axis in self.frames.main_axes)

    def frame_without_ones(self, instruction: Instruction) -> Frame | None:
        """Return the frame of a member without its dimensions of extent 1."""
        frame = self.frames.frames.get(instruction)
        return None if frame is None else tuple(axis for axis in frame if axis != ONE)


@record
class Decision:
    """Why a producer was or was not computed inside a consumer's kernel.

    Attributes:
        producer, consumer: instruction names; the consumer is the main root of its group.
        fused: which producers each group has taken.
        reason: one sentence for people.
    """

    producer: str
    consumer: str
    fused: bool
    reason: str

    def __str__(self) -> str:
        verb = "fused into" if self.fused else "not fused into"
        return f"%{self.producer} {verb} %{self.consumer}: {self.reason}"


@mutable
class Grouping:
    """The groups of one computation.

    Attributes:
        group_of: the group whose root an instruction is.
        fused_into: the groups that compute an instruction on the way.
        heights: for each group, and each instruction outside of them, a number that is less than
            those of all groups and instructions whose results it reads from memory.
        decisions: every edge that was considered.
    """

    group_of: dict[Instruction, Group] = fresh(factory=dict)
    fused_into: dict[Instruction, list[Group]] = fresh(factory=dict)
    heights: dict[Group | Instruction, int] = fresh(factory=dict)
    decisions: list[Decision] = fresh(factory=list)

    @property
    def groups(self) -> list[Group]:
        """Every group once, in the order in which they were made."""
        return list(dict.fromkeys(self.group_of.values()))

    def groups_with(self, instruction: Instruction) -> list[Group]:
        """Return the groups that compute `instruction`."""
        own = self.group_of.get(instruction)
        fused = self.fused_into.get(instruction, [])
        return [own, *(g for g in fused if g is not own)] if own is not None else fused

    def would_cycle(self, root: Instruction, group: Group) -> bool:
        """Whether `group` would depend on itself if it also returned `root`.

        Only instructions higher than the group can lead to it. A search that takes very long ends
        with the answer that it would.
        """
        seen: set[Instruction] = {root}
        stack = [root]
        limit = self.heights[group]
        while stack:
            for user in stack.pop().users:
                groups = self.groups_with(user)
                if group in groups and len(groups) == 1:
                    continue
                for reached in self._outputs(user, groups, group, limit):
                    if reached in seen:
                        continue
                    if self._feeds(reached, group) or len(seen) == MAX_SEARCHED:
                        return True
                    seen.add(reached)
                    stack.append(reached)
        return False

    def _outputs(
        self, user: Instruction, groups: list[Group], group: Group, limit: int
    ) -> list[Instruction]:
        """Return the values that are in memory once `user` is computed, if higher than `limit`."""
        heights = self.heights
        if not groups:
            return [user] if heights[user] > limit else []
        others = [other for other in groups if other is not group and heights[other] > limit]
        return [root for other in others for root in other.roots]

    def _feeds(self, value: Instruction, group: Group) -> bool:
        """Whether `value`, computed outside `group`, is read inside or is one of its roots."""
        return any(group in self.groups_with(user) for user in value.users)

    def note_height(self, value: Instruction, node: Group | Instruction) -> None:
        """Let `node`, which computes `value` to memory, be higher than all that read it there."""
        readers = (one for user in value.users for one in self.groups_with(user) or (user,))
        heights = self.heights
        wanted = 1 + max((heights.get(one, 0) for one in readers if one is not node), default=0)
        raised = [(node, wanted)]
        while raised:
            item, height = raised.pop()
            if heights.get(item, 0) >= height:
                continue
            heights[item] = height
            members = item.members if isinstance(item, Group) else (item,)
            for operand in dict.fromkeys(one for member in members for one in member.operands):
                source = self.group_of.get(operand, operand)
                # Producers not visited yet have no height, nor have members of the group itself.
                if source is not item and source in heights:
                    raised.append((source, height + 1))
