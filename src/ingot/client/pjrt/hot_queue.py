# SPDX-License-Identifier: Apache-2.0
"""What gets into a device's queue, and when, as machine code; and how the host poisons it.

A job whose inputs wait for what a later call of the host decides (an alias to be fulfilled, data
to be transferred: events marked `late`) stays outside of the queue until that has happened, so
that it holds nobody up. Its own event is late too, and its inputs count as shown to the host, so
that no execution meanwhile takes their memory. Invariant: parts of an execution on several devices
are queued at once, late or not: their order must be the same on all devices.

A host that is `MOST_AHEAD` programs ahead waits until half of them are done: each holds memory for
its results, which would be long out of the caches when it is written.

Source: pjrt_c_api.h (PJRT_Device_PoisonExecution); XLA's CPU client stops at 32.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.client.pjrt.c_api import record
from ingot.client.pjrt.emit import (
    Slot,
    add_reference,
    is_null,
    not_null,
    unless_null,
    when,
)
from ingot.client.pjrt.hot_events import EventFunctions, is_done
from ingot.client.pjrt.records import DEVICE, EVENT, JOB, MANY, STORAGE
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I8, I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.sync import (
    discard,
    emit_futex_wait,
    emit_futex_wake,
    emit_lock,
    emit_unlock,
)

_OPTIONS = record("PJRT_ExecuteOptions")

MOST_AHEAD = 8
"""Programs in a device's queue: enough for the worker to have something to do whatever the host
does in between."""

_FEW_AHEAD = MOST_AHEAD // 2
"""So many are left when the host goes on: it is not woken for each."""

_EVERYBODY = 0x7FFFFFFF


def emit_queue(module: ModuleBuilder, events: EventFunctions, start: FunctionRef) -> FunctionRef:
    """Add queues to `module`; return `void (ptr device, ptr job)`, which takes a job over."""
    push = _emit_push(module, start)
    late = _emit_find_late(module)
    _emit_poison(module, events)
    return _emit_submit(module, events, push, late)


def label_job(f: FunctionBuilder, job: Value, options: Value, mode: Value) -> None:
    """Write into the zeroed job of an execution what its queue must know of it."""
    several = f.icmp("eq", mode, f.const(I32, MANY))
    JOB.store(f, job, "together", f.zext(several, I32))

    def name() -> None:
        JOB.store(f, job, "launch_id", _OPTIONS.load(f, options, "launch_id"))

    unless_null(f, options, name)


def emit_wait_turn(f: FunctionBuilder, device: Value) -> None:
    """Wait if a device has `MOST_AHEAD` jobs in its queue, until it has few."""
    unfinished, finished, waiting = (
        DEVICE.address(f, device, name) for name in ("unfinished", "finished", "waiting")
    )
    one = f.const(I32, 1)

    def has(more_than: int) -> Value:
        count = f.atomic_load(I64, unfinished, "seq_cst")
        return f.icmp("sgt", count, f.const(I64, more_than))

    def sleep(_: list[Value]) -> list[Value]:
        # A job that ends from here on changes `finished`, or is seen to have ended.
        seen = f.atomic_load(I32, finished, "seq_cst")
        f.atomicrmw("add", waiting, one, "seq_cst")
        when(f, has(_FEW_AHEAD), lambda: emit_futex_wait(f, finished, seen))
        f.atomicrmw("sub", waiting, one, "seq_cst")
        return []

    def wait() -> None:
        f.while_([], lambda _: has(_FEW_AHEAD), sleep)

    f.if_(has(MOST_AHEAD - 1), wait, likely=False)


def emit_note_end(f: FunctionBuilder, device: Value) -> None:
    """Count a job of the queue as done; wake hosts that wait for their turn."""
    unfinished, finished, waiting = (
        DEVICE.address(f, device, name) for name in ("unfinished", "finished", "waiting")
    )
    before = f.atomicrmw("sub", unfinished, f.const(I64, 1), "seq_cst")
    f.atomicrmw("add", finished, f.const(I32, 1), "seq_cst")
    sleepers = f.atomic_load(I32, waiting, "seq_cst")
    is_few = f.icmp("sle", before, f.const(I64, _FEW_AHEAD + 1))

    def wake() -> None:
        emit_futex_wake(f, finished, f.const(I32, _EVERYBODY))

    when(f, f.and_(is_few, f.icmp("ne", sleepers, f.const(I32, 0))), wake)


def _emit_push(module: ModuleBuilder, start: FunctionRef) -> FunctionRef:
    """`void (ptr job)`: put a job into its device's queue."""
    f = module.function("ingot_pjrt_push", VOID, [("job", PTR)], linkage="internal")
    (job,) = f.params
    device = JOB.load(f, job, "device")
    lock, queued = DEVICE.address(f, device, "lock"), DEVICE.address(f, device, "queued")
    unfinished = DEVICE.address(f, device, "unfinished")
    f.atomicrmw("add", unfinished, f.const(I64, 1), "acquire")
    JOB.store(f, job, "next", zero(PTR))
    emit_lock(f, lock)
    last = DEVICE.load(f, device, "last")

    def append() -> None:
        JOB.store(f, last, "next", job)

    def begin() -> None:
        DEVICE.store(f, device, "first", job)

    f.if_(not_null(f, last), append, begin)
    DEVICE.store(f, device, "last", job)
    f.atomicrmw("add", queued, f.const(I32, 1), "release")
    missing = f.icmp("eq", DEVICE.load(f, device, "started"), f.const(I32, 0))
    f.if_(missing, lambda: discard(f.call(start, [device])), likely=False)
    emit_unlock(f, lock)
    emit_futex_wake(f, queued, f.const(I32, 1))
    f.ret()
    return f.reference


