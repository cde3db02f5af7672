# SPDX-License-Identifier: Apache-2.0
"""Moving all messages of a call until they are complete, for any transport.

The device's own thread moves the bytes of all its messages in turn. So there is no other thread,
and no order of messages in which two processes could wait for each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ingot.native.functions import exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Structs
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives.records import (
    COMPARED_WORDS,
    DONE,
    FAILED,
    GONE,
    HEADER_BYTES,
    MISMATCH,
    OTHER_FAILED,
    OTHER_PROGRAM,
    PROCESS_SHIFT,
    TIMEOUT,
    Link,
    Message,
    Rendezvous,
)
from ingot.runtime.threading.sync import let_others_run, pause

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
            if header[COMPARED_WORDS - 1] == FAREWELL:
                return header[0]
            return i64(OTHER_PROGRAM) if index == 0 else MISMATCH
    return DONE


@inlined
def of_process(status: i64, process: i64) -> i64:
    """Return a status with the number of a process, unless it has one."""
    return status if status >> PROCESS_SHIFT != 0 else status | (process + 1) << PROCESS_SHIFT


@inlined
def is_gone(status: i64) -> bool:
    """Whether a status, with or without a process, says no more than that a process is gone."""
    return status & ((1 << PROCESS_SHIFT) - 1) == GONE


@native
def blame(meeting: Rendezvous, status: i64) -> None:
    """Note the first status that names a process; other devices and processes are told it."""
    if status >> PROCESS_SHIFT != 0:
        meeting.blamed.compare_exchange(0, status, "acq_rel", "monotonic")


@inlined
def status_of_others(meeting: Rendezvous) -> i32:
    """Return the status of a device that gives up because another one here did."""
    blamed = meeting.blamed.load()
    return i32(OTHER_FAILED) if blamed == 0 else i32(blamed)


@inlined
def farewell_of(meeting: Rendezvous) -> i64:
    """Return the status that other processes are told when this one gives up."""
    blamed = meeting.blamed.load()
    return of_process(FAILED, meeting.process) if blamed == 0 else blamed


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


class Ways(NamedTuple):
    """How a transport moves messages, as native functions.

    Attributes:
        move: moves as much of a message as possible without waiting; returns the bytes, or minus
            a status.
        sleep: waits until one of some messages can move, or for a slice of time.
        say: tells the other end of a link with which status this process gives up.
        hear: waits a moment for what the other end says so; returns the status, or 0.
    """

    move: Callable[[Rendezvous, Message], i64]
    sleep: Callable[[Structs[Message], i64], None]
    say: Callable[[Link, i64], None]
    hear: Callable[[Link], i64]


def tracing(ways: Ways) -> Callable[[Rendezvous, i64, i64], i64]:
    """Return the native function that finds the process because of which others give up."""
    hear = ways.hear

    @native
    def origin_of(meeting: Rendezvous, device: i64, status: i64) -> i64:
        """Return the status to report when a device would report one of another process.

        A process that gave up because of a third one says so, and a third one because of a fourth.
        """
        row = meeting.slots[device] * meeting.devices
        found = status
        for _ in range(meeting.devices):
            process = (found >> PROCESS_SHIFT) - 1
            other: i64 = 0
            while other < meeting.devices and meeting.processes[other] != process:
                other += 1
            if process == meeting.process or other == meeting.devices:
                return status
            told = hear(meeting.links[row + other])
            if told == 0 or told == found:
                return found
            found = told
        return status

    return origin_of


def causing(ways: Ways) -> Callable[[Rendezvous, Structs[Message], i64, i64], i64]:
    """Return the native function that says why the process of a message is gone."""
    move, trace = ways.move, tracing(ways)

    @native
    def cause_of(meeting: Rendezvous, messages: Structs[Message], count: i64, failed: i64) -> i64:
        """Return the status to report when message number `failed` found its process gone.

        A process that gives up closes its connections: what it has sent before says more. If this
        one has given up, it has closed them itself.
        """
        if meeting.failed.load() != 0:
            return i64(status_of_others(meeting))
        for index in range(count):
            message = messages[index]
            if message.is_sent == 0 and is_open(message) and index != failed:
                step = move(meeting, message)
                if step < 0 and not is_gone(-step):
                    return of_process(-step, message.process)
        message = messages[failed]
        return trace(meeting, message.device, of_process(GONE, message.process))

    return cause_of


def moving(
    move: Callable[[Rendezvous, Message], i64],
    cause_of: Callable[[Rendezvous, Structs[Message], i64, i64], i64],
) -> Callable[[Rendezvous, Structs[Message], i64], i64]:
    """Return the native function that moves as much of all messages as possible without waiting.

    Args:
        move: see `Ways`.
        cause_of: returns the status if the process of a message is gone.
    """

    @native
    def move_all(meeting: Rendezvous, messages: Structs[Message], count: i64) -> i64:
        """Return the bytes that moved, or minus a status with the number of its process."""
        moved: i64 = 0
        for index in range(count):
            message = messages[index]
            if is_open(message):
                step = move(meeting, message)
                if unlikely(step < 0):
                    if step == -GONE:
                        return -cause_of(meeting, messages, count, index)
                    return -of_process(-step, message.process)
                moved += step
        return moved

    return move_all


def waiting(ways: Ways) -> Callable[[Rendezvous, Message], i64]:
    """Return the native function for a device that has waited too long."""
    say, trace = ways.say, tracing(ways)

    @native
    def time_out(meeting: Rendezvous, message: Message) -> i64:
        """Return the status of waiting for a message in vain.

        All that wait tell each other for whom, so that all name the one that waits for nobody.
        """
        status = of_process(TIMEOUT, message.process)
        for index in range(0, meeting.local_devices * meeting.devices):
            if meeting.links[index].outgoing >= 0:
                say(meeting.links[index], status)
        return trace(meeting, message.device, status)

    return time_out


def swapping(
    symbol: str, ways: Ways, sleeps: int = 1
) -> Callable[[Rendezvous, Structs[Message], i64, i64, i64], i32]:
    """Return the native function that moves the messages of a call until some are complete.

    Its last three arguments are the number of the first message that must be complete, how many
    messages there are, and how many turns in which nothing moves come before it sleeps.

    Args:
        symbol: its name.
        ways: of the transport.
        sleeps: how many sleeps make up a slice.
    """
    sleep, time_out = ways.sleep, waiting(ways)
    move_all = moving(ways.move, causing(ways))

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
            first_waiting = first_open(messages, first, count)
            if first_waiting == count:
                return DONE
            if moved > 0:
                idle = 0
                continue
            idle += 1
            if unlikely(meeting.failed.load() != 0):
                return status_of_others(meeting)
            if unlikely(idle > meeting.patience * sleeps + spins):
                return i32(time_out(meeting, messages[first_waiting]))
            if idle > spins:
                sleep(messages, count)
            elif idle > _PAUSES:
                let_others_run()
            else:
                pause()

    return swap
