# SPDX-License-Identifier: Apache-2.0
"""Thread pools besides the process's own: for programs with another number of threads, for devices.

If virtual devices shared the process's pool, the first one would take all threads, and each of the
others would run on its own thread besides: more threads than CPUs, and the first would wait for the
others at the next collective. Invariant: a pool's workers belong to this process; a
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
        address: the address of the `IngotPool`.
    """

    def __init__(self) -> None:
        """Make it, without workers."""
        self._memory, self.address = POOL.on_line()
        POOL.write(self.address, "spin", SPIN)
        _pools.add(self)

    def give(self, runtime: Any, threads: int) -> None:
        """Let an execution use this pool.

        Args:
            runtime: the execution's `IngotRuntime`, as a ctypes structure.
            threads: how many threads it uses, the caller included.
        """
        POOL.write(self.address, "num_threads", threads)
        runtime.pool, runtime.num_threads = self.address, threads

    def give_share(self, runtime: Any, devices: int) -> None:
        """Let one of `devices` parallel devices use this pool, with its share of the threads."""
        self.give(runtime, max(1, native_runtime().num_threads // devices))

    def forget_workers(self) -> None:
        """Reset the pool to one without workers and work, in a forked child."""
        threads = POOL.read(self.address, "num_threads")
        ctypes.memset(self.address, 0, POOL.size)
        POOL.write(self.address, "spin", SPIN)
        POOL.write(self.address, "num_threads", threads)


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget_workers()


os.register_at_fork(after_in_child=_after_fork)
