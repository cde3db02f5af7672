"""The process behind `ingot serve` that holds the programs and arrays, and runs what may crash.

A message is a packet without its size (`framing`). An answer has nine bytes in front: the number
that the session gives out next (who replaces this process goes on from there), and whether the
request succeeded.
"""

from __future__ import annotations

import resource
import struct

from ingot.support.channel import Channel
from ingot.tools.framing import Message, packed, unpacked
from ingot.tools.interrupts import handle_interrupts
from ingot.tools.session import Session, failure

HEAD = struct.Struct("=Q?")


def serve(channel: Channel, first: int, memory: int) -> None:
    """Answer until the channel ends; `memory` is the most bytes of data, 0 for no limit."""
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    handle_interrupts()
    session = Session(first)
    while True:
        data = channel.receive()
        if data is None:
            return
        answer = session.answer(unpacked(memoryview(data)))
        try:
            _send(channel, session, answer)
        except (MemoryError, OSError):
            header = {**failure(MemoryError()), "id": answer.header.get("id")}
            _send(channel, session, Message(header))


def _send(channel: Channel, session: Session, answer: Message) -> None:
    channel.send(HEAD.pack(session.next_number, answer.header["ok"]), *packed(answer))
