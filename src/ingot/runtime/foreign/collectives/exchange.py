# SPDX-License-Identifier: Apache-2.0
"""The exchange, as native functions: give one operand to some devices, take the operands of some.

Every collective that moves bytes is this function with another table: to which devices it gives,
from which it takes, and which parts of their operands go where in the result. Devices copy in
parallel, each its own result. Devices of other processes get messages (`messages`).

A giver writes the address of its data into its box for another device of this process and
increments `published`; the taker copies what it needs and increments `taken` to the same number.
The giver waits for that, so its data does not change while others read. Each counter is written by
one thread and waiting is a futex, so there is no lock; the key in the box tells devices at
different calls apart.

A giver that gives up sets `failed` first and then waits until nobody reads its data any more: a
taker marks the box (`reading`) before it tests whether somebody failed.

Invariant: a device that returns, done or failed, has no data that another one still reads; between
two exchanges of a device, `published == taken` in all its boxes.

Status: 0 done; the rest is in `records.STATUS`.
"""

from __future__ import annotations

from ingot.native.functions import inlined, native
from ingot.native.operations import likely, memset, unlikely
from ingot.native.pointers import Array, Atomic, Pointer, Structs, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.messages import (
    HEADERS_WORDS,
    MESSAGE_WORDS,
    make_messages,
    remote_partners,
    swap,
    unpack,
)
from ingot.runtime.foreign.collectives.progress import SPINS, blame, status_of_others
from ingot.runtime.foreign.collectives.records import (
    ALONE,
    DONE,
    MISMATCH,
    OTHER_GRID,
    SLICE_NANOSECONDS,
    TIMEOUT,
    Message,
    Rendezvous,
    Site,
)
from ingot.runtime.foreign.collectives.visit import (
    Part,
    Visit,
    box_of,
    copy_part,
    fold_parts,
    is_here,
    is_neighbour,
    measure,
    taken_bytes,
)
from ingot.runtime.records import CallFrame, Runtime
from ingot.runtime.threading.fibers import Fibers, advance, look, pass_turn
from ingot.runtime.threading.sync import futex_wait_until, futex_wake, pause, wait_step

_SPINS = 200
_PART_WORDS = sizeof(Part) // 8


@inlined
def notify(meeting: Rendezvous) -> None:
    """Let devices that are fibers look again at what they wait for, after it has changed."""
    fibers = meeting.fibers
    if fibers is not None:
        advance(fibers)


@native
def fail(meeting: Rendezvous) -> None:
    """Let every device that waits, now or later, give up."""
    meeting.failed.exchange(1, "seq_cst")
    notify(meeting)


@native
def pass_turns_while(visit: Visit, fibers: Fibers, word: Atomic[i32], value: i32) -> i32:
    """Wait as `wait_while` does, on a device that is a fiber."""
    meeting = visit.meeting
    index = meeting.slots[visit.device]
    look(fibers, index)
    while word.load() == value:
        if meeting.failed.load() != 0:
            return status_of_others(meeting)
        if not pass_turn(fibers, index):
            fail(meeting)
            return TIMEOUT
        look(fibers, index)
    return DONE


@inlined
def is_patience_over(meeting: Rendezvous, turns: i64) -> bool:
    """Return whether a device that has waited this many turns gives up."""
    return turns > meeting.patience + _SPINS


@native
def wait_slice(word: Atomic[i32], value: i32, turns: i64) -> None:
    """Wait for one more turn while `word` is `value`: a pause first, later a slice of sleep."""
    if turns < _SPINS:
        pause()
        return
    limit = Array[i64].on_stack(2)
    limit[0] = 0
    limit[1] = SLICE_NANOSECONDS
    futex_wait_until(word, value, limit)


@native
def wait_while(visit: Visit, word: Atomic[i32], value: i32) -> i32:
    """Wait while `word` is `value`; return `DONE`, or the status of giving up."""
    meeting = visit.meeting
    fibers = meeting.fibers
    if fibers is not None:
        return pass_turns_while(visit, fibers, word, value)
    turns: i64 = 0
    while word.load() == value:
        if meeting.failed.load() != 0:
            return status_of_others(meeting)
        if is_patience_over(meeting, turns):
            fail(meeting)
            return TIMEOUT
        wait_slice(word, value, turns)
        turns += 1
    return DONE


@inlined
def count_up(meeting: Rendezvous, word: Atomic[i32]) -> None:
    """Increment a counter, which only this device writes, and wake the device that waits for it."""
    word.store(word.load("monotonic") + 1)
    if meeting.fibers is None:
        futex_wake(word, 1)
    else:
        notify(meeting)


