# SPDX-License-Identifier: Apache-2.0
"""Reshards by one exchange, in which each device sends and receives no more than parts.

There are four: devices exchange whole parts (`collective-permute`); a factor moves from the end of
one dimension's division to the end of another's (`all-to-all`); each device sums only its own part
of the summands (`reduce-scatter`); slices move to other parts (`movement`). Shardy splits
reshards into such steps.

Invariant: an exchange is found from the coordinates of devices alone, whatever the mesh was called.

Source: xla/service/spmd/spmd_partitioner.cc (ReshardWithCollectivePermute, ReshardWithAllToAll).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ingot.hlo.builder import scalar_computation
from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.movement import moved
from ingot.passes.spmd.reshard import Resharder
from ingot.passes.spmd.sharding import (
    Column,
    Groups,
    Sharding,
    count_of,
    device_groups,
    interned,
    undivided_column,
)


class Shift(NamedTuple):
    """A factor that moves from the end of one dimension's division to the end of another's.

    Attributes:
        source: the dimension that is divided less.
        target: the dimension that is divided more.
        coordinates: the coordinate of each device along the factor.
    """

    source: int
    target: int
    coordinates: Column


def exchanged(
    resharder: Resharder, part: Instruction, ends: tuple[Sharding, Sharding], subgroups: Column
) -> Instruction | None:
    """Return `part` resharded by one exchange; None if none is enough.

    Args:
        resharder: that of the computation.
        part: the part that each device has.
        ends: the sharding that the value has, and the one that is wanted.
        subgroups: as for `Resharder.gather`.
    """
    given, wanted = ends
    rank = part.shape.rank
    if given.summands or wanted.summands:
        return None if wanted.summands else _scattered(resharder, part, ends, subgroups)
    made = moved(resharder, part, ends, subgroups)
    if made is not None or given.is_replicated:
        return made
    if given.tiles and given.tiles == wanted.tiles:
        return _permuted(resharder, part, ends, subgroups)
    shift = _shift(given, wanted, rank)
    return None if shift is None else _shifted(resharder, part, ends, subgroups, shift)


def _fixed(columns: Sequence[Column], subgroups: Column) -> list[Column]:
    return [*columns, subgroups] if subgroups else list(columns)


def _permuted(
    resharder: Resharder, part: Instruction, ends: tuple[Sharding, Sharding], subgroups: Column
) -> Instruction:
    """Get each device's new part from a device that has it, if possible from itself."""
    given, wanted = ends
    devices = range(len(given.parts))
    own = subgroups or undivided_column(len(devices))
    stay = [device for device in devices if given.parts[device] == wanted.parts[device]]
    sources: dict[tuple[int, int], list[int]] = defaultdict(list)
    for device in devices:
        if device not in stay:
            sources[own[device], given.parts[device]].append(device)
    pairs = {device: device for device in stay}
    for device in devices:
        if device not in stay:
            pairs[sources[own[device], wanted.parts[device]].pop(0)] = device
    return resharder.send(part, pairs.items())


def _shift(given: Sharding, wanted: Sharding, rank: int) -> Shift | None:
    axes = given.changed(wanted, rank)
    if len(axes) != 2:
        return None
    for source, target in (axes, axes[::-1]):
        before, after = given.column(source), wanted.column(source)
        count, rest = divmod(count_of(before), count_of(after))
        if rest or count == 1:
            continue
        coordinates = interned(tuple(coordinate % count for coordinate in before))
        less = tuple(coordinate // count for coordinate in before)
        more = tuple(p * count + q for p, q in zip(given.column(target), coordinates, strict=True))
        if less == after and more == wanted.column(target):
            return Shift(source, target, coordinates)
    return None


def _shifted(
    resharder: Resharder,
    part: Instruction,
    ends: tuple[Sharding, Sharding],
    subgroups: Column,
    shift: Shift,
) -> Instruction:
    given, wanted = ends
    source, target, coordinates = shift
    build, dims, count = resharder.builder(part), part.shape.dims, count_of(coordinates)
    columns = [given.column(axis) for axis in range(part.shape.rank)]
    columns[source] = wanted.column(source)
    sizes = list(dims)
    made = build.emit(
        "all-to-all",
        part,
        channel_id=resharder.channels.next(),
        replica_groups=device_groups(_fixed(columns, subgroups), coordinates),
        dimensions=(target,),
    )
    # The pieces lie along `target` in the order of the devices that they come from.
    split = [*sizes[:target], count, sizes[target] // count, *sizes[target + 1 :]]
    order = [axis if axis < target else axis + 1 for axis in range(len(sizes))]
    order.insert(order.index(source if source < target else source + 1), target)
    pieces = build.transpose(build.reshape_to(made, tuple(split)), dimensions=tuple(order))
    sizes[source] *= count
    sizes[target] //= count
    return build.reshape_to(pieces, tuple(sizes))


def _scattered(
    resharder: Resharder, part: Instruction, ends: tuple[Sharding, Sharding], subgroups: Column
) -> Instruction | None:
    """Sum each device's part, if the devices of the summands divide one dimension further."""
    given, wanted = ends
    axes = given.changed(wanted, part.shape.rank)
    if len(axes) != 1:
        return None
    (axis,) = axes
    before, after = given.column(axis), wanted.column(axis)
    count, rest = divmod(count_of(after), count_of(before))
    fits = not rest and all(a // count == b for a, b in zip(after, before, strict=True))
    if not fits or count != count_of(given.summands):
        return None
    columns = _fixed([given.column(coordinate) for coordinate in range(part.shape.rank)], subgroups)
    groups = device_groups(columns, interned(tuple(coordinate % count for coordinate in after)))
    if _sets(groups) != _sets(device_groups(columns, given.summands)):
        return None
    reducer = scalar_computation("add", part.shape.dtype)
    return resharder.builder(part).emit(
        "reduce-scatter",
        part,
        shape=part.shape.with_dim(axis, part.shape.dims[axis] // count),
        channel_id=resharder.channels.next(),
        replica_groups=resharder.channels.everywhere(groups),
        use_global_device_ids=True,
        dimensions=(axis,),
        to_apply=resharder.channels.module.take(reducer),
    )


def _sets(groups: Groups) -> set[frozenset[int]]:
    return set(map(frozenset, groups))
