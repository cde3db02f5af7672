# SPDX-License-Identifier: Apache-2.0
"""Movements along a divided dimension: devices send each other only what moves.

Slices, concatenates, pads, reversals and rolls of a divided array would gather it, and every device
would make the whole result to cut its part out. Here the runs of the result (`runs`) say what each
part needs of which parts. These transfers are sorted into layers, in each of which a device
sends to at most one other device and receives from at most one: a layer is one collective-permute.
A device then puts its part together from the layers.

Invariant: the layers of a device do not overlap in its part.

Source: xla/service/spmd/spmd_partitioner_util.cc (ExchangeHalo, ExchangeHaloAndGetValidData).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import numpy as np

from ingot.hlo.dim import ceil_div
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction
from ingot.hlo.rewrite.pattern import splat_of
from ingot.hlo.rewrite.rule import RuleBuilder
from ingot.hlo.shape import Shape
from ingot.passes.spmd.reshard import Resharder, between
from ingot.passes.spmd.runs import Run, Runs, is_movement, runs_of
from ingot.passes.spmd.sharding import Column, Groups, Sharding, groups_along
from ingot.support.records import record

MAX_LAYERS = 8
"""Of one value: more would take longer to put together than the gathered value to cut."""


@record
class _Transfer:
    """Slices of one part of a source that one part of the result needs.

    Attributes:
        source: the number of the source's part.
        begin: the least index.
        size: the number of slices.
        at: where they begin in the part of the result.
    """

    source: int
    begin: int
    size: int
    at: int


@record
class _Layer:
    """Transfers of one run that happen at once.

    Attributes:
        run: the run.
        transfers: for each part of the result that takes part, its transfer.
    """

    run: Run
    transfers: dict[int, _Transfer]

    @property
    def is_sent(self) -> bool:
        """Whether the slices come from other devices."""
        return any(target != each.source for target, each in self.transfers.items())

    @property
    def size(self) -> int:
        """The number of slices that every device sends: that of the longest transfer."""
        return max(each.size for each in self.transfers.values())


@record
class _Piece:
    """Slices that a device has for its part of the result.

    Attributes:
        value: the slices.
        ranges: for each part, their first index and limit there, and the index in `value` of the
            first one that belongs there.
        is_zero_elsewhere: whether they are zeros on devices whose part has no range.
    """

    value: Instruction
    ranges: Mapping[int, tuple[int, int, int]]
    is_zero_elsewhere: bool

    def is_alike(self, axis: int) -> bool:
        """Whether all parts in `ranges` have the whole value at one offset."""
        first = next(iter(self.ranges.values()))
        whole = first[1] - first[0] == self.value.shape.static_dims[axis] and not first[2]
        return whole and all(each == first for each in self.ranges.values())


def moved(
    resharder: Resharder, whole: Instruction, ends: tuple[Sharding, Sharding], subgroups: Column
) -> Instruction | None:
    """Return this device's part of a value that is only moved from values divided like it.

    Args:
        resharder: that of the computation.
        whole: the value, made from gathered arrays.
        ends: its sharding, and the one that is wanted, which divides one dimension more.
        subgroups: as for `Resharder.gather`.
    """
    given, wanted = ends
    rank = whole.shape.rank
    axes = given.changed(wanted, rank)
    if not is_movement(whole) or len(axes) != 1 or any(given.column(axes[0])):
        return None
    (axis,) = axes
    runs = runs_of(whole, axis, resharder.sources)
    sources = {run.source: resharder.sources.get(run.source) for run in runs}
    divided = [found for found in sources.values() if found is not None]
    if not divided or any(sharding != wanted for _, sharding in divided):
        return None
    mover = _Mover(resharder, axis, wanted, groups_along(wanted, axis, rank, subgroups))
    layers = mover.layers(runs)
    received = sum(layer.size for layer in layers if layer.is_sent)
    gathered = sum(part.shape.static_dims[axis] for part, _ in divided)
    if len(layers) > MAX_LAYERS or received > gathered * (wanted.tiles[axis] - 1):
        return None
    resharder.moved.append(whole)
    # Zeros are in no layer, so it makes no difference which constant they are of.
    origins = [(None if _is_zeros(run) else run.source, *run.bounds) for run in runs]
    key = tuple(origins), wanted
    if key not in resharder.parts_of_runs:
        resharder.parts_of_runs[key] = mover.part(whole, layers)
    return resharder.parts_of_runs[key]


class _Mover:
    """The movement of one value along one dimension."""

    def __init__(self, resharder: Resharder, axis: int, wanted: Sharding, groups: Groups) -> None:
        self.resharder = resharder
        self.axis = axis
        self.column = wanted.column(axis)
        self.count = wanted.tiles[axis]
        self.groups = groups

    def layers(self, runs: Runs) -> list[_Layer]:
        """Return the layers of a value that has these runs."""
        size = sum(run.size for run in runs) // self.count
        # Runs of one source with one step share layers.
        found: dict[tuple[Instruction, int, bool], tuple[Run, list[dict[int, _Transfer]]]] = {}
        at = 0
        for run in runs:
            if not _is_zeros(run):
                for target, transfer in self._transfers(run, at, size):
                    key = run.source, run.step, transfer.source == target
                    _add(found.setdefault(key, (run, []))[1], target, transfer)
            at += run.size
        return [_Layer(run, layer) for run, layers in found.values() for layer in layers]

    def _transfers(self, run: Run, at: int, size: int) -> Iterable[tuple[int, _Transfer]]:
        """Return the transfers of a run that begins at index `at` of a result with parts of `size`.

        A value that every device has comes from the device itself.
        """
        given = self.resharder.sources.get(run.source)
        part = given[0].shape.static_dims[self.axis] if given is not None else 0
        for target in range(at // size, ceil_div(at + run.size, size)):
            first = max(target * size - at, 0)
            limit = min((target + 1) * size - at, run.size)
            while first < limit:
                source, count = target, limit - first
                begin = run.begin + run.step * first
                if part:
                    source = begin // part
                    left = (
                        (source + 1) * part - begin if run.step > 0 else begin - source * part + 1
                    )
                    count = min(count, ceil_div(left, abs(run.step)))
                    begin -= source * part
                lowest = begin + min(run.step, 0) * (count - 1)
                yield target, _Transfer(source, lowest, count, at + first - target * size)
                first += count

    def part(self, whole: Instruction, layers: Sequence[_Layer]) -> Instruction:
        """Return this device's part of `whole`."""
        size = whole.shape.static_dims[self.axis] // self.count
        shape = whole.shape.with_dim(self.axis, size)
        build = self.resharder.builder(whole)
        pieces = [self._piece(build, layer, shape) for layer in layers]
        return self._concatenated(build, pieces, shape) or self._selected(build, pieces, shape)

    def _piece(self, build: RuleBuilder, layer: _Layer, shape: Shape) -> _Piece:
        """Return what a layer brings."""
        if layer.run.is_fill:
            dims = shape.with_dim(self.axis, layer.size).dims
            made = build.broadcast_to(layer.run.source, dims, ())
            each = {at: (one.at, one.at + one.size, 0) for at, one in layer.transfers.items()}
            return _Piece(made, each, False)
        by_device = {
            one.source if layer.is_sent else target: one for target, one in layer.transfers.items()
        }
        made, begins = self._taken(build, layer, {at: one.begin for at, one in by_device.items()})
        skipped = {
            target: (one.begin - begins[one.source if layer.is_sent else target])
            // _pace(layer.run)
            for target, one in layer.transfers.items()
        }
        if layer.run.step < 0:
            made = build.reverse(made, dimensions=(self.axis,))
            skipped = {
                target: layer.size - skipped[target] - one.size
                for target, one in layer.transfers.items()
            }
        if layer.is_sent:
            pairs = [
                (group[one.source], group[target])
                for group in self.groups
                for target, one in layer.transfers.items()
            ]
            made = self.resharder.send(made, pairs)
        ranges = {
            target: (one.at, one.at + one.size, skipped[target])
            for target, one in layer.transfers.items()
        }
        return _Piece(made, ranges, layer.is_sent)

    def _taken(
        self, build: RuleBuilder, layer: _Layer, begins: Mapping[int, int]
    ) -> tuple[Instruction, Mapping[int, int]]:
        """Return slices of the source from each device's `begins` on, and where they do begin.

        All devices take equally many; where a part has too few, they begin earlier.
        """
        given = self.resharder.sources.get(layer.run.source)
        source = given[0] if given is not None else layer.run.source
        pace = _pace(layer.run)
        span, size = (layer.size - 1) * pace + 1, source.shape.static_dims[self.axis]
        if pace == 1:
            begins = {at: min(begin, size - span) for at, begin in begins.items()}
        elif max(begins.values()) + span > size:
            source = build.pad_along(source, self.axis, (0, span, 0))
        values = set(begins.values())
        if len(values) == 1:
            (begin,) = values
        else:
            begin, start = 0, self._of_part(build, begins, 0)
            source = build.slice_at(source, self.axis, start, span)
        return build.slice_along(source, self.axis, begin, begin + span, pace), begins

    def _of_part(self, build: RuleBuilder, numbers: Mapping[int, int], other: int) -> Instruction:
        """Return the number of this device's part; `other` for parts that have none."""
        table = np.array([numbers.get(part, other) for part in self.column], np.int32)
        return self.resharder.of_device(build, table)

    def _concatenated(
        self, build: RuleBuilder, pieces: Sequence[_Piece], shape: Shape
    ) -> Instruction | None:
        """Return the part if its pieces are alike on all devices: they are concatenated."""
        if not all(one.is_alike(self.axis) for one in pieces):
            return None
        spans = {id(one): next(iter(one.ranges.values()))[:2] for one in pieces}
        ordered = sorted(pieces, key=lambda one: spans[id(one)])
        joined: list[Instruction] = []
        at, size = 0, shape.static_dims[self.axis]
        for (begin, limit), group in groupby(ordered, key=lambda one: spans[id(one)]):
            if begin < at:
                return None
            joined += self._zeros(build, shape, begin - at)
            joined.append(self._chosen(build, list(group)))
            at = limit
        joined += self._zeros(build, shape, size - at)
        if len(joined) == 1:
            return joined[0]
        return build.emit("concatenate", *joined, dimensions=(self.axis,))

    def _zeros(self, build: RuleBuilder, shape: Shape, size: int) -> list[Instruction]:
        return [build.full(0, shape.with_dim(self.axis, size))] if size else []

    def _chosen(self, build: RuleBuilder, pieces: Sequence[_Piece]) -> Instruction:
        """Return the value of that piece, all at one offset, that this device has; else zeros."""
        pieces = sorted(pieces, key=lambda one: not one.is_zero_elsewhere)
        first, *others = pieces
        made = first.value
        if not first.is_zero_elsewhere and len(first.ranges) < self.count:
            made, others = build.full(0, made.shape), list(pieces)
        for one in others:
            here = self._of_part(build, dict.fromkeys(one.ranges, 1), 0)
            is_here = build.broadcast_to(build.convert_to(here, PRED), made.shape.dims, ())
            made = build.select(is_here, one.value, made)
        return made

    def _selected(self, build: RuleBuilder, pieces: Sequence[_Piece], shape: Shape) -> Instruction:
        """Return the part, selected layer by layer: a table says where each goes."""
        size = shape.static_dims[self.axis]
        index = build.index_along(shape.static_dims, self.axis)
        made = build.full(0, shape)
        for one in pieces:
            # Index `skip` of the value is index `begin` of the part.
            shifts = {part: skip - begin for part, (begin, _, skip) in one.ranges.items()}
            bounds = [
                build.broadcast_to(
                    self._of_part(build, {p: r[side] for p, r in one.ranges.items()}, 0),
                    shape.dims,
                    (),
                )
                for side in (0, 1)
            ]
            placed = self._placed(build, one.value, shifts, size)
            made = build.select(between(build, index, *bounds), placed, made)
        return made

    def _placed(
        self, build: RuleBuilder, value: Instruction, shifts: Mapping[int, int], size: int
    ) -> Instruction:
        """Return `size` slices of `value` from this device's shift on; others have any value."""
        given = value.shape.static_dims[self.axis]
        if set(shifts.values()) == {0} and given == size:
            return value
        low = max(0, -min(shifts.values()))
        high = max(0, max(shifts.values()) + size - given)
        wide = build.pad_along(value, self.axis, (low, high, 0))
        numbers = {part: shift + low for part, shift in shifts.items()}
        start = self._of_part(build, numbers, 0)
        return build.slice_at(wide, self.axis, start, size)


def _add(layers: list[dict[int, _Transfer]], target: int, transfer: _Transfer) -> None:
    """Add a transfer to the first layer in which its devices are free."""
    for layer in layers:
        if target not in layer and all(one.source != transfer.source for one in layer.values()):
            layer[target] = transfer
            return
    layers.append({target: transfer})


def _pace(run: Run) -> int:
    return abs(run.step)


def _is_zeros(run: Run) -> bool:
    """Whether all elements are zeros, which parts have where no layer is."""
    value = splat_of(run.source) if run.is_fill else None
    return value is not None and not any(np.asarray(value).tobytes())
