# SPDX-License-Identifier: Apache-2.0
"""Moving all messages of a call until they are complete, for any transport.

The device's own thread moves the bytes of all its messages in turn. So there is no other thread,
and no order of messages in which two processes could wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.functions import exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Structs
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.records import (
    COMPARED_WORDS,
    DONE,
    GONE,
    HEADER_BYTES,
    MISMATCH,
    OTHER_FAILED,
    PROCESS_SHIFT,
    TIMEOUT,
    Link,
    Message,
    Rendezvous,
)
from ingot.runtime.sync import let_others_run, pause

_PAUSES = 100
"""Turns in which nothing moves before a device lets others run: a few microseconds."""
SPINS = 400
"""Turns in which nothing moves before a device sleeps: a few tens of microseconds."""
FAREWELL = -1
"""The word for bytes in the header that a process sends when it gives up."""


@inlined
def is_open(message: Message) -> bool:
    """Whether a part of a message has not been moved yet."""
    return message.moved < message.bytes + HEADER_BYTES


@native
def status_of_header(header: Array[i64], expected: Array[i64]) -> i64:
    """Return `DONE` if a message is from the call that this device is at, else a status."""
    for index in range(COMPARED_WORDS):
        if header[index] != expected[index]:
            return i64(GONE) if header[COMPARED_WORDS - 1] == FAREWELL else MISMATCH
    return DONE


@native
def first_open(messages: Structs[Message], first: i64, count: i64) -> i64:
    """Return the number of a message from `first` on that is not complete; `count` if all are."""
    for index in range(first, count):
        if is_open(messages[index]):
            return index
    return count


def cutting(symbol: str, cut: Callable[[Rendezvous, Link], None]) -> Callable[[Rendezvous], None]:
    """Return the native function that makes all devices of other processes give up.

    Args:
        symbol: its name.
        cut: makes the device at the other end of a link give up.
    """

    @exported(symbol)
    def cut_all(meeting: Rendezvous) -> None:
        """Cut every link of the rendezvous."""
        for index in range(0, meeting.local_devices * meeting.devices):
            if meeting.links[index].outgoing >= 0:
                cut(meeting, meeting.links[index])

    return cut_all


def moving(
    move: Callable[[Rendezvous, Message], i64],
) -> Callable[[Rendezvous, Structs[Message], i64], i64]:
    """Return the native function that moves as much of all messages as possible without waiting."""

    @native
    def move_all(meeting: Rendezvous, messages: Structs[Message], count: i64) -> i64:
        """Return the bytes that moved, or minus a status with the number of its process."""
        moved: i64 = 0
        for index in range(count):
            message = messages[index]
            if is_open(message):
                step = move(meeting, message)
                if unlikely(step < 0):
                    return step - ((message.process + 1) << PROCESS_SHIFT)
                moved += step
        return moved

    return move_all


def swapping(
    symbol: str,
    move: Callable[[Rendezvous, Message], i64],
    sleep: Callable[[Structs[Message], i64], None],
    sleeps: int = 1,
) -> Callable[[Rendezvous, Structs[Message], i64, i64, i64], i32]:
    """Return the native function that moves the messages of a call until some are complete.

    Its last three arguments are the number of the first message that must be complete, how many
    messages there are, and how many turns in which nothing moves come before it sleeps.

    Args:
        symbol: its name.
        move: moves as much of a message as possible without waiting; returns the bytes, or minus
            a status.
        sleep: waits until one of some messages can move, or for a slice of time.
        sleeps: how many sleeps make up a slice.
    """
    move_all = moving(move)

    @exported(symbol)
    def swap(
        meeting: Rendezvous, messages: Structs[Message], first: i64, count: i64, spins: i64
    ) -> i32:
        """Return a status, with the number of the process that failed, if one did."""
        idle: i64 = 0
        while True:
            moved = move_all(meeting, messages, count)
            if unlikely(moved < 0):
                return i32(-moved)
            waiting = first_open(messages, first, count)
            if waiting == count:
                return DONE
            if moved > 0:
                idle = 0
                continue
            idle += 1
            if unlikely(meeting.failed.load() != 0):
                return OTHER_FAILED
            if unlikely(idle > meeting.patience * sleeps + spins):
                return i32(TIMEOUT | (messages[waiting].process + 1) << PROCESS_SHIFT)
            if idle > spins:
                sleep(messages, count)
            elif idle > _PAUSES:
                let_others_run()
            else:
                pause()

    return swap
