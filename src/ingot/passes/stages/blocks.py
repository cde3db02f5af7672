# SPDX-License-Identifier: Apache-2.0
"""Blocks: the code of a staged computation while it is written.

A block is a list of items, each of which uses some slots. When the block is closed, each slot that
it made and does not pass on is freed after its last use. Jumps have labels until `assembled`
numbers them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from ingot.artifact.stages import Code, Copy, Differs, Free, Jump, SlotInfo, Unless
from ingot.hlo.shape import Shape
from ingot.support.records import fresh, mutable, replace


@mutable(eq=False)
class Label:
    """Where a jump goes."""


Line = Code | Label | tuple[Code, Label]
"""An instruction, a label that stands here, or a jump to a label."""


@mutable
class _Item:
    lines: list[Line]
    uses: frozenset[int]


@mutable
class Block:
    """The items of one computation."""

    items: list[_Item] = field(default_factory=fresh(list[_Item]))
    made: dict[int, None] = field(default_factory=fresh(dict[int, None]))

    def add(self, lines: list[Line], uses: Iterable[int], makes: Iterable[int] = ()) -> None:
        """Add an item that uses slots, and fills others, which the block then owns."""
        self.made.update(dict.fromkeys(makes))
        self.items.append(_Item(lines, frozenset((*uses, *makes))))

    def copy_first(self, source: int, copy: int) -> None:
        """Copy a slot from outside before anything runs."""
        self.made[copy] = None
        self.items.insert(0, _Item([Copy(source, copy)], frozenset((source, copy))))

    def uses(self) -> frozenset[int]:
        """Return the slots that some item uses."""
        return frozenset(slot for item in self.items for slot in item.uses)

    def closed(self, live_out: Iterable[int] = ()) -> list[Line]:
        """Return the lines, with a `Free` of each slot that was made, except those in `held`."""
        held = set(live_out)
        last: dict[int, int] = {}
        for number, item in enumerate(self.items):
            for slot in item.uses:
                last[slot] = number
        lines: list[Line] = []
        for number, item in enumerate(self.items):
            lines += item.lines
            lines += [Free(slot) for slot in self.made if last[slot] == number and slot not in held]
        return lines


class Slots:
    """The slots of a frame."""

    def __init__(self) -> None:
        """Start with none."""
        self.rows: list[SlotInfo] = []

    def new(self, shape: Shape) -> int:
        """Return a new slot for arrays of a shape; a token has no dimensions."""
        dtype = shape.dtype.name if shape.is_array else "token"
        self.rows.append(SlotInfo(dtype, shape.rank if shape.is_array else 0))
        return len(self.rows) - 1


def assembled(lines: list[Line]) -> tuple[Code, ...]:
    """Return the instructions, with jumps to their numbers."""
    targets: dict[Label, int] = {}
    count = 0
    for line in lines:
        if isinstance(line, Label):
            targets[line] = count
        else:
            count += 1
    found: list[Code] = []
    for line in lines:
        if isinstance(line, tuple):
            jump, label = line
            assert isinstance(jump, Jump | Unless | Differs)
            found.append(replace(jump, target=targets[label]))
        elif not isinstance(line, Label):
            found.append(line)
    return tuple(found)
