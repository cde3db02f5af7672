# SPDX-License-Identifier: Apache-2.0
"""Divided values of one computation: which part each device has, and ops on them.

`divided` holds the sharding of every instruction whose users see a global value; other instructions
are whole, or belong to code divided by hand. Code that is divided by hand along only some axes of
the mesh is a separate program on each *manual subgroup*, the devices with equal coordinates along
those axes; its values may be divided within a subgroup. A column has the subgroup of each device.

Invariant: a value is gathered once, however many ops need all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.operand_order import operands_behind
from ingot.passes.spmd.division import (
    Annotations,
    Division,
    divide,
    local_attributes,
    local_shapes,
    undivided,
)
from ingot.passes.spmd.exchanges import exchanged
from ingot.passes.spmd.reshard import Channels, Resharder
from ingot.passes.spmd.sharding import (
    Column,
    Sharding,
    count_of,
    joined,
    replicated,
    sharding_of,
    undivided_column,
)
from ingot.semantics.custom_calls import note_whole_batch

_LINEAR = frozenset(
    {"add", "broadcast", "concatenate", "copy", "negate", "reshape", "reverse", "slice", "subtract",
     "transpose"}
)  # fmt: skip
"""Linear ops: f(x + y) is f(x) + f(y)."""
_LINEAR_IN = {
    "divide": ({0},),
    "dynamic-slice": ({0},),
    "dynamic-update-slice": ({0, 1},),
    "multiply": ({0}, {1}),
    "select": ({1, 2},),
}
"""Ops that do so for some of their operands, while the others are no sums."""


def _is_widening(op: Instruction) -> bool:
    """Whether an op converts floats to a wider type, in which sums are at least as exact."""
    if op.opcode != "convert":
        return False
    source, target = op.operands[0].shape.dtype, op.shape.dtype
    return source.is_float and target in (F32, F64) and source.bits < target.bits


class Values:
    """The values of one computation."""

    def __init__(
        self, computation: Computation, channels: Channels, subgroups: Column = ()
    ) -> None:
        """Start with nothing divided; the computation is for each of `subgroups` alone."""
        self.computation = computation
        self.channels = channels
        self.count = channels.grid.partitions
        self.whole = replicated(self.count)
        self.resharder = Resharder(computation, channels)
        self.divided: dict[Instruction, Sharding] = {}
        self.all_subgroups = subgroups
        self._subgroups: dict[Instruction, Column] = {}
        self._converted: dict[tuple[Instruction, Sharding], Instruction] = {}

    def sharding(self, value: Instruction) -> Sharding:
        """Return how a value is divided."""
        return self.divided.get(value, self.whole)

    def elements(self, value: Instruction) -> list[Instruction]:
        """Return the elements of a tuple; a value that is no tuple is its own."""
        return self.resharder.builder(value).elements_of(value)

    def set_subgroups(self, value: Instruction, subgroups: Column) -> None:
        """Record that `value` differs between manual subgroups; empty if it is one value."""
        self._subgroups[value] = subgroups

    def subgroups(self, value: Instruction) -> Column:
        """Return the subgroups of a value, which follow from its operands'."""
        if self.all_subgroups or not self._subgroups:
            return self.all_subgroups
        for item in operands_behind([value], self._subgroups):
            known = [self._subgroups[o] for o in item.operands if self._subgroups[o]]
            self._subgroups[item] = max(known, key=count_of) if known else ()
        return self._subgroups[value]

    def division(self, op: Instruction, annotated: Annotations = ()) -> Division | None:
        """Return how an op is divided by its factors; None if an operand is in summands."""
        given = [self.sharding(operand) for operand in op.operands]
        if any(sharding.summands for sharding in given):
            return None
        return divide(op, given, annotated) or undivided(op, self.whole)

    def compute(self, op: Instruction, annotated: Annotations = ()) -> None:
        """An op on divided values: on the parts if it can be, else each device does all of it.

        Its results are divided as they are `annotated`.
        """
        given = [self.sharding(operand) for operand in op.operands]
        summands = self.summands(op)
        division = divide(op, [sharding.summed for sharding in given], annotated)
        if division is not None and summands:
            sums = zip(division.operands, given, strict=True)
            values = (*(one for one, sharding in sums if sharding.summands), *division.results)
            summands = summands if all(one.may_be_of(summands) for one in values) else ()
        if division is None and (summands or any(annotated)):
            division = undivided(op, self.whole)
        if division is None:
            self.gather_operands(op)
        else:
            self.compute_part(op, division, summands, annotated)

    def summands(self, op: Instruction) -> Column:
        """Return the operands' summands if the op, on them, gives the result's summands."""
        given = [self.sharding(operand).summands for operand in op.operands]
        sums = {number for number, summands in enumerate(given) if summands}
        known = {given[number] for number in sums}
        everywhere = op.opcode in _LINEAR or _is_widening(op)
        is_linear = len(sums) == len(given) if everywhere else sums in _LINEAR_IN.get(op.opcode, ())
        return known.pop() if is_linear and len(known) == 1 else ()

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
        self, op: Instruction, division: Division, summands: Column, annotated: Annotations
    ) -> None:
        """Replace an op by its part, or by its part of each summand."""
        operands = [
            self.convert(
                operand,
                sharding.of_summands(
                    summands if self.sharding(operand).summands else (), operand.shape.rank
                ),
            )
            for operand, sharding in zip(op.operands, division.operands, strict=True)
        ]
        made = self.computation.copy_of(op, operands)
        self.computation.set_shape(made, local_shapes(op.shape, division.results))
        self.computation.set_attributes(made, local_attributes(op, made, division))
        if op.opcode == "custom-call":
            note_whole_batch(made, op)
        results = division.results
        if summands:
            results = (results[0].of_summands(summands, op.shape.rank),)
        if division.folded:
            varying = sharding_of(division.folded, self.count).parts
            if division.fold == "add":
                results = (results[0].of_summands(varying, op.shape.rank),)
            else:
                fixed = self.fixed(made, results[0])
                made = self.resharder.fold(made, fixed, varying, division.fold)
        self.replace_part(op, made, results, annotated)

    def fixed(self, value: Instruction, given: Sharding) -> list[Column]:
        """Return columns in which exactly the devices agree that have the same part of a value."""
        subgroups = self.subgroups(value)
        columns = [given.column(axis) for axis in range(len(given.tiles))]
        return [*columns, subgroups] if subgroups else columns

    def replace_part(
        self,
        op: Instruction,
        made: Instruction,
        results: Sequence[Sharding],
        annotated: Annotations = (),
    ) -> None:
        """Replace an op by `made`, its part, whose results are divided so."""
        self.computation.set_shape(made, local_shapes(op.shape, results))
        if op.shape.is_tuple:
            self.spread(op, made, results, annotated)
        else:
            self.note(made, results[0])
            self.computation.replace_all_uses(
                op, self.settled(made, annotated[0] if annotated else None)
            )
        if op.parent is not None and not op.users:
            self.computation.remove(op)

    def settled(self, value: Instruction, annotated: Sharding | None) -> Instruction:
        """Return `value` divided as annotated; it may stay in summands."""
        if annotated is None or self.sharding(value).summed == annotated:
            return value
        return self.convert(value, annotated)

    def spread(
        self,
        op: Instruction,
        made: Instruction,
        results: Sequence[Sharding],
        annotated: Annotations = (),
    ) -> None:
        """Give users of a tuple the divided elements of `made`, or a tuple of whole elements."""
        build = self.resharder.builder(op)
        elements = build.elements_of(made)
        for element, sharding in zip(elements, results, strict=True):
            self.note(element, sharding)
        for number, wish in enumerate(annotated):
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
        """Exchange parts if that is enough; else sum, gather differently divided dims, and cut."""
        if given.summands == wanted.summands:
            made = self._moved(value, given, wanted)
            self.note(made, wanted)
            return made
        axes = range(value.shape.rank)
        along = next((axis for axis in axes if given.column(axis) == wanted.summands), None)
        made = exchanged(self.resharder, value, (given, wanted), self.subgroups(value))
        if made is not None:
            self.note(made, wanted)
        elif given.summands:
            made = self.resharder.fold(value, self.fixed(value, given), given.summands, "add")
            self.note(made, given.summed)
        elif along is not None:
            made = self.resharder.part_as_summand(value, given, along)
            columns = [given.column(axis) for axis in axes]
            columns[along] = undivided_column(self.count)
            rest = sharding_of(columns, self.count)
            self.note(made, rest.of_summands(wanted.summands, value.shape.rank))
        else:
            made = self.convert(value, wanted.summed)
            made = self.resharder.first_summand(made, wanted.summands)
            self.note(made, wanted)
        return self.convert(made, wanted)

    def _moved(self, value: Instruction, given: Sharding, wanted: Sharding) -> Instruction:
        """Return a value, or a summand of it, divided as `wanted`."""
        subgroups = self.subgroups(value)
        if given.summands:
            subgroups = joined([subgroups, given.summands] if subgroups else [given.summands])
            given, wanted = given.summed, wanted.summed
        made = exchanged(self.resharder, value, (given, wanted), subgroups)
        if made is not None:
            return made
        axes = range(value.shape.rank)
        kept = {axis for axis in axes if given.column(axis) == wanted.column(axis)}
        made = self.resharder.gather(value, given, kept, subgroups)
        rest = [
            undivided_column(self.count) if axis in kept else wanted.column(axis) for axis in axes
        ]
        return self.resharder.cut(made, sharding_of(rest, self.count))
