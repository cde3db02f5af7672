# SPDX-License-Identifier: Apache-2.0
"""Polls in compiled host programs: whether this execution was cancelled.

A host program polls in its loops and after long kernels. A poll costs a load and a branch unless
the runtime's counter has advanced; `ingot.runtime.threading.interrupts` says who advances it, and
has the polls of native functions (`Polls`).

Invariant: a cancellation from before the execution began is seen too, since the counter is read
first.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.artifact.abi import runtime_offset
from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I32, I64, PTR
from ingot.llvm.values import Value


class Poller:
    """Emits polls into one function."""

    def __init__(self, f: FunctionBuilder, runtime: Value) -> None:
        """Emit into `f`, at its entry; `runtime` is the record that the execution runs with."""
        self._f = f
        self._runtime = runtime
        self._counter = self._field("attention")
        self._poll = self._field("poll")
        self._first, self._seen = f.alloca(I64), f.alloca(I64)
        began = f.atomic_load(I64, self._counter)
        f.store(began, self._first)
        f.store(began, self._seen)

    def _field(self, name: str) -> Value:
        return self._f.load(PTR, self._f.gep(self._runtime, runtime_offset(name)), 8)

    def first(self, leave: Callable[[], None]) -> None:
        """Emit the test whether the execution was cancelled before it began; then `leave`."""
        f = self._f
        cancelled = f.atomic_load(I64, f.gep(self._runtime, runtime_offset("cancelled")))
        f.if_(f.icmp("ne", cancelled, f.const(I64, 0)), leave, likely=False)

    def check(self, leave: Callable[[], None]) -> None:
        """Emit a poll; `leave` emits what ends a cancelled execution, and ends in `ret`."""
        f = self._f
        now = f.atomic_load(I64, self._counter, "monotonic")

        def poll() -> None:
            f.store(now, self._seen)
            arguments = [self._runtime, f.load(I64, self._first)]
            status = f.call_indirect(self._poll, I32, [PTR, I64], arguments)
            f.if_(f.icmp("ne", status, f.const(I32, 0)), leave)

        f.if_(f.icmp("ne", now, f.load(I64, self._seen)), poll, likely=False)
