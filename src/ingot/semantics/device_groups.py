# SPDX-License-Identifier: Apache-2.0
"""Which devices meet in a collective op: groups of devices, from the op's attributes.

A program runs on a grid of replicas and partitions. A device's number is
`replica * partitions + partition`. The *mode*, which follows from `channel_id` and
`use_global_device_ids`, says what `replica_groups` and `source_target_pairs` count: replicas,
partitions or devices.

Source: xla/service/collective_ops_utils.cc (GetCollectiveOpGroupMode,
GetParticipatingDevicesGroups); StableHLO specification, "Process groups".

Example:
    >>> Grid(2, 2).groups("cross_partition", ((1, 0),))
    ((1, 0), (3, 2))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from typing import NamedTuple, NoReturn

from ingot.hlo.dtype import PRED, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.interfaces import Trait
from ingot.hlo.module import Module
from ingot.hlo.opdef import find
from ingot.hlo.opset.collective import Groups
from ingot.support.diagnostics import VerifyError
from ingot.support.records import record

MOST_DEVICES = 1 << 20
"""No program has more devices than these: a text that says so is damaged."""
CROSS_REPLICA = "cross_replica"
CROSS_PARTITION = "cross_partition"
CROSS_BOTH = "cross_replica_and_partition"
FLATTENED = "flattened_id"
_FLOATS = frozenset({"bf16", "f16", "f32", "f64"})
_BYTE = 8
MOST_TAKEN = 256 << 10
"""Bytes that a device takes from others, at most, so that it folds all of an all-reduce itself; of
more it folds a part, and devices meet a second time."""
_KEPT = 1 << 9
"""Groups whose properties are cached: a program has few different groups, and many ops."""
_COMBINING = ("all-reduce", "all-reduce-start")
# How the size of a result follows from that of an operand and the number of devices.
_SCALES = {"all-gather": "grows", "all-gather-start": "grows", "reduce-scatter": "shrinks"}


def is_combined_by_exchange(opcode: str, element: DType) -> bool:
    """Whether the runtime folds the parts of devices by an op while it takes them.

    Args:
        opcode: that of a reducer, which is commutative; empty if the reducer is more than an op.
        element: the type of the elements.
    """
    if not opcode:
        return False
    if element is PRED:
        # Bytes of zeros and ones, which no arithmetic may leave.
        return Trait.EXACT in find(opcode).traits
    if element.is_complex:
        return opcode == "add"
    return element.name in _FLOATS or (element.is_integer and element.bits >= _BYTE)


@record
class Grid:
    """The numbers of replicas and partitions that a program runs on."""

    replicas: int = 1
    partitions: int = 1

    @property
    def devices(self) -> int:
        """The number of devices."""
        return self.replicas * self.partitions

    def __contains__(self, device: int) -> bool:
        return 0 <= device < self.devices

    def replica(self, device: int) -> int:
        """Return the replica of a device."""
        return device // self.partitions

    def partition(self, device: int) -> int:
        """Return the partition of a device."""
        return device % self.partitions

    def device(self, replica: int, partition: int) -> int:
        """Return the number of a device."""
        return replica * self.partitions + partition

    def groups(self, mode: str, given: Groups) -> Groups:
        """Return groups of devices; an empty `given` is one group of all that the mode counts."""
        if mode == CROSS_PARTITION:
            groups = given or (tuple(range(self.partitions)),)
            return tuple(
                tuple(self.device(replica, one) for one in group)
                for group in groups
                for replica in range(self.replicas)
            )
        if mode == FLATTENED:
            return given or (tuple(range(self.devices)),)
        groups = given or (tuple(range(self.replicas)),)
        everyone = range(self.partitions)
        if mode == CROSS_BOTH:
            return tuple(
                tuple(self.device(one, partition) for one in group for partition in everyone)
                for group in groups
            )
        return tuple(
            tuple(self.device(one, partition) for one in group)
            for group in groups
            for partition in everyone
        )


def mode_of(op: Instruction) -> str:
    """Return the mode: what the op's groups or pairs count."""
    given = op.attributes
    if given.mode:
        return given.mode
    if given.channel_id is None:
        return CROSS_REPLICA
    is_global: bool | None = getattr(given, "use_global_device_ids", None)
    if is_global is None:
        return CROSS_PARTITION
    return FLATTENED if is_global else CROSS_BOTH


def folds_parts(size: float, devices: int) -> bool:
    """Whether each of some devices folds a part of an all-reduce of `size` bytes, not all of it.

    The runtime decides so, too (`runtime.foreign.collectives.visit.measure`).
    """
    return size * (devices - 1) > MOST_TAKEN


