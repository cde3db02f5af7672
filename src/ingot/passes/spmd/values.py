# SPDX-License-Identifier: Apache-2.0
"""Divided values of one computation: what each device has of them, and ops on them.

`divided` holds the sharding of every instruction whose users see a global value; an instruction
that is not there is whole, or belongs to code divided by hand. Code that is divided by hand along
some axes of the mesh only is a program of its own on each *lane*, the devices that stand alike
along those axes: its values may be divided within the lanes.

Invariant: a value is gathered once, however many ops want all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.division import (
    Division,
    Wishes,
    divide,
    local_attributes,
    local_shapes,
    undivided,
)
from ingot.passes.spmd.exchanges import exchanged
from ingot.passes.spmd.moves import Channels, Moves
from ingot.passes.spmd.sharding import (
    Column,
    Sharding,
    alike,
    count_of,
    joined,
    replicated,
    sharding_of,
)

_LINEAR = frozenset(
    {"add", "broadcast", "concatenate", "copy", "negate", "reshape", "reverse", "slice", "subtract",
     "transpose"}
)  # fmt: skip


class Values:
    """The values of one computation."""

    def __init__(self, computation: Computation, channels: Channels, lanes: Column = ()) -> None:
        """Start with nothing divided; the computation is for each of `lanes` alone."""
        self.computation = computation
        self.channels = channels
        self.count = channels.grid.partitions
        self.whole = replicated(self.count)
        self.moves = Moves(computation, channels)
        self.divided: dict[Instruction, Sharding] = {}
        self.all_lanes = lanes
        self._lanes: dict[Instruction, Column] = {}
        self._converted: dict[tuple[Instruction, Sharding], Instruction] = {}

    def sharding(self, value: Instruction) -> Sharding:
        """Return how a value is divided."""
        return self.divided.get(value, self.whole)

    def elements(self, value: Instruction) -> list[Instruction]:
        """Return the elements of a tuple; a value that is no tuple is its own."""
        if not value.shape.is_tuple:
            return [value]
        if value.opcode == "tuple":
            return list(value.operands)
        build = self.moves.builder(value)
        return [build.element_of(value, index) for index in range(len(value.shape.elements))]

    def set_lanes(self, value: Instruction, lanes: Column) -> None:
        """Note that `value` is another one on each lane; no lanes where all devices see one."""
        self._lanes[value] = lanes

    def lanes(self, value: Instruction) -> Column:
        """Return the lanes of a value, which follow from its operands'."""
        if self.all_lanes or not self._lanes:
            return self.all_lanes
        waiting = [value]
        while waiting:
            item = waiting[-1]
            missing = [o for o in item.operands if o not in self._lanes]
            if missing and item not in self._lanes:
                waiting += missing
                continue
            if item not in self._lanes:
                known = [self._lanes[o] for o in item.operands if self._lanes[o]]
                self._lanes[item] = max(known, key=count_of) if known else ()
            waiting.pop()
        return self._lanes[value]

    def compute(self, op: Instruction, said: Wishes = ()) -> None:
        """An op on divided values: on the parts if it can be, else each device does all of it.

        Its results are divided as the program `said`.
        """
        given = [self.sharding(operand) for operand in op.operands]
        summands = self.summands(op)
        division = divide(op, [sharding.summed for sharding in given], said)
        if division is not None and summands:
            values = (*division.operands, *division.results)
            summands = summands if all(one.may_be_of(summands) for one in values) else ()
        if division is None and (summands or any(said)):
            division = undivided(op, self.whole)
        if division is None:
            self.gather_operands(op)
        else:
            self.compute_part(op, division, summands, said)

    def summands(self, op: Instruction) -> Column:
        """Return how the summands of an op's operands lie, if it gives those of its result."""
        given = {self.sharding(operand).summands for operand in op.operands}
        return given.pop() if op.opcode in _LINEAR and len(given) == 1 else ()

    def sum_operands(self, op: Instruction) -> None:
        """Give an op operands that are summed."""
        for number, operand in enumerate(op.operands):
            made = self.convert(operand, self.sharding(operand).summed)
            self.computation.replace_operand(op, number, made)

    def gather_operands(self, op: Instruction) -> None:
        """Give an op whole operands."""
        for number, operand in enumerate(op.operands):
            self.computation.replace_operand(op, number, self.convert(operand, self.whole))

    def compute_part(
        self, op: Instruction, division: Division, summands: Column, said: Wishes = ()
    ) -> None:
        """Replace an op by its part, or by its part of each summand."""
        operands = [
            self.convert(operand, sharding.of_summands(summands, operand.shape.rank))
            for operand, sharding in zip(op.operands, division.operands, strict=True)
        ]
        made = self.computation.copy_of(op, operands)
        self.computation.set_shape(made, local_shapes(op.shape, division.results))
        self.computation.set_attributes(made, local_attributes(op, made, division))
        results = division.results
        if summands:
            results = (results[0].of_summands(summands, op.shape.rank),)
        if division.folded:
            places = sharding_of(division.folded, self.count).parts
            if division.fold == "add":
                results = (results[0].of_summands(places, op.shape.rank),)
            else:
                fixed = self.fixed(made, results[0])
                made = self.moves.fold(made, fixed, places, division.fold)
        self.replace_part(op, made, results, said)

    def fixed(self, value: Instruction, given: Sharding) -> list[Column]:
        """Return in what devices are alike that have the same part of a value, of one lane."""
        lanes = self.lanes(value)
        columns = [given.column(axis) for axis in range(len(given.tiles))]
        return [*columns, lanes] if lanes else columns

    def replace_part(
        self, op: Instruction, made: Instruction, results: Sequence[Sharding], said: Wishes = ()
    ) -> None:
        """Replace an op by `made`, its part, whose results are divided so."""
        self.computation.set_shape(made, local_shapes(op.shape, results))
        if op.shape.is_tuple:
            self.spread(op, made, results, said)
        else:
            self.note(made, results[0])
            self.computation.replace_all_uses(op, self.settled(made, said[0] if said else None))
        if op.parent is not None and not op.users:
            self.computation.remove(op)

    def settled(self, value: Instruction, said: Sharding | None) -> Instruction:
        """Return `value` divided as the program said; what is to be summed may stay so."""
        if said is None or self.sharding(value).summed == said:
            return value
        return self.convert(value, said)

    def spread(
        self, op: Instruction, made: Instruction, results: Sequence[Sharding], said: Wishes = ()
    ) -> None:
        """Give users of a tuple the divided elements of `made`, or a tuple of whole ones."""
        build = self.moves.builder(op)
        elements = [build.element_of(made, index) for index in range(len(results))]
        for element, sharding in zip(elements, results, strict=True):
            self.note(element, sharding)
        for number, wish in enumerate(said):
            elements[number] = self.settled(elements[number], wish)
        for user in list(op.users):
            if user.opcode == "get-tuple-element":
                self.computation.replace_all_uses(user, elements[int(user.attributes.index)])
                self.computation.remove_dead(user)
        if op.users or op.is_root:
            whole = [self.convert(element, self.whole) for element in elements]
            self.computation.replace_all_uses(op, build.emit("tuple", *whole))

    def note(self, value: Instruction, sharding: Sharding) -> None:
        """Remember how a value is divided."""
        if not sharding.is_replicated:
            self.divided[value] = sharding

    def convert(self, value: Instruction, wanted: Sharding) -> Instruction:
        """Return `value` with the sharding `wanted`."""
        given = self.sharding(value)
        if given == wanted:
            return value
        if (value, wanted) not in self._converted:
            self._converted[value, wanted] = self._convert(value, given, wanted)
        return self._converted[value, wanted]

    def _convert(self, value: Instruction, given: Sharding, wanted: Sharding) -> Instruction:
        """Exchange parts if that is enough; else sum, gather what is divided otherwise, and cut."""
        if given.summands == wanted.summands:
            made = self._moved(value, given, wanted)
            self.note(made, wanted)
            return made
        axes = range(value.shape.rank)
        along = next((axis for axis in axes if given.column(axis) == wanted.summands), None)
        made = exchanged(self.moves, value, (given, wanted), self.lanes(value))
        if made is not None:
            self.note(made, wanted)
        elif given.summands:
            made = self.moves.fold(value, self.fixed(value, given), given.summands, "add")
            self.note(made, given.summed)
        elif along is not None:
            made = self.moves.part_as_summand(value, given, along)
            columns = [given.column(axis) for axis in axes]
            columns[along] = alike(self.count)
            rest = sharding_of(columns, self.count)
            self.note(made, rest.of_summands(wanted.summands, value.shape.rank))
        else:
            made = self.convert(value, wanted.summed)
            made = self.moves.first_summand(made, wanted.summands)
            self.note(made, wanted)
        return self.convert(made, wanted)

    def _moved(self, value: Instruction, given: Sharding, wanted: Sharding) -> Instruction:
        """Return a value, or a summand of it, divided as `wanted`."""
        lanes = self.lanes(value)
        if given.summands:
            lanes = joined([lanes, given.summands] if lanes else [given.summands])
            given, wanted = given.summed, wanted.summed
        made = exchanged(self.moves, value, (given, wanted), lanes)
        if made is not None:
            return made
        axes = range(value.shape.rank)
        kept = {axis for axis in axes if given.column(axis) == wanted.column(axis)}
        made = self.moves.gather(value, given, kept, lanes)
        rest = [alike(self.count) if axis in kept else wanted.column(axis) for axis in axes]
        return self.moves.cut(made, sharding_of(rest, self.count))
