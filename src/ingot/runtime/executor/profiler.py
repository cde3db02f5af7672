# SPDX-License-Identifier: Apache-2.0
"""The recorder of events, a native function that host programs call while a profiler is on.

`IngotRuntime.profile` is null, or the address of `ingot_profile`. If it is set, a host program
calls it before each of its *sites* (a kernel call, a foreign call, a loop) for the time, and after
it with the site's number and the time of the start. The addresses of its code and constants
identify the program. The Python half is `ingot.runtime.recording`.

Invariant: an event is valid once its `end` is written, which is last; events that do not fit are
dropped.
"""

from __future__ import annotations

from ingot.native.functions import exported, symbol_of
from ingot.native.operations import unlikely
from ingot.native.pointers import Atomic, Pointer, Struct, Structs
from ingot.native.statics import static
from ingot.native.types import i64
from ingot.runtime.c_library import CLOCK_REALTIME, now, pthread_self
from ingot.runtime.records import RunFunction, Runtime


class Event(Struct, name="IngotProfileEvent"):
    """One run of a site; times are in ns since 1970."""

    run: RunFunction  # the program's S_run
    constants: Pointer | None  # the program's constant block
    site: i64
    start: i64
    end: Atomic[i64]  # 0: not written yet
    thread: i64  # pthread_self
    replica: i64
    partition: i64


class Profiler(Struct, name="IngotProfiler", own_line=("next",)):
    """The events of a recording."""

    events: Structs[Event]  # `capacity` of them
    capacity: i64
    next: Atomic[i64]  # events so far, including those that did not fit


EVENT, PROFILER = Event.c_layout, Profiler.c_layout

STATE = static(Profiler, "IngotProfiler.state")


@exported("ingot_profile")
def profile(
    runtime: Runtime, run: RunFunction, constants: Pointer | None, site: i64, start: i64
) -> i64:
    """Return the time now; record an event.

    `start` is 0 before a site, when there is nothing to record yet.
    """
    end = now(CLOCK_REALTIME)
    if start == 0:
        return end
    number = STATE.next.fetch_add(1, "monotonic")
    if unlikely(number >= STATE.capacity):
        return end
    event = STATE.events[number]
    event.run = run
    event.constants = constants
    event.site = site
    event.start = start
    event.thread = pthread_self()
    event.replica = runtime.replica
    event.partition = runtime.partition
    event.end.store(end)
    return end


PROFILE_FUNCTION = symbol_of(profile)
