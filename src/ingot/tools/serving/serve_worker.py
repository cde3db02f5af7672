# SPDX-License-Identifier: Apache-2.0
"""The process behind `ingot serve` that holds the programs and arrays, and runs what may crash.

A request is a frame as the host sent it; an answer is the bytes for the host (`framing`), after
nine bytes: the session's next number (from which a replacement of this process continues), and
whether the request succeeded.
"""

from __future__ import annotations

import resource
import struct

from ingot.support.channel import Channel
from ingot.support.diagnostics import IngotError
from ingot.tools.serving.framing import Encoding, Message
from ingot.tools.serving.interrupts import handle_interrupts
from ingot.tools.serving.session import Session, failure

HEAD = struct.Struct("=Q?")


def serve(channel: Channel, encoding: Encoding, first: int, memory: int) -> None:
    """Answer until the channel ends; `memory` is the most bytes of data, 0 for no limit."""
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    handle_interrupts()
    session = Session(first)
    while True:
        frame = channel.receive()
        if frame is None:
            return
        answer = _answer(session, encoding, frame)
        try:
            _send(channel, session, encoding, answer)
        except (IngotError, MemoryError, OSError) as problem:
            reason = MemoryError() if isinstance(problem, OSError) else problem
            header = failure(reason)
            if "id" in answer.header:
                header["id"] = answer.header["id"]
            _send(channel, session, encoding, Message(header))


def _answer(session: Session, encoding: Encoding, frame: bytes | bytearray) -> Message:
    try:
        request = encoding.read(frame)
    except (IngotError, MemoryError) as problem:
        return Message(failure(problem))
    return session.answer(request)


def _send(channel: Channel, session: Session, encoding: Encoding, answer: Message) -> None:
    channel.send(HEAD.pack(session.next_number, answer.header["ok"]), *encoding.parts(answer))
