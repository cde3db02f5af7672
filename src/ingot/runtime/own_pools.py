# SPDX-License-Identifier: Apache-2.0
"""Thread pools beside the process's own: of programs with another number of threads, of devices.

If virtual devices that run side by side shared the process's pool, the first that comes would take
all threads, and the others would work alone beside them: more threads than CPUs, and the first
waits for the others at the next collective. Invariant: a pool's workers belong to this process; a
forked child has none.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from ingot.runtime.native import SPIN, native_runtime
from ingot.runtime.records import POOL

_pools: weakref.WeakSet[OwnPool] = weakref.WeakSet()


class OwnPool:
    """A pool; lives as long as any thread that works in it.

    Attributes:
        address: of the `IngotPool`.
    """

    def __init__(self) -> None:
        """Make it, without workers."""
        self._memory, self.address = POOL.on_line()
        POOL.write(self.address, "spin", SPIN)
        _pools.add(self)

    def give(self, runtime: Any, threads: int) -> None:
        """Let an execution use this pool, with so many threads, the caller included.

        Args:
            runtime: the execution's `IngotRuntime`, as a ctypes structure.
            threads: how many.
        """
        POOL.write(self.address, "num_threads", threads)
        runtime.pool, runtime.num_threads = self.address, threads

    def give_share(self, runtime: Any, devices: int) -> None:
        """The same, with a device's share of the threads of `devices` that run side by side."""
        self.give(runtime, max(1, native_runtime().num_threads // devices))

    def forget_workers(self) -> None:
        """Be a pool without workers and work, in a forked child."""
        threads = POOL.read(self.address, "num_threads")
        ctypes.memset(self.address, 0, POOL.size)
        POOL.write(self.address, "spin", SPIN)
        POOL.write(self.address, "num_threads", threads)


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget_workers()


os.register_at_fork(after_in_child=_after_fork)
