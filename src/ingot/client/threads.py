# SPDX-License-Identifier: Apache-2.0
"""A thread pool for the executables that were compiled with `threads=`.

The runtime has one pool for all programs. A program that is to use another number of threads runs
with a runtime record of its own that leads to another pool. Pools of one size are shared, and live
as long as the process: their workers stand in them.

Invariant: the number of threads never changes a result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from functools import cache
from typing import Any

from ingot.llvm.machine_model import LINE_BYTES
from ingot.runtime.native import MAX_THREADS, SPIN, native_runtime
from ingot.runtime.program import Program
from ingot.runtime.records import POOL, RUNTIME
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ArgumentError


def pool_of(threads: int) -> int:
    """Return the address of the pool of that size, an `IngotPool`; it lives with the process."""
    return _pool(threads)[0]


@cache
def _pool(threads: int) -> tuple[int, object]:
    """Return the address of a pool, and what holds its memory."""
    size = ctypes.sizeof(POOL.structure)
    memory = ctypes.create_string_buffer(size + LINE_BYTES)
    address = -(-ctypes.addressof(memory) // LINE_BYTES) * LINE_BYTES
    POOL.write(address, "num_threads", threads)
    POOL.write(address, "spin", SPIN)
    return address, memory


def require_threads(threads: int) -> None:
    """Raise ArgumentError (INGOT0513) unless it is a number of threads that a pool can have."""
    require_type(threads, int, "threads")
    if threads is True or not 0 < threads <= MAX_THREADS:
        raise ArgumentError(f"threads is from 1 to {MAX_THREADS}, not {threads!r}")


def run_with(threads: int, program: Program, *args: Any, donate: Collection[int] = ()) -> Any:
    """Run a program on `threads` threads, the caller included."""
    shared = RUNTIME.structure.from_address(native_runtime().record)
    # A copy for each execution: who profiles or interrupts programs writes into the shared one.
    record: Any = RUNTIME.structure.from_buffer_copy(shared)
    record.pool, record.num_threads = pool_of(threads), threads
    return program.run_on(ctypes.addressof(record), *args, donate=donate)


def started_workers(threads: int) -> int:
    """Return how many workers the pool of that size has started so far."""
    return int(POOL.read(pool_of(threads), "started"))
