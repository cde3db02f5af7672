# SPDX-License-Identifier: Apache-2.0
"""The thread of a device that runs the jobs of its queue (`queue`), as native functions.

Jobs of one device run in the order of its queue. The thread is started by the first job, is
detached, takes no signals and lives as long as the process. Invariant: a job waits only for jobs
that were queued before it (on any device), so there is no deadlock; its event is set in any case.
"""

from __future__ import annotations

from ingot.artifact.abi import CANCELLED
from ingot.client.pjrt import c_api
from ingot.client.pjrt.native_code.backlog import note_done
from ingot.client.pjrt.native_code.buffers import release_storage
from ingot.client.pjrt.native_code.emit import (
    drop_reference,
    static_error,
    static_reference,
)
from ingot.client.pjrt.native_code.events import error_of, release_event, set_event, wait_for
from ingot.client.pjrt.native_code.gpu import GPU_ERROR, execute, move
from ingot.client.pjrt.records import Device, Error, Event, Executable, Failure, Gpu, Job, Storage
from ingot.client.pjrt.trampolines import enter_thread
from ingot.native.functions import exported, external, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.entries import ingot_free
from ingot.runtime.foreign.collectives.exchange import fail
from ingot.runtime.foreign.collectives.records import Rendezvous
from ingot.runtime.foreign.collectives.turns import run_part
from ingot.runtime.programs.execution import CANCELLED_TEXT
from ingot.runtime.records import Buffers, Program
from ingot.runtime.threading.sync import futex_wait, lock, pause, unlock
from ingot.runtime.threading.threads import start_detached

CANCELLED_ERROR = static_error("cancelled_error", c_api.CANCELLED, f"The program {CANCELLED_TEXT}.")


@external("execution_failed")
def execution_failed(failure: Failure) -> Error | None:
    """Return the error for a status of execution, made by Python."""
    ...


@external("release_executable")
def release_executable(executable: Executable) -> Pointer | None:
    """Let Python drop an executable."""
    ...


@exported("ingot_pjrt_failure")
def failure_of(executable: Executable, program: Program, status: i32) -> Error | None:
    """Return the error for a status of execution."""
    # Without Python, which would raise KeyboardInterrupt here instead of in the user's program.
    if status == CANCELLED and program.runtime.rendezvous is None:
        return static_reference(CANCELLED_ERROR)
    failure = Failure.on_stack()
    failure.executable = executable
    failure.program = program
    failure.status = status
    return execution_failed(failure)


@exported("ingot_pjrt_executable_release")
def drop_executable(executable: Executable | None) -> None:
    """Drop a reference."""
    if executable is not None and drop_reference(executable):
        release_executable(executable)


@native
def load_data(storages: Array[Storage], count: i64, data: Buffers) -> None:
    """Store the data addresses of storages."""
    for index in range(count):
        data[index] = storages[index].data


@native
def leave(job: Job) -> None:
    """Let the other devices of an execution not wait for a part that does not run."""
    program = job.program
    if job.is_part != 0 and program is not None:
        rendezvous = program.runtime.rendezvous
        if rendezvous is not None:
            fail(Rendezvous.at(rendezvous))


@native
def run(job: Job) -> Error | None:
    """Wait for the inputs of a job and run it; return null or a reference to an error."""
    for index in range(job.num_inputs):
        event = job.input_events[index]
        if event is not None:
            wait_for(event)
            error = error_of(event)
            if error is not None:
                leave(job)
                return error
    inputs = Buffers.on_stack(job.num_inputs)
    load_data(job.inputs, job.num_inputs, inputs)
    executable = job.executable
    if executable is None:
        target = job.target
        source = inputs[0]
        assert target is not None
        assert source is not None
        to: Gpu | None = None
        if job.num_outputs != 0:
            to = job.outputs[0].gpu
        if not move(target, to, source + job.offset, job.inputs[0].gpu, job.bytes):
            return static_reference(GPU_ERROR)
        return None
    program = job.program
    assert program is not None
    outputs = Buffers.on_stack(job.num_outputs)
    load_data(job.outputs, job.num_outputs, outputs)
    gpu = job.device.gpu
    status: i32 = 0
    if job.is_part != 0 and gpu is None:
        status = run_part(program, inputs, outputs, executable.sizes)
    else:
        status = execute(gpu, program, inputs, outputs, executable.sizes)
    if unlikely(status != 0):
        return failure_of(executable, program, status)
    return None


@native
def release_storages(storages: Array[Storage], count: i64) -> None:
    """Drop a reference to each storage."""
    for index in range(count):
        release_storage(storages[index])


@native
def release_events(events: Array[Event | None], count: i64) -> None:
    """Drop a reference to each event."""
    for index in range(count):
        release_event(events[index])


@native
def finish(job: Job, error: Error | None) -> None:
    """Drop everything that a job holds and set its event."""
    # Memory first: who waits for the event may launch a program that can have it.
    release_storages(job.inputs, job.num_inputs)
    release_events(job.input_events, job.num_inputs)
    release_storages(job.outputs, job.num_outputs)
    set_event(job.event, error)
    release_event(job.event)
    drop_executable(job.executable)
    ingot_free(job)


@native
def take_job(device: Device) -> Job | None:
    """Take the oldest job out of a device's queue, to run it; null if there is none."""
    lock(device.lock)
    job = device.first
    if job is not None:
        following = job.next
        device.first = following
        if following is None:
            device.last = None
    device.running = job
    unlock(device.lock)
    return job


@native
def wait_for_job(device: Device, seen: i32, turns: i64) -> None:
    """Sleep until there are more jobs than `seen`, after `turns` pauses."""
    for _ in range(turns):
        if device.queued.load() != seen:
            return
        pause()
    futex_wait(device.queued, seen)


@native
def work(argument: Pointer) -> Pointer | None:
    """Run the jobs of a device's queue, forever."""
    device = Device.at(argument)
    enter_thread()
    turns: i64 = 0
    while True:
        seen = device.queued.load("acquire")
        job = take_job(device)
        if job is None:
            wait_for_job(device, seen, turns)
            continue
        turns = device.part_pauses if job.is_part != 0 else i64(0)
        error = run(job)
        lock(device.lock)
        device.running = None
        unlock(device.lock)
        finish(job, error)
        note_done(device)


@native
def start(device: Device) -> None:
    """Start the worker of a device; the caller holds the queue's lock."""
    if start_detached(work, device):
        device.started = 1
