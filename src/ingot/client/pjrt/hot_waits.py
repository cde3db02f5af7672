# SPDX-License-Identifier: Apache-2.0
"""Programs whose results the host waits for at once run in the call of Execute, as machine code.

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

from ingot.client.pjrt.emit import when
from ingot.client.pjrt.records import DEVICE, EXECUTABLE
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I64
from ingot.llvm.values import Value

AT_ONCE = 1 << 17
"""Cycles, about 40 us: a host that asks later has done something in between."""

_COLD_SHIFT = 4
"""After a long program the host's own code is no longer in caches: it may take that part (by shift)
of what Execute took in addition."""

STREAK = 2
"""Executions in a row whose results were waited for, after which the next one runs in the call."""

_REMEMBERED = 64
"""Executions of a device, one bit each."""


def emit_note_launch(f: FunctionBuilder, executable: Value, device: Value) -> Value:
    """Count an execution; return whether the host is expected to wait for its results at once."""
    one = f.const(I64, 1)
    number = f.add(DEVICE.load(f, device, "launches"), one)
    DEVICE.store(f, device, "launches", number)
    waited = DEVICE.load(f, device, "waited")
    DEVICE.store(f, device, "waited", f.shl(waited, one))
    age = f.sub(f.sub(number, EXECUTABLE.load(f, executable, "last_launch")), one)
    EXECUTABLE.store(f, executable, "last_launch", number)
    is_known = f.icmp("ult", age, f.const(I64, _REMEMBERED))
    bit = f.and_(f.lshr(waited, f.select(is_known, age, f.const(I64, 0))), one)
    streak = f.add(EXECUTABLE.load(f, executable, "waits"), one)
    counts = f.and_(is_known, f.icmp("ne", bit, f.const(I64, 0)))
    streak = f.select(counts, streak, f.const(I64, 0))
    EXECUTABLE.store(f, executable, "waits", streak)
    return f.icmp("uge", streak, f.const(I64, STREAK))


def emit_clock(f: FunctionBuilder) -> Value:
    """Return the time in cycles, an i64."""
    return f.intrinsic("llvm.readcyclecounter", I64, [])


def emit_note_return(f: FunctionBuilder, device: Value, begin: Value) -> None:
    """Note that an Execute returns that began at the time `begin`."""
    now = emit_clock(f)
    allowed = f.add(f.const(I64, AT_ONCE), f.lshr(f.sub(now, begin), f.const(I64, _COLD_SHIFT)))
    DEVICE.store(f, device, "deadline", f.add(now, allowed))


def emit_note_wait(f: FunctionBuilder, device: Value) -> None:
    """Note that the host asks for a result on `device`."""
    is_early = f.icmp("ult", emit_clock(f), DEVICE.load(f, device, "deadline"))

    def mark() -> None:
        waited = DEVICE.load(f, device, "waited")
        DEVICE.store(f, device, "waited", f.or_(waited, f.const(I64, 1)))

    when(f, is_early, mark)
