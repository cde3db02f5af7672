# SPDX-License-Identifier: Apache-2.0
"""Messages through stream sockets, as native functions: one socket for each pair of devices.

The thread of the device moves the bytes itself, of all its messages in turn, and sleeps in poll(2)
when none can move: no thread in between, and no order of messages that two processes could wait for
each other in. Invariant: what is on a socket is whole messages; after a failure it is shut down,
which ends the waiting of the other side.

Source: sendmsg(2), recvmsg(2), poll(2).
"""

from __future__ import annotations

from ingot.native.functions import exported, external, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer, Struct, Structs, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.messages import same_header
from ingot.runtime.foreign.collectives.records import (
    DONE,
    GONE,
    HEADER_BYTES,
    MISMATCH,
    OTHER_FAILED,
    PROCESS_SHIFT,
    SLICE_NANOSECONDS,
    TIMEOUT,
    Message,
    Rendezvous,
)
from ingot.runtime.sync import pause

_SPINS = 2000
"""Turns in which nothing moves before a device sleeps: a few tens of microseconds."""
_DONT_WAIT, _NO_SIGNAL = 0x40, 0x4000
_SHUT_BOTH = 2
_INTERRUPTED, _AGAIN = 4, 11
_POLL_IN, _POLL_OUT = 1, 4

IMPORTS = ("sendmsg", "recvmsg", "poll", "shutdown", "__errno_location")
"""What these functions take from the C library."""


class Slice(Struct, name="iovec"):
    """A piece of memory."""

    base: Pointer
    length: i64


class Parcel(Struct, name="msghdr"):
    """What one call sends or receives."""

    name: Pointer | None
    name_bytes: i32
    slices: Structs[Slice]
    num_slices: i64
    control: Pointer | None
    control_bytes: i64
    flags: i32


class Ready(Struct, name="pollfd"):
    """What to wait for on a socket: wanted events in the low half, found ones in the high half."""

    descriptor: i32
    events: i32


@external("sendmsg")
def sendmsg(descriptor: i32, parcel: Parcel, flags: i32) -> i64:
    """Send; return the bytes that went, or -1."""
    ...


@external("recvmsg")
def recvmsg(descriptor: i32, parcel: Parcel, flags: i32) -> i64:
    """Receive; return the bytes that came, 0 at the end, or -1."""
    ...


@external("poll")
def poll(ready: Structs[Ready], count: i64, milliseconds: i32) -> i32:
    """Sleep until one is ready; return how many are."""
    ...


@external("shutdown")
def shutdown(descriptor: i32, how: i32) -> i32:
    """End a connection."""
    ...


@external("__errno_location")
def errno_location() -> Array[i32]:
    """Return where the C library puts the reason of a failure."""
    ...


@inlined
def is_temporary(reason: i32) -> bool:
    """Whether a call failed only because nothing can be moved now."""
    if reason == _AGAIN:
        return True
    return reason == _INTERRUPTED


@native
def move(message: Message) -> i64:
    """Send or receive what can be without waiting; return the bytes, or minus a status."""
    pieces = Structs[Slice].at(Array[i64].on_stack(2 * sizeof(Slice) // 8))
    parcel = Parcel.on_stack()
    parcel.name = None
    parcel.name_bytes = 0
    parcel.slices = pieces
    parcel.control = None
    parcel.control_bytes = 0
    parcel.flags = 0
    before = message.moved
    if before < HEADER_BYTES:
        pieces[0].base = message.header + before
        pieces[0].length = HEADER_BYTES - before
        pieces[1].base = message.data
        pieces[1].length = message.bytes
        parcel.num_slices = 2
    else:
        pieces[0].base = message.data + (before - HEADER_BYTES)
        pieces[0].length = message.bytes + HEADER_BYTES - before
        parcel.num_slices = 1
    descriptor = i32(message.link)
    result: i64 = 0
    if message.is_sent != 0:
        result = sendmsg(descriptor, parcel, _DONT_WAIT | _NO_SIGNAL)
    else:
        result = recvmsg(descriptor, parcel, _DONT_WAIT)
    if result < 0:
        reason = errno_location()[0]
        return i64(0) if is_temporary(reason) else -GONE
    if unlikely(result == 0):
        return -GONE
    message.moved = before + result
    is_known = message.is_sent == 0 and before < HEADER_BYTES and message.moved >= HEADER_BYTES
    if is_known and not same_header(message.header, message.expected):
        return -MISMATCH
    return result


@native
def is_open(message: Message) -> bool:
    """Whether some of a message is still to be moved."""
    return message.moved < message.bytes + HEADER_BYTES


@native
def move_all(messages: Structs[Message], count: i64) -> i64:
    """Move what can be moved of each message; return the bytes, or minus a status."""
    moved: i64 = 0
    for index in range(count):
        message = messages[index]
        if is_open(message):
            step = move(message)
            if unlikely(step < 0):
                return step - ((message.process + 1) << PROCESS_SHIFT)
            moved += step
    return moved


@native
def first_open(messages: Structs[Message], count: i64) -> i64:
    """Return the first message that is not through; `count` if all are."""
    for index in range(count):
        if is_open(messages[index]):
            return index
    return count


@native
def sleep(messages: Structs[Message], count: i64, ready: Structs[Ready]) -> None:
    """Sleep until a message can move, or for a slice of time."""
    waiting: i64 = 0
    for index in range(count):
        message = messages[index]
        if is_open(message):
            ready[waiting].descriptor = i32(message.link)
            ready[waiting].events = i32(_POLL_OUT) if message.is_sent != 0 else _POLL_IN
            waiting += 1
    poll(ready, waiting, SLICE_NANOSECONDS // 1_000_000)


@exported("ingot_swap_by_sockets")
def swap(meeting: Rendezvous, messages: Structs[Message], count: i64) -> i32:
    """Move all messages; return a status, with the process that is to blame if one is."""
    ready = Structs[Ready].at(Array[i64].on_stack(count))
    idle: i64 = 0
    while True:
        moved = move_all(messages, count)
        if unlikely(moved < 0):
            return i32(-moved)
        waiting = first_open(messages, count)
        if waiting == count:
            return DONE
        idle = i64(0) if moved > 0 else idle + 1
        if unlikely(meeting.failed.load() != 0):
            return OTHER_FAILED
        if unlikely(idle > meeting.patience + _SPINS):
            return i32(TIMEOUT | (messages[waiting].process + 1) << PROCESS_SHIFT)
        if idle < _SPINS:
            pause()
        else:
            sleep(messages, count, ready)


@exported("ingot_cut_socket")
def cut(meeting: Rendezvous, link: i64) -> None:
    """Let the other side see that this one gives up."""
    shutdown(i32(link), _SHUT_BOTH)
