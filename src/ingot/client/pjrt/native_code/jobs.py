# SPDX-License-Identifier: Apache-2.0
"""Making the jobs of a device's queue, as native functions.

Executions (`launch`) and copies that must wait (`transfer`) are jobs. Invariant: a
job holds the storages that it reads and writes, and the events of its inputs; its event is set once
it is done, and its outputs are pending until then.
"""

from __future__ import annotations

from ingot.client.pjrt.native_code.buffers import pending_event
from ingot.client.pjrt.native_code.emit import add_reference
from ingot.client.pjrt.native_code.events import new_event, release_event
from ingot.client.pjrt.records import Event, Job, Storage
from ingot.native.functions import inlined, native
from ingot.native.operations import memset
from ingot.native.pointers import Array, sizeof
from ingot.native.types import i64
from ingot.runtime.entries import ingot_allocate, ingot_free


@native
def new_job(num_inputs: i64, num_outputs: i64) -> Job | None:
    """Return a job with its event and room for inputs and outputs; null without memory."""
    job = Job.at(ingot_allocate(sizeof(Job) + 8 * (2 * num_inputs + num_outputs)))
    if job is None:
        return None
    event = new_event()
    if event is None:
        ingot_free(job)
        return None
    memset(job, 0, sizeof(Job))
    job.event = event
    job.num_inputs = num_inputs
    job.inputs = Array[Storage].at(job + sizeof(Job))
    job.input_events = Array[Event | None].at(job.inputs + 8 * num_inputs)
    job.num_outputs = num_outputs
    job.outputs = Array[Storage].at(job.input_events + 8 * num_inputs)
    return job


@inlined
def hold_input(job: Job, index: i64, storage: Storage) -> None:
    """Let a job hold an input, and the event that it waits for."""
    add_reference(storage)
    job.inputs[index] = storage
    job.input_events[index] = pending_event(storage)


@inlined
def promise_output(job: Job, index: i64, storage: Storage) -> None:
    """Let a job hold an output, whose data is computed at the job's event."""
    add_reference(storage)
    add_reference(job.event)
    before = storage.event
    storage.event = job.event
    release_event(before)
    job.outputs[index] = storage
