# SPDX-License-Identifier: Apache-2.0
"""Messages through stream sockets, as native functions: one socket for each pair of devices.

Invariant: what is on a socket is whole messages; after a failure it is shut down, which ends the
waiting of the other side.

Source: sendmsg(2), recvmsg(2), poll(2).
"""

from __future__ import annotations

from ingot.native.functions import exported, external, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer, Struct, Structs, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.progress import is_open, status_of_header, swapping
from ingot.runtime.foreign.collectives.records import (
    DONE,
    GONE,
    HEADER_BYTES,
    SLICE_NANOSECONDS,
    Message,
    Rendezvous,
)

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
def move(meeting: Rendezvous, message: Message) -> i64:
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
    if message.is_sent == 0 and before < HEADER_BYTES and message.moved >= HEADER_BYTES:
        status = status_of_header(message.header, message.expected)
        return result if status == DONE else -status
    return result


@native
def sleep(messages: Structs[Message], count: i64) -> None:
    """Sleep until a message can move, or for a slice of time."""
    ready = Structs[Ready].at(Array[i64].on_stack(count))
    waiting: i64 = 0
    for index in range(count):
        message = messages[index]
        if is_open(message):
            ready[waiting].descriptor = i32(message.link)
            ready[waiting].events = i32(_POLL_OUT) if message.is_sent != 0 else _POLL_IN
            waiting += 1
    poll(ready, waiting, SLICE_NANOSECONDS // 1_000_000)


swap = swapping("ingot_swap_by_sockets", move, sleep)


@exported("ingot_cut_socket")
def cut(meeting: Rendezvous, link: i64) -> None:
    """Let the other side see that this one gives up."""
    shutdown(i32(link), _SHUT_BOTH)
