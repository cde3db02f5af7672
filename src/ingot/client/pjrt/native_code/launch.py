# SPDX-License-Identifier: Apache-2.0
"""One execution on one device as native functions: `ingot_pjrt_launch`.

It checks arguments, donates, allocates outputs, and runs or queues the program. The slot Execute
calls it, and Python does so for each device of an execution on several. A program whose inputs are
computed runs in the call if it is short, or if the host is expected to wait for it (`inline`); so
does a part of an execution if this process has no other. Any other becomes a job of the device's
worker; its outputs are allocated at once and ready later.

Invariant: an argument that is donated has no storage afterwards, whether or not an output could
take it over; nothing has changed if an error is returned before the program ran.

Source: donation as XLA's CPU client does it: memory that a host view shows is not donated, and host
memory that is used in place is copied.
"""

from __future__ import annotations

from ingot.client.pjrt.c_api import INVALID_ARGUMENT, RESOURCE_EXHAUSTED
from ingot.client.pjrt.native_code.alignment import aligned_later
from ingot.client.pjrt.native_code.backlog import wait_for_backlog
from ingot.client.pjrt.native_code.buffers import (
    DELETED,
    destroy,
    discard,
    is_ready,
    new_buffer,
    new_storage,
    release_storage,
    unuse,
    use,
)
from ingot.client.pjrt.native_code.donation import ExecuteOptions, check_donations
from ingot.client.pjrt.native_code.emit import (
    add_reference,
    static_error,
    static_reference,
)
from ingot.client.pjrt.native_code.events import READY, release_event
from ingot.client.pjrt.native_code.gpu import execute
from ingot.client.pjrt.native_code.inline import cycles, note_launch, note_return
from ingot.client.pjrt.native_code.jobs import hold_input, new_job, promise_output
from ingot.client.pjrt.native_code.queue import submit
from ingot.client.pjrt.native_code.worker import failure_of, load_data
from ingot.client.pjrt.records import (
    INLINE,
    MULTI_DEVICE,
    ONLY_PART,
    QUEUED,
    Buffer,
    Device,
    Error,
    Event,
    Executable,
    Storage,
)
from ingot.native.functions import exported, inlined, native
from ingot.native.operations import address_of, likely, unlikely
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i8, i32, i64
from ingot.runtime.executor.execute import OUT_OF_MEMORY
from ingot.runtime.foreign.collectives.turns import run_part
from ingot.runtime.records import Buffers, Program

SIZE_ERROR = static_error(
    "size_error", INVALID_ARGUMENT, "An argument's buffer has another size than the parameter."
)
LAYOUT_ERROR = static_error(
    "layout_error", INVALID_ARGUMENT, "An argument's buffer has another layout than the parameter."
)
START_ERROR = static_error(
    "memory_error", RESOURCE_EXHAUSTED, "Out of memory while starting a program."
)


class Launch(Struct):
    """An execution while it is launched."""

    executable: Executable
    program: Program
    arguments: Array[Buffer]
    results: Array[Buffer | None]
    options: Pointer | None
    device: Device
    mode: i32
    all_ready: i8  # whether the data of all inputs is computed
    donates: i8
    num_inputs: i64
    num_outputs: i64
    inputs: Array[Storage]
    outputs: Array[Storage]
    donated: Array[i8]  # which arguments are donated now; undefined unless `donates`


@native
def end_uses(arguments: Array[Buffer], count: i64) -> None:
    """End the use of the first arguments."""
    for index in range(count):
        unuse(arguments[index])


@native
def drop_outputs(outputs: Array[Storage], first: i64, end: i64) -> None:
    """Free output storages that have no buffer yet."""
    for index in range(first, end):
        release_storage(outputs[index])


@native
def drop_buffers(results: Array[Buffer | None], count: i64) -> None:
    """Destroy the buffers of the first outputs."""
    for index in range(count):
        buffer = results[index]
        assert buffer is not None
        destroy(buffer)
        results[index] = None


@inlined
def use_arguments(call: Launch) -> Error | None:
    """Start to use the storages of all arguments; if there is an error, of none."""
    all_ready = True
    for index in range(call.num_inputs):
        buffer = call.arguments[index]
        storage = use(buffer)
        if storage is None:
            end_uses(call.arguments, index)
            return static_reference(DELETED)
        wanted = call.executable.arguments[index]
        if unlikely(buffer.bytes != wanted.bytes):
            end_uses(call.arguments, index + 1)
            return static_reference(SIZE_ERROR)
        if unlikely(address_of(buffer.layout) != address_of(wanted.layout)):
            end_uses(call.arguments, index + 1)
            return static_reference(LAYOUT_ERROR)
        if unlikely(buffer.uses.load("monotonic") > 0):
            storage = aligned_later(buffer, storage)
        call.inputs[index] = storage
        all_ready = all_ready and is_ready(storage)
    call.all_ready = i8(all_ready)
    return None


@inlined
def output_memory(call: Launch, index: i64) -> Storage | None:
    """Return memory for an output: a donated argument's, or new; null if there is none."""
    output = call.executable.outputs[index]
    if call.donates != 0 and output.alias >= 0:
        storage = call.inputs[output.alias]
        if call.donated[output.alias] != 0 and storage.release is None:
            add_reference(storage)
            return storage
    return new_storage(call.device.gpu, output.bytes)


