r"""Messages of `ingot serve` as bytes on a pipe: a JSON header with raw bytes behind it.

Two forms of the same message. *Packets*: four bytes (big endian) with the size of what follows,
which is the header as one line of JSON, a line feed, and the payload; this is `{packet, 4}` of
Erlang's ports. *Lines*: the header alone on a line, the payload in it as base64, for shell scripts.
Invariant: a message that cannot be read is taken off the pipe whole, so that the next one can be.

Example:
    >>> stream = io.BytesIO()
    >>> write_packet(stream, Message({"op": "free"}, b"xy"))
    >>> stream.getvalue()
    b'\x00\x00\x00\x11{"op": "free"}\nxy'
    >>> read_packet(io.BytesIO(stream.getvalue()))
    Message(header={'op': 'free'}, payload=b'xy')
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from ingot.support.diagnostics import ExecutionError, ResourceError

BAD_REQUEST = "INGOT0522"
_MAX_BYTES = (1 << 32) - 1
_PAYLOAD = "payload"


@dataclass(frozen=True, slots=True)
class Message:
    """A request or an answer: what is said, and the bytes of arrays or programs."""

    header: dict[str, Any]
    payload: bytes = b""


def bad_request(message: str, hint: str = "") -> ExecutionError:
    """Return the error for a message that is not as docs/serve.md says."""
    return ExecutionError(
        message, code=BAD_REQUEST, hint=hint or "docs/serve.md says what a message is"
    )


def read_packet(stream: io.BufferedIOBase) -> Message | None:
    """Return the next message; None at the end.

    Raises:
        ExecutionError: INGOT0522, its header is not a line of JSON.
        ResourceError: INGOT0411, the input ends inside of a message.
    """
    head = _exactly(stream, 4)
    if not head:
        return None
    (size,) = struct.unpack(">I", head)
    data = _exactly(stream, size)
    if len(data) < size:
        raise _cut_off(size, len(data))
    line, _, payload = data.partition(b"\n")
    return Message(_header(line), payload)


def write_packet(stream: io.BufferedIOBase, message: Message) -> None:
    """Write a message.

    Raises:
        ResourceError: INGOT0401, it has more bytes than four bytes can say.
    """
    line = json.dumps(message.header).encode() + b"\n"
    size = len(line) + len(message.payload)
    if size > _MAX_BYTES:
        raise ResourceError(
            f"an answer of {size} bytes is more than a message can hold ({_MAX_BYTES})",
            code="INGOT0401",
            hint='run with "keep": true and get the values one by one',
        )
    stream.write(struct.pack(">I", size) + line)
    stream.write(message.payload)
    stream.flush()


def read_line(stream: io.BufferedIOBase) -> Message | None:
    """Return the message of the next line that is not blank; None at the end.

    Raises:
        ExecutionError: INGOT0522, it is no JSON, or its payload no base64.
    """
    line = stream.readline()
    while line.isspace():
        line = stream.readline()
    if not line:
        return None
    header = _header(line)
    try:
        return Message(header, base64.b64decode(header.pop(_PAYLOAD, ""), validate=True))
    except (binascii.Error, TypeError, ValueError) as error:
        raise bad_request(f'the "{_PAYLOAD}" is not base64: {error}') from None


def write_line(stream: io.BufferedIOBase, message: Message) -> None:
    """Write a message as a line."""
    payload = base64.b64encode(message.payload).decode()
    header = {**message.header, _PAYLOAD: payload} if payload else message.header
    stream.write(json.dumps(header).encode() + b"\n")
    stream.flush()


Reader = Callable[[io.BufferedIOBase], Message | None]
Writer = Callable[[io.BufferedIOBase, Message], None]
FORMS: dict[str, tuple[Reader, Writer]] = {
    "packets": (read_packet, write_packet),
    "lines": (read_line, write_line),
}


def _exactly(stream: io.BufferedIOBase, size: int) -> bytes:
    """Return `size` bytes, fewer only where the input ends."""
    return stream.read(size)


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = json.loads(line)
    except ValueError as error:
        raise bad_request(f"the header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise bad_request(f"the header is not a JSON object: {header!r}")
    return cast(dict[str, Any], header)


def _cut_off(size: int, found: int) -> ResourceError:
    return ResourceError(
        f"the input ends {found} bytes into a message of {size}",
        code="INGOT0411",
        hint="the four bytes before a message are its size, big endian",
    )
