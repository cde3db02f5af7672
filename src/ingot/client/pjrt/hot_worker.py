# SPDX-License-Identifier: Apache-2.0
"""The thread of a device that runs the jobs of its queue (`hot_queue`), as machine code.

Jobs of one device run in the order in which they were put into its queue. The thread is started by
the first job, is detached, takes no signals and lives as long as the process. Invariant: a job
waits only for jobs that were queued before it (on any device), so waiting never goes in a circle;
whatever happens, its event is set.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.artifact.abi import CANCELLED
from ingot.client.pjrt.emit import (
    drop_reference,
    is_null,
    not_null,
    return_static,
    runtime_function,
    static_error,
    unless_null,
    when,
)
from ingot.client.pjrt.hot_buffers import BufferFunctions
from ingot.client.pjrt.hot_events import EventFunctions, load_error
from ingot.client.pjrt.hot_queue import emit_note_end, emit_queue
from ingot.client.pjrt.records import DEVICE, EXECUTABLE, FAILURE, JOB, STORAGE
from ingot.client.pjrt.trampolines import emit_enter_thread
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.execute import emit_stack_array
from ingot.runtime.execution import CANCELLED_TEXT
from ingot.runtime.records import PROGRAM, RUNTIME
from ingot.runtime.sync import (
    discard,
    emit_futex_wait,
    emit_lock,
    emit_unlock,
)

_CANCELLED = 1
"""absl's code."""

_SIGSET_BYTES = 128
_SIG_SETMASK = 2


@dataclass(frozen=True, slots=True)
class WorkerFunctions:
    """What the other files call."""

    submit: FunctionRef
    failure: FunctionRef
    release_executable: FunctionRef


def emit_worker(
    module: ModuleBuilder,
    events: EventFunctions,
    buffers: BufferFunctions,
    python: dict[str, FunctionRef],
) -> WorkerFunctions:
    """Add queues and workers to `module`."""
    failure = _emit_failure(module, python["execution_failed"])
    release = _emit_release_executable(module, python["release_executable"])
    run = _emit_run(module, events, failure)
    finish = _emit_finish(module, events, buffers, release)
    worker = _emit_worker(module, run, finish)
    submit = emit_queue(module, events, _emit_start(module, worker))
    return WorkerFunctions(submit, failure, release)


