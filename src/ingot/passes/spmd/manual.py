"""Manual partitioning: a program over global shapes becomes the program of one device.

Values are followed from the parameters on. A divided value may be annotated again with the same
sharding, enter code that the user divided by hand (`SPMDFullToShardShape`), go through elementwise
ops together with values divided alike, and leave as a result. A whole value may be cut where a
divided one is wanted. Everything else about divided values would need the partitioner that Ingot
does not have yet, and raises an error that says so.

Invariant: afterwards every shape is that of one device's part, and no annotation is left.

Source: xla/service/spmd/spmd_partitioner.cc, as far as manual programs go.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ingot.hlo.computation import Computation
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.opdef import Trait
from ingot.hlo.rewrite.pass_base import PassContext
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.hlo.shape import Shape
from ingot.passes.simplify.calls import CallInliner
from ingot.passes.spmd.sharding import Sharding, parse_sharding, replicated, split_tuple
from ingot.support.diagnostics import UnsupportedError

_ANNOTATION = "Sharding"
_ENTER = "SPMDFullToShardShape"
_LEAVE = "SPMDShardToFullShape"


@dataclass(frozen=True, slots=True)
class Partitioned:
    """How the parameters and results of the entry are divided."""

    parameters: tuple[Sharding, ...]
    results: tuple[Sharding, ...]


def partition(module: Module, num_partitions: int) -> Partitioned:
    """Rewrite `module` into the program of one of `num_partitions` devices.

    Raises:
        UnsupportedError: INGOT0360, the program needs automatic partitioning.
    """
    if num_partitions == 1:
        whole = replicated(1)
        results = module.result_shape.elements if module.result_shape.is_tuple else (None,)
        return Partitioned((whole,) * len(module.parameter_shapes), (whole,) * len(results))
    CallInliner().run(module, PassContext())
    _forward_elements(module.entry)
    return _Partitioner(module.entry, num_partitions).run()


def _forward_elements(entry: Computation) -> None:
    """Replace elements of tuples that are made here by what they are."""
    for instruction in entry.post_order():
        if instruction.opcode == "get-tuple-element":
            (source,) = instruction.operands
            index: int = instruction.attributes.index
            if source.opcode == "tuple":
                entry.replace(instruction, source.operands[index])


def _is_call(instruction: Instruction, target: str) -> bool:
    if instruction.opcode != "custom-call":
        return False
    return instruction.attributes.custom_call_target == target


class _Partitioner:
    """The walk over the entry.

    `divided` holds the sharding of every instruction whose users see a global value; an instruction
    that is not there is whole, or belongs to code divided by hand.
    """

    def __init__(self, entry: Computation, num_partitions: int) -> None:
        self.entry = entry
        self.count = num_partitions
        self.whole = replicated(num_partitions)
        self.divided: dict[Instruction, Sharding] = {}
        self.partition_id: Instruction | None = None

    def run(self) -> Partitioned:
        """Rewrite the entry."""
        parameters = tuple(self.parameter(item) for item in self.entry.parameters)
        root = self.entry.root
        wanted = self.wanted_results(root)
        for instruction in self.entry.post_order():
            if instruction.opcode != "parameter" and instruction.parent is not None:
                self.visit(instruction)
        root = self.entry.root
        results = self.finish(root, wanted)
        return Partitioned(parameters, results)

    def read(self, instruction: Instruction) -> Sharding | None:
        """Return the sharding that an instruction is annotated with."""
        return parse_sharding(instruction.extra.get("sharding", ""), self.count)

    def parameter(self, parameter: Instruction) -> Sharding:
        """Give a parameter the shape of its part; one without annotation takes that of its user."""
        given = self.read(parameter)
        if given is None:
            wishes = {self.read(user) for user in parameter.users if _is_call(user, _ANNOTATION)}
            alone = len(wishes) == 1 and all(_is_call(u, _ANNOTATION) for u in parameter.users)
            given = wishes.pop() if alone else None
        sharding = given or self.whole
        parameter.extra.pop("sharding", None)
        if not sharding.is_replicated:
            self.entry.set_shape(parameter, local_shape(parameter.shape, sharding))
            self.divided[parameter] = sharding
        return sharding

    def wanted_results(self, root: Instruction) -> list[Sharding | None]:
        """Return the shardings that the root is annotated with, one per result."""
        text = root.extra.get("sharding", "")
        count = len(root.shape.elements) if root.shape.is_tuple else 1
        if not text:
            return [None] * count
        texts = split_tuple(text) if root.shape.is_tuple else [text]
        return [parse_sharding(part, self.count) for part in texts]

    def visit(self, instruction: Instruction) -> None:
        """Rewrite one instruction."""
        if _is_call(instruction, _ANNOTATION):
            self.annotation(instruction)
        elif _is_call(instruction, _ENTER):
            self.forward(instruction, instruction.operands[0])
        elif _is_call(instruction, _LEAVE):
            self.leave(instruction)
        elif instruction is self.entry.root and instruction.opcode == "tuple":
            return
        elif any(operand in self.divided for operand in instruction.operands):
            self.elementwise(instruction)

    def forward(self, old: Instruction, new: Instruction) -> None:
        """Let the users of `old` have `new`; what a divided value is inside is plain there."""
        if _is_call(old, _ENTER) and new in self.divided:
            # Users of a divided value see a global one; inside of manual code it is just a value.
            new = self.entry.add("copy", [new], shape=new.shape)
        self.entry.replace_all_uses(old, new)
        self.entry.remove_dead(old)

    def annotation(self, call: Instruction) -> None:
        """A value is to have a sharding."""
        wanted, operand = self.read(call), call.operands[0]
        if wanted is None:
            self.forward(call, operand)
            return
        found = self.convert(operand, wanted, call)
        self.entry.replace_all_uses(call, found)
        self.entry.remove_dead(call)

    def convert(self, value: Instruction, wanted: Sharding, user: Instruction) -> Instruction:
        """Return `value` with the sharding `wanted`."""
        given = self.divided.get(value, self.whole)
        if given == wanted or (given.is_replicated and wanted.is_replicated):
            return value
        if not given.is_replicated:
            raise self.refuse(user, f"its operand is divided by {given.tiles}, not as it asks")
        return self.cut(value, wanted)

    def cut(self, value: Instruction, wanted: Sharding) -> Instruction:
        """Return this device's part of a whole value."""
        build = RuleBuilder(self.entry, value.metadata)
        dims = tuple(size for size in value.shape.dims if isinstance(size, int))
        if self.partition_id is None:
            self.partition_id = build.emit("partition-id", shape="u32[]")
        table = np.array(wanted.offsets(dims), np.int32).reshape(self.count, len(dims))
        local = wanted.local_dims(dims)
        starts: list[Instruction] = []
        for axis in range(len(dims)):
            column = build.constant(Literal.of(np.ascontiguousarray(table[:, axis])))
            one = build.emit("dynamic-slice", column, self.partition_id, dynamic_slice_sizes=(1,))
            starts.append(build.emit("reshape", one, shape=Shape.array(S32, ())))
        part = build.emit("dynamic-slice", value, *starts, dynamic_slice_sizes=local)
        self.divided[part] = wanted
        return part

    def leave(self, call: Instruction) -> None:
        """A part made by hand is a divided value from here on."""
        sharding, operand = self.read(call) or self.whole, call.operands[0]
        made = self.entry.add("copy", [operand], shape=operand.shape, metadata=call.metadata)
        if not sharding.is_replicated:
            self.divided[made] = sharding
        self.entry.replace_all_uses(call, made)
        self.entry.remove_dead(call)

    def elementwise(self, instruction: Instruction) -> None:
        """An op on divided values: each device works on its parts, if the op allows that."""
        shardings = {self.divided[o] for o in instruction.operands if o in self.divided}
        if not instruction.has(Trait.ELEMENTWISE) or len(shardings) != 1:
            raise self.refuse(instruction, "it works on divided arrays")
        (sharding,) = shardings
        operands = [
            operand if operand.shape.rank == 0 else self.convert(operand, sharding, instruction)
            for operand in instruction.operands
        ]
        made = self.entry.copy_of(instruction, operands)
        self.entry.set_shape(made, local_shape(instruction.shape, sharding))
        self.divided[made] = sharding
        self.entry.replace_all_uses(instruction, made)
        self.entry.remove_dead(instruction)

    def finish(self, root: Instruction, wanted: list[Sharding | None]) -> tuple[Sharding, ...]:
        """Give the results the shardings that are asked for, and the root its shape."""
        if not root.shape.is_tuple or root.opcode != "tuple":
            if wanted[0] is not None:
                made = self.convert(root, wanted[0], root)
                self.entry.set_root(made)
                root = made
            return (self.divided.get(root, self.whole),)
        for number, (value, sharding) in enumerate(zip(root.operands, wanted, strict=True)):
            if sharding is not None and value.shape.is_array:
                self.entry.replace_operand(root, number, self.convert(value, sharding, root))
        self.entry.set_shape(root, Shape.tuple(tuple(value.shape for value in root.operands)))
        return tuple(self.divided.get(value, self.whole) for value in root.operands)

    def refuse(self, instruction: Instruction, why: str) -> UnsupportedError:
        """Return the error for what only automatic partitioning could do."""
        return UnsupportedError(
            f"'{instruction.opcode}' on {self.count} devices needs automatic partitioning, which "
            f"Ingot does not have yet: {why}",
            code="INGOT0360",
            op_name=instruction.metadata.op_name,
            location=instruction.metadata.location,
            hint="divide the work with jax.shard_map, or keep the arrays whole (P())",
        )


def local_shape(shape: Shape, sharding: Sharding) -> Shape:
    """Return the shape of one part."""
    dims = tuple(size for size in shape.dims if isinstance(size, int))
    return Shape.array(shape.dtype, sharding.local_dims(dims))