def _each_input(f: FunctionBuilder, job: Value, array: str, body: Callable[[Value], None]) -> None:
    """Emit a loop over the storages (`inputs`) or events (`input_events`) of a job's inputs."""
    first = JOB.load(f, job, array)

    def one(index: Value, _: list[Value]) -> None:
        body(f.load(PTR, f.gep(first, index, PTR)))

    f.loop(0, JOB.load(f, job, "num_inputs"), 1, [], one)


def _emit_find_late(module: ModuleBuilder) -> FunctionRef:
    """`ptr (ptr job)`: an event that the job waits for and the host decides, or null."""
    f = module.function("ingot_pjrt_find_late", PTR, [("job", PTR)], linkage="internal")
    (job,) = f.params

    def look(event: Value) -> None:
        def pending() -> None:
            late = f.icmp("ne", EVENT.load(f, event, "late"), f.const(I32, 0))
            done = f.zext(is_done(f, event), I32)
            waits = f.and_(late, f.icmp("eq", done, f.const(I32, 0)))
            when(f, waits, lambda: f.ret(event))

        when(f, not_null(f, event), pending)

    _each_input(f, job, "input_events", look)
    f.ret(zero(PTR))
    return f.reference


def _emit_submit(
    module: ModuleBuilder, events: EventFunctions, push: FunctionRef, find_late: FunctionRef
) -> FunctionRef:
    """`void (ptr device, ptr job)`: queue a job, now or when what the host decides is there."""
    f = module.function("ingot_pjrt_submit", VOID, [("device", PTR), ("job", PTR)])
    device, job = f.params
    JOB.store(f, job, "device", device)
    together = f.icmp("ne", JOB.load(f, job, "together"), f.const(I32, 0))

    def at_once() -> None:
        f.call(push, [job])
        f.ret()

    f.if_(together, at_once, likely=False)
    late = f.call(find_late, [job])
    f.if_(is_null(f, late), at_once, likely=True)
    JOB.store(f, job, "deferred", f.const(I32, 1))
    EVENT.store(f, JOB.load(f, job, "event"), "late", f.const(I32, 1))
    _each_input(f, job, "inputs", lambda storage: _hold(f, storage, 1))
    again = _emit_again(module, events, push, find_late)
    f.call(events.on_ready, [late, Value(PTR, again.text), job])
    f.ret()
    return f.reference


def _hold(f: FunctionBuilder, storage: Value, change: int) -> None:
    """Count one more (or less) user who forbids that the memory is given away."""
    f.atomicrmw("add", STORAGE.address(f, storage, "external"), f.const(I64, change))


def _emit_again(
    module: ModuleBuilder, events: EventFunctions, push: FunctionRef, find_late: FunctionRef
) -> FunctionRef:
    """`void (ptr error, ptr job)`: a callback; the job sees the error in its input's event."""
    f = module.function("ingot_pjrt_again", VOID, [("error", PTR), ("job", PTR)])
    error, job = f.params
    f.call(events.release_error, [error])
    late = f.call(find_late, [job])

    def wait() -> None:
        f.call(events.on_ready, [late, Value(PTR, f.reference.text), job])
        f.ret()

    f.if_(not_null(f, late), wait)
    _each_input(f, job, "inputs", lambda storage: _hold(f, storage, -1))
    f.call(push, [job])
    f.ret()
    return f.reference


def _emit_poison(module: ModuleBuilder, events: EventFunctions) -> None:
    """Let the results of an execution fail at once, which is queued or running.

    The program still runs to its end, into memory that nobody reads any more.
    """
    slot = Slot(module, "PJRT_Device_PoisonExecution")
    f, device, number = slot.f, slot.get("device"), slot.get("launch_id")
    lock = DEVICE.address(f, device, "lock")

    def is_other(values: list[Value]) -> Value:
        (job,) = values

        def differs() -> list[Value]:
            other = f.icmp("ne", JOB.load(f, job, "launch_id"), number)
            return [f.or_(other, is_null(f, JOB.load(f, job, "executable")))]

        return f.if_(not_null(f, job), differs, otherwise=[f.as_condition(False)])[0]

    emit_lock(f, lock)
    running = DEVICE.load(f, device, "running")
    here = f.and_(not_null(f, running), f.xor(is_other([running]), f.as_condition(True)))
    start = f.select(here, running, DEVICE.load(f, device, "first"))
    (job,) = f.while_([start], is_other, lambda values: [JOB.load(f, values[0], "next")])

    def nobody() -> None:
        emit_unlock(f, lock)
        slot.set("poisoned", f.const(I8, 0))
        slot.done()

    f.if_(is_null(f, job), nobody)
    event = JOB.load(f, job, "event")
    add_reference(f, event)
    emit_unlock(f, lock)
    text = [slot.get(name) for name in ("error_code", "error_message", "error_message_size")]
    first = f.call(events.set, [event, f.call(events.new_error, text)])
    f.call(events.release, [event])
    slot.set("poisoned", f.trunc(first, I8))
    slot.done()