def _emit_failure(module: ModuleBuilder, python: FunctionRef) -> FunctionRef:
    """`ptr (ptr executable, ptr program, i32 status)`: the error for a status of execution."""
    params = [("executable", PTR), ("program", PTR), ("status", I32)]
    f = module.function("ingot_pjrt_failure", PTR, params)
    _, program, status = f.params
    runtime = PROGRAM.load(f, program, "runtime")
    alone = f.icmp("eq", RUNTIME.load(f, runtime, "rendezvous"), zero(PTR))
    ended = f.icmp("eq", status, f.const(I32, CANCELLED))
    # Without Python, which would raise KeyboardInterrupt here, and not in the user's program.
    cancelled = static_error(
        module, "cancelled_error", _CANCELLED, f"The program {CANCELLED_TEXT}."
    )
    f.if_(f.and_(ended, alone), lambda: f.ret(return_static(f, cancelled)))
    record = f.alloca(I64, FAILURE.size // 8)
    for (name, _), value in zip(params, f.params, strict=True):
        FAILURE.store(f, record, name, value)
    f.ret(f.call(python, [record]))
    return f.reference


def _emit_release_executable(module: ModuleBuilder, python: FunctionRef) -> FunctionRef:
    """`void (ptr executable)`: drop a reference; null is allowed."""
    f = module.function("ingot_pjrt_executable_release", VOID, [("executable", PTR)])
    (executable,) = f.params
    f.if_(is_null(f, executable), f.ret)
    when(f, drop_reference(f, executable), lambda: f.call(python, [executable]))
    f.ret()
    return f.reference


def load_data(f: FunctionBuilder, storages: Value, count: Value) -> Value:
    """Return a stack array with the data addresses of storages."""
    data = emit_stack_array(f, PTR, count)

    def one(index: Value, _: list[Value]) -> None:
        storage = f.load(PTR, f.gep(storages, index, PTR))
        f.store(STORAGE.load(f, storage, "data"), f.gep(data, index, PTR))

    f.loop(0, count, 1, [], one)
    return data


def _emit_run(module: ModuleBuilder, events: EventFunctions, failure: FunctionRef) -> FunctionRef:
    """`ptr (ptr job)`: wait for the inputs and run; returns null or a reference to an error."""
    f = module.function("ingot_pjrt_run_job", PTR, [("job", PTR)], linkage="internal")
    (job,) = f.params
    num_inputs = JOB.load(f, job, "num_inputs")
    input_events = JOB.load(f, job, "input_events")

    def wait(index: Value, _: list[Value]) -> None:
        event = f.load(PTR, f.gep(input_events, index, PTR))

        def look() -> None:
            f.call(events.wait, [event])
            error = load_error(f, event)
            unless_null(f, error, lambda: f.ret(error))

        unless_null(f, event, look)

    f.loop(0, num_inputs, 1, [], wait)
    inputs = load_data(f, JOB.load(f, job, "inputs"), num_inputs)
    executable = JOB.load(f, job, "executable")

    def copy() -> None:
        source = f.gep(f.load(PTR, inputs), JOB.load(f, job, "offset"))
        f.memcpy(JOB.load(f, job, "target"), source, JOB.load(f, job, "bytes"))
        f.ret(zero(PTR))

    f.if_(is_null(f, executable), copy)
    outputs = load_data(f, JOB.load(f, job, "outputs"), JOB.load(f, job, "num_outputs"))
    program, sizes = JOB.load(f, job, "program"), EXECUTABLE.load(f, executable, "sizes")
    execute = runtime_function(module, "ingot_execute")
    status = f.call(execute, [program, inputs, outputs, sizes])

    def failed() -> None:
        f.ret(f.call(failure, [executable, program, status]))

    f.if_(f.icmp("ne", status, f.const(I32, 0)), failed, likely=False)
    f.ret(zero(PTR))
    return f.reference


def _emit_finish(
    module: ModuleBuilder,
    events: EventFunctions,
    buffers: BufferFunctions,
    release_executable: FunctionRef,
) -> FunctionRef:
    """`void (ptr job, ptr error)`: set the event and give everything back."""
    params = [("job", PTR), ("error", PTR)]
    f = module.function("ingot_pjrt_finish_job", VOID, params, linkage="internal")
    job, error = f.params
    event = JOB.load(f, job, "event")
    discard(f.call(events.set, [event, error]))
    f.call(events.release, [event])
    rows = (
        ("num_inputs", "inputs", buffers.release_storage),
        ("num_inputs", "input_events", events.release),
        ("num_outputs", "outputs", buffers.release_storage),
    )
    for count, name, release in rows:
        _release_all(f, JOB.load(f, job, name), JOB.load(f, job, count), release)
    f.call(release_executable, [JOB.load(f, job, "executable")])
    f.call(runtime_function(module, "ingot_free"), [job])
    f.ret()
    return f.reference


def _release_all(f: FunctionBuilder, array: Value, count: Value, release: FunctionRef) -> None:
    def one(index: Value, _: list[Value]) -> None:
        f.call(release, [f.load(PTR, f.gep(array, index, PTR))])

    f.loop(0, count, 1, [], one)


def _emit_worker(module: ModuleBuilder, run: FunctionRef, finish: FunctionRef) -> FunctionRef:
    """`ptr (ptr device)`: take jobs out of the queue, forever."""
    f = module.function("ingot_pjrt_worker", PTR, [("device", PTR)], linkage="internal")
    (device,) = f.params
    f.call(emit_enter_thread(module), [])
    lock, queued = DEVICE.address(f, device, "lock"), DEVICE.address(f, device, "queued")

    def step(_: list[Value]) -> list[Value]:
        seen = f.atomic_load(I32, queued, "acquire")
        emit_lock(f, lock)
        job = DEVICE.load(f, device, "first")

        def unlink() -> None:
            following = JOB.load(f, job, "next")
            DEVICE.store(f, device, "first", following)
            when(f, is_null(f, following), lambda: DEVICE.store(f, device, "last", zero(PTR)))

        when(f, not_null(f, job), unlink)
        DEVICE.store(f, device, "running", job)
        emit_unlock(f, lock)

        def work() -> None:
            error = f.call(run, [job])
            emit_lock(f, lock)
            DEVICE.store(f, device, "running", zero(PTR))
            emit_unlock(f, lock)
            f.call(finish, [job, error])
            emit_note_end(f, device)

        f.if_(not_null(f, job), work, lambda: emit_futex_wait(f, queued, seen))
        return []

    f.while_([], lambda _: f.as_condition(True), step)
    f.unreachable()
    return f.reference


def _emit_start(module: ModuleBuilder, worker: FunctionRef) -> FunctionRef:
    """`void (ptr device)`: start the worker; the caller holds the queue's lock."""
    f = module.function("ingot_pjrt_start", VOID, [("device", PTR)], linkage="internal")
    (device,) = f.params
    set_mask = module.declare("pthread_sigmask", I32, [I32, PTR, PTR])
    create = module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
    detach = module.declare("pthread_detach", I32, [I64])
    every, before = f.alloca(I64, _SIGSET_BYTES // 8), f.alloca(I64, _SIGSET_BYTES // 8)
    f.memset(every, 0xFF, _SIGSET_BYTES)
    mode = f.const(I32, _SIG_SETMASK)
    f.call(set_mask, [mode, every, before])
    thread = f.alloca(I64)
    status = f.call(create, [thread, zero(PTR), Value(PTR, worker.text), device])

    def started() -> None:
        f.call(detach, [f.load(I64, thread)])
        DEVICE.store(f, device, "started", f.const(I32, 1))

    when(f, f.icmp("eq", status, f.const(I32, 0)), started)
    f.call(set_mask, [mode, before, zero(PTR)])
    f.ret()
    return f.reference
