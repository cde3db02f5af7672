# SPDX-License-Identifier: Apache-2.0
"""The native runtime of this process: linked once, on first use, and never unloaded.

Owns the thread count (`INGOT_NUM_THREADS` at the start, `set_num_threads` after), the allocator's
statistics, and the addresses that other native code calls (`address("ingot_call")`; the C
signatures are in `records.c_header()`).

Invariant: the code stays mapped until the process ends, because workers sleep in it; after a fork
the child starts with no workers and free locks, and makes new workers when it needs them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

from ingot.artifact.abi import MAX_BUFFER_BYTES
from ingot.llvm.jit import compile_named
from ingot.llvm.linking import Library, link_object
from ingot.llvm.target import TargetSpec
from ingot.runtime.memory.allocator import ALLOCATOR
from ingot.runtime.module import LIBRARY_FUNCTIONS, runtime_module
from ingot.runtime.records import POOL, RUNTIME
from ingot.runtime.threading.interrupts import WATCH
from ingot.runtime.threading.pool import TICKET_BITS
from ingot.support.arguments import require_type
from ingot.support.diagnostics import ArgumentError
from ingot.support.flags import ALLOCATOR_CACHE_BYTES, NUM_THREADS
from ingot.support.forking import ForkLock, defers_fork
from ingot.support.records import record

_SOURCES = ("support", "llvm", "native", "artifact", "runtime")
"""The packages that make the module."""

MAX_THREADS = 4096
SPIN = 100_000
"""Nanoseconds that a worker looks for work, and lets other threads run, before it sleeps.
Programs of small kernels whose workers slept after 5 microseconds took 1.05 to 2.1 times as long
(two threads, Sapphire Rapids, 2026-11-30)."""

_lock = ForkLock()
_CACHE_SHARE = 4
"""The default cache limit is this part (1/n) of the machine's memory."""


@record
class AllocatorStatistics:
    """A snapshot of the allocator, in bytes and counts.

    `allocations - frees` blocks are alive; `system_allocations` of all came from the system.
    """

    bytes_in_use: int
    peak_bytes: int
    bytes_cached: int
    cache_limit: int
    allocations: int
    frees: int
    system_allocations: int


class NativeRuntime:
    """The linked runtime; `native_runtime()` returns the process's only one."""

    def __init__(self, library: Library) -> None:
        """Initialize the records; `native_runtime` is the caller."""
        self._library = library
        initialize = library.function("ingot_initialize", None, *[ctypes.c_int64] * 3)
        initialize(default_num_threads(), SPIN, default_cache_limit())
        self.record = int(library.function("ingot_runtime", ctypes.c_void_p)())
        self._pool = RUNTIME.read(self.record, "pool")
        self._allocator = int(library.function("ingot_allocator", ctypes.c_void_p)())
        self._trim = library.function("ingot_trim", None)
        self._watch = int(library.function("ingot_watch", ctypes.c_void_p)())
        self.set_memory_limit(machine_memory())

    def address(self, name: str) -> int:
        """Return the address of one of `module.NATIVE_FUNCTIONS` (or of `PYTHON_FUNCTIONS`)."""
        return self._library.address(name)

    def function(self, name: str, result: Any, *params: Any) -> Any:
        """Return one of the native functions for ctypes."""
        return self._library.function(name, result, *params)

    @property
    def num_threads(self) -> int:
        """Threads that take part in parallel work, the caller included."""
        return POOL.read(self._pool, "num_threads")

    @property
    def num_workers(self) -> int:
        """Workers that were started so far."""
        return POOL.read(self._pool, "started")

    def set_num_threads(self, count: int) -> None:
        """Use `count` threads, the caller included, from the next parallel region on.

        Results do not depend on it.

        Raises:
            ArgumentError: INGOT0513, `count` is not from 1 to `MAX_THREADS`.
        """
        require_type(count, int, "the number of threads")
        if count is True or not 0 < count <= MAX_THREADS:
            raise ArgumentError(f"the number of threads is from 1 to {MAX_THREADS}, not {count!r}")
        POOL.write(self._pool, "num_threads", count)
        RUNTIME.write(self.record, "num_threads", count)

    def allocator_statistics(self) -> AllocatorStatistics:
        """Return the allocator's counters now."""
        record = ALLOCATOR.structure.from_address(self._allocator)
        names = AllocatorStatistics.__dataclass_fields__
        return AllocatorStatistics(*(int(getattr(record, name)) for name in names))

    def set_cache_limit(self, limit: int) -> None:
        """Cache at most `limit` bytes of free blocks; the excess is returned to the system now."""
        ALLOCATOR.write(self._allocator, "cache_limit", limit)
        if ALLOCATOR.read(self._allocator, "bytes_cached") > limit:
            self.trim()

    def set_memory_limit(self, limit: int) -> None:
        """Refuse new blocks that would bring the bytes in use above `limit`."""
        ALLOCATOR.write(self._allocator, "memory_limit", min(limit, MAX_BUFFER_BYTES))

    def reset_peak(self) -> None:
        """Restart `peak_bytes` from the bytes in use now."""
        in_use = ALLOCATOR.read(self._allocator, "bytes_in_use")
        ALLOCATOR.write(self._allocator, "peak_bytes", in_use)

    def trim(self) -> None:
        """Give all cached blocks back to the system."""
        self._trim()

    def after_fork_in_child(self) -> None:
        """Forget the workers, which fork did not copy, and locks that other threads held."""
        for name in ("lock", "started", "sleepers", "next_worker"):
            POOL.write(self._pool, name, 0)
        # Other threads' work is not in this process, so no ticket of it is left.
        POOL.write(self._pool, "state", POOL.read(self._pool, "state") & ~TICKET_BITS)
        ALLOCATOR.write(self._allocator, "lock", 0)
        for name in ("active", "asleep", "started"):
            WATCH.write(self._watch, name, 0)


