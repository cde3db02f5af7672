# SPDX-License-Identifier: Apache-2.0
"""Exchanges between devices: the collectives that the runtime does, between the groups of one op.

Each takes one array. The runtime (`ingot.runtime.foreign.collectives`) lets the devices of a group
meet and moves bytes between them. Between groups of one device an exchange is its operand.

`ragged-all-to-all` is done by gathers. Every device gathers all rows and their targets; each output
row then looks up its source. The rows that nobody sends to keep the output operand's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32, U32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.collective import Groups
from ingot.hlo.shape import Shape
from ingot.semantics.device_groups import FLATTENED, Grid, groups_of, with_others
from ingot.semantics.device_ranges import written


class Exchange:
    """The exchanges between the groups of one op."""

    def __init__(self, op: Instruction, build: Builder, grid: Grid, module: Module) -> None:
        """Prepare the exchanges of a collective.

        Args:
            op: the collective; its attributes give the groups. Those of a permute are none.
            build: adds the instructions of an exchange.
            grid: the replicas and partitions of the program.
            module: the module that `op` belongs to.
        """
        self.build = build
        self.opcode = op.opcode
        self.grid = grid
        self.module = module
        self.groups: Groups = ()
        if op.opcode != "collective-permute":
            self.groups = with_others(groups_of(op, grid), grid)
        self.size = max((len(group) for group in self.groups), default=1)
        self.is_even = all(len(group) == self.size for group in self.groups)

    def gather(self, value: Instruction, along: int) -> Instruction:
        """Return the group's values side by side along a dimension."""
        if self.size == 1:
            return value
        dims, count = value.shape.dims, self.size
        shape = value.shape.with_dims((*dims[:along], dims[along] * count, *dims[along + 1 :]))
        return self._emit("all-gather", value, shape=shape, dimensions=(along,))

    def exchange(self, value: Instruction, along: int) -> Instruction:
        """Return this device's part of the group's values, side by side along a dimension."""
        if self.size == 1:
            return value
        return self._emit("all-to-all", value, dimensions=(along,))

    def everyone(self, value: Instruction) -> Instruction:
        """Return the values of all devices of all groups, along a new first dimension."""
        row = self.build.reshape_to(value, (1, *value.shape.dims))
        devices = self.grid.devices
        return self.build.emit(
            "all-gather",
            row,
            shape=row.shape.with_dims((devices, *value.shape.dims)),
            dimensions=(0,),
            replica_groups=(tuple(range(devices)),),
            mode=FLATTENED,
        )

    def own(self, listed: Sequence[int]) -> Instruction:
        """Return the number that a list has for the running device, as an s32 scalar."""
        build, grid = self.build, self.grid
        replica, partition = self._coordinate("replica-id"), self._coordinate("partition-id")
        device = build.add(build.multiply(replica, build.constant(grid.partitions, S32)), partition)
        return build.entry_of(build.constant(listed, S32), device)

    def _coordinate(self, opcode: str) -> Instruction:
        build = self.build
        if is_only_device(opcode, self.grid):
            return build.constant(0, S32)
        return build.convert_to(build.emit(opcode), S32)

    def _emit(self, opcode: str, value: Instruction, **attributes: Any) -> Instruction:
        groups = written(self.groups)
        return self.build.emit(opcode, value, replica_groups=groups, mode=FLATTENED, **attributes)

    def rows(self, value: Instruction) -> Instruction:
        """Return the values of all devices of the group, in order, along a new first dimension."""
        return self.gather(self.build.reshape_to(value, (1, *value.shape.dims)), 0)


def parts_of(
    value: Instruction, along: int, count: int, dims: tuple[int | Dim, ...], build: Builder
) -> list[Instruction]:
    """Return `count` equal parts of a value along a dimension, each with dimensions `dims`."""
    whole = value.shape.dims
    size = whole[along] // count
    found: list[Instruction] = []
    for number in range(count):
        box = tuple(
            (number * size, (number + 1) * size, 1) if dim == along else (0, length, 1)
            for dim, length in enumerate(whole)
        )
        found.append(build.reshape_to(build.slice(value, slice=box), dims))
    return found


def is_only_device(opcode: str, grid: Grid) -> bool:
    """Whether `replica-id` or `partition-id` is the same on all devices: 0."""
    return (grid.replicas if opcode == "replica-id" else grid.partitions) == 1


def ragged_rows(op: Instruction, exchange: Exchange) -> Instruction:
    """Return the output with the rows that the group's devices send to this one."""
    build, count = exchange.build, exchange.size
    rows, output, *vectors = op.operands
    length = rows.shape.dims[0]
    everyone = exchange.gather(rows, 0)
    starts, sizes, targets = (
        _for_me(build.convert_to(vector, S32), exchange) for vector in vectors[:3]
    )
    # Slice p * per + k of the vectors is slice k of device p.
    (slices,) = starts.shape.static_dims
    grid = Shape.array(S32, (output.shape.dims[0], slices))
    row = build.iota(shape=grid, iota_dimension=0)
    first, size, target = (
        build.broadcast_to(vector, grid.dims, (1,)) for vector in (starts, sizes, targets)
    )
    device = build.divide(
        build.iota(shape=grid, iota_dimension=1), build.full(slices // count, grid)
    )
    length_value = build.broadcast_to(_size(length, build), grid.dims, ())
    behind = build.compare(row, target, direction="GE")
    before = build.compare(row, build.add(target, size), direction="LT")
    inside = build.and_(behind, before)
    position = build.add(
        build.subtract(build.add(first, row), target), build.multiply(device, length_value)
    )
    chosen = build.select(inside, position, build.full(-1, grid))
    largest = exchange.module.take(scalar_computation("maximum", S32))
    source = build.reduce(chosen, build.constant(-1, S32), dimensions=(1,), to_apply=largest)
    taken = _rows_at(everyone, source, output.shape, build)
    found = build.compare(source, build.full(0, source.shape), direction="GE")
    return build.select(build.broadcast_to(found, output.shape.dims, (0,)), taken, output)


def _for_me(vector: Instruction, exchange: Exchange) -> Instruction:
    """Return the part of every device's vector that is about this device."""
    return exchange.exchange(vector, 0)


def _size(length: object, build: Builder) -> Instruction:
    assert isinstance(length, int), "ragged-all-to-all moves rows of a static number"
    return build.constant(length, S32)


def _rows_at(
    everyone: Instruction, source: Instruction, shape: Shape, build: Builder
) -> Instruction:
    safe = build.maximum(source, build.full(0, source.shape))
    dims = shape.dims
    return build.gather(
        everyone,
        build.convert_to(safe, U32),
        shape=Shape.array(shape.dtype, dims),
        offset_dims=tuple(range(1, len(dims))),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *dims[1:]),
    )
