# SPDX-License-Identifier: Apache-2.0
"""Errors and events of the PJRT C API, as native functions.

An event happens once; waiters sleep on its `done` word, or register a callback. Invariant:
`error` is written before `done`, and callbacks are called exactly once, outside of the lock, each
with its own reference to the error.

Source: pjrt_c_api.h (PJRT_Event_*); futex(2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.client.pjrt.native_code.emit import (
    FOREVER,
    NO_MEMORY,
    add_reference,
    drop_reference,
    slot,
    static_reference,
)
from ingot.client.pjrt.records import Counted, Error, Event, Waiter
from ingot.native.functions import exported, inlined
from ingot.native.operations import likely, memcpy, memset, unlikely
from ingot.native.pointers import Pointer, sizeof
from ingot.native.statics import static
from ingot.native.types import i8, i32, i64
from ingot.runtime.entries import ingot_allocate, ingot_free
from ingot.runtime.threading.sync import EVERYBODY, futex_wait, futex_wake, lock, unlock


def static_event(name: str, error: Error | None = None) -> Event:
    """Return an event that has happened, without an error or with a static one."""
    return static(Event, name, references=FOREVER, done=1, error=error)


READY = static_event("ready_event")


@exported("ingot_pjrt_error")
def new_error(code: i32, text: Pointer, size: i64) -> Error:
    """Return a new error; never null."""
    memory = ingot_allocate(sizeof(Error) + size)
    if memory is None:
        return static_reference(NO_MEMORY)
    error = Error.at(memory)
    message = error + sizeof(Error)
    memcpy(message, text, size)
    error.references.store(1, "monotonic")
    error.code = code
    error.message = message
    error.message_size = size
    return error


@exported("ingot_pjrt_error_release")
def release_error(error: Error | None) -> None:
    """Drop a reference."""
    if error is not None and drop_reference(error):
        ingot_free(error)


@exported("ingot_pjrt_event")
def new_event() -> Event | None:
    """Return an event that has not happened, with one reference; null without memory."""
    event = Event.at(ingot_allocate(sizeof(Event)))
    if event is None:
        return None
    memset(event, 0, sizeof(Event))
    event.references.store(1, "monotonic")
    return event


@exported("ingot_pjrt_retain")
def retain(object_: Counted) -> None:
    """Add a reference to an error, an event or a storage."""
    add_reference(object_)


@exported("ingot_pjrt_ready")
def ready_event() -> Event:
    """Return a reference to an event that has happened."""
    add_reference(READY)
    return READY


@exported("ingot_pjrt_event_release")
def release_event(event: Event | None) -> None:
    """Drop a reference."""
    if event is not None and drop_reference(event):
        release_error(event.error)
        ingot_free(event)


@inlined
def is_done(event: Event) -> bool:
    """Return whether an event has happened."""
    return event.done.load("acquire") != 0


@inlined
def error_of(event: Event) -> Error | None:
    """Return a reference to the error of an event that has happened, or null."""
    error = event.error
    if error is not None:
        add_reference(error)
    return error


@exported("ingot_pjrt_event_set")
def set_event(event: Event, error: Error | None) -> i32:
    """Let an event happen; takes over the reference to the error.

    Returns 1, or 0 if it had happened already; then the event is unchanged.
    """
    # A callback may drop the last reference before the others are called.
    add_reference(event)
    lock(event.lock)
    if unlikely(is_done(event)):
        unlock(event.lock)
        release_error(error)
        release_event(event)
        return 0
    event.error = error
    event.done.store(1, "release")
    waiter = event.waiters
    event.waiters = None
    unlock(event.lock)
    futex_wake(event.done, EVERYBODY)
    first: Waiter | None = None
    while waiter is not None:  # The list has the last one first.
        following = waiter.next
        waiter.next = first
        first = waiter
        waiter = following
    while first is not None:
        following = first.next
        first.callback(error_of(event), first.user_arg)
        ingot_free(first)
        first = following
    release_event(event)
    return 1


@exported("ingot_pjrt_event_wait")
def wait_for(event: Event) -> None:
    """Sleep until an event has happened."""
    while event.done.load("acquire") == 0:
        futex_wait(event.done, 0)


@exported("ingot_pjrt_on_ready")
def on_ready(
    event: Event, callback: Callable[[Error | None, Pointer | None], None], user_arg: Pointer | None
) -> None:
    """Call `callback(error, user_arg)`.

    It is called now if the event has happened, else later, on the thread that sets it. Without
    memory to record the callback this waits for the event, since the callback must be called.
    """
    if likely(is_done(event)):
        callback(error_of(event), user_arg)
        return
    waiter = Waiter.at(ingot_allocate(sizeof(Waiter)))
    if waiter is None:
        wait_for(event)
        callback(error_of(event), user_arg)
        return
    waiter.callback = callback
    waiter.user_arg = user_arg
    lock(event.lock)
    if unlikely(is_done(event)):
        unlock(event.lock)
        ingot_free(waiter)
        callback(error_of(event), user_arg)
        return
    waiter.next = event.waiters
    event.waiters = waiter
    unlock(event.lock)


@exported("ingot_pjrt_pass_on")
def pass_on(error: Error | None, event: Event) -> None:
    """Set another event, and drop the reference to it: a callback."""
    set_event(event, error)
    release_event(event)


@slot("PJRT_Error_Destroy")
def destroy_error_slot(args: Any) -> Error | None:
    release_error(args.error)
    return None


@slot("PJRT_Event_Destroy")
def destroy_slot(args: Any) -> Error | None:
    release_event(args.event)
    return None


@slot("PJRT_Event_IsReady")
def is_ready_slot(args: Any) -> Error | None:
    args.is_ready = i8(is_done(args.event))
    return None


@slot("PJRT_Event_Error")
def error_slot(args: Any) -> Error | None:
    return error_of(args.event)


@slot("PJRT_Event_Await")
def await_slot(args: Any) -> Error | None:
    wait_for(args.event)
    return error_of(args.event)


@slot("PJRT_Event_Create")
def create_slot(args: Any) -> Error | None:
    event = new_event()
    args.event = event
    if event is None:
        return static_reference(NO_MEMORY)
    return None


@slot("PJRT_Event_Set")
def set_slot(args: Any) -> Error | None:
    error: Error | None = None
    if args.error_code != 0:
        error = new_error(args.error_code, args.error_message, args.error_message_size)
    set_event(args.event, error)
    return None


@slot("PJRT_Event_OnReady")
def on_ready_slot(args: Any) -> Error | None:
    on_ready(args.event, args.callback, args.user_arg)
    return None
