# SPDX-License-Identifier: Apache-2.0
"""Native functions that return the records of the process, which are filled once.

Invariant: `ingot_initialize` is called before any other function of the runtime.
"""

from __future__ import annotations

from ingot.artifact.abi import MAX_BUFFER_BYTES
from ingot.native.functions import exported
from ingot.native.statics import static
from ingot.native.types import i64
from ingot.runtime.executor.profiler import STATE as PROFILER
from ingot.runtime.executor.profiler import Profiler
from ingot.runtime.executor.staged_code import cpu_stages
from ingot.runtime.memory.allocator import STATE as ALLOCATOR
from ingot.runtime.memory.allocator import Allocator, allocate, free
from ingot.runtime.records import ABI_VERSION, Pool, Runtime
from ingot.runtime.threading.interrupts import STATE as WATCH
from ingot.runtime.threading.interrupts import Watch, poll
from ingot.runtime.threading.pool import parallel

RUNTIME = static(Runtime, "IngotRuntime.state")
POOL = static(Pool, "IngotPool.state")


@exported("ingot_initialize")
def initialize(num_threads: i64, spin: i64, cache_limit: i64) -> None:
    """Fill the records."""
    RUNTIME.pool = POOL
    RUNTIME.parallel = parallel
    RUNTIME.attention = WATCH.attention
    RUNTIME.poll = poll
    RUNTIME.num_threads = num_threads
    RUNTIME.allocate = allocate
    RUNTIME.free = free
    RUNTIME.abi_version = ABI_VERSION
    RUNTIME.stages = cpu_stages()
    POOL.num_threads.store(num_threads, "monotonic")
    POOL.spin = spin
    ALLOCATOR.cache_limit = cache_limit
    ALLOCATOR.memory_limit = MAX_BUFFER_BYTES


@exported("ingot_runtime")
def runtime_record() -> Runtime:
    """Return the runtime record of the process."""
    return RUNTIME


@exported("ingot_allocator")
def allocator_record() -> Allocator:
    """Return the state of the allocator."""
    return ALLOCATOR


@exported("ingot_watch")
def watch_record() -> Watch:
    """Return the state that executions share with the thread that watches them."""
    return WATCH


@exported("ingot_profiler")
def profiler_record() -> Profiler:
    """Return the events of a recording."""
    return PROFILER
