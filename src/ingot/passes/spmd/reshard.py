# SPDX-License-Identifier: Apache-2.0
"""Resharding: cutting parts out of whole values, gathering parts, folding them over devices.

Invariant: every device executes the same collectives in the same order, whatever its parts are.

Source: xla/service/spmd/spmd_partitioner.cc (Reshard, Replicate).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from itertools import count

import numpy as np

from ingot.hlo.builder import Builder, Operand, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.literal import Literal
from ingot.hlo.module import Module
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.hlo.shape import Shape
from ingot.passes.spmd.sharding import (
    Column,
    Groups,
    Sharding,
    device_groups,
    groups_along,
    sharding_of,
)
from ingot.semantics.device_groups import CROSS_PARTITION, Grid, grid_of
from ingot.semantics.device_ranges import written


class Channels:
    """State that the computations of a module share while it is partitioned.

    Attributes:
        module: the module.
        grid: its replicas and partitions.
        done: bodies and branches that were rewritten in place.
        is_rehearsal: whether the rewritten computations are thrown away.
        inspected: for each `InspectSharding` its config, and how the value is divided.
        asks_host: whether the host partitioned an op itself.
    """

    def __init__(self, module: Module, grid: Grid, first: int, is_rehearsal: bool = False) -> None:
        """Number collectives from `first` on."""
        self.module = module
        self.grid = grid
        self.done: set[Computation] = set()
        self.is_rehearsal = is_rehearsal
        self.inspected: list[tuple[str, Sharding]] = []
        self.asks_host = False
        self._numbers = count(first)
        self._everywhere: dict[Groups, Groups] = {}

    def rehearsal(self) -> Channels:
        """Return channels for computations that are thrown away."""
        return Channels(Module("rehearsal"), self.grid, 1, True)

    def next(self) -> int:
        """Return a number that no collective has."""
        return next(self._numbers)

    def everywhere(self, groups: Groups) -> Groups:
        """Return groups of partitions as groups of devices, those of every replica."""
        if groups not in self._everywhere:
            self._everywhere[groups] = written(self.grid.groups(CROSS_PARTITION, groups))
        return self._everywhere[groups]


def channels_of(module: Module, num_partitions: int) -> Channels:
    """Return the channels of a module, numbered on from those that it has."""
    used = (
        getattr(instruction.attributes, "channel_id", None) or 0
        for computation in module.post_order()
        for instruction in computation.instructions
    )
    grid = Grid(grid_of(module).replicas, num_partitions)
    return Channels(module, grid, max(used, default=0) + 1)


class Resharder:
    """Adds instructions to one computation that divide, gather and fold its values."""

    def __init__(self, computation: Computation, channels: Channels) -> None:
        """Start with nothing added."""
        self.computation = computation
        self.channels = channels
        self.partition_id: Instruction | None = None
        self.sources: dict[Instruction, tuple[Instruction, Sharding]] = {}
        """The parts that values were gathered from, and how they are divided."""
        self.moved: list[Instruction] = []
        """Values whose parts were made of what other devices sent."""
        self.parts_of_runs: dict[Hashable, Instruction] = {}
        """The parts of values that have the same runs along the dimension that is divided."""
        self._gathers: list[Instruction] = []

    def builder(self, source: Instruction) -> RuleBuilder:
        """Return a builder whose instructions have the metadata of `source`."""
        return RuleBuilder(self.computation, source.metadata)

    def number(self, build: Builder) -> Instruction:
        """Return the number of the partition that this device is."""
        if self.partition_id is None:
            self.partition_id = build.emit("partition-id", shape="u32[]")
        return self.partition_id

    def cut(self, value: Instruction, wanted: Sharding) -> Instruction:
        """Return this device's part of a whole value."""
        build = self.builder(value)
        dims = value.shape.dims
        if not wanted.tiles:
            return value
        # Simplification leaves no broadcasts of broadcasts.
        if value.opcode == "broadcast" and value.operands[0].opcode != "broadcast":
            return self._cut_broadcast(value, wanted, dims)
        if value.opcode == "iota":
            return self._cut_iota(value, wanted, dims)
        starts = [self._start(build, wanted, dims, axis) for axis in range(len(dims))]
        return build.emit(
            "dynamic-slice", value, *starts, dynamic_slice_sizes=wanted.local_dims(dims)
        )

    def _start(
        self, build: Builder, wanted: Sharding, dims: tuple[int | Dim, ...], axis: int
    ) -> Instruction:
        """Return where this device's part of a value of `dims` begins along `axis`."""
        column = np.array(wanted.offsets(dims, axis), np.int32)
        return self.of_device(build, column) if column.any() else build.constant(0, S32)

    def of_device(self, build: Builder, column: np.ndarray) -> Instruction:
        """Return the element of `column` that is this device's."""
        return build.entry_of(build.constant(Literal.of(column)), self.number(build))

    def part_offset(self, build: Builder, column: Column, size: int) -> Instruction:
        """Return where this device's part begins; `column`: each device's part, of `size` each."""
        return self.of_device(build, np.array(column, np.int32) * np.int32(size))

    def _cut_iota(
        self, value: Instruction, wanted: Sharding, dims: tuple[int | Dim, ...]
    ) -> Instruction:
        """Count from the start of this device's part, without making the whole result.

        Integers wrap as before; other types are counted as s32 and then rounded.
        """
        build, axis = self.builder(value), value.attributes.iota_dimension
        local, dtype = wanted.local_dims(dims), value.shape.dtype
        counted = dtype if dtype.is_integer else S32
        part = build.emit("iota", shape=Shape.array(counted, local), iota_dimension=axis)
        if wanted.tiles[axis] > 1:
            start = build.convert_to(self._start(build, wanted, dims, axis), counted)
            part = build.emit("add", part, build.broadcast_to(start, local, ()))
        return build.convert_to(part, dtype)

    def _cut_broadcast(
        self, value: Instruction, wanted: Sharding, dims: tuple[int | Dim, ...]
    ) -> Instruction:
        """Broadcast a part of the operand, without making the whole result."""
        (operand,), dims_of_operand = value.operands, value.attributes.dimensions
        columns = [wanted.column(axis) for axis in dims_of_operand]
        inner = sharding_of(columns, len(wanted.parts))
        part = operand if inner.is_replicated else self.cut(operand, inner)
        shape = value.shape.with_dims(wanted.local_dims(dims))
        return self.builder(value).emit("broadcast", part, shape=shape, dimensions=dims_of_operand)

    def gather(
        self, part: Instruction, given: Sharding, kept: Container[int], subgroups: Column = ()
    ) -> Instruction:
        """Return the value whose parts the devices have, gathered along some dimensions.

        Args:
            part: this device's part.
            given: how the value is divided.
            kept: dimensions along which it stays divided.
            subgroups: devices of different subgroups have different values (`manual_subgroups`).

        """
        build, source = self.builder(part), part
        for axis, tiles in enumerate(given.tiles):
            if tiles == 1 or axis in kept:
                continue
            groups = groups_along(given, axis, len(given.tiles), subgroups)
            part = build.emit(
                "all-gather",
                part,
                shape=_gathered(part.shape, given, axis),
                channel_id=self.channels.next(),
                replica_groups=self.channels.everywhere(groups),
                dimensions=(axis,),
                use_global_device_ids=True,
            )
            self._gathers.append(part)
        self.sources[part] = source, given
        return part

    def send(self, value: Instruction, pairs: Iterable[tuple[int, int]]) -> Instruction:
        """Return what the second device of a pair gets from the first; zeros if it is in none."""
        return self.builder(value).emit(
            "collective-permute",
            value,
            channel_id=self.channels.next(),
            source_target_pairs=tuple(sorted(pairs)),
        )

    def remove_unused(self) -> None:
        """Remove what was gathered for movements; all devices do, so none waits for another."""
        for value in self.moved:
            self.computation.remove_dead(value)
        for gather in reversed(self._gathers):
            if gather.parent is not None and not gather.users and not gather.is_root:
                self.computation.remove(gather)

    def fold(
        self, part: Instruction, fixed: Sequence[Column], varying: Column, opcode: str
    ) -> Instruction:
        """Return `part` combined over devices that differ in `varying` and agree in `fixed`."""
        reducer = scalar_computation(opcode, part.shape.dtype)
        return self.builder(part).emit(
            "all-reduce",
            part,
            channel_id=self.channels.next(),
            replica_groups=self.channels.everywhere(device_groups(fixed, varying)),
            use_global_device_ids=True,
            to_apply=self.channels.module.take(reducer),
        )

    def part_as_summand(self, part: Instruction, given: Sharding, axis: int) -> Instruction:
        """Return this device's part among zeros: the sum over the devices is the value.

        `axis` is the dimension that `given` divides. This needs no communication.
        """
        build, column = self.builder(part), given.column(axis)
        size = part.shape.dims[axis]
        assert isinstance(size, int), "a symbolic dimension is not divided"
        start = self.part_offset(build, column, size)
        return build.update_at(build.full(0, _gathered(part.shape, given, axis)), part, axis, start)

    def first_summand(self, value: Instruction, summands: Column) -> Instruction:
        """Return `value` on the devices of summand 0 and zeros on the others, which sum to it."""
        build = self.builder(value)
        number = self.of_device(build, np.array(summands, np.int32))
        first = build.compare(number, 0, direction="EQ")
        return build.select(build.broadcast_to(first, value.shape.dims, ()), value, 0)

    def on_device(self, op: Instruction, device: int) -> Instruction:
        """Run `op` on whole values on one device; return its results, broadcast to all devices."""
        build = self.builder(op)
        here = build.compare(self.number(build), device, direction="EQ")
        operands = build.emit("tuple", *op.operands)
        take = self.channels.module.take
        chosen = build.emit(
            "conditional",
            here,
            operands,
            operands,
            branch_computations=(take(_alone(op)), take(_absent(op, operands.shape))),
        )
        parts = [self._shared(build, part, device) for part in build.elements_of(chosen)]
        return build.value_of(parts, op.shape)

    def _shared(self, build: Builder, value: Instruction, device: int) -> Instruction:
        if not value.shape.is_array:
            return value
        others = [other for other in range(self.channels.grid.partitions) if other != device]
        return build.emit(
            "collective-broadcast",
            value,
            channel_id=self.channels.next(),
            replica_groups=((device, *others),),
        )


