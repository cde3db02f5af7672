# SPDX-License-Identifier: Apache-2.0
"""Rings: memory that two processes of one machine share, for one direction of a link.

Headers, and small data with them, go through a ring: a message of a kilobyte takes a third of the
time of a socket. A ring has one writer and one reader. A reader that goes to sleep does so at its
socket, says so in the ring, and is woken by a byte through the socket; the end of the other process
is noticed there too. Rings are made where the receiver can read the sender's memory, so that no
other data goes through the socket.

Invariant: `written` and `read` only grow; between them are whole messages.

Source: Lamport, "Specifying concurrent program modules", 1983 (one writer, one reader);
memfd_create(2), unix(7) (SCM_RIGHTS).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket

from ingot.native.functions import native
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Pointer, sizeof
from ingot.native.types import i64
from ingot.runtime.foreign.collectives import records
from ingot.runtime.foreign.collectives.progress import status_of_header
from ingot.runtime.foreign.collectives.records import (
    DONE,
    GONE,
    HEADER_BYTES,
    RING_BYTES,
    SMALLEST_READ,
    Message,
    Ring,
)

RING = records.Ring.c_layout
_NONE, _OFFERED = b"\0", b"\1"


@native
def room_at(ring: Ring, position: i64) -> Pointer:
    """Return the address of a position."""
    return ring + (sizeof(Ring) + (position & (RING_BYTES - 1)))


@native
def put(ring: Ring, position: i64, source: Pointer, size: i64) -> None:
    """Copy `size` bytes to a position; what does not fit before the end goes to the beginning."""
    left = RING_BYTES - (position & (RING_BYTES - 1))
    first = size if size < left else left
    memcpy(room_at(ring, position), source, first)
    if size > first:
        memcpy(room_at(ring, 0), source + first, size - first)


@native
def get(ring: Ring, position: i64, target: Pointer, size: i64) -> None:
    """Copy `size` bytes from a position."""
    left = RING_BYTES - (position & (RING_BYTES - 1))
    first = size if size < left else left
    memcpy(target, room_at(ring, position), first)
    if size > first:
        memcpy(target + first, room_at(ring, 0), size - first)


@native
def bytes_in_ring(message: Message) -> i64:
    """Return the bytes of a message that go through a ring."""
    if message.bytes < SMALLEST_READ:
        return HEADER_BYTES + message.bytes
    return HEADER_BYTES


@native
def has_message(ring: Ring) -> bool:
    """Whether there is something to read."""
    return ring.written.load("seq_cst") != ring.read.load("monotonic")


@native
def write_message(ring: Ring, message: Message) -> i64:
    """Write a message if it fits; return the bytes, or minus a status."""
    if unlikely(ring.is_closed.load() != 0):
        return -GONE
    size = bytes_in_ring(message)
    written = ring.written.load("monotonic")
    if unlikely(written + size - ring.read.load() > RING_BYTES):
        return 0
    put(ring, written, message.header, HEADER_BYTES)
    put(ring, written + HEADER_BYTES, message.data, size - HEADER_BYTES)
    ring.written.store(written + size, "seq_cst")
    message.moved = size
    return size


@native
def read_message(ring: Ring, message: Message) -> i64:
    """Read a message if there is one; return the bytes, or minus a status."""
    if not has_message(ring):
        # The end of the other process counts only when all that it wrote is read.
        if unlikely(ring.is_closed.load() != 0):
            return -GONE
        return i64(0) if message.pending == 0 else -GONE
    position = ring.read.load("monotonic")
    get(ring, position, message.header, HEADER_BYTES)
    status = status_of_header(message.header, message.expected)
    if unlikely(status != DONE):
        return -status
    size = bytes_in_ring(message)
    get(ring, position + HEADER_BYTES, message.data, size - HEADER_BYTES)
    ring.read.store(position + size)
    message.moved = size
    return size


class SharedRing:
    """A ring as this process has it mapped; it lives as long as this object.

    Attributes:
        address: the address of the `IngotRing`.
    """

    def __init__(self, descriptor: int) -> None:
        """Map the ring of a file descriptor, which stays open."""
        self._memory = mmap.mmap(descriptor, RING.size + RING_BYTES)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def close(self) -> None:
        """Make both sides give up."""
        RING.write(self.address, "is_closed", 1)


def offer_ring(link: socket.socket, *, is_wanted: bool) -> SharedRing | None:
    """Make a ring and let the other side of a Unix socket have it, if one is wanted.

    Raises:
        OSError: the connection failed.
    """
    try:
        descriptor = os.memfd_create("ingot-ring") if is_wanted else -1
    except OSError:
        descriptor = -1
    if descriptor < 0:
        link.sendall(_NONE)
        return None
    try:
        os.ftruncate(descriptor, RING.size + RING_BYTES)
        ring = SharedRing(descriptor)
        socket.send_fds(link, [_OFFERED], [descriptor])
    finally:
        os.close(descriptor)
    return ring


def take_ring(link: socket.socket) -> SharedRing | None:
    """Return the ring that the other side offers, if it does.

    Raises:
        OSError: the connection failed.
    """
    data, descriptors, _, _ = socket.recv_fds(link, 1, 1)
    if not data:
        raise ConnectionResetError("the other side closed the connection")
    if not descriptors:
        return None
    try:
        return SharedRing(descriptors[0])
    finally:
        for one in descriptors:
            os.close(one)
