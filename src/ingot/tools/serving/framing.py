# SPDX-License-Identifier: Apache-2.0
r"""Messages of `ingot serve` as bytes on a pipe: a JSON header, followed by raw bytes.

A message has two encodings. *Packets*: four bytes (big endian) with the size of the rest, which is
the header as one line of JSON, a line feed, and the payload; this is `{packet, 4}` of Erlang's
ports. *Lines*: the header alone on a line, with the payload in it as base64, for shell scripts.

A decoder cuts the bytes of a pipe into frames, one message each, without parsing them; only the
process that answers a frame parses it, not one that forwards it.

Invariants: a message that cannot be parsed is consumed as a whole, so that the next one can be, and
gives INGOT0522; a message over the limit is never in memory.

Example:
    >>> data = packet(Message({"op": "free"}, b"xy"))
    >>> data
    b'\x00\x00\x00\x11{"op": "free"}\nxy'
    >>> (frame,) = Packets().feed(data)
    >>> read_packet(frame)
    Message(header={'op': 'free'}, payload=b'xy')
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

from ingot.support.diagnostics import ExecutionError, ResourceError
from ingot.support.records import record

BAD_REQUEST = "INGOT0522"
MAX_BYTES = (1 << 32) - 1
_MAX_DEPTH = 32
_PAYLOAD = "payload"
_HEAD = struct.Struct(">I")
_COPIED = 1 << 20
"""Bytes of the largest payload that is copied out of its frame."""
Bytes = bytes | bytearray


@record
class Message:
    """A request or an answer: the header, and the bytes of arrays or programs."""

    header: dict[str, Any]
    payload: bytes | memoryview = b""


def bad_request(message: str, hint: str = "") -> ExecutionError:
    """Return the error for a message that does not follow docs/serve.md."""
    return ExecutionError(
        message, code=BAD_REQUEST, hint=hint or "docs/serve.md describes the messages"
    )


class Decoder(Protocol):
    """Makes frames of the bytes of a pipe, which come in any parts."""

    @abstractmethod
    def feed(self, data: bytes) -> Iterator[bytes | ExecutionError]:
        """Yield the frames that end in the data, and the errors of those over the limit."""

    @abstractmethod
    def end(self) -> Iterator[bytes | ExecutionError]:
        """Yield the frames that the end of the input completes.

        Raises:
            ResourceError: INGOT0411, it ends within a message.
        """


class Packets:
    """Messages with their size in front."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        """Refuse messages of more than `limit` bytes."""
        self._limit = limit
        self._data = bytearray()
        self._size: int | None = None
        self._skip = 0

    def feed(self, data: bytes) -> Iterator[bytes | ExecutionError]:
        """Yield the frames that end in the data."""
        skipped = data[: self._skip]
        self._skip -= len(skipped)
        self._data += data[len(skipped) :]
        while True:
            size = self._size
            if size is None:
                if len(self._data) < _HEAD.size:
                    return
                (size,) = _HEAD.unpack_from(self._data)
                del self._data[: _HEAD.size]
            if size > self._limit:
                yield self._too_large(size)
                continue
            self._size = size
            if len(self._data) < size:
                return
            self._size = None
            yield self._frame(size)

    def _too_large(self, size: int) -> ExecutionError:
        self._size = None
        self._skip = size - len(self._data[:size])
        del self._data[:size]
        return too_large(size, self._limit)

    def _frame(self, size: int) -> bytes:
        with memoryview(self._data) as view:
            frame = bytes(view[:size])
        del self._data[:size]
        return frame

    def end(self) -> Iterator[bytes | ExecutionError]:
        """Refuse a message that is cut off."""
        if self._data or self._skip or self._size is not None:
            wanted = "" if self._size is None else f" of {self._size}"
            raise ResourceError(
                f"the input ends {len(self._data)} bytes into a message{wanted}",
                code="INGOT0411",
                hint="the four bytes before a message are its size, big endian",
            )
        return iter(())


class Lines:
    """Messages that are lines of JSON."""

    def __init__(self, limit: int = MAX_BYTES) -> None:
        """Refuse lines of more than `limit` bytes."""
        self._limit = limit
        self._data = bytearray()
        self._searched = 0
        self._skipping = False

    def feed(self, data: bytes) -> Iterator[bytes | ExecutionError]:
        """Yield the frames that end in the data; blank lines are nothing."""
        self._data += data
        while True:
            end = self._data.find(b"\n", self._searched)
            line = bytes(self._data[: end if end >= 0 else 0])
            if end < 0 and len(self._data) <= self._limit:
                self._searched = len(self._data)
                return
            if end < 0:
                size = len(self._data)
                self._data.clear()
                self._searched = 0
                if not self._skipping:
                    yield too_large(size, self._limit)
                self._skipping = True
                return
            del self._data[: end + 1]
            self._searched = 0
            if self._skipping:
                self._skipping = False
            elif len(line) > self._limit:
                yield too_large(len(line), self._limit)
            elif line and not line.isspace():
                yield line

    def end(self) -> Iterator[bytes | ExecutionError]:
        """Yield the last line, which may lack its end."""
        return self.feed(b"\n")


def packet(message: Message) -> bytes:
    """Return a message with its size in front.

    Raises:
        ResourceError: INGOT0401, its size does not fit four bytes.
    """
    return b"".join(packet_parts(message))


def packet_parts(message: Message) -> tuple[bytes | memoryview, ...]:
    """Return the bytes of a message, in parts.

    Raises:
        ResourceError: INGOT0401, its size does not fit four bytes.
    """
    header = write_header(message.header)
    return _head(len(header) + len(message.payload)), header, message.payload


def _head(size: int) -> bytes:
    if size > MAX_BYTES:
        raise ResourceError(
            f"an answer of {size} bytes is more than a message can hold ({MAX_BYTES})",
            code="INGOT0401",
            hint='run with "keep": true and get the values one by one',
        )
    return _HEAD.pack(size)


def packet_header(frame: Bytes) -> Bytes:
    """Return the bytes of a frame that hold its header."""
    return frame[: _header_end(frame)]


def read_packet(frame: Bytes) -> Message:
    """Return the message of a frame.

    Raises:
        ExecutionError: INGOT0522, its header is none.
    """
    end = _header_end(frame)
    payload = memoryview(frame)[end + 1 :].toreadonly()
    # A copy is aligned, as programs take arrays without converting them.
    small = len(payload) <= _COPIED
    return Message(read_header(bytes(frame[:end])), bytes(payload) if small else payload)


def _header_end(frame: Bytes) -> int:
    """Return the index of the line feed after the header; without payload it may be missing."""
    end = frame.find(b"\n")
    return len(frame) if end < 0 else end


def line(message: Message) -> bytes:
    """Return a message as a line."""
    payload = base64.b64encode(message.payload).decode()
    return write_header({**message.header, _PAYLOAD: payload} if payload else message.header)


def _line_parts(message: Message) -> tuple[bytes | memoryview, ...]:
    return (line(message),)


def _whole_line(frame: Bytes) -> Bytes:
    return frame


def read_line(frame: Bytes) -> Message:
    """Return the message of a line.

    Raises:
        ExecutionError: INGOT0522, its header is none, or its payload is not base64.
    """
    header = read_header(bytes(frame))
    try:
        return Message(header, base64.b64decode(header.pop(_PAYLOAD, ""), validate=True))
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request(f'the "{_PAYLOAD}" is not base64: {error}') from None


@record
class Encoding:
    """One of the two encodings of messages.

    Attributes:
        decoder: makes the decoder of a pipe, given the most bytes of a message.
        header: returns the bytes of a frame that hold its header.
        read: returns the message of a frame, or raises INGOT0522.
        parts: returns the bytes of a message, in parts, or raises INGOT0401.
    """

    decoder: Callable[[int], Decoder]
    header: Callable[[Bytes], Bytes]
    read: Callable[[Bytes], Message]
    parts: Callable[[Message], tuple[bytes | memoryview, ...]]


ENCODINGS = {
    "packets": Encoding(Packets, packet_header, read_packet, packet_parts),
    "lines": Encoding(Lines, _whole_line, read_line, _line_parts),
}


def read_header(data: bytes) -> dict[str, Any]:
    """Return the object of a line of JSON.

    Raises:
        ExecutionError: INGOT0522, the line is not an object, or one that is nested too deep.
    """
    try:
        header: Any = _JSON.decode(data.decode(json.detect_encoding(data), "surrogatepass"))
    except ValueError as error:
        raise bad_request(f"the header is not JSON: {error}") from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(header, dict):
        kind = type(header).__name__
        raise bad_request(f"the header is not a JSON object, but a {kind}")
    if data.count(b"[") + data.count(b"{") > _MAX_DEPTH and not _is_flat(header):
        raise _too_deep()
    return cast(dict[str, Any], header)


def write_header(header: dict[str, Any]) -> bytes:
    """Return an object as a line of JSON."""
    return json.dumps(header).encode() + b"\n"


def _no_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


_JSON = json.JSONDecoder(parse_constant=_no_constant)


def _is_flat(header: Any) -> bool:
    """Whether nothing in it is nested deeper than `_MAX_DEPTH`."""
    level: list[Any] = [header]
    for _ in range(_MAX_DEPTH):
        values = [item for one in level for item in _items(one)]
        level = [item for item in values if isinstance(item, dict | list)]
        if not level:
            return True
    return False


def _items(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else value  # pyright: ignore


def _too_deep() -> ExecutionError:
    return bad_request(f"the header is nested deeper than {_MAX_DEPTH}")


def too_large(size: int, limit: int) -> ExecutionError:
    """Return the error for a message over the limit."""
    return bad_request(
        f"a message of {size} bytes or more is over the limit of {limit}",
        "send arrays one by one; --max-message-mib sets the limit",
    )
