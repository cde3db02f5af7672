# SPDX-License-Identifier: Apache-2.0
"""Messages through stream sockets, as native functions: two sockets for each pair of devices.

Each carries the messages of one direction. If the system allows it (for processes of one machine),
the receiver reads large data directly in the sender's memory: that saves a copy, and no data goes
over the socket; a byte comes back when all is read. Headers and small data then go through shared
memory (`rings`), and the socket only wakes a receiver that sleeps.

A socket's other direction is for that byte, and for a word of farewell: before a process closes its
connections it says by the word with which status it gives up.

Invariant: a socket carries whole messages; after a failure it is shut down, which ends the waiting
of the other side, and a receiver whose byte does not arrive drops what it has read.

Source: sendmsg(2), recvmsg(2), process_vm_readv(2), poll(2).
"""

from __future__ import annotations

from ingot.native.functions import external, inlined, native
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Array, Pointer, Struct, Structs, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.progress import (
    Ways,
    cutting,
    farewell_of,
    is_open,
    status_of_header,
    swapping,
)
from ingot.runtime.foreign.collectives.records import (
    ADDRESS,
    DONE,
    GONE,
    HEADER_BYTES,
    SENDER,
    SLICE_NANOSECONDS,
    SMALLEST_READ,
    Link,
    Message,
    Rendezvous,
    Ring,
)
from ingot.runtime.foreign.collectives.rings import has_message, read_message, write_message

_PEEK, _DONT_WAIT, _NO_SIGNAL = 0x2, 0x40, 0x4000
_SHUT_BOTH = 2
_INTERRUPTED, _AGAIN = 4, 11
_POLL_IN, _POLL_OUT = 1, 4
_READ_BYTES = 4 << 20
"""Bytes read at a time: between two reads other messages move, and failures are noticed."""
_FAREWELL_BYTES, _BACK_WORDS = 8, 8
"""Bytes of the word of farewell; words that hold what can lie before and behind it."""
_FAREWELL_SLICES = 50
"""Slices (a second) in which the farewell of a process must come that is found to be closed, or to
wait as long as this one: connections to one process may be faster than those to another."""

IMPORTS = (
    *("sendmsg", "recvmsg", "send", "recv", "poll", "shutdown", "process_vm_readv"),
    "__errno_location",
)
"""The functions that are imported from the C library."""


class Slice(Struct, name="iovec"):
    """A piece of memory."""

    base: Pointer
    length: i64


class Parcel(Struct, name="msghdr"):
    """The pieces of memory that one call sends or receives."""

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


@external("send")
def send(descriptor: i32, data: Pointer, size: i64, flags: i32) -> i64:
    """Send; return the bytes that went, or -1."""
    ...


@external("recv")
def recv(descriptor: i32, data: Pointer, size: i64, flags: i32) -> i64:
    """Receive; return the bytes that came, 0 at the end, or -1."""
    ...


@external("process_vm_readv")
def process_vm_readv(
    process: i32,
    here: Structs[Slice],
    num_here: i64,
    there: Structs[Slice],
    num_there: i64,
    flags: i64,
) -> i64:
    """Copy from another process's memory; return the bytes, or -1."""
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
    """Return the address at which the C library stores the reason of a failure."""
    ...


@inlined
def is_temporary(reason: i32) -> bool:
    """Whether a call failed only because no bytes can be moved now."""
    if reason == _AGAIN:
        return True
    return reason == _INTERRUPTED


@inlined
def is_read_there(message: Message) -> bool:
    """Whether the receiver reads the data in the sender's memory."""
    return message.header[SENDER] != 0


@inlined
def status_of(result: i64) -> i64:
    """Return the bytes that a call moved, 0 if it must be repeated later, or minus a status."""
    if result > 0:
        return result
    if unlikely(result == 0):
        return -GONE
    return i64(0) if is_temporary(errno_location()[0]) else -GONE


@native
def transfer(message: Message, pieces: Structs[Slice], count: i64) -> i64:
    """Send or receive some pieces of memory; return a status or bytes."""
    parcel = Parcel.on_stack()
    parcel.name = None
    parcel.name_bytes = 0
    parcel.slices = pieces
    parcel.num_slices = count
    parcel.control = None
    parcel.control_bytes = 0
    parcel.flags = 0
    if message.is_sent != 0:
        return status_of(sendmsg(i32(message.link.outgoing), parcel, _DONT_WAIT | _NO_SIGNAL))
    return status_of(recvmsg(i32(message.link.incoming), parcel, _DONT_WAIT))