@native
def give(visit: Visit, other: i64) -> None:
    """Offer the operand to another device of this process."""
    box = box_of(visit.meeting, visit.device, other)
    box.data = visit.source
    box.key = visit.site.key
    count_up(visit.meeting, box.published)


@native
def open_box(visit: Visit, other: i64) -> i32:
    """Wait until another device of this process offers its operand; keep it from retreating."""
    meeting = visit.meeting
    box = box_of(meeting, other, visit.device)
    status = wait_while(visit, box.published, box.taken.load("monotonic"))
    if unlikely(status != DONE):
        return status
    if unlikely(box.key != visit.site.key):
        return MISMATCH
    box.reading.exchange(1, "seq_cst")
    if unlikely(meeting.failed.load("seq_cst") != 0):
        box.reading.store(0)
        notify(meeting)
        return status_of_others(meeting)
    return DONE


@inlined
def close_box(visit: Visit, other: i64) -> None:
    """Let another device have its operand back."""
    box = box_of(visit.meeting, other, visit.device)
    box.reading.store(0)
    count_up(visit.meeting, box.taken)


@native
def take(visit: Visit, other: i64, start: i64) -> i32:
    """Copy what another device of this process offers to byte `start` of each step."""
    status = open_box(visit, other)
    if unlikely(status != DONE):
        return status
    box = box_of(visit.meeting, other, visit.device)
    size = taken_bytes(visit, other)
    copy_part(visit, box.data + visit.source_start, visit.source_step, start, size)
    close_box(visit, other)
    return DONE


@native
def take_reduced(visit: Visit) -> i32:
    """Take from all devices that this one takes from, and fold the parts in their order."""
    site = visit.site
    count = visit.end_source - visit.first_source
    parts = Structs[Part].at(Array[i64].on_stack(count * _PART_WORDS))
    received = visit.first_received
    for index in range(count):
        device = site.taken[visit.first_source + index]
        if is_neighbour(visit, device):
            status = open_box(visit, device)
            if unlikely(status != DONE):
                leave_boxes(visit, index)
                return status
        received += find_part(visit, device, parts[index], received)
    fold_parts(visit, parts, count)
    for index in range(count):
        device = site.taken[visit.first_source + index]
        if is_neighbour(visit, device):
            close_box(visit, device)
    return DONE


@native
def leave_boxes(visit: Visit, count: i64) -> None:
    """Stop reading the data of the first devices, without having taken it."""
    for index in range(count):
        device = visit.site.taken[visit.first_source + index]
        if is_neighbour(visit, device):
            box_of(visit.meeting, device, visit.device).reading.store(0)
    notify(visit.meeting)


@native
def find_part(visit: Visit, device: i64, part: Part, received: i64) -> i64:
    """Find the data of a device's part; return 1 if it came as a message, number `received`."""
    part.step = visit.source_step
    if device == visit.device:
        part.data = visit.source + visit.source_start
        return 0
    if is_here(visit.meeting, device):
        part.data = box_of(visit.meeting, device, visit.device).data + visit.source_start
        return 0
    packed = visit.packed
    assert packed is not None
    part.data = packed + received * visit.outer * visit.part
    part.step = visit.part
    return 1


@native
def keep_own(visit: Visit) -> None:
    """Copy the part that this device takes from itself to its place in the result."""
    site = visit.site
    if visit.is_reduced == 0 and visit.is_placed == 0:
        for index in range(visit.first_source, visit.end_source):
            if site.taken[index] == visit.device:
                start = (index - visit.first_source) * visit.part
                data = visit.source + visit.source_start
                copy_part(visit, data, visit.source_step, start, visit.own)


@native
def take_all(visit: Visit) -> i32:
    """Take from all other devices of this process that this one takes from."""
    site = visit.site
    for index in range(visit.first_source, visit.end_source):
        other = site.taken[index]
        if is_neighbour(visit, other):
            status = take(visit, other, (index - visit.first_source) * visit.part)
            if unlikely(status != DONE):
                return status
    return DONE


@native
def wait_until_taken(visit: Visit) -> i32:
    """Wait until the devices that were given something have taken it."""
    site = visit.site
    meeting = visit.meeting
    for index in range(visit.first_target, visit.end_target):
        other = site.given[index]
        if is_neighbour(visit, other):
            box = box_of(meeting, visit.device, other)
            status = wait_while(visit, box.taken, box.published.load("monotonic") - 1)
            if unlikely(status != DONE):
                return status
    return DONE


@native
def wait_for_reader(visit: Visit, reading: Atomic[i32]) -> None:
    """Wait until another device, which knows that this one gives up, reads its data no more."""
    fibers = visit.meeting.fibers
    index = visit.meeting.slots[visit.device]
    steps: i64 = 0
    while reading.load("seq_cst") != 0:
        if fibers is None:
            steps = wait_step(steps)
        else:
            look(fibers, index)
            if reading.load("seq_cst") != 0:
                pass_turn(fibers, index)


