# SPDX-License-Identifier: Apache-2.0
"""Putting jobs into a device's queue, and poisoning executions, as native functions.

A job may depend on an event that a later call of the host sets (an alias to be fulfilled, data to
be transferred); such events are marked `late`. It stays out of the queue until then, so that it
does not block other jobs. Its own event is late too, and its inputs count as shown to the host, so
that no execution takes their memory meanwhile. Invariant: parts of an execution on several devices
are queued at once, late or not: their order must be the same on all devices.

Source: pjrt_c_api.h (PJRT_Device_PoisonExecution).
"""

from __future__ import annotations

from typing import Any

from ingot.client.pjrt.native_code.emit import add_reference, slot
from ingot.client.pjrt.native_code.events import (
    is_done,
    new_error,
    on_ready,
    release_error,
    release_event,
    set_event,
)
from ingot.client.pjrt.native_code.worker import start
from ingot.client.pjrt.records import Device, Error, Event, Job
from ingot.native.functions import inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Pointer
from ingot.native.types import i8, i32, i64
from ingot.runtime.threading.sync import futex_wake, lock, unlock


@native
def push(job: Job) -> None:
    """Put a job into its device's queue."""
    device = job.device
    device.unfinished.fetch_add(1, "acquire")
    job.next = None
    lock(device.lock)
    last = device.last
    if last is not None:
        last.next = job
    else:
        device.first = job
    device.last = job
    device.queued.fetch_add(1, "release")
    if unlikely(device.started == 0):
        start(device)
    unlock(device.lock)
    futex_wake(device.queued, 1)


@native
def late_event(job: Job) -> Event | None:
    """Return a late event that the job waits for, or null."""
    for index in range(job.num_inputs):
        event = job.input_events[index]
        if event is not None and event.late != 0 and not is_done(event):
            return event
    return None


@inlined
def hold_inputs(job: Job, change: i64) -> None:
    """Count one more (or less) host view of the inputs, which forbids donating their memory."""
    for index in range(job.num_inputs):
        job.inputs[index].external.fetch_add(change)


@native
def submit(device: Device, job: Job) -> None:
    """Queue a job, now or after its late events; takes the job over."""
    job.device = device
    if unlikely(job.is_part != 0):
        push(job)
        return
    late = late_event(job)
    if late is None:
        push(job)
        return
    job.deferred = 1
    job.event.late = 1
    hold_inputs(job, 1)
    on_ready(late, submit_again, job)


@native
def submit_again(error: Error | None, job: Pointer | None) -> None:
    """Queue a job after a late event: a callback. The job gets the error from its input's event."""
    release_error(error)
    assert job is not None
    waiting = Job.at(job)
    late = late_event(waiting)
    if late is not None:
        on_ready(late, submit_again, job)
        return
    hold_inputs(waiting, -1)
    push(waiting)


@inlined
def is_execution(job: Job, launch_id: i32) -> bool:
    """Return whether a job is the execution with this launch id."""
    return job.launch_id == launch_id and job.executable is not None


@native
def find_execution(device: Device, launch_id: i32) -> Job | None:
    """Return an execution that runs or is queued, or null; the caller holds the queue's lock."""
    running = device.running
    if running is not None and is_execution(running, launch_id):
        return running
    job = device.first
    while job is not None and not is_execution(job, launch_id):
        job = job.next
    return job


@slot("PJRT_Device_PoisonExecution")
def poison_slot(args: Any) -> Error | None:
    """Let the results of a queued or running execution fail at once.

    The program still runs to its end, but its results are never read.
    """
    device: Device = args.device
    lock(device.lock)
    job = find_execution(device, args.launch_id)
    if job is None:
        unlock(device.lock)
        args.poisoned = 0
        return None
    event = job.event
    add_reference(event)
    unlock(device.lock)
    error = new_error(args.error_code, args.error_message, args.error_message_size)
    args.poisoned = i8(set_event(event, error))
    release_event(event)
    return None
