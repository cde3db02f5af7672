# SPDX-License-Identifier: Apache-2.0
"""The end of executions that should not go on: by a signal, another thread or a deadline; emitted.

Loops of host programs, and host programs between long kernels, compare a counter with the value
that it had (`IngotRuntime.attention`): a load and a branch. Where it differs they call
`ingot_poll(runtime)`, which says whether this execution is to end with status `CANCELLED`. The
counter is advanced by `ingot_interrupt`, which follows a cancellation, and twenty times a second by
a thread while an execution is between `ingot_watch_begin` and `ingot_watch_end`: signals of Python
and deadlines are seen by then.

Invariants: `cancelled` is written before the counter is advanced. A poll that ends an execution
advances it too, so whoever called the loop that ended polls again, and ends as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.artifact.abi import CANCELLED
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.native.layout import Field, Record
from ingot.runtime.records import RUNTIME
from ingot.runtime.sync import discard, emit_futex_wait, emit_futex_wake
from ingot.runtime.threads import emit_detached_thread

TICK_NANOSECONDS = 50_000_000
_IDLE_TICKS = 20
"""Ticks without an execution after which the thread sleeps until there is one."""

_CLOCK_MONOTONIC = 1
_NANOSECONDS = 1_000_000_000

WATCH = Record(
    "IngotWatch",
    Field("attention", "i64", own_line=True, note="advanced when executions are to poll"),
    Field("active", "i64", own_line=True, note="executions that are watched"),
    Field("asleep", "i32", note="1 while the thread sleeps until there is an execution"),
    Field("started", "i32", note="1 once the thread exists"),
    Field("check", "ptr", note="i32(i64 first): whether Python wants an end; null: no Python"),
    Field("on_tick", "ptr", note="void(): look for Ctrl-C; null: no Python"),
)


@dataclass(frozen=True, slots=True)
class WatchFunctions:
    """What the rest of the runtime calls."""

    begin: FunctionRef
    end: FunctionRef
    poll: FunctionRef


def emit_watch(module: ModuleBuilder, state: Value) -> WatchFunctions:
    """Add the functions over the record at `state` to `module`."""
    _emit_interrupt(module, state)
    ticker = _emit_ticker(module, state)
    return WatchFunctions(
        _emit_begin(module, state, ticker), _emit_end(module, state), _emit_poll(module, state)
    )


def _advance(f: FunctionBuilder, state: Value) -> None:
    f.atomicrmw("add", WATCH.address(f, state, "attention"), f.const(I64, 1), "seq_cst")


def _emit_interrupt(module: ModuleBuilder, state: Value) -> None:
    """`void ()`: let every execution poll."""
    f = module.function("ingot_interrupt", VOID, [])
    _advance(f, state)
    f.ret()


def _emit_ticker(module: ModuleBuilder, state: Value) -> FunctionRef:
    """`ptr (ptr state)`: the thread."""
    f = module.function("ingot_watch_thread", PTR, [("state", PTR)], linkage="internal")
    (watch,) = f.params
    pause, never = f.alloca(I64, 2), f.alloca(I32)
    f.store(f.const(I64, 0), pause)
    f.store(f.const(I64, TICK_NANOSECONDS), f.gep(pause, 8))
    f.store(f.const(I32, 0), never)
    on_tick = WATCH.address(f, watch, "on_tick")
    none = f.const(I64, 0)

    def active() -> Value:
        return f.icmp("sgt", f.atomic_load(I64, WATCH.address(f, watch, "active"), "seq_cst"), none)

    def sleep() -> None:
        # Who begins an execution counts itself, then looks whether the thread sleeps; the thread
        # says that it sleeps, then looks at the count: whoever is second sees the other.
        asleep = WATCH.address(f, watch, "asleep")
        f.atomic_store(f.const(I32, 1), asleep, "seq_cst")
        idle = f.xor(active(), f.as_condition(True))
        f.if_(idle, lambda: emit_futex_wait(f, asleep, f.const(I32, 1)))
        f.atomic_store(f.const(I32, 0), asleep, "seq_cst")

    def look() -> None:
        function = f.load(PTR, on_tick)
        present = f.icmp("ne", function, zero(PTR))
        f.if_(present, lambda: discard(f.call_indirect(function, VOID, [], [])))
        _advance(f, watch)

    def tick(values: list[Value]) -> list[Value]:
        emit_futex_wait(f, never, f.const(I32, 0), pause)
        busy = active()
        f.if_(busy, look)
        idle = f.select(busy, none, f.add(values[0], f.const(I64, 1)))
        f.if_(f.icmp("sgt", idle, f.const(I64, _IDLE_TICKS)), sleep, likely=False)
        return [idle]

    f.while_([none], lambda _: f.as_condition(True), tick)
    f.unreachable()
    return f.reference


def _emit_begin(module: ModuleBuilder, state: Value, ticker: FunctionRef) -> FunctionRef:
    """`void ()`: an execution begins."""
    f = module.function("ingot_watch_begin", VOID, [], linkage="internal")
    f.atomicrmw("add", WATCH.address(f, state, "active"), f.const(I64, 1), "seq_cst")
    asleep, started = WATCH.address(f, state, "asleep"), WATCH.address(f, state, "started")

    def wake() -> None:
        f.atomic_store(f.const(I32, 0), asleep, "seq_cst")
        emit_futex_wake(f, asleep, f.const(I32, 1))

    def start() -> None:
        _, first = f.cmpxchg(started, f.const(I32, 0), f.const(I32, 1))
        f.if_(first, lambda: discard(emit_detached_thread(f, Value(PTR, ticker.text), state)))

    is_asleep = f.icmp("ne", f.atomic_load(I32, asleep, "seq_cst"), f.const(I32, 0))
    f.if_(is_asleep, wake, likely=False)
    is_missing = f.icmp("eq", f.atomic_load(I32, started, "monotonic"), f.const(I32, 0))
    f.if_(is_missing, start, likely=False)
    f.ret()
    return f.reference


def _emit_end(module: ModuleBuilder, state: Value) -> FunctionRef:
    """`void ()`: an execution ends."""
    f = module.function("ingot_watch_end", VOID, [], linkage="internal")
    f.atomicrmw("sub", WATCH.address(f, state, "active"), f.const(I64, 1), "seq_cst")
    f.ret()
    return f.reference


def _emit_poll(module: ModuleBuilder, state: Value) -> FunctionRef:
    """`i32 (ptr runtime, i64 first)`: `CANCELLED` if an execution with this record is to end.

    `first` is the counter when it began.
    """
    params = [("runtime", PTR), ("first", I64)]
    f = module.function("ingot_poll", I32, params, attrs="nounwind noinline cold")
    runtime, first = f.params

    def end() -> None:
        _advance(f, state)
        f.ret(f.const(I32, CANCELLED))

    cancelled = f.atomic_load(I64, RUNTIME.address(f, runtime, "cancelled"), "acquire")
    f.if_(f.icmp("ne", cancelled, f.const(I64, 0)), end)
    deadline = RUNTIME.load(f, runtime, "deadline")

    def look() -> None:
        f.if_(f.icmp("sge", _monotonic(f), deadline), end)

    f.if_(f.icmp("ne", deadline, f.const(I64, 0)), look)
    check = WATCH.load(f, state, "check")

    def ask() -> None:
        wanted = f.call_indirect(check, I32, [I64], [first])
        f.if_(f.icmp("ne", wanted, f.const(I32, 0)), end)

    f.if_(f.icmp("ne", check, zero(PTR)), ask)
    f.ret(f.const(I32, 0))
    return f.reference


def _monotonic(f: FunctionBuilder) -> Value:
    """Return the time in ns of the clock that deadlines are of."""
    time = f.alloca(I64, 2)
    clock = f.module.declare("clock_gettime", I32, [I32, PTR])
    f.call(clock, [f.const(I32, _CLOCK_MONOTONIC), time])
    seconds, nanoseconds = f.load(I64, time), f.load(I64, f.gep(time, 8))
    return f.add(f.mul(seconds, f.const(I64, _NANOSECONDS)), nanoseconds)
