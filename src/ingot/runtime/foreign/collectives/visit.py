# SPDX-License-Identifier: Apache-2.0
"""The state of a device during an exchange, and its copies, as native functions.

An operand is `outer` steps; of each step a taker gets `part` bytes, which begin `source_start`
bytes after the step. In the result the parts lie side by side: a step there is as long as all parts
that are taken; or they are folded, and it is as long as one. Only of an all-reduce, which is one
step, the last part may be shorter.

The result of an all-reduce of which each device folds a part may lie in the operand's memory.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.functions import inlined, native
from ingot.native.operations import memcpy
from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.records import (
    PART_ALIGNMENT,
    Box,
    Rendezvous,
    Site,
)
from ingot.semantics.device_groups import MOST_TAKEN

_BLOCK_BYTES = 1 << 13
"""Bytes of a part that are folded at a time: with another part's, half of an L1 cache."""


PENDING = -1
"""The state of a visit that is not over; afterwards it is the status."""


class Visit(Struct, name="IngotVisit"):
    """One call on one device."""

    meeting: Rendezvous
    site: Site
    allocate: Callable[[i64], Pointer | None]
    free: Callable[[Pointer | None], None]
    device: i64
    source: Pointer  # the operand
    target: Pointer  # the result
    first_target: i64
    end_target: i64
    first_source: i64
    end_source: i64
    outer: i64
    whole: i64  # bytes of a step
    part: i64  # bytes of each part but the last
    own: i64  # bytes of the part that this device takes
    source_step: i64  # bytes
    source_start: i64  # bytes: where this device's part of a step begins
    target_step: i64  # bytes
    packed: Pointer | None  # parts to and from other processes, one message after another
    first_received: i64  # the number of the first message that is received
    is_split: i64
    is_shared: i64
    is_reduced: i64
    is_placed: i64  # 1: this device's own part lies in the result already
    spins: i64  # turns of waiting before the thread sleeps
    state: Atomic[i32]
    following: Pointer | None  # the visit that the courier makes after this one


@inlined
def is_here(meeting: Rendezvous, device: i64) -> bool:
    """Whether a device is one of this process."""
    return meeting.slots[device] >= 0


@inlined
def is_neighbour(visit: Visit, device: i64) -> bool:
    """Whether a device is another one of this process."""
    return device != visit.device and is_here(visit.meeting, device)


@inlined
def box_of(meeting: Rendezvous, giver: i64, taker: i64) -> Box:
    """Return the box of two devices of this process."""
    return meeting.boxes[meeting.slots[giver] * meeting.local_devices + meeting.slots[taker]]


@native
def product(dims: Array[i64], first: i64, end: i64) -> i64:
    """Return the product of some dimensions."""
    size: i64 = 1
    for index in range(first, end):
        size *= dims[index]
    return size


@native
def measure(visit: Visit, dims: Array[i64]) -> None:
    """Fill in partners and sizes of a visit whose site and device are known.

    Args:
        visit: the call.
        dims: dimensions of the operand.
    """
    site = visit.site
    device = visit.device
    visit.is_placed = 0
    visit.first_target = site.targets[2 * device]
    visit.end_target = site.targets[2 * device + 1]
    visit.first_source = site.sources[2 * device]
    visit.end_source = site.sources[2 * device + 1]
    whole = product(dims, site.along, site.rank) * site.element_bytes
    count = visit.end_source - visit.first_source
    # What a device takes from itself alone is copied.
    visit.is_reduced = site.is_reduced if count > 1 else 0
    # A device that takes nothing has no parts to divide by.
    parts: i64 = count if count > 1 else 1
    is_small = whole * (parts - 1) <= MOST_TAKEN
    visit.is_shared = i64(0) if is_small else site.is_shared
    visit.is_split = i64(0) if is_small and site.is_shared != 0 else site.is_split
    visit.outer = product(dims, 0, site.along)
    visit.whole = whole
    visit.part = whole
    if visit.is_split != 0:
        visit.part = whole // parts
        if visit.is_shared != 0:
            lines = parts * PART_ALIGNMENT
            visit.part = (whole + lines - 1) // lines * PART_ALIGNMENT
    visit.own = part_of(visit, device)
    visit.source_step = whole
    visit.source_start = start_of(visit, device)
    visit.target_step = visit.part if visit.is_reduced != 0 else visit.part * parts
    visit.packed = None


@inlined
def start_of(visit: Visit, taker: i64) -> i64:
    """Return the offset, in a step of others' operands, of the part that a device takes."""
    return visit.site.parts[taker] * visit.part if visit.is_split != 0 else 0


@inlined
def part_of(visit: Visit, taker: i64) -> i64:
    """Return the bytes of the part of a step that a device takes."""
    left = visit.whole - start_of(visit, taker)
    return left if left < visit.part else visit.part


@inlined
def given_start(visit: Visit, taker: i64) -> i64:
    """Return where, in a step of the operand, what this device gives to another one begins."""
    return i64(0) if visit.is_placed != 0 else start_of(visit, taker)


@inlined
def given_bytes(visit: Visit, taker: i64) -> i64:
    """Return the bytes of a step that this device gives to another one."""
    return visit.own if visit.is_placed != 0 else part_of(visit, taker)


@inlined
def taken_bytes(visit: Visit, giver: i64) -> i64:
    """Return the bytes of a step that this device takes from another one."""
    return part_of(visit, giver) if visit.is_placed != 0 else visit.own


@native
def copy_part(visit: Visit, source: Pointer, step: i64, start: i64, size: i64) -> None:
    """Copy parts of `size` bytes that lie `step` bytes apart to byte `start` of each step."""
    target = visit.target + start
    for index in range(0, visit.outer):
        memcpy(target + index * visit.target_step, source + index * step, size)


class Part(Struct):
    """The part that a device gives to this one: its parts of all steps, `step` bytes apart."""

    data: Pointer
    step: i64


@native
def fold_parts(visit: Visit, parts: Structs[Part], count: i64) -> None:
    """Fold parts into the result, block by block, so that blocks stay in cache between folds.

    This device's part may lie where the result goes. A block of it is kept if others come before.
    """
    combine = visit.site.combine
    kept = Array[i64].on_stack(_BLOCK_BYTES // 8)
    for index in range(0, visit.outer):
        target = visit.target + index * visit.target_step
        done: i64 = 0
        while done < visit.own:
            left = visit.own - done
            size = left if left < _BLOCK_BYTES else i64(_BLOCK_BYTES)
            for number in range(2, count):
                if block_of(parts[number], index, done) == target + done:
                    memcpy(kept, target + done, size)
            first = block_of(parts[0], index, done)
            second = block_of(parts[1], index, done)
            combine(target + done, first, second, size)
            for number in range(2, count):
                other = block_of(parts[number], index, done)
                if other == target + done:
                    combine(target + done, target + done, kept, size)
                else:
                    combine(target + done, target + done, other, size)
            done += size


@inlined
def block_of(part: Part, index: i64, done: i64) -> Pointer:
    """Return where a part's block begins: `done` bytes after the beginning of step `index`."""
    return part.data + (index * part.step + done)
