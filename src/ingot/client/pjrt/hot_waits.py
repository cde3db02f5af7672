# SPDX-License-Identifier: Apache-2.0
"""Programs whose results the host waits for at once run in the call of Execute: native functions.

Handing a program to the device's worker and being told of its end wakes two threads, which costs up
to 100 us where CPUs sleep deeply (virtual machines). That buys nothing if the host does nothing
meanwhile. Whether it does is learnt: each device remembers for its last 64 executions whether the
host asked for a result at once after Execute had returned. A program runs in the call if that was
so the last `STREAK` times that it ran, and goes to the worker again after the first time that it
was not: a host that dispatches several programs ahead, or computes meanwhile, still gets them run
beside it.

Invariant: this decides where a program runs, never what it does; a lost update (several threads
dispatch to one device) means that one execution is handed over needlessly, or is not.
"""

from __future__ import annotations

import time

from ingot.client.pjrt.records import Device, Executable
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I64
from ingot.llvm.values import Value
from ingot.native.functions import emitted, inlined
from ingot.native.types import i64

AT_ONCE = 1 << 17
"""Cycles, about 40 us: a host that asks later has done something in between."""

_COLD_SHIFT = 4
"""After a long program the host's own code is no longer in caches: it may take that part (by shift)
of what Execute took in addition."""

STREAK = 2
"""Executions in a row whose results were waited for, after which the next one runs in the call."""

_REMEMBERED = 64
"""Executions of a device, one bit each."""


def _emit_cycles(f: FunctionBuilder) -> Value:
    return f.intrinsic("llvm.readcyclecounter", I64, [])


@emitted(_emit_cycles)
def cycles() -> i64:
    """Return the time in cycles."""
    return time.perf_counter_ns()


@inlined
def note_launch(executable: Executable, device: Device) -> bool:
    """Count an execution; return whether the host is expected to wait for its results at once."""
    number = device.launches + 1
    device.launches = number
    waited = device.waited
    device.waited = waited << 1
    age = number - executable.last_launch - 1
    executable.last_launch = number
    streak: i64 = 0
    if 0 <= age < _REMEMBERED and (waited >> age) & 1 != 0:
        streak = executable.waits + 1
    executable.waits = streak
    return streak >= STREAK


@inlined
def note_return(device: Device, begin: i64) -> None:
    """Note that an Execute returns that began at the time `begin`."""
    now = cycles()
    device.deadline = now + (AT_ONCE + ((now - begin) >> _COLD_SHIFT))


@inlined
def note_wait(device: Device) -> None:
    """Note that the host asks for a result on `device`."""
    if cycles() < device.deadline:
        device.waited |= 1
