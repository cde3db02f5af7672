# SPDX-License-Identifier: Apache-2.0
"""Threads of an artifact: its own pool, with `--threads=own`.

It emits the pool of the runtime (`ingot.runtime.threading.pool`) and `S_set_threads` into the glue.
Invariant: no thread is started before an execution has work for it, and none before `S_set_threads`
has set more than one; workers are detached and live as long as the process.
"""

from __future__ import annotations

from ingot.artifact.metadata import Metadata
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import I32, I64, PTR
from ingot.llvm.values import FunctionRef, Value
from ingot.native.module import Translation
from ingot.runtime.records import POOL
from ingot.runtime.threading.pool import parallel
from ingot.support.records import record

THREAD_FUNCTIONS = (
    *("pthread_create", "pthread_detach", "pthread_sigmask"),
    *("sched_yield", "syscall", "clock_gettime"),
)
"""Functions of the C library that the pool needs."""

_SPIN = 30_000
"""Nanoseconds that a worker looks for work, and lets other threads run, before it sleeps."""
_MOST_THREADS = 1024


@record
class OwnPool:
    """The pool of an artifact: its record, and the function that runs chunks on it."""

    record: Value
    parallel: FunctionRef


def emit_own_pool(module: ModuleBuilder, metadata: Metadata) -> OwnPool:
    """Add the pool and `i32 S_set_threads(i32 count)`, which returns the count in use."""
    translation = Translation(module)
    translation.add(parallel)
    words = [0] * (POOL.size // 8)
    words[POOL.offset("num_threads") // 8] = 1
    words[POOL.offset("spin") // 8] = _SPIN
    values = ", ".join(f"i64 {word}" for word in words)
    text = f"internal global [{len(words)} x i64] [{values}], align 64"
    pool = module.global_text("pool", text, PTR)
    f = module.function(f"{metadata.symbol}_set_threads", I32, [("count", I32)])
    count = f.imax(1, f.imin(f.params[0], _MOST_THREADS))
    wanted = f.as_value(count, I32)
    address = POOL.address(f, pool, "num_threads")
    f.atomic_store(f.sext(wanted, I64), address, "monotonic")
    f.ret(wanted)
    return OwnPool(pool, translation.reference(parallel))
