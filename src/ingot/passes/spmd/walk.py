# SPDX-License-Identifier: Apache-2.0
"""The walk of the partitioner over one computation, operands before users.

An op whose operands are divided works on the parts if its factors allow that (`factors`,
`division`); any other op gets whole operands, gathered from all devices, and every device computes
all of it. Its results are then divided as annotated: Shardy annotates every op of a program that
comes from StableHLO. Annotations between ops (`Sharding`) reshard values; `SPMDFullToShardShape`
enters code that the user divided by hand, along all or some axes of the mesh. A custom call that is
placed on one device (a callback) runs there; the others get its results.

Invariant: afterwards every shape is that of one device's part, and no annotation is left.

Source: xla/service/spmd/spmd_partitioner.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.hlo.computation import Computation, reached
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import RegionKind, ops_with
from ingot.hlo.shape import Shape
from ingot.passes.spmd.annotations import ANNOTATION, is_resharded, target_of
from ingot.passes.spmd.control import Control
from ingot.passes.spmd.custom_partitioners import TARGET, place_program
from ingot.passes.spmd.division import Annotations, local_shape, local_shapes, whole_shape
from ingot.passes.spmd.folds import fold_parts
from ingot.passes.spmd.halos import convolve_parts, reduce_parts
from ingot.passes.spmd.indexed import gather_parts, scatter_parts, slice_parts, update_parts
from ingot.passes.spmd.own_partitions import find_partitioner
from ingot.passes.spmd.reshard import Channels
from ingot.passes.spmd.sharding import (
    Column,
    Sharding,
    manual_subgroups,
    maximal_device,
    parse_sharding,
    split_tuple,
)
from ingot.passes.spmd.values import Values
from ingot.semantics.custom_calls import ALIKE, ORDER, config_text
from ingot.support.diagnostics import UnsupportedError

_ENTER = "SPMDFullToShardShape"
_LEAVE = "SPMDShardToFullShape"
_CONTROL = ops_with(RegionKind.BRANCH)
_BARRIER = "opt-barrier"
_ON_PARTS = "xla_ffi_partitioned_python_cpu_callback"
_INSPECT = "InspectSharding"
_PLACEMENT = "annotate_device_placement"


_BEYOND_FACTORS = {
    "convolution": convolve_parts,
    "dynamic-slice": slice_parts,
    "dynamic-update-slice": update_parts,
    "gather": gather_parts,
    "reduce": fold_parts,
    "reduce-window": reduce_parts,
    "scatter": scatter_parts,
}
"""Ops that work on parts along dimensions that are no factors: `halos`, `indexed`, `folds`."""
MAX_NESTING = 12
"""Nested loops and branches: each is rehearsed and then rewritten, so the innermost 2^n times."""


class Walk(Values):
    """The walk over one computation."""

    def __init__(
        self, computation: Computation, channels: Channels, subgroups: Column = (), nesting: int = 0
    ) -> None:
        """Prepare the walk.

        Args:
            computation: the computation whose instructions become those of one device.
            channels: what all walks over the module share, such as the numbers of collectives.
            subgroups: the manual subgroup of each device, if the computation is for each alone.
            nesting: the number of loops and branches that the computation is nested in.
        """
        super().__init__(computation, channels, subgroups)
        self.nesting = nesting
        self.arrivals: dict[str, Sharding] = {}
        self.calls: dict[str, Callable[[Instruction], None]] = {
            ANNOTATION: self.annotation,
            _ENTER: self.pass_border,
            _LEAVE: self.pass_border,
            TARGET: self.custom,
            _ON_PARTS: self.sum_operands,  # Every device makes the call with its own parts.
            _INSPECT: self.inspect,
            _PLACEMENT: self.annotation,
            ALIKE: self.computation.remove,
            ORDER: lambda call: None,  # Its operands are the parts already.
        }

    def run(
        self, given: Sequence[Sharding], wanted: Sequence[Sharding | None]
    ) -> tuple[Sharding, ...]:
        """Rewrite a body or branch: its state is divided as `given`, its results as `wanted`."""
        (parameter,) = self.computation.parameters
        for element, sharding in zip(self.state(parameter), given, strict=True):
            self.divide_element(element, sharding)
        if parameter.shape.is_tuple:
            self.computation.set_shape(parameter, local_shapes(parameter.shape, given))
        self.open_root()
        self.walk()
        return self.finish(self.computation.root, wanted)

    def state(self, parameter: Instruction) -> list[Instruction]:
        """Return the elements of a parameter, one instruction each, which all users then use."""
        if not parameter.shape.is_tuple:
            return [parameter]
        users = list(parameter.users)
        found = self.elements(parameter)
        packed = self.resharder.builder(parameter).emit("tuple", *found)
        for user in users:
            if user.opcode == "get-tuple-element":
                self.computation.replace(user, found[int(user.attributes.index)])
            else:
                self.computation.replace_in(user, parameter, packed)
        if parameter.is_root:
            self.computation.set_root(packed)
        self.remove_unused(packed)
        return found

    def remove_unused(self, packed: Instruction) -> None:
        """Remove a tuple whose elements are divided: its declared shape has whole elements."""
        is_used = packed.users or packed.is_root
        if packed.opcode == "tuple" and packed in self.computation and not is_used:
            self.computation.remove(packed)

    def divide_element(self, element: Instruction, sharding: Sharding) -> None:
        """Let an element of the state be a part."""
        self.computation.set_shape(element, local_shape(element.shape, sharding))
        self.note(element, sharding)

    def walk(self) -> None:
        """Rewrite every instruction, operands before users."""
        self.forward_elements()
        for instruction in self.computation.post_order():
            if instruction.opcode != "parameter" and instruction.parent is not None:
                self.visit(instruction)

    def forward_elements(self) -> None:
        """Replace elements of tuples that are made here by the values in the tuples."""
        for instruction in self.computation.post_order():
            if instruction.opcode == "get-tuple-element":
                (source,) = instruction.operands
                if source.opcode == "tuple":
                    index: int = instruction.attributes.index
                    self.computation.replace_all_uses(instruction, source.operands[index])
                    self.computation.remove_dead(instruction)

    def open_root(self) -> None:
        """Make the root a tuple of values if it is one value that is a tuple."""
        root = self.computation.root
        if root.shape.is_tuple and root.opcode != "tuple":
            made = self.resharder.builder(root).emit("tuple", *self.elements(root))
            made.extra |= {"sharding": root.extra.pop("sharding", "")}
            self.computation.set_root(made)

    def read(self, instruction: Instruction) -> Sharding | None:
        """Return the sharding that an instruction is annotated with; a token lies nowhere."""
        if not instruction.shape.is_array:
            return None
        return parse_sharding(instruction.extra.get("sharding", ""), self.count)

    def annotated(self, op: Instruction) -> Annotations:
        """Return the shardings that an op's results are annotated with; nothing if it has none."""
        text = op.extra.get("sharding", "")
        if not text or maximal_device(text) is not None:
            return ()
        shapes = op.shape.parts
        texts = split_tuple(text) if op.shape.is_tuple and text.startswith("{{") else [text]
        return [
            self.evenly(parse_sharding(one, self.count), shape) if shape.is_array else None
            for one, shape in zip(texts, shapes, strict=False)
        ]

    def evenly(self, sharding: Sharding | None, shape: Shape) -> Sharding | None:
        """Return a sharding without the dimensions whose parts would have different sizes."""
        return sharding.even(shape.dims) if sharding is not None else None

    def visit(self, instruction: Instruction) -> None:
        """Rewrite one instruction."""
        target = target_of(instruction)
        subgroups = manual_subgroups(instruction.extra.get("sharding", ""))
        if subgroups and target != _LEAVE:
            self.set_subgroups(instruction, subgroups)
        rewrite = self.calls.get(target)
        if rewrite is not None:
            rewrite(instruction)
        elif instruction.opcode in _CONTROL:
            self.control(instruction)
        elif instruction.opcode == _BARRIER:
            self.barrier(instruction)
        elif instruction.opcode == "call":
            self.called(instruction)
        elif instruction.opcode == "tuple" and self.is_opened(instruction):
            return
        elif target and maximal_device(instruction.extra.get("sharding", "")) is not None:
            self.placed(instruction)
        else:
            annotated = self.annotated(instruction)
            is_divided = any(operand in self.divided for operand in instruction.operands)
            if is_divided or any(wish and not wish.is_replicated for wish in annotated):
                self.divide(instruction, annotated)

    def divide(self, op: Instruction, annotated: Annotations) -> None:
        """Compute an op on parts, along dimensions that are no factors too if sizes are static."""
        by_parts = _BEYOND_FACTORS.get(op.opcode)
        if by_parts is None or not op.is_static or not by_parts(self, op, annotated):
            self.compute(op, annotated)

    def called(self, call: Instruction) -> None:
        """Keep a call (`passes.unfolding`): each device computes all of it.

        Raises:
            UnsupportedError: its callee divides values by hand or by a host's program.
        """
        by_hand = (_ENTER, _LEAVE, TARGET, _ON_PARTS)
        inside = (one for each in reached(call.attributes.to_apply) for one in each.instructions)
        if any(target_of(one) in by_hand for one in inside):
            raise self.refuse(call, "it has several callers and divides something itself")
        self.gather_operands(call)

    def is_opened(self, packed: Instruction) -> bool:
        """Whether all users of a tuple take it apart."""
        opening = (u.opcode in _CONTROL or u.opcode == _BARRIER for u in packed.users)
        return packed is self.computation.root or all(opening)

    def control(self, op: Instruction) -> None:
        """Divide the state of control flow as its bodies or branches divide it.

        Raises:
            UnsupportedError: INGOT0360 if it is nested in `MAX_NESTING` loops and branches.
        """
        if self.nesting == MAX_NESTING:
            raise self.refuse(op, f"it is nested in {MAX_NESTING} loops and branches")
        first = 0 if op.opcode == "while" else 1
        states = [self.elements(operand) for operand in op.operands[first:]]
        given = [[self.sharding(value).summed for value in state] for state in states]

        def rewrite(
            computation: Computation,
            channels: Channels,
            given: Sequence[Sharding],
            wanted: Sequence[Sharding | None],
        ) -> tuple[Sharding, ...]:
            return Walk(computation, channels, subgroups, self.nesting + 1).run(given, wanted)

        annotated, subgroups = self.annotated(op), self.subgroups(op)
        control = Control(op, given, annotated, self.channels, rewrite)
        whole = all(self.sharding(value) == self.whole for state in states for value in state)
        whole = whole and not any(wish and not wish.is_replicated for wish in annotated)
        if whole and not control.has_divisions():
            control.rewrite_in_place()
            return
        division = control.divide()
        operands = list(op.operands[:first])
        for number, (state, wanted) in enumerate(zip(states, division.states, strict=True), first):
            values = [self.convert(*pair) for pair in zip(state, wanted, strict=True)]
            shape = op.operands[number].shape
            operands.append(self.resharder.builder(op).value_of(values, shape))
        made = self.computation.copy_of(op, operands)
        self.computation.set_attributes(made, division.attributes)
        self.replace_part(op, made, division.results)
        for packed in set(op.operands):
            self.remove_unused(packed)

    def barrier(self, op: Instruction) -> None:
        """Let values pass a barrier without changing their shardings."""
        (packed,), annotated = op.operands, self.annotated(op)
        values = self.elements(packed)
        for number, wish in enumerate(annotated):
            values[number] = self.settled(values[number], wish)
        if all(value not in self.divided for value in values):
            return
        operand = self.resharder.builder(op).value_of(values, packed.shape)
        made = self.computation.copy_of(op, [operand])
        self.replace_part(op, made, [self.sharding(value) for value in values])
        self.remove_unused(packed)

    def annotation(self, call: Instruction) -> None:
        """Give a value a sharding; dimensions whose parts would have different sizes stay whole."""
        wanted, value = self.read(call), call.operands[0]
        given = self.sharding(value)
        self.arrivals[call.name] = given.summed
        # Summands that the next annotation divides are summed there, part by part.
        is_step = len(call.users) == 1 and all(map(is_resharded, call.users))
        wanted = self.evenly(wanted, call.shape)
        if wanted is not None and not (given.summands and is_step and not call.is_root):
            value = self.convert(value, wanted)
        self.computation.replace_all_uses(call, value)
        self.computation.remove(call)

    def pass_border(self, call: Instruction) -> None:
        """Make a part a value of code divided by hand, or one from there a divided value.

        On either side it may be divided in its manual subgroup.

        Raises:
            UnsupportedError: INGOT0360 if the part has another shape than the other side takes.
        """
        (part,) = call.operands
        sharding = self.evenly(self.read(call), call.shape) or self.whole
        if local_shape(call.shape, sharding).dims != part.shape.dims:
            raise self.refuse(call, f"{part.shape} is not its part of {call.shape}")
        # Users of the operand see it as it is on their side.
        made = self.computation.add("copy", [part], shape=part.shape, metadata=call.metadata)
        self.note(made, sharding)
        self.set_subgroups(made, manual_subgroups(call.extra.get("sharding", "")))
        self.computation.replace_all_uses(call, made)
        self.computation.remove_dead(call)

    def custom(self, call: Instruction) -> None:
        """Replace a call by the program that its host makes for the parts of one device.

        Raises:
            UnsupportedError: INGOT0360 if no host has registered a partitioner, the call has
                computations, or the host's program has another result shape.
        """
        partitioner = find_partitioner()
        if partitioner is None or call.attributes.called_computations:
            raise self.refuse(call, "only its own host knows the function that it names")
        shapes = call.shape.parts
        wanted = self.annotated(call) or (None,) * len(shapes)
        self.sum_operands(call)
        given = [(operand.shape, self.sharding(operand)) for operand in call.operands]
        wholes = [(whole_shape(*each), each[1]) for each in given]
        results = [
            (shape, sharding or self.whole) for shape, sharding in zip(shapes, wanted, strict=True)
        ]
        own = partitioner(config_text(call), wholes, results)
        self.channels.asks_host = True
        values = [self.convert(*pair) for pair in zip(call.operands, own.operands, strict=True)]
        made = place_program(self.computation, own.module, values, self.channels)
        if made.shape != local_shapes(call.shape, own.results):
            raise self.refuse(call, f"its host makes {made.shape} of it")
        self.replace_part(call, made, own.results, self.annotated(call))

    def inspect(self, call: Instruction) -> None:
        """Record how a value is divided, for the callback that asks."""
        if not self.channels.is_rehearsal:
            asked = (config_text(call), self.sharding(call.operands[0]))
            self.channels.inspected.append(asked)
        self.computation.remove(call)

    def placed(self, call: Instruction) -> None:
        """Run a custom call on the device that it names."""
        device = maximal_device(call.extra["sharding"])
        if device is None:
            self.compute(call)
            return
        del call.extra["sharding"]
        self.gather_operands(call)
        made = self.resharder.on_device(call, device)
        self.computation.replace_all_uses(call, made)
        self.computation.remove(call)

    def finish(self, root: Instruction, wanted: Sequence[Sharding | None]) -> tuple[Sharding, ...]:
        """Give the results the `wanted` shardings and the root its shape; remove unused values."""
        root.extra.pop("sharding", None)
        if root.opcode != "tuple":
            root = self.convert(root, wanted[0] or self.sharding(root).summed)
            self.computation.set_root(root)
            self.resharder.remove_unused()
            return (self.sharding(root),)
        for number, (value, sharding) in enumerate(zip(root.operands, wanted, strict=True)):
            if value.shape.is_array:
                made = self.convert(value, sharding or self.sharding(value).summed)
                self.computation.replace_operand(root, number, made)
        self.computation.set_shape(root, Shape.tuple(tuple(v.shape for v in root.operands)))
        self.resharder.remove_unused()
        return tuple(self.sharding(value) for value in root.operands)

    def refuse(self, instruction: Instruction, why: str) -> UnsupportedError:
        """Return the error for an op that cannot be divided."""
        return UnsupportedError(
            f"'{instruction.opcode}' on {self.count} devices cannot be divided: {why}",
            code="INGOT0360",
            op_name=instruction.metadata.op_name,
            location=instruction.metadata.location,
            hint="divide the work with jax.shard_map over all axes, or keep the arrays whole (P())",
        )
