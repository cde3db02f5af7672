# SPDX-License-Identifier: Apache-2.0
"""A thread pool for the executables that were compiled with `threads=`.

The runtime has one pool for all programs. A program with another number of threads runs with a
runtime record of its own that points to another pool. Pools of one size are shared, and live as
long as the process, since their workers never end.

Invariant: the number of threads never changes a result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from functools import cache
from typing import Any

from ingot.runtime.native import MAX_THREADS, native_runtime
from ingot.runtime.own_pools import OwnPool
from ingot.runtime.programs.program import Program
from ingot.runtime.records import POOL, RUNTIME
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ArgumentError


def pool_of(threads: int) -> int:
    """Return the address of the pool of that size, an `IngotPool`; it lives with the process."""
    pool = _pool(threads)
    POOL.write(pool.address, "num_threads", threads)
    return pool.address


@cache
def _pool(threads: int) -> OwnPool:
    """Return the pool of that size."""
    return OwnPool()


def require_threads(threads: int) -> None:
    """Raise ArgumentError (INGOT0513) unless it is a number of threads that a pool can have."""
    require_type(threads, int, "threads")
    if threads is True or not 0 < threads <= MAX_THREADS:
        raise ArgumentError(f"threads is from 1 to {MAX_THREADS}, not {threads!r}")


def run_with(threads: int, program: Program, *args: Any, donate: Collection[int] = ()) -> Any:
    """Run a program on `threads` threads, the caller included."""
    shared = RUNTIME.structure.from_address(native_runtime().record)
    # A copy for each execution, since profiling and interrupts write into the shared one.
    record: Any = RUNTIME.structure.from_buffer_copy(shared)
    _pool(threads).give(record, threads)
    return program.run_on(ctypes.addressof(record), *args, donate=donate)


def started_workers(threads: int) -> int:
    """Return how many workers the pool of that size has started so far."""
    return int(POOL.read(pool_of(threads), "started"))
