# SPDX-License-Identifier: Apache-2.0
"""Exchanges between devices, as custom calls: the primitives of collectives.

Each call names its groups of devices; the runtime (`ingot.runtime.foreign.collectives`) lets the
devices of a group meet and moves bytes between them. On one device a call is its operand.
"""

from __future__ import annotations

from typing import Any

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import U32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.collective import Groups
from ingot.hlo.shape import Shape
from ingot.passes.expand.foreign import foreign_call
from ingot.semantics.device_groups import Grid, groups_of, with_others
from ingot.semantics.device_ranges import range_text


class Exchange:
    """The primitives, between the groups of one op."""

    def __init__(self, op: Instruction, build: Builder, grid: Grid, module: Module) -> None:
        self.build = build
        self.opcode = op.opcode
        self.grid = grid
        self.module = module
        self.groups: Groups = ()
        if op.opcode != "collective-permute":
            self.members = groups_of(op, grid)
            self.groups = with_others(self.members, grid)
        self.size = max((len(group) for group in self.groups), default=1)
        self.is_even = all(len(group) == self.size for group in self.groups)

    def config(self, **more: Any) -> dict[str, Any]:
        """Return the configuration of a call for the runtime."""
        groups = range_text(self.groups) or [list(group) for group in self.groups]
        return {"devices": self.grid.devices, "groups": groups, **more}

    def gather(self, value: Instruction, along: int, count: int) -> Instruction:
        """Return the group's values side by side along a dimension."""
        if self.grid.devices == 1:
            return value
        dims = value.shape.dims
        shape = value.shape.with_dims((*dims[:along], dims[along] * count, *dims[along + 1 :]))
        return self._call("ingot.all_gather", value, shape, self.config(along=along))

    def exchange(self, value: Instruction, along: int) -> Instruction:
        """Return this device's part of the group's values, side by side along a dimension."""
        if self.grid.devices == 1:
            return value
        shape = value.shape.with_dims(value.shape.dims)
        return self._call("ingot.all_to_all", value, shape, self.config(along=along))

    def reduce_scatter(self, value: Instruction, along: int, opcode: str) -> Instruction:
        """Return the group's values folded by an op, of which each device gets a part."""
        dims = value.shape.dims
        part = value.shape.with_dims((*dims[:along], dims[along] // self.size, *dims[along + 1 :]))
        config = self.config(along=along, opcode=opcode)
        return self._call("ingot.reduce_scatter", value, part, config)

    def all_reduce(self, value: Instruction, opcode: str) -> Instruction:
        """Return the group's values folded by an op; their dimension 0 has a part for each."""
        return self.move("ingot.all_reduce", value, self.config(along=0, opcode=opcode))

    def _call(
        self, target: str, value: Instruction, shape: Shape, config: dict[str, Any]
    ) -> Instruction:
        return foreign_call(
            self.build, target, (value,), shape, config, name=self.opcode, side_effect=True
        )

    def move(self, target: str, value: Instruction, config: dict[str, Any]) -> Instruction:
        """Return the value after it is passed on as a whole."""
        return self._call(target, value, value.shape.with_dims(value.shape.dims), config)

    def rows(self, value: Instruction) -> Instruction:
        """Return the values of all devices of the group, in order, along a new first dimension."""
        row = self.build.reshape_to(value, (1, *value.shape.dims))
        return self.gather(row, 0, self.size) if self.size > 1 else row


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


def device_id(opcode: str, grid: Grid, build: Builder) -> Instruction:
    """Return `replica-id` or `partition-id` of the running device, as a u32 scalar."""
    count = grid.replicas if opcode == "replica-id" else grid.partitions
    if count == 1:
        return build.constant(0, U32)
    config = {"devices": grid.devices, "which": opcode}
    return foreign_call(build, "ingot.device_id", (), Shape.array(U32, ()), config)
