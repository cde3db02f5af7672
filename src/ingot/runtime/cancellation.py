# SPDX-License-Identifier: Apache-2.0
"""`Cancellation`: ends executions from another thread, or at a deadline.

An execution that gets one runs with a runtime record of its own, which says when it must end
(`ingot.runtime.threading.interrupts`). It ends at its next poll: in a loop of the host program, or
after a kernel; a kernel is not interrupted. The call then raises ExecutionError INGOT0511, its
results are dropped, its arena is freed, and the executable can be called again. Arguments that were
donated to it may be overwritten, as without a cancellation.

Example (in one thread, then in another):
    cancellation = Cancellation(seconds=10)
    executable.run(x, cancellation=cancellation)
    cancellation.cancel()
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from ingot.runtime.native import native_runtime
from ingot.runtime.records import RUNTIME


class Cancellation:
    """Ends executions, any number of them, at once or one after another."""

    __slots__ = ("_interrupt", "_record")

    def __init__(self, seconds: float | None = None) -> None:
        """End executions `seconds` from now, or when `cancel` is called."""
        runtime = native_runtime()
        shared = RUNTIME.structure.from_address(runtime.record)
        self._record: Any = RUNTIME.structure.from_buffer_copy(shared)
        self._interrupt = runtime.function("ingot_interrupt", None)
        if seconds is not None:
            self._record.deadline = max(1, time.monotonic_ns() + int(seconds * 1e9))

    @property
    def runtime(self) -> int:
        """Address of the runtime record to run with; valid while this object lives."""
        return ctypes.addressof(self._record)

    @property
    def is_cancelled(self) -> bool:
        """Whether executions end: `cancel` was called, or the deadline has passed."""
        deadline = int(self._record.deadline)
        return bool(self._record.cancelled) or 0 < deadline <= time.monotonic_ns()

    def cancel(self) -> None:
        """End the executions that got this object, and those that will get it."""
        self._record.cancelled = 1
        self._interrupt()
