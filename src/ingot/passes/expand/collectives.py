# SPDX-License-Identifier: Apache-2.0
"""Collectives as those that the runtime does as a whole, and arithmetic.

The runtime moves one array between groups of devices, and folds it by a common op while it moves
(`semantics.foreign_calls.RUNTIME_COLLECTIVES`): those collectives stay as they are. One of several
arrays becomes one for each; other reducers fold the gathered values, in our own fused kernels. The
order follows from sizes and the group, so the result is the same in every run and on all devices.
On one device each of these ops is its operand.

Source: xla/service/cpu (thunks of collectives); Thakur et al., "Optimization of collective
communication operations in MPICH".
"""

from __future__ import annotations

from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, S32, U32, wider
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait, ops_with
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.passes.expand.exchange import Exchange, is_only_device, parts_of, ragged_rows
from ingot.semantics.device_groups import grid_of, is_combined_by_exchange, pairs_of
from ingot.semantics.identities import has_identity, identity_of
from ingot.semantics.reducers import reducer_opcode
from ingot.support.diagnostics import UnsupportedError
from ingot.support.records import replace

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
