# SPDX-License-Identifier: Apache-2.0
"""The recorder of what runs when, as machine code: host programs call it while somebody profiles.

`IngotRuntime.profile` is null, or the address of `ingot_profile`. A host program that finds it set
asks it for the time before each of its *sites* (a kernel call, a foreign call, a loop) and tells it
after: the site's number, and when it began. Who the program is follows from its code and its
constants. Python's half is `ingot.runtime.recording`.

Invariant: an event counts once its `end` is written, which is last; what does not fit is dropped.
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I32, I64, PTR
from ingot.llvm.values import Value
from ingot.native.layout import Field, Record
from ingot.runtime.records import RUNTIME

PROFILER = Record(
    "IngotProfiler",
    Field("events", "ptr", note="IngotProfileEvent[capacity]"),
    Field("capacity", "i64"),
    Field("next", "i64", own_line=True, note="events so far, those that did not fit too"),
)

EVENT = Record(
    "IngotProfileEvent",
    Field("run", "ptr", note="the program's S_run"),
    Field("constants", "ptr", note="the program's constant block"),
    Field("site", "i64"),
    Field("start", "i64", note="ns since 1970"),
    Field("end", "i64", note="ns since 1970; 0: not written yet"),
    Field("thread", "i64", note="pthread_self"),
    Field("replica", "i64"),
    Field("partition", "i64"),
)

PROFILE_FUNCTION = "ingot_profile"
PROFILE_PARAMETERS = (PTR, PTR, PTR, I64, I64)
_CLOCK_REALTIME = 0
_NANOSECONDS = 1_000_000_000


def emit_profiler(module: ModuleBuilder, state: Value) -> None:
    """`i64 ingot_profile(runtime, run, constants, site, start)`: the time now; record an event.

    `start` is 0 at the beginning of a site, when there is nothing to record yet.
    """
    names = ("runtime", "run", "constants", "site", "start")
    params = list(zip(names, PROFILE_PARAMETERS, strict=True))
    f = module.function(PROFILE_FUNCTION, I64, params)
    runtime, run, constants, site, start = f.params
    now = _now(f)
    zero = f.const(I64, 0)
    f.if_(f.icmp("eq", start, zero), lambda: f.ret(now))
    number = f.atomicrmw("add", PROFILER.address(f, state, "next"), f.const(I64, 1), "monotonic")
    full = f.icmp("uge", number, PROFILER.load(f, state, "capacity"))
    f.if_(full, lambda: f.ret(now), likely=False)
    event = EVENT.element(f, PROFILER.load(f, state, "events"), number)
    fields = {
        "run": run,
        "constants": constants,
        "site": site,
        "start": start,
        "thread": f.call(module.declare("pthread_self", I64, []), []),
        "replica": RUNTIME.load(f, runtime, "replica"),
        "partition": RUNTIME.load(f, runtime, "partition"),
    }
    for name, value in fields.items():
        EVENT.store(f, event, name, value)
    f.atomic_store(now, EVENT.address(f, event, "end"), "release")
    f.ret(now)


def _now(f: FunctionBuilder) -> Value:
    """Return the time in ns since 1970, as other recorders of this machine count it."""
    time = f.alloca(I64, 2)
    clock = f.module.declare("clock_gettime", I32, [I32, PTR])
    f.call(clock, [f.const(I32, _CLOCK_REALTIME), time])
    seconds, nanoseconds = f.load(I64, time), f.load(I64, f.gep(time, 8))
    return f.add(f.mul(seconds, f.const(I64, _NANOSECONDS)), nanoseconds)
