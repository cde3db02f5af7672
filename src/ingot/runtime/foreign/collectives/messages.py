# SPDX-License-Identifier: Apache-2.0
"""Messages: what an exchange sends to devices of other processes and receives from them.

All messages of a call move at once, so that two processes that send to each other both make
progress. A part that is not contiguous goes through a buffer. Invariant: messages between two
devices are sent and received in the order of the program, and each names its program and call.
"""

from __future__ import annotations

from ingot.native.functions import inlined, native
from ingot.native.operations import address_of, memcpy, unlikely
from ingot.native.pointers import Array, Pointer, Structs, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.records import (
    ADDRESS,
    DONE,
    HEADER_BYTES,
    HEADER_WORDS,
    NO_MEMORY,
    SENDER,
    SMALLEST_READ,
    Message,
)
from ingot.runtime.foreign.collectives.visit import (
    Visit,
    copy_part,
    given_bytes,
    given_start,
    is_here,
    taken_bytes,
)

MESSAGE_WORDS = sizeof(Message) // 8
HEADERS_WORDS = 2 * HEADER_WORDS
"""Words of a message's two headers: the sender's, and what is expected of it."""


@native
def make_messages(visit: Visit, messages: Structs[Message], headers: Array[i64], count: i64) -> i32:
    """Make all messages of a call, those that are sent first; return a status."""
    visit.first_received = 0
    if count == 0:
        return DONE
    size = visit.outer * visit.part
    if visit.outer > 1 or visit.is_reduced != 0:
        visit.packed = visit.allocate(count * size)
        if unlikely(visit.packed is None):
            return NO_MEMORY
    packed = visit.packed
    for index in range(count):
        messages[index].header = Array[i64].at(headers + index * HEADERS_WORDS * 8)
        messages[index].data = visit.target if packed is None else packed + index * size
    visit.first_received = add_sent(visit, messages)
    add_received(visit, messages, visit.first_received)
    return DONE


@native
def swap(visit: Visit, messages: Structs[Message], first: i64, count: i64) -> i32:
    """Move messages until those from number `first` on are complete; return a status."""
    transport = visit.meeting.transport
    if transport is None:
        return DONE
    return transport.swap(visit.meeting, messages, first, count, visit.spins)


@native
def remote_partners(visit: Visit) -> i64:
    """Return the number of messages of a call."""
    site = visit.site
    meeting = visit.meeting
    count: i64 = 0
    for index in range(visit.first_target, visit.end_target):
        count += i64(not is_here(meeting, site.given[index]))
    for index in range(visit.first_source, visit.end_source):
        count += i64(not is_here(meeting, site.taken[index]))
    return count


@inlined
def address_message(visit: Visit, message: Message, other: i64, size: i64) -> None:
    """Fill in the fields that messages of both directions have; `size` is the bytes of a step."""
    meeting = visit.meeting
    row = meeting.slots[visit.device] * meeting.devices
    message.link = meeting.links[row + other]
    message.device = visit.device
    message.process = meeting.processes[other]
    message.bytes = visit.outer * size
    message.moved = 0
    message.pending = 0
    message.expected = Array[i64].at(message.header + HEADER_BYTES)
    fill_header(visit, message.expected, message.bytes)


@inlined
def fill_header(visit: Visit, words: Array[i64], size: i64) -> None:
    """Write the program and the call of this device, and the bytes of data, into a header."""
    words[0] = visit.meeting.program
    words[1] = visit.site.key
    words[2] = size
    words[SENDER] = 0


@inlined
def offer_memory(message: Message) -> None:
    """Let the other process read large data in this one's memory, if it can."""
    if message.bytes >= SMALLEST_READ:
        message.header[SENDER] = message.link.reader
        message.header[ADDRESS] = address_of(message.data)


@native
def add_sent(visit: Visit, messages: Structs[Message]) -> i64:
    """Make the messages that are sent; return their number."""
    site = visit.site
    count: i64 = 0
    for index in range(visit.first_target, visit.end_target):
        taker = site.given[index]
        if not is_here(visit.meeting, taker):
            message = messages[count]
            address_message(visit, message, taker, given_bytes(visit, taker))
            message.is_sent = 1
            part = visit.source + given_start(visit, taker)
            if visit.outer == 1:
                message.data = part
            else:
                pack(visit, message.data, part)
            fill_header(visit, message.header, message.bytes)
            offer_memory(message)
            count += 1
    return count


@native
def pack(visit: Visit, target: Pointer, source: Pointer) -> None:
    """Pack a taker's parts of all steps into a contiguous buffer."""
    for index in range(0, visit.outer):
        memcpy(target + index * visit.part, source + index * visit.source_step, visit.part)


@native
def add_received(visit: Visit, messages: Structs[Message], first: i64) -> None:
    """Make the messages that are received, the first of which has number `first`."""
    site = visit.site
    count = first
    for index in range(visit.first_source, visit.end_source):
        giver = site.taken[index]
        if not is_here(visit.meeting, giver):
            message = messages[count]
            address_message(visit, message, giver, taken_bytes(visit, giver))
            message.is_sent = 0
            if visit.outer == 1 and visit.is_reduced == 0:
                message.data = visit.target + (index - visit.first_source) * visit.part
            count += 1


@native
def unpack(visit: Visit, messages: Structs[Message]) -> None:
    """Copy the parts that were received to their offsets in the result."""
    site = visit.site
    count = visit.first_received
    for index in range(visit.first_source, visit.end_source):
        if not is_here(visit.meeting, site.taken[index]):
            start = (index - visit.first_source) * visit.part
            copy_part(visit, messages[count].data, visit.own, start, visit.own)
            count += 1
