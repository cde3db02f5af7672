# SPDX-License-Identifier: Apache-2.0
"""Couriers: for each device a thread that exchanges data while the device computes.

The start of an exchange fills in a visit, in memory that the program keeps until the exchange is
done (its *context*), and hands it to the device's courier, which makes one visit after the other,
in the order of the program. A device without a courier makes the visit at its start.

Invariants: a device exchanges nothing itself while its courier has something to do. A context and
the data of its exchange live until that is over: an execution that fails waits for it (`leave`). A
courier's record lives as long as the process, as its thread does.
"""

from __future__ import annotations

import ctypes
import os

from ingot.native.functions import exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Atomic, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.foreign.collectives import records
from ingot.runtime.foreign.collectives.exchange import complete, device_of, enter, fail, told
from ingot.runtime.foreign.collectives.records import DONE, Courier, Rendezvous, Site
from ingot.runtime.foreign.collectives.visit import PENDING, Visit
from ingot.runtime.records import CallFrame, Runtime
from ingot.runtime.threading.sync import EVERYBODY, futex_wait, futex_wake, lock, pause, unlock
from ingot.runtime.threading.threads import start_detached

COURIER = records.Courier.c_layout
_SPINS = 200
"""Pauses before a thread sleeps that waits for an exchange: a few microseconds."""


@native
def sleep_while(word: Atomic[i32], value: i32) -> None:
    """Wait while a word is `value`; who changes it wakes the threads that sleep at it."""
    turns: i64 = 0
    while word.load() == value:
        if turns < _SPINS:
            pause()
        else:
            futex_wait(word, value)
        turns += 1


@native
def carry(argument: Pointer) -> Pointer | None:
    """Make one visit after the other, forever."""
    courier = Courier.at(argument)
    while True:
        ended = courier.ended.load()
        sleep_while(courier.begun, ended)
        lock(courier.lock)
        first = courier.first
        assert first is not None
        visit = Visit.at(first)
        courier.first = visit.following
        if visit.following is None:
            courier.last = None
        unlock(courier.lock)
        # The context may be gone as soon as its state is set: only its address is used then.
        state = visit.state
        state.store(complete(visit))
        futex_wake(state, EVERYBODY)
        courier.ended.store(ended + 1)
        futex_wake(courier.ended, EVERYBODY)


@native
def hand_over(courier: Courier, visit: Visit) -> bool:
    """Let a courier make a visit; return False if there is no thread for it."""
    visit.following = None
    lock(courier.lock)
    if unlikely(courier.is_started == 0):
        if not start_detached(carry, courier):
            unlock(courier.lock)
            return False
        courier.is_started = 1
    # The device computes: its thread should not be disturbed by one that waits.
    visit.spins = 0
    last = courier.last
    if last is None:
        courier.first = visit
    else:
        Visit.at(last).following = visit
    courier.last = visit
    courier.begun.store(courier.begun.load("monotonic") + 1)
    unlock(courier.lock)
    futex_wake(courier.begun, 1)
    return True


@native
def settle(courier: Courier) -> None:
    """Wait until a courier has nothing to do."""
    begun = courier.begun.load()
    ended = courier.ended.load()
    while ended != begun:
        sleep_while(courier.ended, ended)
        ended = courier.ended.load()


@inlined
def courier_of(meeting: Rendezvous, device: i64) -> Courier | None:
    """Return the courier of a device of this process, if it has one."""
    return meeting.couriers[meeting.slots[device]]


@exported("ingot_exchange_leave")
def leave(runtime: Runtime) -> None:
    """End the exchanges that an execution has begun, which failed."""
    address = runtime.rendezvous
    assert address is not None
    meeting = Rendezvous.at(address)
    courier = courier_of(meeting, device_of(meeting, runtime))
    if courier is None:
        return
    if courier.ended.load() == courier.begun.load():
        return
    fail(meeting)
    transport = meeting.transport
    if transport is not None:
        transport.cut(meeting)
    settle(courier)


@exported("ingot_exchange")
def exchange(frame: CallFrame, site: Site) -> i32:
    """Run one call on one device."""
    visit = Visit.on_stack()
    status = enter(visit, frame, site, frame.results[0])
    if unlikely(status != DONE):
        return status
    courier = courier_of(visit.meeting, visit.device)
    if courier is not None:
        settle(courier)
    return told(visit.meeting, complete(visit))


@exported("ingot_exchange_start")
def exchange_start(frame: CallFrame, site: Site) -> i32:
    """Begin a call: results are the operand itself, the result and the context."""
    context = frame.results[2]
    assert context is not None
    visit = Visit.at(context)
    status = enter(visit, frame, site, frame.results[1])
    if unlikely(status != DONE):
        return status
    visit.state.store(PENDING)
    courier = courier_of(visit.meeting, visit.device)
    if courier is not None and hand_over(courier, visit):
        return DONE
    visit.state.store(complete(visit))
    return DONE


@exported("ingot_exchange_done")
def exchange_done(frame: CallFrame, site: Site) -> i32:
    """Wait for a call that was begun; operands are the results of its start."""
    context = frame.operands[2]
    assert context is not None
    visit = Visit.at(context)
    sleep_while(visit.state, PENDING)
    return told(visit.meeting, visit.state.load())


_couriers: dict[int, object] = {}
"""The memory of each courier, by its address: one for each device of a client."""


def new_courier() -> int:
    """Return the address of a courier; its thread begins with the first exchange."""
    memory, address = COURIER.on_line()
    _couriers[address] = memory
    return address


def _after_fork() -> None:
    """Forget the threads, which a forked child does not have."""
    for address in _couriers:
        ctypes.memset(address, 0, COURIER.size)


os.register_at_fork(after_in_child=_after_fork)
