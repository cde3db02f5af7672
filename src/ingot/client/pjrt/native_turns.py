# SPDX-License-Identifier: Apache-2.0
"""Executions on several devices that take turns in the call, as native functions.

The devices are fibers of the host's thread: each runs until it waits for another one at a
collective (`runtime.fibers`). Waking a thread for each would take longer than a short program, and
if there are more devices than CPUs, their threads would wait for each other's CPU at every
collective. An execution that cannot begin at once, or that is long and not awaited, goes to the
workers (`multi_device`).

Invariant: the records of the parts are used by one execution at a time, which holds the lock of the
fibers; after an execution that failed they are not used again, because devices gave up half-way.
"""

from __future__ import annotations

from ingot.client.pjrt.emit import add_reference
from ingot.client.pjrt.native_buffers import is_ready, unuse, use
from ingot.client.pjrt.native_events import READY
from ingot.client.pjrt.native_inline import note_launch
from ingot.client.pjrt.native_launch import Launch, abandon, describe, finish, prepare, run
from ingot.client.pjrt.native_worker import failure_of
from ingot.client.pjrt.records import Buffer, Error, Event, Executable, Part, Storage
from ingot.native.functions import inlined, native
from ingot.native.operations import memcpy, unlikely
from ingot.native.pointers import Array, Pointer, Structs, sizeof
from ingot.native.types import i8, i32, i64
from ingot.runtime.fibers import Fibers, run_fibers
from ingot.runtime.foreign.collectives.exchange import fail, note_culprit
from ingot.runtime.foreign.collectives.records import DONE, Rendezvous
from ingot.runtime.records import Buffers, Runtime
from ingot.runtime.sync import try_lock, unlock


class Turn(Launch, name="IngotPjrtTurn"):
    """The launch of a part."""

    number: i64
    rendezvous: Rendezvous
    input_data: Buffers
    output_data: Buffers
    status: i32


_TURN_WORDS = sizeof(Turn) // 8


@native
def can_begin(executable: Executable, arguments: Array[Array[Buffer]]) -> bool:
    """Return whether an execution need not wait: all inputs are computed, and no job is in its way.

    A job that was queued before may still read memory that is donated, and takes a long program's
    time.
    """
    may_overtake = executable.is_short != 0 and executable.donates == 0
    for number in range(executable.num_devices):
        unfinished = executable.devices[number].unfinished.load("acquire")
        if unfinished != 0 and not may_overtake:
            return False
        for index in range(executable.num_arguments):
            storage = use(arguments[number][index])
            if storage is None:
                return False
            is_computed = is_ready(storage)
            unuse(arguments[number][index])
            if not is_computed:
                return False
    return True


@inlined
def enter(part: Part, shares: i64) -> None:
    """Copy the process's present settings; let the part meet the others, and use its own pool.

    `shares` are the parts that run at the same time: each has that share of the threads.
    """
    runtime = part.program.runtime
    settings = part.settings
    memcpy(runtime, settings, sizeof(Runtime))
    if shares > 1:
        threads = settings.num_threads // shares
        runtime.num_threads = threads if threads > 0 else i64(1)
        part.pool.num_threads.store(runtime.num_threads)
        runtime.pool = part.pool
    runtime.replica = part.replica
    runtime.partition = part.partition
    runtime.rendezvous = part.rendezvous


@native
def run_part(argument: Pointer) -> None:
    """Run one part: what a fiber does."""
    turn = Turn.at(argument)
    status = run(turn, turn.input_data, turn.output_data)
    turn.status = status
    if unlikely(status != 0):
        note_culprit(turn.rendezvous, turn.number, DONE)
        fail(turn.rendezvous)


@native
def run_parts(executable: Executable, turns: Structs[Turn], parts: Structs[Part]) -> Error | None:
    """Run all parts; return the error of the one that failed first."""
    fibers = parts[0].rendezvous.fibers
    assert fibers is not None
    settings = parts[0].settings
    fibers.function = run_part
    count = executable.num_devices
    threads = settings.num_threads if settings.num_threads < count else count
    fibers.threads = i64(1) if executable.is_short != 0 else threads
    run_fibers(fibers, turns, sizeof(Turn), settings)
    culprit = turns[0].rendezvous.culprit.load()
    if culprit == 0:
        return None
    executable.parts = None
    failed = turns[culprit - 1]
    return failure_of(executable, failed.program, failed.status)


@native
def launch_parts(
    executable: Executable,
    arguments: Array[Array[Buffer]],
    results: Array[Array[Buffer | None]],
    options: Pointer | None,
    parts: Structs[Part],
) -> Error | None:
    """Launch all parts; an error frees the results of all."""
    count = executable.num_devices
    num_inputs = executable.num_arguments
    num_outputs = executable.num_outputs
    turns = Structs[Turn].at(Array[i64].on_stack(count * _TURN_WORDS))
    inputs = Array[Storage].on_stack(count * num_inputs)
    outputs = Array[Storage].on_stack(count * num_outputs)
    donated = Array[i8].on_stack(count * num_inputs)
    input_data = Buffers.on_stack(count * num_inputs)
    output_data = Buffers.on_stack(count * num_outputs)
    for number in range(count):
        turn = turns[number]
        enter(parts[number], i64(1) if executable.is_short != 0 else count)
        describe(turn, executable, parts[number].program, executable.devices[number])
        turn.arguments = arguments[number]
        turn.results = results[number]
        turn.options = options
        turn.inputs = Array[Storage].at(inputs + 8 * number * num_inputs)
        turn.outputs = Array[Storage].at(outputs + 8 * number * num_outputs)
        turn.donated = Array[i8].at(donated + number * num_inputs)
        turn.input_data = Buffers.at(input_data + 8 * number * num_inputs)
        turn.output_data = Buffers.at(output_data + 8 * number * num_outputs)
        turn.number = number
        turn.rendezvous = parts[number].rendezvous
        error = prepare(turn)
        if error is not None:
            for earlier in range(number):
                abandon(turns[earlier])
            return error
    error = run_parts(executable, turns, parts)
    for number in range(count):
        if error is None:
            finish(turns[number])
        else:
            abandon(turns[number])
    return error


@native
def launch_in_turns(
    executable: Executable,
    arguments: Array[Array[Buffer]],
    results: Array[Array[Buffer | None]],
    options: Pointer | None,
    complete: Array[Event] | None,
) -> Error | None:
    """Launch an execution whose fibers are locked; `complete` gets the events unless it is null."""
    parts = executable.parts
    assert parts is not None
    error = launch_parts(executable, arguments, results, options, parts)
    if error is None and complete is not None:
        for number in range(executable.num_devices):
            add_reference(READY)
            complete[number] = READY
    return error


@inlined
def lock_fibers(executable: Executable, arguments: Array[Array[Buffer]]) -> Fibers | None:
    """Lock the fibers of an execution if it is to run in the call; return them, or null if not."""
    parts = executable.parts
    is_awaited = note_launch(executable, executable.devices[executable.num_devices - 1])
    if parts is None or (executable.is_short == 0 and not is_awaited):
        return None
    fibers = parts[0].rendezvous.fibers
    assert fibers is not None
    if not try_lock(fibers.lock):
        return None
    # The execution before may have failed.
    if executable.parts is not None and can_begin(executable, arguments):
        return fibers
    unlock(fibers.lock)
    return None