@native
def move_in_ring(message: Message) -> i64:
    """Move the header, and small data with it, through shared memory."""
    if message.is_sent == 0:
        got = message.link.got
        assert got is not None
        return read_message(got, message)
    sent = message.link.sent
    assert sent is not None
    result = write_message(sent, message)
    if result > 0 and sent.sleeps.load("seq_cst") != 0:
        sent.sleeps.store(0)
        send(i32(message.link.outgoing), message.header, 1, _DONT_WAIT | _NO_SIGNAL)
    return result


@inlined
def has_ring(message: Message) -> bool:
    """Whether the header goes through shared memory."""
    if message.is_sent != 0:
        return message.link.sent is not None
    return message.link.got is not None


@native
def move_header(message: Message) -> i64:
    """Move the header, and small data with it."""
    if has_ring(message):
        return move_in_ring(message)
    before = message.moved
    pieces = Structs[Slice].at(Array[i64].on_stack(2 * sizeof(Slice) // 8))
    pieces[0].base = message.header + before
    pieces[0].length = HEADER_BYTES - before
    pieces[1].base = message.data
    pieces[1].length = message.bytes
    # The header must be read before it is known whether large data follows.
    result = transfer(message, pieces, i64(2) if message.bytes < SMALLEST_READ else 1)
    if result <= 0:
        return result
    message.moved = before + result
    if message.is_sent == 0 and message.moved >= HEADER_BYTES:
        status = status_of_header(message.header, message.expected)
        return result if status == DONE else -status
    return result


@native
def move_data(message: Message) -> i64:
    """Move data that follows its header."""
    pieces = Structs[Slice].at(Array[i64].on_stack(sizeof(Slice) // 8))
    pieces[0].base = message.data + (message.moved - HEADER_BYTES)
    pieces[0].length = message.bytes + HEADER_BYTES - message.moved
    result = transfer(message, pieces, 1)
    if result > 0:
        message.moved += result
    return result


@native
def read_there(message: Message) -> i64:
    """Read some of the data in the sender's memory; tell it when all is read."""
    here = Structs[Slice].at(Array[i64].on_stack(sizeof(Slice) // 8))
    there = Structs[Slice].at(Array[i64].on_stack(sizeof(Slice) // 8))
    done = message.moved - HEADER_BYTES
    left = message.bytes - done
    here[0].base = message.data + done
    here[0].length = left if left < _READ_BYTES else _READ_BYTES
    there[0].base = Array[Pointer].at(message.header + 8 * ADDRESS)[0] + done
    there[0].length = here[0].length
    result = process_vm_readv(i32(message.header[SENDER]), here, 1, there, 1, 0)
    if unlikely(result <= 0):
        return -GONE
    message.moved += result
    if result == left:
        # Nothing else goes in this direction, so there is room for the byte.
        sent = send(i32(message.link.incoming), message.header, 1, _DONT_WAIT | _NO_SIGNAL)
        return result if sent == 1 else -GONE
    return result


@native
def wait_for_reader(message: Message) -> i64:
    """Test whether the receiver has read the data."""
    words = Array[i64].on_stack(_BACK_WORDS)
    size = _BACK_WORDS * 8
    outgoing = i32(message.link.outgoing)
    result = status_of(recv(outgoing, words, size, _DONT_WAIT | _PEEK))
    if unlikely(result >= _FAREWELL_BYTES):
        return -GONE
    if result > 0:
        recv(outgoing, words, 1, _DONT_WAIT)
        message.moved += message.bytes
    return result


@native
def say(link: Link, status: i64) -> None:
    """Tell the other process with which status this one gives up."""
    word = Array[i64].on_stack(1)
    word[0] = status << 8
    send(i32(link.incoming), word, _FAREWELL_BYTES, _DONT_WAIT | _NO_SIGNAL)


@native
def hear(link: Link) -> i64:
    """Wait a moment for the status that the other process gives up with; return it, or 0.

    It stays where it is, for later calls. A process that is dead has closed its end, and sent none.
    """
    outgoing = i32(link.outgoing)
    words = Array[i64].on_stack(_BACK_WORDS)
    size = _BACK_WORDS * 8
    ready = Structs[Ready].at(Array[i64].on_stack(1))
    ready[0].descriptor = outgoing
    ready[0].events = _POLL_IN
    for _ in range(_FAREWELL_SLICES):
        found = recv(outgoing, words, size, _DONT_WAIT | _PEEK)
        if found >= _FAREWELL_BYTES:
            # Before it may be the byte of a message that was read.
            memcpy(words, words + (found & (_FAREWELL_BYTES - 1)), _FAREWELL_BYTES)
            return words[0] >> 8
        if found > 0:
            recv(outgoing, words, found, _DONT_WAIT)
        elif found == 0 or not is_temporary(errno_location()[0]):
            return 0
        else:
            poll(ready, 1, SLICE_NANOSECONDS // 1_000_000)
    return 0


@native
def move(meeting: Rendezvous, message: Message) -> i64:
    """Send or receive as much as possible without waiting; return the bytes, or minus a status."""
    if message.moved < HEADER_BYTES:
        return move_header(message)
    if message.bytes < SMALLEST_READ or not is_read_there(message):
        return move_data(message)
    return wait_for_reader(message) if message.is_sent != 0 else read_there(message)


@inlined
def set_events(ready: Ready, message: Message) -> None:
    """Set the events to wait for before a message can move."""
    if message.is_sent == 0:
        ready.descriptor = i32(message.link.incoming)
        ready.events = _POLL_IN
    else:
        ready.descriptor = i32(message.link.outgoing)
        is_through = message.moved >= HEADER_BYTES and is_read_there(message)
        ready.events = i32(_POLL_IN) if is_through else _POLL_OUT


@inlined
def waits_at_ring(message: Message) -> bool:
    """Whether a message waits for data that is in a ring."""
    return message.moved < HEADER_BYTES and has_ring(message)


@native
def announce(message: Message) -> bool:
    """Tell a ring's writer that its reader sleeps; return False if there is something to read."""
    got = message.link.got
    assert got is not None
    got.sleeps.store(1, "seq_cst")
    return not has_message(got)


@native
def look_at_socket(message: Message) -> None:
    """Take the bytes that woke a ring's reader, and note if the other process is gone."""
    got = message.link.got
    assert got is not None
    got.sleeps.store(0)
    word = Array[i64].on_stack(1)
    result = status_of(recv(i32(message.link.incoming), word, 8, _DONT_WAIT))
    if unlikely(result < 0):
        message.pending = GONE


@native
def sleep(messages: Structs[Message], count: i64) -> None:
    """Sleep until a message can move, or for a slice of time."""
    ready = Structs[Ready].at(Array[i64].on_stack(count))
    waiting: i64 = 0
    limit: i32 = SLICE_NANOSECONDS // 1_000_000
    for index in range(count):
        message = messages[index]
        if is_open(message):
            set_events(ready[waiting], message)
            if waits_at_ring(message):
                if message.is_sent != 0:
                    # Nobody tells when there is room again, which there almost always is.
                    ready[waiting].events = 0
                    limit = i32(1) if limit > 1 else limit
                elif not announce(message):
                    limit = 0
            waiting += 1
    poll(ready, waiting, limit)
    for index in range(count):
        message = messages[index]
        if is_open(message) and message.is_sent == 0 and waits_at_ring(message):
            look_at_socket(message)


@native
def cut_link(meeting: Rendezvous, link: Link) -> None:
    """Tell the other side that this one gives up, and why, before it can find it closed."""
    say(link, farewell_of(meeting))
    close_ring(link.sent)
    close_ring(link.got)
    shutdown(i32(link.outgoing), _SHUT_BOTH)
    shutdown(i32(link.incoming), _SHUT_BOTH)


@native
def close_ring(ring: Ring | None) -> None:
    """Make both sides of a ring give up."""
    if ring is not None:
        ring.is_closed.store(1)


swap = swapping("ingot_swap_by_sockets", Ways(move, sleep, say, hear))


cut = cutting("ingot_cut_sockets", cut_link)
