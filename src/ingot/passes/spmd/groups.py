# SPDX-License-Identifier: Apache-2.0
"""Groups of values with one sharding (`{unknown shard_as 7}`), settled before partitioning.

A group only says that its members have the same sharding. The sharding is found by partitioning a
copy of the program: all members get the finest division that one of them has there, or that another
annotation asks for. That may divide others, so it is repeated until nothing changes.

Invariant: afterwards no annotation names a group.

Source: xla/hlo/ir/hlo_sharding.h (ShardGroup), sharding_propagation.cc.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.passes.spmd.sharding import Sharding, parse_sharding
from ingot.semantics.custom_calls import is_annotation

_GROUP = re.compile(r"\{\s*unknown\s+shard_(?:as|like)\s+(\d+)\s*\}")

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
