# SPDX-License-Identifier: Apache-2.0
"""Moves in which each device sends and gets no more than parts: of one sharding to another.

Three are known: parts change places (`collective-permute`), what divides the end of one dimension
divides the end of another instead (`all-to-all`), and summands are summed only where a device's
part needs it (`reduce-scatter`). Shardy takes reshards apart into such steps.

Invariant: a move is found from where devices stand alone, whatever the mesh was called.

Source: xla/service/spmd/spmd_partitioner.cc (ReshardWithCollectivePermute, ReshardWithAllToAll).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ingot.hlo.builder import scalar_computation
from ingot.hlo.instruction import Instruction
from ingot.passes.spmd.moves import Moves
from ingot.passes.spmd.sharding import Column, Groups, Sharding, alike, count_of, kept, meeting


class Shift(NamedTuple):
    """A factor that moves from the end of one dimension's division to the end of another's.

    Attributes:
        source: the dimension that is divided less.
        target: the dimension that is divided more.
        places: where each device stands along the factor.
    """

    source: int
    target: int
    places: Column


def exchanged(
    moves: Moves, part: Instruction, ends: tuple[Sharding, Sharding], lanes: Column
) -> Instruction | None:
    """Return `part` moved from the first sharding to the second by one exchange, if one does it.

    Args:
        moves: of the computation.
        part: what each device has.
        ends: how the value is divided, and how it is to be.
        lanes: as for `Moves.gather`.
    """
    given, wanted = ends
    rank = part.shape.rank
    if given.summands or wanted.summands:
        return None if wanted.summands else _scattered(moves, part, ends, lanes)
    if given.tiles and given.tiles == wanted.tiles:
        return _permuted(moves, part, ends, lanes)
    shift = _shift(given, wanted, rank)
    return None if shift is None else _shifted(moves, part, ends, lanes, shift)


def _fixed(columns: Sequence[Column], lanes: Column) -> list[Column]:
    return [*columns, lanes] if lanes else list(columns)


def _permuted(
    moves: Moves, part: Instruction, ends: tuple[Sharding, Sharding], lanes: Column
) -> Instruction:
    """Each device gets its new part from one that has it, from itself if it can be."""
    given, wanted = ends
    devices = range(len(given.parts))
    lane = lanes or alike(len(devices))
    stay = [device for device in devices if given.parts[device] == wanted.parts[device]]
    sources: dict[tuple[int, int], list[int]] = defaultdict(list)
    for device in devices:
        if device not in stay:
            sources[lane[device], given.parts[device]].append(device)
    pairs = {device: device for device in stay}
    for device in devices:
        if device not in stay:
            pairs[sources[lane[device], wanted.parts[device]].pop(0)] = device
    return moves.builder(part).emit(
        "collective-permute",
        part,
        channel_id=moves.channels.next(),
        source_target_pairs=tuple(sorted(pairs.items())),
    )


def _shift(given: Sharding, wanted: Sharding, rank: int) -> Shift | None:
    axes = [axis for axis in range(rank) if given.column(axis) != wanted.column(axis)]
    if len(axes) != 2:
        return None
    for source, target in (axes, axes[::-1]):
        before, after = given.column(source), wanted.column(source)
        count, rest = divmod(count_of(before), count_of(after))
        if rest or count == 1:
            continue
        places = kept(tuple(place % count for place in before))
        less = tuple(place // count for place in before)
        more = tuple(p * count + q for p, q in zip(given.column(target), places, strict=True))
        if less == after and more == wanted.column(target):
            return Shift(source, target, places)
    return None


def _shifted(
    moves: Moves,
    part: Instruction,
    ends: tuple[Sharding, Sharding],
    lanes: Column,
    shift: Shift,
) -> Instruction:
    given, wanted = ends
    source, target, places = shift
    build, dims, count = moves.builder(part), part.shape.dims, count_of(places)
    columns = [given.column(axis) for axis in range(part.shape.rank)]
    columns[source] = wanted.column(source)
    sizes = [size for size in dims if isinstance(size, int)]
    made = build.emit(
        "all-to-all",
        part,
        channel_id=moves.channels.next(),
        replica_groups=meeting(_fixed(columns, lanes), places),
        dimensions=(target,),
    )
    # The pieces lie along `target` in the order of the devices they come from.
    split = [*sizes[:target], count, sizes[target] // count, *sizes[target + 1 :]]
    order = [axis if axis < target else axis + 1 for axis in range(len(sizes))]
    order.insert(order.index(source if source < target else source + 1), target)
    pieces = build.transpose(build.reshape_to(made, tuple(split)), dimensions=tuple(order))
    sizes[source] *= count
    sizes[target] //= count
    return build.reshape_to(pieces, tuple(sizes))


def _scattered(
    moves: Moves, part: Instruction, ends: tuple[Sharding, Sharding], lanes: Column
) -> Instruction | None:
    """Sum each part only, where the summands' devices are those that divide one dimension more."""
    given, wanted = ends
    axes = [axis for axis in range(part.shape.rank) if given.column(axis) != wanted.column(axis)]
    if len(axes) != 1:
        return None
    (axis,) = axes
    before, after = given.column(axis), wanted.column(axis)
    count, rest = divmod(count_of(after), count_of(before))
    fits = not rest and all(a // count == b for a, b in zip(after, before, strict=True))
    if not fits or count != count_of(given.summands):
        return None
    columns = _fixed([given.column(place) for place in range(part.shape.rank)], lanes)
    groups = meeting(columns, kept(tuple(place % count for place in after)))
    if _sets(groups) != _sets(meeting(columns, given.summands)):
        return None
    dims = [size for size in part.shape.dims if isinstance(size, int)]
    dims[axis] //= count
    reducer = scalar_computation("add", part.shape.dtype)
    return moves.builder(part).emit(
        "reduce-scatter",
        part,
        shape=part.shape.with_dims(tuple(dims)),
        channel_id=moves.channels.next(),
        replica_groups=moves.channels.everywhere(groups),
        use_global_device_ids=True,
        dimensions=(axis,),
        to_apply=moves.channels.module.take(reducer),
    )


def _sets(groups: Groups) -> set[frozenset[int]]:
    return set(map(frozenset, groups))
