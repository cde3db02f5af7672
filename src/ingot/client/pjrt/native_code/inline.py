# SPDX-License-Identifier: Apache-2.0
"""Which programs run inline, in the call of Execute, as native functions.

Giving a program to the device's worker and waiting for its end wakes two threads, which costs up to
100 us if CPUs sleep deeply (in virtual machines). That gains nothing if the host only waits
meanwhile. So its behaviour is learnt: each device records for its last 64 executions whether the
host asked for a result at once after Execute had returned. A program runs inline if that was so the
last `STREAK` times that it ran, and goes to the worker again after the first time that it was not.
So a host that dispatches several programs ahead, or computes meanwhile, still runs in parallel with
them.

Invariant: this decides where a program runs, never what it computes; a lost update (if several
threads dispatch to one device) means that one execution runs on the other thread.
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
"""Cycles, about 40 us: a host that asks later has done other work in between."""

_COLD_SHIFT = 4
"""After a long program the host's own code is no longer in caches: it may take that part (by shift)
of what Execute took in addition."""

STREAK = 2
"""Consecutive executions with a waiting host, after which the next one runs inline."""

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
    waited_mask = device.waited_mask
    device.waited_mask = waited_mask << 1
    age = number - executable.last_launch - 1
    executable.last_launch = number
    streak: i64 = 0
    if 0 <= age < _REMEMBERED and (waited_mask >> age) & 1 != 0:
        streak = executable.streak + 1
    executable.streak = streak
    return streak >= STREAK


@inlined
def note_return(device: Device, begin: i64) -> None:
    """Record the return of an Execute that began at the time `begin`."""
    now = cycles()
    device.deadline = now + (AT_ONCE + ((now - begin) >> _COLD_SHIFT))


@inlined
def note_wait(device: Device) -> None:
    """Record that the host asks for a result on `device`."""
    if cycles() < device.deadline:
        device.waited_mask |= 1
