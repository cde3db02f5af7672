# SPDX-License-Identifier: Apache-2.0
"""Recordings of events: `start()`, run programs, `stop()` returns the events.

This is above the native recorder (`ingot.runtime.executor.profiler`) and below
`ingot.client.profiling.profile`, which knows the names of sites. There is one recording at a time.
Invariant: the memory of the events is mapped once and never unmapped, since an execution that began
before `stop` may still write to it.
"""

from __future__ import annotations

import ctypes
import mmap
import time
from functools import cache
from typing import Any

from ingot.runtime.executor.profiler import EVENT, PROFILE_FUNCTION, PROFILER
from ingot.runtime.native import native_runtime
from ingot.runtime.records import RUNTIME
from ingot.support.diagnostics import ResourceError
from ingot.support.forking import ForkLock, defers_fork
from ingot.support.records import record

CAPACITY = 1 << 20
"""Events of one recording; memory is taken only for those that happen (64 bytes each)."""

_lock = ForkLock()


@record
class Event:
    """One run of a site; times in ns since 1970.

    Attributes:
        program: addresses of the program's `S_run` and of its constant block.
        site: number of the kernel call, foreign call or loop in its program.
        device: replica and partition that ran it.
    """

    program: tuple[int, int]
    site: int
    start: int
    end: int
    thread: int
    device: tuple[int, int]


@record
class Recording:
    """The events between `start` and `stop`.

    Attributes:
        begin, end: its times, in ns since 1970.
        events: in the order in which they ended.
        dropped: the number of events that did not fit.
    """

    begin: int
    end: int
    events: tuple[Event, ...]
    dropped: int


class Recorder:
    """The process's one recorder; `recorder()` returns it."""

    def __init__(self) -> None:
        """Map the memory of the events."""
        runtime = native_runtime()
        self._runtime = runtime.record
        self._function = runtime.address(PROFILE_FUNCTION)
        self._state = int(runtime.function("ingot_profiler", ctypes.c_void_p)())
        self._memory = mmap.mmap(-1, CAPACITY * EVENT.size)
        self._events: Any = (EVENT.structure * CAPACITY).from_buffer(self._memory)
        PROFILER.write(self._state, "events", ctypes.addressof(self._events))
        self._begin = 0

    def start(self) -> None:
        """Begin to record.

        Raises:
            ResourceError: INGOT0412, a recording is going on.
        """
        with _lock:
            if self._begin:
                raise ResourceError(
                    "the profiler is in use: there is one for all programs of a process",
                    code="INGOT0412",
                    hint="end the other trace or profile first",
                )
            used = min(CAPACITY, PROFILER.read(self._state, "next"))
            ctypes.memset(ctypes.addressof(self._events), 0, used * EVENT.size)
            PROFILER.write(self._state, "next", 0)
            PROFILER.write(self._state, "capacity", CAPACITY)
            self._begin = time.time_ns()
            RUNTIME.write(self._runtime, "profile", self._function)

    def stop(self) -> Recording:
        """End the recording that was started; return it."""
        with _lock:
            RUNTIME.write(self._runtime, "profile", 0)
            PROFILER.write(self._state, "capacity", 0)
            begin, self._begin = self._begin, 0
            count = PROFILER.read(self._state, "next")
            rows = self._events[: min(count, CAPACITY)]
        # Executions that began earlier may have written events, which are not of this recording.
        events = tuple(_event(row) for row in rows if row.end and row.start >= begin)
        return Recording(begin, time.time_ns(), events, max(0, count - CAPACITY))


def _event(row: Any) -> Event:
    program, device = (row.run, row.constants), (row.replica, row.partition)
    return Event(program, row.site, row.start, row.end, row.thread, device)


@cache
def _recorder() -> Recorder:
    return Recorder()


@defers_fork
def recorder() -> Recorder:
    """Return the process's recorder."""
    with _lock:
        return _recorder()