@native
def retreat(visit: Visit) -> None:
    """Give up: tell all devices, then wait until none reads this device's data."""
    site = visit.site
    meeting = visit.meeting
    fail(meeting)
    for index in range(visit.first_target, visit.end_target):
        other = site.given[index]
        if is_neighbour(visit, other):
            wait_for_reader(visit, box_of(meeting, visit.device, other).reading)
    transport = meeting.transport
    if transport is not None:
        transport.cut(meeting)


@native
def take_here(visit: Visit, messages: Structs[Message], count: i64) -> i32:
    """Take from all other devices, once all messages have come; return a status."""
    if visit.is_reduced != 0:
        return take_reduced(visit)
    if visit.outer > 1 and count > visit.first_received:
        unpack(visit, messages)
    return take_all(visit)


@native
def exchange_of(visit: Visit) -> i32:
    """Give and take everything."""
    site = visit.site
    meeting = visit.meeting
    for index in range(visit.first_target, visit.end_target):
        if is_neighbour(visit, site.given[index]):
            give(visit, site.given[index])
    if visit.first_source == visit.end_source:
        memset(visit.target, 0, visit.outer * visit.source_step)
    count = remote_partners(visit)
    messages = Structs[Message].at(Array[i64].on_stack(count * MESSAGE_WORDS))
    headers = Array[i64].on_stack(count * HEADERS_WORDS)
    status = make_messages(visit, messages, headers, count)
    if likely(status == DONE):
        # What the others wait for goes first; on its way this device copies what it keeps.
        status = swap(visit, messages, count, count)
        keep_own(visit)
    if likely(status == DONE):
        status = swap(visit, messages, visit.first_received, count)
    if likely(status == DONE):
        # Other processes take what they are given while this device copies and folds.
        status = take_here(visit, messages, count)
        if unlikely(status != DONE):
            fail(meeting)
        sent = swap(visit, messages, 0, count)
        status = sent if status == DONE else status
    if visit.packed is not None:
        visit.free(visit.packed)
    return wait_until_taken(visit) if status == DONE else status


@native
def share(visit: Visit, target: Pointer) -> i32:
    """Give the part that this device has folded to all devices, and take theirs."""
    visit.source = visit.target
    visit.source_step = visit.part
    visit.source_start = 0
    visit.target = target
    visit.packed = None
    visit.is_reduced = 0
    visit.is_placed = 1
    return exchange_of(visit)


@inlined
def device_of(meeting: Rendezvous, runtime: Runtime) -> i64:
    """Return the number of the device that a runtime record is for."""
    return runtime.replica * meeting.partitions + runtime.partition


@native
def enter(visit: Visit, frame: CallFrame, site: Site, target: Pointer | None) -> i32:
    """Fill in a visit for a call that writes its result to `target`; return a status."""
    runtime = frame.runtime
    if runtime.rendezvous is None:
        return ALONE
    meeting = Rendezvous.at(runtime.rendezvous)
    visit.meeting = meeting
    if unlikely(meeting.devices != site.devices):
        return OTHER_GRID
    visit.site = site
    visit.allocate = runtime.allocate
    visit.free = runtime.free
    visit.device = device_of(meeting, runtime)
    source = frame.operands[0]
    assert source is not None
    assert target is not None
    visit.source = source
    visit.target = target
    visit.spins = SPINS
    measure(visit, frame.operand_dims[0])
    return DONE


@native
def complete(visit: Visit) -> i32:
    """Make a visit that was filled in; return a status."""
    target = visit.target
    if visit.is_shared != 0:
        # This device's part goes where it belongs in the result.
        visit.target = target + visit.site.parts[visit.device] * visit.part
    status = exchange_of(visit)
    if visit.is_shared != 0 and status == DONE:
        status = share(visit, target)
    if unlikely(status != DONE):
        if visit.meeting.fibers is not None:
            note_culprit(visit.meeting, visit.device, status)
        blame(visit.meeting, i64(status))
        retreat(visit)
    return status


@native
def note_culprit(meeting: Rendezvous, device: i64, reason: i32) -> None:
    """Note which of the devices fails first, and the status of its collective."""
    if meeting.culprit.compare_exchange(0, device + 1, "acq_rel", "monotonic"):
        meeting.reason = i64(reason)


@inlined
def told(meeting: Rendezvous, status: i32) -> i32:
    """Return the status of a call: negative if Python must not be asked for its text here.

    A fiber must not call Python; see `note_culprit`.
    """
    return -status if meeting.fibers is not None else status
