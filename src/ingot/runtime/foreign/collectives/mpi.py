# SPDX-License-Identifier: Apache-2.0
"""Messages through MPI, as native functions.

A message is its header, then its data in pieces of at most a gigabyte, one after the other; MPI
keeps the order of messages with the same two ranks and tag. Invariant: when a call is over, MPI no
longer writes into our memory.

Source: MPI 4.1, sections 3.7 (nonblocking communication) and 3.8 (cancellation).
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.functions import exported, external, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Atomic, Pointer, Struct, Structs
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
    DONE,
    HEADER_BYTES,
    NETWORK,
    Link,
    Message,
    Rendezvous,
)

RANK_BITS = 31
"""Bits of the other process's rank in a link's `outgoing` and `incoming`; above them is a tag."""
_RANK_MASK = (1 << RANK_BITS) - 1
_PIECE_BYTES = 1 << 30
_SLEEP_MICROSECONDS = 100
_SLEEPS = 200
"""Sleeps that make up a slice of waiting."""

IMPORTS = ("usleep",)
"""The functions that are imported from the C library."""


class Mpi(
    Struct,
    name="IngotMpi",
    notes={
        "send": "MPI_Isend",
        "receive": "MPI_Irecv",
        "test": "MPI_Test",
        "cancel": "MPI_Cancel",
        "wait": "MPI_Wait",
        "forget": "MPI_Request_free",
        "byte": "MPI_BYTE",
        "communicator": "MPI_COMM_WORLD",
        "no_status": "MPI_STATUS_IGNORE",
        "farewell": "the header that a process sends when it gives up",
    },
):
    """The library, as this process found it: handles are numbers or addresses."""

    send: Callable[[Pointer, i32, i64, i32, i32, i64, Atomic[i64]], i32]
    receive: Callable[[Pointer, i32, i64, i32, i32, i64, Atomic[i64]], i32]
    test: Callable[[Atomic[i64], Array[i32], Pointer | None], i32]
    cancel: Callable[[Atomic[i64]], i32]
    wait: Callable[[Atomic[i64], Pointer | None], i32]
    forget: Callable[[Atomic[i64]], i32]
    byte: i64
    communicator: i64
    no_status: Pointer | None
    farewell: Array[i64]


@external("usleep")
def usleep(microseconds: i32) -> i32:
    """Sleep."""
    ...


@inlined
def rank_of(name: i64) -> i32:
    """Return the rank of the process at the other end of a link."""
    return i32(name & _RANK_MASK)


@inlined
def tag_of(name: i64) -> i32:
    """Return the tag of one direction of a link."""
    return i32(name >> RANK_BITS)


@inlined
def library_of(meeting: Rendezvous) -> Mpi:
    """Return the library of an execution whose transport is MPI."""
    transport = meeting.transport
    assert transport is not None
    state = transport.state
    assert state is not None
    return Mpi.at(state)


@native
def start(mpi: Mpi, message: Message) -> i32:
    """Begin to move the next piece of a message."""
    data: Pointer = message.header + message.moved
    size = HEADER_BYTES - message.moved
    if size <= 0:
        data = message.data + (message.moved - HEADER_BYTES)
        size = message.bytes + HEADER_BYTES - message.moved
        if size > _PIECE_BYTES:
            size = _PIECE_BYTES
    message.pending = size
    request = message.request
    world = mpi.communicator
    if message.is_sent != 0:
        name = message.link.outgoing
        return mpi.send(data, i32(size), mpi.byte, rank_of(name), tag_of(name), world, request)
    name = message.link.incoming
    return mpi.receive(data, i32(size), mpi.byte, rank_of(name), tag_of(name), world, request)


@native
def move(meeting: Rendezvous, message: Message) -> i64:
    """Send or receive as much as possible without waiting; return the bytes, or minus a status."""
    mpi = library_of(meeting)
    if message.pending == 0 and start(mpi, message) != 0:
        message.pending = 0
        return -NETWORK
    found = Array[i32].on_stack(2)
    if unlikely(mpi.test(message.request, found, mpi.no_status) != 0):
        return -NETWORK
    if found[0] == 0:
        return 0
    before = message.moved
    size = message.pending
    message.moved = before + size
    message.pending = 0
    if message.is_sent == 0 and before == 0:
        status = status_of_header(message.header, message.expected)
        return size if status == DONE else -status
    return size


@native
def sleep(messages: Structs[Message], count: i64) -> None:
    """Sleep a little: MPI cannot wait for one of several messages and a deadline."""
    usleep(_SLEEP_MICROSECONDS)


@native
def abandon(meeting: Rendezvous, messages: Structs[Message], count: i64) -> None:
    """Cancel the pending requests of a call that failed."""
    mpi = library_of(meeting)
    for index in range(count):
        message = messages[index]
        if message.pending != 0 and is_open(message):
            if message.is_sent != 0:
                mpi.forget(message.request)
            else:
                mpi.cancel(message.request)
                mpi.wait(message.request, mpi.no_status)


@native
def say(link: Link, status: i64) -> None:
    """Do nothing: a process that gives up says so by the next header that it sends."""


@native
def hear(link: Link) -> i64:
    """Return 0: what a process says comes in its next header."""
    return 0


swap_all = swapping("ingot_swap_all_by_mpi", Ways(move, sleep, say, hear), _SLEEPS)


@exported("ingot_swap_by_mpi")
def swap(
    meeting: Rendezvous, messages: Structs[Message], first: i64, count: i64, spins: i64
) -> i32:
    """Move messages until those from number `first` on are complete; return a status."""
    status = swap_all(meeting, messages, first, count, spins)
    if unlikely(status != DONE):
        abandon(meeting, messages, count)
    return status


@native
def cut_link(meeting: Rendezvous, link: Link) -> None:
    """Tell the other side that this one gives up, by the next header that it gets."""
    mpi = library_of(meeting)
    mpi.farewell[0] = farewell_of(meeting)
    message = Message.on_stack()
    request = message.request
    rank = rank_of(link.outgoing)
    tag = tag_of(link.outgoing)
    if mpi.send(mpi.farewell, HEADER_BYTES, mpi.byte, rank, tag, mpi.communicator, request) == 0:
        mpi.forget(request)


cut = cutting("ingot_cut_by_mpi", cut_link)
