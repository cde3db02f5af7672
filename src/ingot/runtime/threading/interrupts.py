# SPDX-License-Identifier: Apache-2.0
"""Cancellation of running executions: by a signal, another thread or a deadline.

Host programs poll in loops and after long kernels: they compare a counter
(`IngotRuntime.attention`) with its last value, which costs a load and a branch. If it differs they
call `ingot_poll(runtime)`, which returns whether this execution must end with status `CANCELLED`.
The counter is advanced by `ingot_interrupt`, which follows a cancellation, and twenty times a
second by a thread while an execution is between `begin_watch` and `end_watch`, so that signals of
Python and deadlines are noticed. Compiled host programs poll by `host.polling`, native functions by
`Polls`.

Invariants: `cancelled` is written before the counter is advanced. A poll that ends an execution
advances it too, so the caller of the loop that ended polls again, and ends as well.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.artifact.abi import CANCELLED
from ingot.native.functions import cold, exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Array, Atomic, Pointer, Struct
from ingot.native.statics import static
from ingot.native.types import i32, i64
from ingot.runtime.c_library import CLOCK_MONOTONIC, Time, now
from ingot.runtime.records import Runtime
from ingot.runtime.threading.sync import futex_wait, futex_wait_until, futex_wake
from ingot.runtime.threading.threads import start_detached

TICK_NANOSECONDS = 50_000_000
_IDLE_TICKS = 20
"""Ticks without an execution after which the thread sleeps until there is one."""


class Watch(Struct, name="IngotWatch", own_line=("attention", "active")):
    """The state that executions share with the thread that watches them."""

    attention: Atomic[i64]  # advanced when executions must poll
    active: Atomic[i64]  # executions that are watched
    asleep: Atomic[i32]  # 1 while the thread sleeps until there is an execution
    started: Atomic[i32]  # 1 once the thread exists
    check: Callable[[i64], i32] | None  # whether Python ends executions that began then
    on_tick: Callable[[], None] | None  # looks for Ctrl-C


WATCH = Watch.c_layout

STATE = static(Watch, "IngotWatch.state")


@inlined
def advance() -> None:
    """Let every execution poll."""
    STATE.attention.fetch_add(1, "seq_cst")


@exported("ingot_interrupt")
def interrupt() -> None:
    """Let every execution poll."""
    advance()


@inlined
def is_active() -> bool:
    """Return whether there is an execution to watch."""
    return STATE.active.load("seq_cst") > 0


@native
def sleep() -> None:
    """Sleep until there is an execution."""
    # An execution counts itself, then looks whether the thread sleeps; the thread notes that it
    # sleeps, then looks at the count: the second of both sees what the first has written.
    STATE.asleep.store(1, "seq_cst")
    if not is_active():
        futex_wait(STATE.asleep, 1)
    STATE.asleep.store(0, "seq_cst")


@native
def watch(argument: Pointer) -> Pointer | None:
    """Tick while there are executions; this is the thread's function."""
    tick = Time.on_stack()
    tick.seconds = 0
    tick.nanoseconds = TICK_NANOSECONDS
    never = Atomic[i32].at(Array[i64].on_stack(1))
    never.store(0, "monotonic")
    idle: i64 = 0
    while True:
        futex_wait_until(never, 0, Array[i64].at(tick))
        if is_active():
            on_tick = STATE.on_tick
            if on_tick is not None:
                on_tick()
            advance()
            idle = 0
        else:
            idle += 1
        if unlikely(idle > _IDLE_TICKS):
            sleep()


@native
def start_watch() -> None:
    """Start the thread, unless another execution does so now."""
    if STATE.started.compare_exchange(0, 1, "acq_rel", "acquire"):
        start_detached(watch, STATE)


@native
def begin_watch() -> None:
    """Count one more watched execution."""
    STATE.active.fetch_add(1, "seq_cst")
    if unlikely(STATE.asleep.load("seq_cst") != 0):
        STATE.asleep.store(0, "seq_cst")
        futex_wake(STATE.asleep, 1)
    if unlikely(STATE.started.load("monotonic") == 0):
        start_watch()


@native
def end_watch() -> None:
    """Count one watched execution less."""
    STATE.active.fetch_sub(1, "seq_cst")


@inlined
def is_over(runtime: Runtime, first: i64) -> bool:
    """Return whether an execution must end; see `poll`."""
    if runtime.cancelled.load() != 0:
        return True
    deadline = runtime.deadline
    if deadline != 0 and now(CLOCK_MONOTONIC) >= deadline:
        return True
    check = STATE.check
    return check is not None and check(first) != 0


@cold
@exported("ingot_poll")
def poll(runtime: Runtime, first: i64) -> i32:
    """Return `CANCELLED` if an execution with this record must end, else 0.

    `first` is the counter when it began.
    """
    if is_over(runtime, first):
        advance()
        return CANCELLED
    return 0


class Polls(Struct):
    """The state of an execution that polls."""

    counter: Pointer  # `attention`
    first: i64  # the counter when it began
    seen: i64  # the counter at the last poll


@inlined
def is_cancelled(runtime: Runtime, polls: Polls) -> bool:
    """Begin to poll; return whether the execution was cancelled before it began.

    The counter is read first, so a cancellation from before is seen.
    """
    polls.counter = runtime.attention
    began = Atomic[i64].at(runtime.attention).load()
    polls.first = began
    polls.seen = began
    return runtime.cancelled.load() != 0


@inlined
def has_to_end(runtime: Runtime, polls: Polls) -> bool:
    """Poll, if the counter was advanced; return whether the execution must end."""
    counter = Atomic[i64].at(polls.counter).load("monotonic")
    if unlikely(counter != polls.seen):
        polls.seen = counter
        return runtime.poll(runtime, polls.first) != 0
    return False