@inlined
def make_outputs(call: Launch) -> Error | None:
    """Get memory for all outputs, and make their buffers, before anything runs."""
    for index in range(call.num_outputs):
        storage = output_memory(call, index)
        if storage is None:
            drop_outputs(call.outputs, 0, index)
            return failure_of(call.executable, call.program, OUT_OF_MEMORY)
        call.outputs[index] = storage
    for index in range(call.num_outputs):
        output = call.executable.outputs[index]
        memory = call.device.memories[i64(output.memory_index)]
        buffer = new_buffer(
            call.outputs[index],
            output.type,
            output.dims,
            output.rank,
            output.bytes,
            call.device,
            memory,
        )
        if buffer is None:
            drop_buffers(call.results, index)
            drop_outputs(call.outputs, index, call.num_outputs)
            return static_reference(START_ERROR)
        buffer.layout = output.layout
        call.results[index] = buffer
    return None


@inlined
def prepare(call: Launch) -> Error | None:
    """Begin to use the arguments, note which are donated, and make the outputs; or do nothing."""
    error = use_arguments(call)
    if error is not None:
        return error
    if call.donates != 0:
        error = check_donations(
            call.executable, call.arguments, call.inputs, call.donated, call.options
        )
    if error is None:
        error = make_outputs(call)
    if error is not None:
        end_uses(call.arguments, call.num_inputs)
    return error


@inlined
def run_now(call: Launch) -> Error | None:
    """Run the program in this call."""
    inputs = Buffers.on_stack(call.num_inputs)
    load_data(call.inputs, call.num_inputs, inputs)
    outputs = Buffers.on_stack(call.num_outputs)
    load_data(call.outputs, call.num_outputs, outputs)
    sizes = call.executable.sizes
    status: i32 = 0
    if call.mode == ONLY_PART:
        status = run_part(call.program, inputs, outputs, sizes)
    else:
        status = execute(call.device.gpu, call.program, inputs, outputs, sizes)
    if unlikely(status != 0):
        return failure_of(call.executable, call.program, status)
    return None


@inlined
def finish(call: Launch) -> None:
    """Delete the donated arguments, whose storages are freed after their last use; end all uses."""
    if call.donates != 0:
        for index in range(call.num_inputs):
            if call.donated[index] != 0:
                discard(call.arguments[index])
    end_uses(call.arguments, call.num_inputs)


@inlined
def abandon(call: Launch) -> None:
    """Destroy the outputs; end the use of the arguments."""
    drop_buffers(call.results, call.num_outputs)
    end_uses(call.arguments, call.num_inputs)


@native
def queue(call: Launch) -> Event | None:
    """Let the device's worker run the program; return the job's event, null without memory."""
    job = new_job(call.num_inputs, call.num_outputs)
    if job is None:
        return None
    event = job.event
    job.executable = call.executable
    job.program = call.program
    job.is_part = i32(call.mode == MULTI_DEVICE or call.mode == ONLY_PART)
    if call.options is not None:
        job.launch_id = ExecuteOptions.at(call.options).launch_id
    for index in range(call.num_inputs):
        hold_input(job, index, call.inputs[index])
    for index in range(call.num_outputs):
        promise_output(job, index, call.outputs[index])
    add_reference(call.executable)
    add_reference(event)
    submit(call.device, job)
    return event


@inlined
def start(call: Launch, done: Array[Event]) -> Error | None:
    """Run the program now or later; `done[0]` gets an event for its end."""
    is_idle = call.device.unfinished.load("acquire") == 0
    is_blocking = False
    if call.mode != MULTI_DEVICE:
        is_blocking = note_launch(call.executable, call.device)
    # A job that was queued before may still read donated memory.
    is_short = call.mode == INLINE and (call.donates == 0 or is_idle)
    is_long = call.mode == QUEUED or call.mode == ONLY_PART
    is_here = is_short or (is_long and is_blocking and is_idle)
    if likely(call.all_ready != 0 and is_here):
        error = run_now(call)
        if error is None:
            add_reference(READY)
            done[0] = READY
        return error
    event = queue(call)
    if event is None:
        return static_reference(START_ERROR)
    done[0] = event
    return None


@inlined
def describe(call: Launch, executable: Executable, program: Program, device: Device) -> None:
    """Fill in what is launched, and where."""
    call.executable = executable
    call.program = program
    call.device = device
    call.donates = executable.donates
    call.num_inputs = executable.num_arguments
    call.num_outputs = executable.num_outputs


@exported("ingot_pjrt_launch")
def launch(
    executable: Executable,
    program: Program,
    arguments: Array[Buffer],
    results: Array[Buffer | None],
    options: Pointer | None,
    device: Device,
    mode: i32,
    complete: Array[Event] | None,
) -> Error | None:
    """Launch an execution; `complete` gets an event for its end unless it is null."""
    begin = cycles()
    if mode == QUEUED:
        wait_for_backlog(device, executable.most_ahead)
    call = Launch.on_stack()
    describe(call, executable, program, device)
    call.arguments = arguments
    call.results = results
    call.options = options
    call.mode = mode
    call.inputs = Array[Storage].on_stack(executable.num_arguments)
    call.outputs = Array[Storage].on_stack(executable.num_outputs)
    call.donated = Array[i8].on_stack(executable.num_arguments)
    error = prepare(call)
    if error is not None:
        return error
    done = Array[Event].on_stack(1)
    error = start(call, done)
    if error is not None:
        abandon(call)
        return error
    finish(call)
    if complete is not None:
        add_reference(done[0])
        complete[0] = done[0]
    release_event(done[0])
    note_return(device, begin)
    return None
