# SPDX-License-Identifier: Apache-2.0
"""Collectives as those that the runtime does as a whole, and arithmetic.

The runtime moves one array between groups of devices, and folds it by a common op while it moves
(`semantics.foreign_calls.RUNTIME_COLLECTIVES`): those collectives stay as they are. One of several
arrays becomes one for each; other reducers fold the gathered values, in our own fused kernels. The
order follows from sizes and the group, so the result is the same in every run and on all devices.
On one device, and between groups of one, each of these ops is its operand.

`ragged-all-to-all` is done by gathers. Every device gathers all rows and their targets; each output
row then looks up its source. The rows that nobody sends to keep the output operand's.

Source: xla/service/cpu (thunks of collectives); Thakur et al., "Optimization of collective
communication operations in MPICH".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, S32, U32, wider
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.opset.collective import Groups
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.semantics.device_groups import (
    FLATTENED,
    Grid,
    grid_of,
    groups_of,
    is_combined_by_exchange,
    pairs_of,
    with_others,
)
from ingot.semantics.device_ranges import written
from ingot.semantics.identities import has_identity, identity_of
from ingot.semantics.reducers import reducer_opcode
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import replace


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
    size = value.shape.dims[along] // count
    bounds = [(number * size, (number + 1) * size) for number in range(count)]
    return [build.reshape_to(build.slice_along(value, along, *each), dims) for each in bounds]


def is_only_device(opcode: str, grid: Grid) -> bool:
    """Whether `replica-id` or `partition-id` is the same on all devices: 0."""
    return (grid.replicas if opcode == "replica-id" else grid.partitions) == 1


def ragged_rows(op: Instruction, exchange: Exchange) -> Instruction:
    """Return the output with the rows that the group's devices send to this one."""
    build, count = exchange.build, exchange.size
    rows, output, *vectors = op.operands
    length = rows.shape.static_dims[0]
    everyone = exchange.gather(rows, 0)
    starts, sizes, targets = (
        exchange.exchange(build.convert_to(vector, S32), 0) for vector in vectors[:3]
    )
    # Slice p * per + k of the vectors is slice k of device p.
    (slices,) = starts.shape.static_dims
    grid = Shape.array(S32, (output.shape.dims[0], slices))
    row = build.index_along(grid.dims, 0)
    first, size, target = (
        build.broadcast_to(vector, grid.dims, (1,)) for vector in (starts, sizes, targets)
    )
    device = build.divide(build.index_along(grid.dims, 1), slices // count)
    behind = build.compare(row, target, direction="GE")
    before = build.compare(row, build.add(target, size), direction="LT")
    inside = build.and_(behind, before)
    position = build.add(
        build.subtract(build.add(first, row), target), build.multiply(device, length)
    )
    chosen = build.select(inside, position, -1)
    largest = exchange.module.take(scalar_computation("maximum", S32))
    source = build.reduce(chosen, build.constant(-1, S32), dimensions=(1,), to_apply=largest)
    taken = _rows_at(everyone, source, output.shape, build)
    found = build.compare(source, 0, direction="GE")
    return build.select(build.broadcast_to(found, output.shape.dims, (0,)), taken, output)


def _rows_at(
    everyone: Instruction, source: Instruction, shape: Shape, build: Builder
) -> Instruction:
    safe = build.maximum(source, 0)
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


Dims = tuple[int | Dim, ...]
PAIR = 2
"""Devices of a group whose sum is rounded once, in whatever type it is computed."""
MOST_MAPS = 16
"""Devices of a group whose values are combined one after another, in their order."""


def _folded(
    op: Instruction, value: Instruction, along: int, dims: Dims, exchange: Exchange
) -> Instruction:
    """Return the parts of a value, which lie along a dimension, combined by a reducing op.

    Few are combined one after another, from the first to the last; many by one `reduce`, if the
    reducer is a known op, so that the program does not grow with the devices.

    Args:
        op: the op, which has the reducer.
        value: the parts of all devices of the group.
        along: the dimension that the parts lie along.
        dims: the dimensions of one part.
        exchange: that of the op.
    """
    build, count, called = exchange.build, exchange.size, op.attributes.to_apply
    opcode = reducer_opcode(called) if count > MOST_MAPS else ""
    if has_identity(opcode, value.shape.dtype):
        rows = build.reshape_to(value, (*dims[:along], count, *dims[along:]))
        start = build.constant(identity_of(opcode, value.shape.dtype), value.shape.dtype)
        return build.reduce(rows, start, dimensions=(along,), to_apply=called)
    result, *others = parts_of(value, along, count, dims, build)
    dimensions = tuple(range(result.shape.rank))
    for part in others:
        result = build.map(result, part, dimensions=dimensions, to_apply=called)
    return result


def _each(op: Instruction, build: Builder) -> list[Instruction]:
    """Return the op for each of its operands alone; the op itself if it has one."""
    if not op.shape.is_tuple:
        return [op]
    return [
        build.computation.add(
            op.opcode, (operand,), op.attributes, shape=shape, metadata=op.metadata
        )
        for operand, shape in zip(op.operands, op.shape.elements, strict=True)
    ]


def _all_reduce(op: Instruction, exchange: Exchange) -> Instruction:
    build, values = exchange.build, op.operands
    if exchange.size == 1:
        return build.value_of(list(values), op.shape)
    called = op.attributes.to_apply
    if _is_combined(op):
        return build.value_of(_combined(op, exchange), op.shape)
    if not exchange.is_even:
        return build.value_of([_reduced_unevenly(called, v, exchange) for v in values], op.shape)
    folded = [_folded(op, exchange.rows(v), 0, v.shape.dims, exchange) for v in values]
    return build.value_of(folded, op.shape)


def _combined(op: Instruction, exchange: Exchange) -> list[Instruction]:
    """Return the op for each of its operands alone, of which the runtime folds each.

    16-bit floats of more than two devices are folded as f32, so that they are rounded once (XLA's
    AllReducePromotion).
    """
    build, called, element = exchange.build, op.attributes.to_apply, op.operands[0].shape.dtype
    if exchange.size <= PAIR or called.root.has(Trait.EXACT) or wider(element) is element:
        return _each(op, build)
    wide = exchange.module.take(scalar_computation(called.root.opcode, F32))
    attributes = replace(op.attributes, to_apply=wide)
    found: list[Instruction] = []
    for operand, (_, shape) in zip(op.operands, op.shape.leaves(), strict=True):
        made = build.computation.add(
            op.opcode,
            (build.convert_to(operand, F32),),
            attributes,
            shape=shape.with_dtype(F32),
            metadata=op.metadata,
        )
        found.append(build.convert_to(made, element))
    return found


def _is_combined(op: Instruction) -> bool:
    """Whether the runtime can fold the values of an op, which are of one type."""
    opcode = reducer_opcode(op.attributes.to_apply)
    return is_combined_by_exchange(opcode, op.operands[0].shape.dtype)


def _reduced_unevenly(called: Computation, value: Instruction, exchange: Exchange) -> Instruction:
    """Fold groups of different sizes: as many steps as the largest has, as far as each goes."""
    build, devices = exchange.build, exchange.grid.devices
    group_of = {device: group for group in exchange.groups for device in group}
    sizes = exchange.own([len(group_of[device]) for device in range(devices)])
    rows, dims = exchange.everyone(value), value.shape.dims
    zeros = [build.constant(0, S32)] * len(dims)

    def member(number: int) -> Instruction:
        # A smaller group has none: any value does.
        listed = [(*group_of[device], *[0] * number)[number] for device in range(devices)]
        starts = exchange.own(listed), *zeros
        row = build.dynamic_slice(rows, *starts, dynamic_slice_sizes=(1, *dims))
        return build.reshape_to(row, dims)

    result = member(0)
    for number in range(1, exchange.size):
        there = build.compare(build.constant(number, S32), sizes, direction="LT")
        more = build.map(
            result, member(number), dimensions=tuple(range(len(dims))), to_apply=called
        )
        result = build.select(build.broadcast_to(there, dims, ()), more, result)
    return result


def _require_even(op: Instruction, exchange: Exchange) -> None:
    if exchange.is_even:
        return
    raise UnsupportedError(
        f"{op.opcode} over groups of different sizes {exchange.groups}",
        instruction=repr(op),
        location=op.metadata.location,
        hint="its result's shape depends on the size of the group: give equal groups",
    )


def _all_gather(op: Instruction, exchange: Exchange) -> Instruction:
    _require_even(op, exchange)
    is_alone = exchange.size == 1
    values = list(op.operands) if is_alone else _each(op, exchange.build)
    return exchange.build.value_of(values, op.shape)


def _reduce_scatter(op: Instruction, exchange: Exchange) -> Instruction:
    _require_even(op, exchange)
    if exchange.size == 1 or not _is_combined(op):
        along: int = op.attributes.dimensions[0]
        values = [_scattered(op, value, along, exchange) for value in op.operands]
    else:
        values = _combined(op, exchange)
    return exchange.build.value_of(values, op.shape)


def _scattered(op: Instruction, value: Instruction, along: int, exchange: Exchange) -> Instruction:
    """Return this device's part of the group's values, folded by a kernel."""
    mixed = exchange.exchange(value, along)
    dims = value.shape.with_dim(along, value.shape.dims[along] // exchange.size).dims
    return _folded(op, mixed, along, dims, exchange)


def _all_to_all(op: Instruction, exchange: Exchange) -> Instruction:
    _require_even(op, exchange)
    if exchange.size == 1:
        return exchange.build.value_of(list(op.operands), op.shape)
    if op.attributes.dimensions:
        return op
    build = exchange.build
    dims = op.operands[0].shape.dims
    rows = [build.reshape_to(value, (1, *dims)) for value in op.operands]
    mixed = exchange.exchange(build.concatenate(*rows, dimensions=(0,)), 0)
    return build.value_of(parts_of(mixed, 0, exchange.size, dims, build), op.shape)


def _ragged(op: Instruction, exchange: Exchange) -> Instruction:
    _require_even(op, exchange)
    return ragged_rows(op, exchange)


def _broadcast(op: Instruction, exchange: Exchange) -> Instruction:
    is_alone = exchange.grid.devices == 1
    values = list(op.operands) if is_alone else _each(op, exchange.build)
    return exchange.build.value_of(values, op.shape)


def _permute(op: Instruction, exchange: Exchange) -> Instruction:
    if op.attributes.slice_sizes:
        raise UnsupportedError(
            "collective-permute of slices in place is made by TPU's compiler only",
            instruction=repr(op),
            hint="write dynamic-slice, collective-permute and dynamic-update-slice",
        )
    build, pairs = exchange.build, pairs_of(op, exchange.grid)
    if exchange.grid.devices == 1:
        values = [v if pairs else build.full(0, v.shape) for v in op.operands]
        return build.value_of(values, op.shape)
    return build.value_of(_each(op, build), op.shape)


_RULES = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "collective-broadcast": _broadcast,
    "collective-permute": _permute,
    "ragged-all-to-all": _ragged,
    "reduce-scatter": _reduce_scatter,
}


@expander("collective-expander", *_RULES, *ops_with(Trait.DEVICE_ID))
def collective_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Leaves only collectives of one array, which the runtime does."""
    grid = grid_of(module)
    if op.has(Trait.DEVICE_ID):
        return build.constant(0, U32) if is_only_device(op.opcode, grid) else op
    exchange = Exchange(op, build, grid, module)
    return _RULES[op.opcode](op, exchange)
