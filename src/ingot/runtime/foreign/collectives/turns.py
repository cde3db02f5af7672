# SPDX-License-Identifier: Apache-2.0
"""The devices of one process as fibers of a few threads, as native functions.

`run_turns` runs the parts of all devices together. `run_part` is for devices that have a queue and
a worker each: a worker that reaches its part waits for the others, and the last one to arrive runs
all parts. So the order of each device's queue is kept, and no thread waits at a collective.

Invariant: the parts run once all have arrived. A device that gives up before that withdraws; then
each runs its part alone, and fails at its first collective.
"""

from __future__ import annotations

from ingot.native.functions import native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer, sizeof
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_execute
from ingot.runtime.foreign.collectives.exchange import (
    device_of,
    fail,
    is_patience_over,
    note_culprit,
    wait_slice,
)
from ingot.runtime.foreign.collectives.greetings import greet
from ingot.runtime.foreign.collectives.records import DONE, TIMEOUT, Rendezvous, Turn
from ingot.runtime.records import Buffers, Program
from ingot.runtime.threading.fibers import run_fibers
from ingot.runtime.threading.sync import EVERYBODY, futex_wake, lock, unlock


@native
def run_turn(argument: Pointer) -> None:
    """Run the part of one device: what a fiber does."""
    turn = Turn.at(argument)
    turn.status = ingot_execute(turn.program, turn.inputs, turn.outputs, turn.sizes)
    if unlikely(turn.status != 0):
        note_culprit(turn.rendezvous, turn.device, DONE)
        fail(turn.rendezvous)


@native
def run_turns(meeting: Rendezvous, threads: i64) -> None:
    """Run the parts of all devices on at most this many threads; their stacks are locked."""
    stacks = meeting.stacks
    assert stacks is not None
    stacks.function = run_turn
    stacks.threads = threads if threads < stacks.count else stacks.count
    meeting.fibers = stacks
    run_fibers(stacks, meeting.turns, sizeof(Turn), meeting.settings)
    meeting.fibers = None


@native
def withdraw(meeting: Rendezvous) -> bool:
    """Take back that a device has arrived; return False if all have, and their parts run."""
    while True:
        arrived = meeting.arrived.load()
        if i64(arrived) == meeting.local_devices:
            return False
        if meeting.arrived.compare_exchange(arrived, arrived - 1, "acq_rel", "monotonic"):
            return True


@native
def wait_for_turn(meeting: Rendezvous, seen: i32) -> bool:
    """Wait until the parts have run; return False if this device gave up before that."""
    turns: i64 = 0
    while meeting.rounds.load() == seen:
        gives_up = meeting.failed.load() != 0 or is_patience_over(meeting, turns)
        if gives_up and withdraw(meeting):
            return False
        wait_slice(meeting.rounds, seen, turns)
        turns += 1
    return True


@native
def run_part(program: Program, inputs: Buffers, outputs: Buffers, sizes: Array[i64]) -> i32:
    """Run the part of one device, with the others if they are fibers; return its status."""
    address = program.runtime.rendezvous
    assert address is not None
    meeting = Rendezvous.at(address)
    stacks = meeting.stacks
    if stacks is None:
        if unlikely(meeting.num_partners != 0):
            status = greet(meeting, device_of(meeting, program.runtime))
            if unlikely(status != DONE):
                return status
        return ingot_execute(program, inputs, outputs, sizes)
    device = device_of(meeting, program.runtime)
    turn = meeting.turns[meeting.slots[device]]
    turn.program = program
    turn.inputs = inputs
    turn.outputs = outputs
    turn.sizes = sizes
    turn.rendezvous = meeting
    turn.device = device
    seen = meeting.rounds.load()
    if i64(meeting.arrived.fetch_add(1, "acq_rel")) + 1 == meeting.local_devices:
        lock(stacks.lock)
        run_turns(meeting, meeting.settings.num_threads)
        unlock(stacks.lock)
        meeting.arrived.store(0)
        meeting.rounds.store(seen + 1)
        futex_wake(meeting.rounds, EVERYBODY)
        return turn.status
    if unlikely(not wait_for_turn(meeting, seen)):
        if meeting.failed.load() == 0:
            note_culprit(meeting, device, TIMEOUT)
            fail(meeting)
        return ingot_execute(program, inputs, outputs, sizes)
    return turn.status
