"""Divided values of one computation: what each device has of them, and ops on them.

`divided` holds the sharding of every instruction whose users see a global value; an instruction
that is not there is whole, or belongs to code divided by hand.

Invariant: a value is gathered once, however many ops want all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.division import Division, divide, local_attributes, local_shapes
from ingot.passes.spmd.moves import Channels, Moves
from ingot.passes.spmd.sharding import Sharding, replicated


class Values:
    """The values of one computation."""

    def __init__(self, computation: Computation, channels: Channels) -> None:
        """Start with nothing divided."""
        self.computation = computation
        self.channels = channels
        self.count = channels.grid.partitions
        self.whole = replicated(self.count)
        self.moves = Moves(computation, channels)
        self.divided: dict[Instruction, Sharding] = {}
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

    def compute(self, op: Instruction) -> None:
        """An op on divided values: on the parts if it can be, else each device does all of it."""
        given = [self.sharding(operand) for operand in op.operands]
        division = divide(op, given)
        if division is None:
            self.gather_operands(op)
        else:
            self.compute_part(op, division)

    def gather_operands(self, op: Instruction) -> None:
        """Give an op whole operands."""
        for number, operand in enumerate(op.operands):
            self.computation.replace_operand(op, number, self.convert(operand, self.whole))

    def compute_part(self, op: Instruction, division: Division) -> None:
        """Replace an op by its part."""
        operands = [
            self.convert(operand, sharding)
            for operand, sharding in zip(op.operands, division.operands, strict=True)
        ]
        made = self.computation.copy_of(op, operands)
        made.extra.pop("sharding", None)
        self.computation.set_shape(made, local_shapes(op.shape, division.results))
        made.attributes = local_attributes(op, made, division)
        if division.folded:
            made = self.moves.fold(made, division.results[0], division.folded, division.fold)
        self.replace_part(op, made, division.results)

    def replace_part(self, op: Instruction, made: Instruction, results: Sequence[Sharding]) -> None:
        """Replace an op by `made`, its part, whose results are divided so."""
        self.computation.set_shape(made, local_shapes(op.shape, results))
        if op.shape.is_tuple:
            self.spread(op, made, results)
        else:
            self.note(made, results[0])
            self.computation.replace_all_uses(op, made)
        if op.parent is not None and not op.users:
            self.computation.remove(op)

    def spread(self, op: Instruction, made: Instruction, results: Sequence[Sharding]) -> None:
        """Give users of a tuple the divided elements of `made`, or a tuple of whole ones."""
        build = self.moves.builder(op)
        elements = [build.element_of(made, index) for index in range(len(results))]
        for element, sharding in zip(elements, results, strict=True):
            self.note(element, sharding)
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
        given = self.divided.get(value, self.whole)
        if given == wanted or (given.is_replicated and wanted.is_replicated):
            return value
        known = self._converted.get((value, wanted))
        if known is not None:
            return known
        made = value if given.is_replicated else self.whole_of(value, given)
        if not wanted.is_replicated:
            made = self.moves.cut(made, wanted)
            self.divided[made] = wanted
        self._converted[value, wanted] = made
        return made

    def whole_of(self, value: Instruction, given: Sharding) -> Instruction:
        """Return a divided value gathered, once."""
        if (value, self.whole) not in self._converted:
            self._converted[value, self.whole] = self.moves.gather(value, given)
        return self._converted[value, self.whole]
