# SPDX-License-Identifier: Apache-2.0
"""Executions on several devices that take turns in the call, as native functions.

The devices are fibers of the host's thread: each runs until it waits for another one at a
collective (`runtime.foreign.collectives.turns`). An execution that cannot begin at once, or that is
long and not awaited, goes to the workers (`multi_device`).

Invariant: the records of the parts are used by one execution at a time, which holds the lock of the
stacks; after an execution that failed they are not used again, because devices gave up half-way.
"""

from __future__ import annotations

from ingot.client.pjrt.native_code.buffers import is_ready, unuse, use
from ingot.client.pjrt.native_code.emit import add_reference
from ingot.client.pjrt.native_code.events import READY
from ingot.client.pjrt.native_code.inline import note_launch
from ingot.client.pjrt.native_code.launch import Launch, abandon, describe, finish, prepare
from ingot.client.pjrt.native_code.worker import failure_of, load_data
from ingot.client.pjrt.records import Buffer, Error, Event, Executable, Part, Storage
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import memcpy
from ingot.native.pointers import Array, Pointer, Structs, sizeof
from ingot.native.types import i8, i64
from ingot.runtime.foreign.collectives.exchange import device_of
from ingot.runtime.foreign.collectives.records import Rendezvous, Turn
from ingot.runtime.foreign.collectives.turns import run_turns
from ingot.runtime.records import Buffers, Runtime
from ingot.runtime.threading.fibers import Fibers
from ingot.runtime.threading.sync import try_lock, unlock

_LAUNCH_WORDS = sizeof(Launch) // 8


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


@exported("ingot_pjrt_enter")
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


@inlined
def fill(turn: Turn, call: Launch, part: Part, inputs: Buffers, outputs: Buffers) -> None:
    """Fill in what a fiber runs; `inputs` and `outputs` have room for the addresses."""
    load_data(call.inputs, call.num_inputs, inputs)
    load_data(call.outputs, call.num_outputs, outputs)
    turn.program = call.program
    turn.inputs = inputs
    turn.outputs = outputs
    turn.sizes = call.executable.sizes
    turn.rendezvous = part.rendezvous
    turn.device = device_of(part.rendezvous, part.program.runtime)


@native
def run_parts(executable: Executable, meeting: Rendezvous) -> Error | None:
    """Run all parts; return the error of the one that failed first."""
    is_short = executable.is_short != 0
    run_turns(meeting, i64(1) if is_short else meeting.settings.num_threads)
    culprit = meeting.culprit.load()
    if culprit == 0:
        return None
    executable.parts = None
    failed = meeting.turns[meeting.slots[culprit - 1]]
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
    shares = i64(1) if executable.is_short != 0 else count
    calls = Structs[Launch].at(Array[i64].on_stack(count * _LAUNCH_WORDS))
    inputs = Array[Storage].on_stack(count * num_inputs)
    outputs = Array[Storage].on_stack(count * num_outputs)
    donated = Array[i8].on_stack(count * num_inputs)
    input_data = Buffers.on_stack(count * num_inputs)
    output_data = Buffers.on_stack(count * num_outputs)
    for number in range(count):
        call = calls[number]
        part = parts[number]
        first_input = number * num_inputs
        first_output = number * num_outputs
        enter(part, shares)
        describe(call, executable, part.program, executable.devices[number])
        call.arguments = arguments[number]
        call.results = results[number]
        call.options = options
        call.inputs = Array[Storage].at(inputs + 8 * first_input)
        call.outputs = Array[Storage].at(outputs + 8 * first_output)
        call.donated = Array[i8].at(donated + first_input)
        error = prepare(call)
        if error is not None:
            for earlier in range(number):
                abandon(calls[earlier])
            return error
        data = Buffers.at(input_data + 8 * first_input)
        made = Buffers.at(output_data + 8 * first_output)
        fill(part.rendezvous.turns[number], call, part, data, made)
    error = run_parts(executable, parts[0].rendezvous)
    for number in range(count):
        if error is None:
            finish(calls[number])
        else:
            abandon(calls[number])
    return error


@native
def launch_in_turns(
    executable: Executable,
    arguments: Array[Array[Buffer]],
    results: Array[Array[Buffer | None]],
    options: Pointer | None,
    complete: Array[Event] | None,
) -> Error | None:
    """Launch an execution whose stacks are locked; `complete` gets the events unless it is null."""
    parts = executable.parts
    assert parts is not None
    error = launch_parts(executable, arguments, results, options, parts)
    if error is None and complete is not None:
        for number in range(executable.num_devices):
            add_reference(READY)
            complete[number] = READY
    return error


@inlined
def lock_stacks(executable: Executable, arguments: Array[Array[Buffer]]) -> Fibers | None:
    """Lock the stacks of an execution if it is to run in the call; return them, or null if not."""
    parts = executable.parts
    is_blocking = note_launch(executable, executable.devices[executable.num_devices - 1])
    if parts is None or (executable.is_short == 0 and not is_blocking):
        return None
    stacks = parts[0].rendezvous.stacks
    assert stacks is not None
    if not try_lock(stacks.lock):
        return None
    # The execution before may have failed.
    if executable.parts is not None and can_begin(executable, arguments):
        return stacks
    unlock(stacks.lock)
    return None
