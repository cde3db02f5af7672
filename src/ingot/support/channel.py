# SPDX-License-Identifier: Apache-2.0
"""Messages between two processes: over a socket, and large ones through shared memory.

`worker` uses it. A socket takes a large message in parts, with a change of process for each; shared
memory takes any size in one copy, and only the size goes over the socket. Each direction has a file
of its own, and requests and answers alternate, so no unread data is overwritten, and data read from
the socket belongs to one message.

Invariant: whatever the other side does to the files or the socket raises `ChannelError` here, never
another exception, since the other side may be damaged.
"""

from __future__ import annotations

import os
import select
import socket
import struct

_SIZE = struct.Struct("=Q")
_ON_SOCKET = 1 << 14
"""The most bytes of a message that goes over the socket as a whole: one system call."""
_KEPT_BYTES = 1 << 24
"""Bytes beyond which a file releases its memory when its message has been read."""
_PART = 1 << 30
"""Bytes of one system call, which takes at most 2 GiB."""

Data = bytes | bytearray
Bytes = Data | memoryview


class ChannelError(Exception):
    """The other side is gone, or sent something that is not a message."""


class Channel:
    """One end: a socket, a file to write messages to and a file to read them from."""

    def __init__(self, connection: socket.socket, outgoing: int, incoming: int) -> None:
        """Take over the socket and the two file descriptors."""
        self.connection = connection
        self.outgoing, self.incoming = outgoing, incoming

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a message arrives, for `select`."""
        return self.connection.fileno()

    def send(self, *parts: Bytes) -> None:
        """Send the parts as one message.

        Raises:
            ChannelError: the other side is gone.
            OSError: there is no memory for the message.
        """
        size = sum(map(len, parts))
        if size <= _ON_SOCKET:
            message = b"".join((_SIZE.pack(size), *parts))
        else:
            at = 0
            for part in parts:
                at = _write(self.outgoing, memoryview(part), at)
            message = _SIZE.pack(at)
        try:
            self.connection.sendall(message)
        except OSError as error:
            raise ChannelError(f"the other side is gone: {error.strerror}") from None

    def is_ready(self, seconds: float | None) -> bool:
        """Wait for a message, or the end, for at most `seconds` (None: no limit).

        Returns whether there is one.
        """
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        return bool(poll.poll(None if seconds is None else max(0, int(seconds * 1000))))

    def receive(self) -> Data | None:
        """Return the next message; None if the other side ended before one.

        Raises:
            ChannelError: it ended within one, or sent a size that it did not write.
        """
        data = self._received(_SIZE.size + _ON_SOCKET)
        if not data:
            return None
        while len(data) < _SIZE.size or len(data) - _SIZE.size < _on_socket(data):
            more = self._received(_SIZE.size + _ON_SOCKET)
            if not more:
                raise ChannelError("the other side ended inside of a message")
            data += more
        (size,) = _SIZE.unpack_from(data)
        if len(data) - _SIZE.size > _on_socket(data):
            raise ChannelError("the other side sent more than one message")
        return data[_SIZE.size :] if size <= _ON_SOCKET else self._from_file(size)

    def _received(self, most: int) -> bytes:
        """Return the next bytes on the socket, at most `most`; b"" at its end."""
        try:
            return self.connection.recv(most)
        except OSError:
            return b""

    def _from_file(self, size: int) -> bytearray:
        """Return the message that the other side wrote to shared memory."""
        if size > os.fstat(self.incoming).st_size:
            raise ChannelError(f"the other side announced {size} bytes and wrote fewer")
        data = bytearray(size)
        if _read(self.incoming, memoryview(data)) < size:
            raise ChannelError("the other side took back what it wrote")
        if size > _KEPT_BYTES:
            os.ftruncate(self.incoming, 0)
        return data

    def close(self) -> None:
        """Close everything; the other side sees an end."""
        self.connection.close()
        os.close(self.outgoing)
        os.close(self.incoming)


def channel_pair() -> tuple[Channel, Channel]:
    """Return the two ends of a new channel."""
    here, there = socket.socketpair()
    forward = os.memfd_create("ingot-requests", os.MFD_CLOEXEC)
    backward = os.memfd_create("ingot-answers", os.MFD_CLOEXEC)
    ends = Channel(here, forward, backward)
    return ends, Channel(there, os.dup(backward), os.dup(forward))


def _on_socket(message: bytes) -> int:
    """Return the bytes of a message that go over the socket, by the size at its front."""
    (size,) = _SIZE.unpack_from(message)
    return size if size <= _ON_SOCKET else 0


def _write(file: int, data: memoryview, at: int) -> int:
    """Write all of the data at an offset; return its end."""
    data = data.cast("B")
    for start in range(0, len(data), _PART):
        part = data[start : start + _PART]
        while part:
            count = os.pwrite(file, part, at)
            at, part = at + count, part[count:]
    return at


def _read(file: int, data: memoryview) -> int:
    """Read from the start of the file until the data is full or the file ends; return the bytes."""
    at = 0
    while at < len(data):
        count = os.preadv(file, [data[at : at + _PART]], at)
        if not count:
            break
        at += count
    return at
