# SPDX-License-Identifier: Apache-2.0
"""Partitioning: a program over global shapes becomes the program of one device.

Parameters are divided as annotated, and values as follows from that (`walk`). Results are divided
as annotated, or as they were computed.

An op that cannot work on parts gets gathered operands and runs on every device. That is correct,
but it costs each device the memory of the whole value and the time of the whole op.

Groups of values with one sharding (`{unknown shard_as 7}`) are settled before. A group only says
that its members have the same sharding. The sharding is found by partitioning a
copy of the program: all members get the finest division that one of them has there, or that another
annotation asks for. That may divide others, so it is repeated until nothing changes.

Invariant: afterwards every shape is that of one device's part, and no annotation is left.

Source: xla/service/spmd/spmd_partitioner.cc, xla/hlo/ir/hlo_sharding.h (ShardGroup),
sharding_propagation.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.passes.simplify.calls import call_inliner
from ingot.passes.spmd.annotations import Known, is_resharded, loosen_movements
from ingot.passes.spmd.reshard import Channels, channels_of
from ingot.passes.spmd.sharding import Partitioned, Sharding, parse_sharding, split_tuple
from ingot.passes.spmd.uneven import pad_uneven
from ingot.passes.spmd.updates import select_updates
from ingot.passes.spmd.walk import Walk
from ingot.passes.unfolding import unfolding_limit
from ingot.semantics.buffer_donation import drop_unequal_aliases
from ingot.semantics.custom_calls import is_annotation
from ingot.support.regex import regex


def partition_among(module: Module, num_partitions: int) -> Partitioned:
    """Rewrite `module` into the program of one of several devices.

    Raises:
        UnsupportedError: INGOT0360, an op or a value cannot be divided as the program asks.
    """
    unfolding_limit.run(module, PassContext())
    call_inliner.run(module, PassContext())
    channels = channels_of(module, num_partitions)
    settle_groups(module, num_partitions, partial(_arrivals, channels))
    known = Known(module, num_partitions)
    loosen_movements(module, known)
    select_updates(module, known)
    pad_uneven(module, known)
    division = _Entry(module.entry, channels).run_entry()
    drop_unequal_aliases(module)
    for computation in module.post_order():
        for instruction in computation.instructions:
            instruction.extra.pop("sharding", None)
    return division


def _arrivals(channels: Channels, copy: Module) -> Arrivals:
    """Partition a copy; return how values are divided before their annotations."""
    entry = _Entry(copy.entry, channels.rehearsal())
    entry.run_entry()
    return entry.arrivals


class _Entry(Walk):
    """The walk over the entry, whose parameters and results are divided as the user says."""

    def run_entry(self) -> Partitioned:
        """Rewrite the entry."""
        parameters = tuple(self.parameter(item) for item in self.computation.parameters)
        self.open_root()
        wanted = self.wanted_results(self.computation.root)
        self.walk()
        results = self.finish(self.computation.root, wanted)
        found = self.channels
        return Partitioned(parameters, results, tuple(found.inspected), found.asks_host)

    def parameter(self, parameter: Instruction) -> Sharding:
        """Give a parameter the shape of its part; one without annotation takes that of its user."""
        given = self.read(parameter)
        if given is None:
            given = self.wish(parameter)
        sharding = given or self.whole
        parameter.extra.pop("sharding", None)
        if not sharding.is_replicated:
            self.divide_element(parameter, sharding)
        return sharding

    def wish(self, parameter: Instruction) -> Sharding | None:
        """Return the sharding that all users of a parameter ask for, if its parts are even."""
        if not all(map(is_resharded, parameter.users)):
            return None
        wishes = {self.read(user) for user in parameter.users}
        wish = wishes.pop() if len(wishes) == 1 else None
        return wish if wish is not None and wish.fits(parameter.shape.dims) else None

    def wanted_results(self, root: Instruction) -> list[Sharding | None]:
        """Return the shardings that the root is annotated with, one per result."""
        text = root.extra.get("sharding", "")
        count = len(root.shape.elements) if root.shape.is_tuple else 1
        if not text:
            return [None] * count
        if not root.shape.is_tuple:
            return [self.read(root)]
        return [
            parse_sharding(part, self.count) if shape.is_array else None
            for part, shape in zip(split_tuple(text), root.shape.elements, strict=True)
        ]


_GROUP = regex(r"\{\s*unknown\s+shard_(?:as|like)\s+(\d+)\s*\}")

Arrivals = Mapping[str, Sharding]
"""How the value of an annotation, by the annotation's name, is divided before it."""


def settle_groups(module: Module, count: int, rehearse: Callable[[Module], Arrivals]) -> None:
    """Annotate the members of each group in the entry with one sharding.

    Args:
        module: the program.
        count: the number of devices.
        rehearse: partitions a copy of the program, and returns the arrivals.
    """
    groups: dict[int, list[Instruction]] = {}
    for instruction in module.entry.post_order():
        found = _GROUP.fullmatch(instruction.extra.get("sharding", "").strip())
        if found:
            groups.setdefault(int(found[1]), []).append(instruction)
    chosen: dict[int, Sharding] = {}
    changed = bool(groups)
    while changed:
        changed = False
        arrivals = rehearse(module.clone())
        for number, members in groups.items():
            known = [arrivals[member.name] for member in members]
            known += [wish for member in members for wish in _asked(member, count)]
            best = max(known, key=_fineness)
            if _fineness(best) > _fineness(chosen.get(number)):
                chosen[number] = best
                changed = True
                for member in members:
                    member.extra["sharding"] = best.text()
    for number in groups.keys() - chosen.keys():
        for member in groups[number]:
            member.extra["sharding"] = "{unknown}"


def _asked(member: Instruction, count: int) -> list[Sharding]:
    """Return the shardings with equal parts that other annotations ask of a member's value."""
    (value,) = member.operands
    texts = [user.extra.get("sharding", "") for user in value.users if is_annotation(user)]
    found = [parse_sharding(text, count) for text in texts]
    dims = value.shape.dims
    return [sharding for sharding in found if sharding is not None and sharding.fits(dims)]


def _fineness(sharding: Sharding | None) -> int:
    return math.prod(sharding.tiles) if sharding else 1