def default_num_threads() -> int:
    """Return `INGOT_NUM_THREADS`, or the CPUs that this process may run on."""
    return NUM_THREADS.value() or _cpus()


def _cpus() -> int:
    return max(1, min(len(os.sched_getaffinity(0)), _cgroup_cpus()))


def _cgroup_cpus() -> int:
    """Return the CPUs that a container's quota allows, rounded up; a large number without one."""
    unlimited = 1 << 20
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return unlimited
    return unlimited if quota == "max" else -(-int(quota) // int(period))


def default_cache_limit() -> int:
    """Return `INGOT_ALLOCATOR_CACHE_BYTES`, or a quarter of the machine's memory."""
    chosen = ALLOCATOR_CACHE_BYTES.value()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return memory // _CACHE_SHARE if chosen is None else chosen


def machine_memory() -> int:
    """Return the bytes of memory and swap that this process may use."""
    memory = swap = MAX_BUFFER_BYTES
    with contextlib.suppress(OSError, ValueError, KeyError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        rows = dict(line.split(":", 1) for line in lines)
        memory, swap = (int(rows[name].split()[0]) << 10 for name in ("MemTotal", "SwapTotal"))
    limits = {"memory.max": memory, "memory.swap.max": swap}
    for name, most in limits.items():
        with contextlib.suppress(OSError, ValueError):
            limits[name] = min(most, int(Path(f"/sys/fs/cgroup/{name}").read_text()))
    return sum(limits.values())


def library_imports() -> dict[str, int]:
    """Return the addresses of the C library functions that the runtime module needs."""
    process = ctypes.CDLL(None)
    addresses = {
        name: ctypes.cast(getattr(process, name), ctypes.c_void_p).value
        for name in LIBRARY_FUNCTIONS
    }
    return {name: address for name, address in addresses.items() if address is not None}


@defers_fork
def native_runtime() -> NativeRuntime:
    """Return the process's runtime; the first call compiles (or loads) and links it."""
    with _lock:
        return _link()


def _text() -> str:
    return runtime_module(with_python=True).text()


@cache
def _link() -> NativeRuntime:
    data = compile_named("runtime", _SOURCES, _text, TargetSpec.host()).result()
    library = link_object([data], library_imports())
    runtime = NativeRuntime(library)
    # Never unloaded, not even when the interpreter ends: workers run this code.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    os.register_at_fork(after_in_child=runtime.after_fork_in_child)
    return runtime


def num_threads() -> int:
    """Return how many threads compiled programs use."""
    return native_runtime().num_threads


def set_num_threads(count: int) -> None:
    """Set how many threads compiled programs use, for the whole process."""
    native_runtime().set_num_threads(count)


def allocator_statistics() -> AllocatorStatistics:
    """Return the counters of the buffer allocator."""
    return native_runtime().allocator_statistics()
