# SPDX-License-Identifier: Apache-2.0
"""Errors and events of the PJRT C API as machine code.

An event happens once; who waits for it sleeps on its `done` word, or leaves a callback. Invariant:
`error` is written before `done`, and callbacks are called exactly once, outside of the lock, each
with its own reference to the error.

Source: pjrt_c_api.h (PJRT_Event_*); futex(2).
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.client.pjrt.emit import (
    FOREVER,
    Slot,
    add_reference,
    drop_reference,
    error_size,
    is_null,
    not_null,
    refuse_when,
    return_static,
    runtime_function,
    static_error,
    unless_null,
    when,
)
from ingot.client.pjrt.records import ERROR, EVENT, WAITER
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

RESOURCE_EXHAUSTED = 8
NO_MEMORY_TEXT = "Out of memory."
_EVERYBODY = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class EventFunctions:
    """What the other files call.

    Attributes:
        ready: address of an event that has happened.
        no_memory: address of the error for that.
    """

    new_error: FunctionRef
    release_error: FunctionRef
    new: FunctionRef
    release: FunctionRef
    set: FunctionRef
    wait: FunctionRef
    on_ready: FunctionRef
    ready: Value
    no_memory: Value


def emit_events(module: ModuleBuilder) -> EventFunctions:
    """Add errors and events, and their slots, to `module`."""
    no_memory = static_error(module, "no_memory_error", RESOURCE_EXHAUSTED, NO_MEMORY_TEXT)
    new_error, release_error = _emit_new_error(module, no_memory), _emit_release_error(module)
    ready = static_event(module, "ready_event")
    new, release = _emit_new(module), _emit_release(module, release_error)
    setter, wait = _emit_set(module, release, release_error), _emit_wait(module)
    on_ready = _emit_on_ready(module, wait)
    functions = EventFunctions(
        new_error, release_error, new, release, setter, wait, on_ready, ready, no_memory
    )
    _emit_error_slots(module, functions)
    _emit_event_slots(module, functions)
    _emit_pass_on(module, functions)
    _emit_retain(module)
    _emit_ready(module, ready)
    return functions


def static_event(module: ModuleBuilder, name: str, error: str = "null") -> Value:
    """Return the address of an event that has happened, well or with a static error."""
    return module.global_text(
        name,
        f"internal global {{ i64, i32, i32, ptr, ptr, i32 }} "
        f"{{ i64 {FOREVER}, i32 1, i32 0, ptr {error}, ptr null, i32 0 }}, align 64",
    )


def load_error(f: FunctionBuilder, event: Value) -> Value:
    """Return a reference to the error of an event that has happened, or null."""
    error = EVENT.load(f, event, "error")
    unless_null(f, error, lambda: add_reference(f, error))
    return error


def is_done(f: FunctionBuilder, event: Value) -> Value:
    """Emit whether an event has happened."""
    done = f.atomic_load(I32, EVENT.address(f, event, "done"), "acquire")
    return f.icmp("ne", done, f.const(I32, 0))


def _emit_new_error(module: ModuleBuilder, no_memory: Value) -> FunctionRef:
    """`ptr (i32 code, ptr text, i64 size)`: a new error; never null."""
    f = module.function("ingot_pjrt_error", PTR, [("code", I32), ("text", PTR), ("size", I64)])
    code, text, size = f.params
    error = f.call(runtime_function(module, "ingot_allocate"), [error_size(f, size)])
    f.if_(is_null(f, error), lambda: f.ret(return_static(f, no_memory)), likely=False)
    message = f.gep(error, ERROR.size)
    f.memcpy(message, text, size)
    values = {"references": f.const(I64, 1), "code": code, "message": message}
    for name, value in {**values, "message_size": size}.items():
        ERROR.store(f, error, name, value)
    f.ret(error)
    return f.reference


def _emit_release_error(module: ModuleBuilder) -> FunctionRef:
    """`void (ptr error)`: drop a reference; null is allowed."""
    f = module.function("ingot_pjrt_error_release", VOID, [("error", PTR)])
    (error,) = f.params
    f.if_(is_null(f, error), f.ret)
    free = runtime_function(module, "ingot_free")
    when(f, drop_reference(f, error), lambda: f.call(free, [error]))
    f.ret()
    return f.reference


def _emit_new(module: ModuleBuilder) -> FunctionRef:
    """`ptr ()`: an event that has not happened, with one reference; null if there is no memory."""
    f = module.function("ingot_pjrt_event", PTR, [])
    size = f.const(I64, EVENT.size)
    event = f.call(runtime_function(module, "ingot_allocate"), [size])
    refuse_when(f, is_null(f, event), zero(PTR))
    f.memset(event, 0, EVENT.size)
    EVENT.store(f, event, "references", f.const(I64, 1))
    f.ret(event)
    return f.reference


def _emit_retain(module: ModuleBuilder) -> None:
    """`void (ptr object)`: add a reference to an error, an event or a storage."""
    f = module.function("ingot_pjrt_retain", VOID, [("object", PTR)])
    add_reference(f, f.params[0])
    f.ret()


def _emit_ready(module: ModuleBuilder, ready: Value) -> None:
    """`ptr ()`: an event that has happened."""
    f = module.function("ingot_pjrt_ready", PTR, [])
    add_reference(f, ready)
    f.ret(ready)


def _emit_release(module: ModuleBuilder, release_error: FunctionRef) -> FunctionRef:
    """`void (ptr event)`: drop a reference; null is allowed."""
    f = module.function("ingot_pjrt_event_release", VOID, [("event", PTR)])
    (event,) = f.params
    f.if_(is_null(f, event), f.ret)

    def free() -> None:
        f.call(release_error, [EVENT.load(f, event, "error")])
        f.call(runtime_function(module, "ingot_free"), [event])

    when(f, drop_reference(f, event), free)
    f.ret()
    return f.reference


def _emit_set(
    module: ModuleBuilder, release: FunctionRef, release_error: FunctionRef
) -> FunctionRef:
    """`i32 (ptr event, ptr error)`: it happened; takes over the reference to the error.

    Returns 1, or 0 if it had happened already, which stays as it was.
    """
    f = module.function("ingot_pjrt_event_set", I32, [("event", PTR), ("error", PTR)])
    event, error = f.params
    lock, done = EVENT.address(f, event, "lock"), EVENT.address(f, event, "done")
    # A callback may give the last reference back while the others are still to be called.
    add_reference(f, event)
    emit_lock(f, lock)

    def too_late() -> None:
        emit_unlock(f, lock)
        f.call(release_error, [error])
        f.call(release, [event])
        f.ret(f.const(I32, 0))

    f.if_(is_done(f, event), too_late, likely=False)
    EVENT.store(f, event, "error", error)
    f.atomic_store(f.const(I32, 1), done, "release")
    first = EVENT.load(f, event, "waiters")
    EVENT.store(f, event, "waiters", zero(PTR))
    emit_unlock(f, lock)
    emit_futex_wake(f, done, f.const(I32, _EVERYBODY))

    def reverse(values: list[Value]) -> list[Value]:
        waiter, before = values
        following = WAITER.load(f, waiter, "next")
        WAITER.store(f, waiter, "next", before)
        return [following, waiter]

    def call(values: list[Value]) -> list[Value]:
        (waiter,) = values
        following = WAITER.load(f, waiter, "next")
        _emit_callback(
            f, event, WAITER.load(f, waiter, "callback"), WAITER.load(f, waiter, "user_arg")
        )
        f.call(runtime_function(module, "ingot_free"), [waiter])
        return [following]

    in_order = f.while_([first, zero(PTR)], lambda values: not_null(f, values[0]), reverse)[1]
    f.while_([in_order], lambda values: not_null(f, values[0]), call)
    f.call(release, [event])
    f.ret(f.const(I32, 1))
    return f.reference


def _emit_callback(f: FunctionBuilder, event: Value, callback: Value, user_arg: Value) -> None:
    f.call_indirect(callback, VOID, [PTR, PTR], [load_error(f, event), user_arg])


def _emit_wait(module: ModuleBuilder) -> FunctionRef:
    """`void (ptr event)`: sleep until it has happened."""
    f = module.function("ingot_pjrt_event_wait", VOID, [("event", PTR)])
    (event,) = f.params
    done = EVENT.address(f, event, "done")

    def pending(_: list[Value]) -> Value:
        return f.icmp("eq", f.atomic_load(I32, done, "acquire"), f.const(I32, 0))

    def sleep(_: list[Value]) -> list[Value]:
        emit_futex_wait(f, done, f.const(I32, 0))
        return []

    f.while_([], pending, sleep)
    f.ret()
    return f.reference


def _emit_error_slots(module: ModuleBuilder, functions: EventFunctions) -> None:
    slot = Slot(module, "PJRT_Error_Destroy")
    slot.f.call(functions.release_error, [slot.get("error")])
    slot.done()


def _emit_event_slots(module: ModuleBuilder, functions: EventFunctions) -> None:
    slot = Slot(module, "PJRT_Event_Destroy")
    slot.f.call(functions.release, [slot.get("event")])
    slot.done()

    slot = Slot(module, "PJRT_Event_IsReady")
    slot.set("is_ready", slot.f.zext(is_done(slot.f, slot.get("event")), I8))
    slot.done()

    slot = Slot(module, "PJRT_Event_Error")
    slot.done(load_error(slot.f, slot.get("event")))

    slot = Slot(module, "PJRT_Event_Await")
    event = slot.get("event")
    slot.f.call(functions.wait, [event])
    slot.done(load_error(slot.f, event))

    slot = Slot(module, "PJRT_Event_Create")
    event = slot.f.call(functions.new, [])
    slot.set("event", event)
    slot.check_memory(event, functions.no_memory)
    slot.done()

    slot = Slot(module, "PJRT_Event_Set")
    f, code = slot.f, slot.get("error_code")
    text = [code, slot.get("error_message"), slot.get("error_message_size")]
    failed = f.icmp("ne", code, f.const(I32, 0))
    (error,) = f.if_(failed, lambda: [f.call(functions.new_error, text)], otherwise=[zero(PTR)])
    discard(f.call(functions.set, [slot.get("event"), error]))
    slot.done()

    slot = Slot(module, "PJRT_Event_OnReady")
    values = [slot.get(name) for name in ("event", "callback", "user_arg")]
    slot.f.call(functions.on_ready, values)
    slot.done()


def _emit_on_ready(module: ModuleBuilder, wait_for: FunctionRef) -> FunctionRef:
    """`void (ptr event, ptr callback, ptr user_arg)`: call `callback(error, user_arg)`.

    Now if it has happened, else later, on the thread that sets it. Without memory to note the
    callback the call waits, since the callback must come.
    """
    params = [("event", PTR), ("callback", PTR), ("user_arg", PTR)]
    f = module.function("ingot_pjrt_on_ready", VOID, params)
    event, callback, user_arg = f.params

    def now() -> None:
        _emit_callback(f, event, callback, user_arg)
        f.ret()

    f.if_(is_done(f, event), now, likely=True)
    size = f.const(I64, WAITER.size)
    waiter = f.call(runtime_function(module, "ingot_allocate"), [size])

    def wait() -> None:
        f.call(wait_for, [event])
        now()

    f.if_(is_null(f, waiter), wait, likely=False)
    WAITER.store(f, waiter, "callback", callback)
    WAITER.store(f, waiter, "user_arg", user_arg)
    lock = EVENT.address(f, event, "lock")
    emit_lock(f, lock)

    def happened_meanwhile() -> None:
        emit_unlock(f, lock)
        f.call(runtime_function(module, "ingot_free"), [waiter])
        now()

    f.if_(is_done(f, event), happened_meanwhile, likely=False)
    WAITER.store(f, waiter, "next", EVENT.load(f, event, "waiters"))
    EVENT.store(f, event, "waiters", waiter)
    emit_unlock(f, lock)
    f.ret()
    return f.reference


def _emit_pass_on(module: ModuleBuilder, functions: EventFunctions) -> None:
    """`void (ptr error, ptr event)`: a callback that sets another event, and gives it back."""
    f = module.function("ingot_pjrt_pass_on", VOID, [("error", PTR), ("event", PTR)])
    error, event = f.params
    discard(f.call(functions.set, [event, error]))
    f.call(functions.release, [event])
    f.ret()