def _gathered(part: Shape, given: Sharding, axis: int) -> Shape:
    """Return the shape of a part of a value that is no longer divided along `axis`."""
    return part.with_dim(axis, part.dims[axis] * given.tiles[axis])


def between(build: Builder, x: Instruction, least: Operand, limit: Operand) -> Instruction:
    """Return where `x` is at least `least` and below `limit`."""
    return build.and_(
        build.compare(x, least, direction="GE"), build.compare(x, limit, direction="LT")
    )


def _alone(op: Instruction) -> Computation:
    """Return the computation of `op` on the elements of a tuple."""
    build = Builder(f"{op.name}_here", op.metadata)
    given = build.parameter(0, Shape.tuple(tuple(operand.shape for operand in op.operands)))
    return build.build(build.computation.copy_of(op, build.elements_of(given)))


def _absent(op: Instruction, given: Shape) -> Computation:
    """Return a computation whose results are zeros, of the shapes of those of `op`."""
    build = Builder(f"{op.name}_elsewhere", op.metadata)
    build.parameter(0, given)
    shapes = op.shape.parts
    return build.build(build.value_of([_nothing(build, shape) for shape in shapes], op.shape))


def _nothing(build: Builder, shape: Shape) -> Instruction:
    return build.full(0, shape) if shape.is_array else build.emit("after-all")
