# SPDX-License-Identifier: Apache-2.0
"""Greetings: processes compare their programs before the first execution of each.

A message of a collective names its program, but a program may take no message from a process that
runs another one: what it sends may go nowhere, or it may have no collective. So each device first
swaps a header with a device of each other process (`rendezvous.partners_of`). Invariant: all
processes greet at the same execution, the first one of a program that they had not run before.
"""

from __future__ import annotations

from ingot.native.functions import inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Structs
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.exchange import fail, note_culprit
from ingot.runtime.foreign.collectives.messages import HEADERS_WORDS, MESSAGE_WORDS
from ingot.runtime.foreign.collectives.progress import SPINS, blame
from ingot.runtime.foreign.collectives.records import (
    DONE,
    HEADER_BYTES,
    HEADER_WORDS,
    Message,
    Rendezvous,
)

GREETING = -1
"""The call in the header of a greeting."""
NOT_GREETED = 0x7FFF_FFFF
"""The status of an execution that did not begin, since the programs of the processes differ."""


@inlined
def fill_greeting(meeting: Rendezvous, words: Array[i64]) -> None:
    """Write the header of a greeting."""
    for index in range(HEADER_WORDS):
        words[index] = 0
    words[0] = meeting.program
    words[1] = GREETING


@native
def address_greeting(meeting: Rendezvous, message: Message, device: i64, other: i64) -> None:
    """Fill in a message without data to or from a device of another process."""
    row = meeting.slots[device] * meeting.devices
    message.link = meeting.links[row + other]
    message.device = device
    message.process = meeting.processes[other]
    message.data = message.header
    message.bytes = 0
    message.moved = 0
    message.pending = 0
    message.expected = Array[i64].at(message.header + HEADER_BYTES)
    fill_greeting(meeting, message.header)
    fill_greeting(meeting, message.expected)


@native
def greet(meeting: Rendezvous, device: i64) -> i32:
    """Compare this device's program with those of other processes; return 0 or `NOT_GREETED`."""
    transport = meeting.transport
    partners = meeting.num_partners
    if transport is None:
        return DONE
    messages = Structs[Message].at(Array[i64].on_stack(2 * partners * MESSAGE_WORDS))
    headers = Array[i64].on_stack(2 * partners * HEADERS_WORDS)
    count: i64 = 0
    for index in range(2 * partners):
        is_sent = index < partners
        partner = index if is_sent else index - partners
        other = meeting.partners[meeting.slots[device] * partners + partner]
        if other >= 0:
            message = messages[count]
            message.header = Array[i64].at(headers + count * HEADERS_WORDS * 8)
            message.is_sent = i64(is_sent)
            address_greeting(meeting, message, device, other)
            count += 1
    status = transport.swap(meeting, messages, 0, count, SPINS)
    if unlikely(status != DONE):
        blame(meeting, i64(status))
        note_culprit(meeting, device, status)
        fail(meeting)
        transport.cut(meeting)
        return NOT_GREETED
    return DONE