def groups_of(op: Instruction, grid: Grid) -> Groups:
    """Return the groups of devices that meet in a collective op, each in its order.

    Groups without an existing device are left out: they are for more devices than there are. A
    single device combines only its own value, whatever other devices its group names, as in XLA.

    Raises:
        VerifyError: INGOT0213, a group names a device that does not exist, or one twice; or its
            number of devices does not fit the declared result.
    """
    found = _present(grid.groups(mode_of(op), op.attributes.replica_groups or ()), grid)
    if grid.devices == 1 and op.opcode in _COMBINING:
        return ((0,),)
    if found.problem:
        _fail(op, grid, found.problem)
    for count in found.counts:
        _check_sizes(op, grid, count)
    return found.groups


def pairs_of(op: Instruction, grid: Grid) -> Groups:
    """Return (source, target) devices of a collective-permute, for the targets that exist.

    Raises:
        VerifyError: INGOT0213, an existing device would wait for one that does not exist.
    """
    mode, pairs = mode_of(op), op.attributes.source_target_pairs
    if mode in (FLATTENED, CROSS_BOTH):
        found = pairs
    elif mode == CROSS_PARTITION:
        found = tuple(
            (grid.device(replica, source), grid.device(replica, target))
            for replica in range(grid.replicas)
            for source, target in pairs
        )
    else:
        found = tuple(
            (grid.device(source, partition), grid.device(target, partition))
            for source, target in pairs
            for partition in range(grid.partitions)
        )
    received = tuple(pair for pair in found if pair[1] in grid)
    for side in (0, 1):
        problem = _problem([pair[side] for pair in received], grid)
        if problem:
            _fail(op, grid, problem)
    return received


@lru_cache(_KEPT)
def with_others(groups: Groups, grid: Grid) -> Groups:
    """Return groups of all devices: those that are in none have one of their own."""
    inside = {device for group in groups for device in group}
    alone = tuple((device,) for device in range(grid.devices) if device not in inside)
    return (*groups, *alone) if alone else groups


def group_of(groups: Groups, device: int) -> tuple[int, ...]:
    """Return the group that a device is in; a group of itself if it is in none."""
    return next((group for group in groups if device in group), (device,))


class _Present(NamedTuple):
    """Groups of existing devices, the sizes of groups, and what is wrong with them."""

    groups: Groups
    counts: tuple[int, ...]
    problem: str


@lru_cache(_KEPT)
def _present(named: Groups, grid: Grid) -> _Present:
    """Return groups without those that have no existing device."""
    is_there = [any(device in grid for device in group) for group in named]
    groups = named if all(is_there) else tuple(compress(named, is_there))
    counts = tuple(sorted({len(group) for group in groups}))
    return _Present(groups, counts, _problem([one for group in groups for one in group], grid))


def _problem(devices: Sequence[int], grid: Grid) -> str:
    """Return why an op cannot name these devices, each of which takes part once; "" if it can."""
    missing = next((device for device in devices if device not in grid), None)
    if missing is not None:
        return f"device {missing} is not there"
    return "" if len(set(devices)) == len(devices) else "a device stands twice"


def _check_sizes(op: Instruction, grid: Grid, count: int) -> None:
    """Check that a group of `count` devices gives a result of the declared size."""
    scale = _SCALES.get(op.opcode)
    if scale is None:
        return
    along: int = op.attributes.dimensions[0]
    results = op.shape.elements[1] if op.opcode.endswith("-start") else op.shape
    for operand, (_, result) in zip(op.operands, results.leaves(), strict=True):
        sizes = operand.shape.dims[along], result.dims[along]
        small, large = sizes if scale == "grows" else sizes[::-1]
        if large != small * count:
            devices = "one device does" if count == 1 else f"{count} devices do"
            _fail(op, grid, f"{devices} not make {result} of {operand.shape}")


def _fail(op: Instruction, grid: Grid, what: str) -> NoReturn:
    raise VerifyError(
        f"{op.opcode}: {what} ({grid.replicas} replicas of {grid.partitions} partitions)",
        code="INGOT0213",
        instruction=repr(op),
        location=op.metadata.location,
        hint="write replica_count=N, num_partitions=M into the header of the module",
    )


def grid_of(module: Module) -> Grid:
    """Return the grid that the module's header says: `replica_count`, `num_partitions`."""
    return Grid(
        int(module.extra.get("replica_count", "1")), int(module.extra.get("num_partitions", "1"))
    )
