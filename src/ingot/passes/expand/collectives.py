# SPDX-License-Identifier: Apache-2.0
"""Collectives as a few calls that move bytes between devices, and arithmetic.

The runtime can gather, exchange parts and pass values on (`ingot.all_gather`, `ingot.all_to_all`,
`ingot.collective_permute`, `ingot.collective_broadcast`), and add parts of common element types
while it takes them (`ingot.sum_parts`), which saves two trips through memory. Everything else is
folded by our own fused kernels. The order follows from sizes and the group, so the result is the
same in every run and on all devices. On one device each of these ops is its operand.

Large all-reduces exchange parts first (each device folds one part, then the parts are gathered):
the operand then crosses each device's memory twice instead of once per device.

Source: xla/service/cpu (thunks of collectives); Thakur et al., "Optimization of collective
communication operations in MPICH".
"""

from __future__ import annotations

from typing import ClassVar

from ingot.analysis.reducers import reducer_opcode
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.passes.expand.exchange import Exchange, device_id, parts_of
from ingot.passes.expand.expander import Expander
from ingot.passes.expand.ragged_exchange import ragged_rows
from ingot.semantics.device_groups import ADDED_BY_EXCHANGE, grid_of, pairs_of
from ingot.semantics.identities import has_identity, identity_of
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import record

Dims = tuple[int | Dim, ...]
MOST_MAPS = 16
"""Devices of a group whose values are combined one after another, in their order."""
SMALLEST_PART = 4096
"""Elements of a part from which an all-reduce exchanges parts."""


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


def _joined(values: list[Instruction], op: Instruction, build: Builder) -> Instruction:
    return build.tuple(*values) if op.shape.is_tuple else values[0]


def _all_reduce(op: Instruction, exchange: Exchange) -> Instruction:
    values = [_reduced(op, value, exchange) for value in op.operands]
    return _joined(values, op, exchange.build)


def _reduced(op: Instruction, value: Instruction, exchange: Exchange) -> Instruction:
    build, count = exchange.build, exchange.size
    size = value.shape.size
    if count == 1:
        return value
    if not exchange.is_even:
        return _reduced_unevenly(op.attributes.to_apply, value, exchange)
    if isinstance(size, int) and size % count == 0 and size // count >= SMALLEST_PART:
        part = _scattered(op, build.reshape_to(value, (size,)), 0, exchange)
        return build.reshape_to(exchange.gather(part, 0, count), value.shape.dims)
    return _folded(op, exchange.rows(value), 0, value.shape.dims, exchange)


def _reduced_unevenly(called: Computation, value: Instruction, exchange: Exchange) -> Instruction:
    """Fold groups of different sizes: as many steps as the largest has, as far as each goes."""
    build, grid = exchange.build, exchange.grid
    sizes = {device: len(group) for group in exchange.groups for device in group}
    table = build.constant([sizes[device] for device in range(grid.devices)], S32)
    replica = build.convert_to(device_id("replica-id", grid, build), S32)
    partition = build.convert_to(device_id("partition-id", grid, build), S32)
    device = build.add(build.multiply(replica, build.constant(grid.partitions, S32)), partition)
    own = build.reshape_to(build.dynamic_slice(table, device, dynamic_slice_sizes=(1,)), ())
    parts = parts_of(exchange.rows(value), 0, exchange.size, value.shape.dims, build)
    dimensions = tuple(range(value.shape.rank))
    result = parts[0]
    for number, part in enumerate(parts[1:], 1):
        there = build.compare(build.constant(number, S32), own, direction="LT")
        more = build.map(result, part, dimensions=dimensions, to_apply=called)
        result = build.select(build.broadcast_to(there, value.shape.dims, ()), more, result)
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
    along: int = op.attributes.dimensions[0]
    values = [exchange.gather(value, along, exchange.size) for value in op.operands]
    return _joined(values, op, exchange.build)


def _reduce_scatter(op: Instruction, exchange: Exchange) -> Instruction:
    _require_even(op, exchange)
    along: int = op.attributes.dimensions[0]
    results = [_scattered(op, value, along, exchange) for value in op.operands]
    return _joined(results, op, exchange.build)


def _scattered(op: Instruction, value: Instruction, along: int, exchange: Exchange) -> Instruction:
    """Return this device's part of the group's values, combined by a reducing op."""
    is_sum = reducer_opcode(op.attributes.to_apply) == "add"
    if is_sum and exchange.size > 1 and value.shape.dtype.name in ADDED_BY_EXCHANGE:
        return exchange.sum_parts(value, along)
    mixed = exchange.exchange(value, along)
    dims = value.shape.dims
    dims = (*dims[:along], dims[along] // exchange.size, *dims[along + 1 :])
    return _folded(op, mixed, along, dims, exchange)


def _all_to_all(op: Instruction, exchange: Exchange) -> Instruction:
    _require_even(op, exchange)
    if op.attributes.dimensions:
        along: int = op.attributes.dimensions[0]
        return exchange.exchange(op.operands[0], along)
    build = exchange.build
    dims = op.operands[0].shape.dims
    rows = [build.reshape_to(value, (1, *dims)) for value in op.operands]
    mixed = exchange.exchange(build.concatenate(*rows, dimensions=(0,)), 0)
    return _joined(parts_of(mixed, 0, exchange.size, dims, build), op, build)


def _ragged(op: Instruction, exchange: Exchange) -> Instruction:
    _require_even(op, exchange)
    return ragged_rows(op, exchange)


def _broadcast(op: Instruction, exchange: Exchange) -> Instruction:
    if exchange.grid.devices == 1:
        return _joined(list(op.operands), op, exchange.build)
    sources = {device: group[0] for group in exchange.members for device in group}
    return _moved("ingot.collective_broadcast", sources, op, exchange)


def _permute(op: Instruction, exchange: Exchange) -> Instruction:
    if op.attributes.slice_sizes:
        raise UnsupportedError(
            "collective-permute of slices in place is made by TPU's compiler only",
            instruction=repr(op),
            hint="write dynamic-slice, collective-permute and dynamic-update-slice",
        )
    sources = {target: source for source, target in pairs_of(op, exchange.grid)}
    if exchange.grid.devices == 1:
        build = exchange.build
        values = [v if sources else build.full(0, v.shape) for v in op.operands]
        return _joined(values, op, build)
    return _moved("ingot.collective_permute", sources, op, exchange)


def _moved(
    target: str, sources: dict[int, int], op: Instruction, exchange: Exchange
) -> Instruction:
    devices = exchange.grid.devices
    listed = [sources.get(device, -1) for device in range(devices)]
    values = [
        exchange.move(target, value, {"devices": devices, "sources": listed})
        for value in op.operands
    ]
    return _joined(values, op, exchange.build)


_RULES = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-to-all": _all_to_all,
    "collective-broadcast": _broadcast,
    "collective-permute": _permute,
    "ragged-all-to-all": _ragged,
    "reduce-scatter": _reduce_scatter,
}


@record
class CollectiveExpander(Expander):
    """Rewrites every collective op, `partition-id` and `replica-id`."""

    name: ClassVar[str] = "collective-expander"
    concerns: ClassVar[frozenset[str] | None] = frozenset(_RULES) | ops_with(Trait.DEVICE_ID)

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the calls and arithmetic."""
        grid = grid_of(module)
        if op.has(Trait.DEVICE_ID):
            return device_id(op.opcode, grid, build)
        exchange = Exchange(op, build, grid, module)
        return _RULES[op.opcode](op, exchange)
