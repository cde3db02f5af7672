# SPDX-License-Identifier: Apache-2.0
"""Thread pools of virtual devices, which run side by side: each has its share of the threads.

With the process's one pool, the first device that comes takes all threads, and the others work
alone beside them: more threads than CPUs, and the first waits for the others at the next
collective. Invariant: a pool's workers belong to this process; a forked child has none.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from ingot.llvm.machine_model import LINE_BYTES
from ingot.runtime.native import native_runtime
from ingot.runtime.records import POOL, RUNTIME

_pools: weakref.WeakSet[DevicePool] = weakref.WeakSet()


class DevicePool:
    """The pool of one device; lives as long as the device's thread."""

    def __init__(self) -> None:
        """Make it, without workers."""
        self._memory: Any = ctypes.create_string_buffer(POOL.size + LINE_BYTES)
        start = ctypes.addressof(self._memory)
        self.address = start + -start % LINE_BYTES
        shared = RUNTIME.read(native_runtime().record, "pool")
        POOL.write(self.address, "spin", POOL.read(shared, "spin"))
        _pools.add(self)

    def give(self, runtime: Any, devices: int) -> None:
        """Let an execution use this pool.

        Args:
            runtime: the execution's `IngotRuntime`, as a ctypes structure.
            devices: devices of this process that run side by side.
        """
        threads = max(1, native_runtime().num_threads // devices)
        POOL.write(self.address, "num_threads", threads)
        runtime.pool, runtime.num_threads = self.address, threads

    def forget_workers(self) -> None:
        """Be a pool without workers and work, in a forked child."""
        spin = POOL.read(self.address, "spin")
        ctypes.memset(self.address, 0, POOL.size)
        POOL.write(self.address, "spin", spin)


def _after_fork() -> None:
    for pool in list(_pools):
        pool.forget_workers()


os.register_at_fork(after_in_child=_after_fork)
