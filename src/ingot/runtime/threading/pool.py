# SPDX-License-Identifier: Apache-2.0
"""The fork-join thread pool, as native functions.

`ingot_parallel(pool, fn, env, n)` calls `fn(env, chunk)` for every chunk and returns when all are
done. One 64-bit state word (epoch, end and first of the tickets that are left) is claimed by
compare-and-swap; workers spin a little, then sleep on the epoch. The caller waits for tickets,
never for workers, so a worker that is late, descheduled, or does not exist (after fork) only does
not help.

Half of the threads take the first ticket that is left, half the last. So two threads compute the
same halves of one array after the other, and find them in their own caches: 50 steps of a 256x256
stencil took 0.65 of the time that they took in the order of the tickets (two threads, Sapphire
Rapids, 2026-11-30).

Invariants: `function` and `env` change only while every ticket of the epoch before is finished,
so a successful swap proves that what was read before it belongs to its epoch. A caller that finds
the pool taken (a nested call, or another thread's) runs its chunks itself. Workers are started by
the first call that needs them, are detached, take no signals and live as long as the process.

Source: the join by chunks of rayon and of OpenMP's `schedule(dynamic)`; futex(2).
"""

from __future__ import annotations

from ingot.native.functions import exported, inlined, native
from ingot.native.operations import unlikely
from ingot.native.pointers import Atomic, Pointer
from ingot.native.types import i32, i64
from ingot.runtime.c_library import CLOCK_MONOTONIC, now
from ingot.runtime.records import ChunkFunction, Pool
from ingot.runtime.threading.float_modes import PLAIN, set_float_modes
from ingot.runtime.threading.sync import (
    EVERYBODY,
    futex_wait,
    futex_wake,
    let_others_run,
    pause,
    try_lock,
    unlock,
    wait_step,
)
from ingot.runtime.threading.threads import start_detached

MAX_TICKETS = 65535
"""Tickets of one epoch: the state word has 16 bits. More chunks share tickets."""
PAUSES = 500
"""Pauses of a worker that looks for work; after them it lets other threads run each time."""
CROWDED = -1
"""No epoch: a worker let another thread run, which kept the CPU."""
LONG_YIELD = 50_000
"""Nanoseconds from which on another thread kept the CPU; without one a yield takes 200 to 500."""
CROWDED_WAITS = 256
"""Times that the worker then sleeps right after its pauses. Workers of other libraries spin and
keep the CPU from one that yields, not from one that is woken: a loop of a kernel and a product of
PyTorch's took 1.23 times as long as with workers that slept at once, and takes 1.04 (two threads,
Sapphire Rapids, 2026-11-30)."""
TICKET_BITS = 0xFFFFFFFF
"""The bits of the state word that are not its epoch; an epoch without any has no work."""


@inlined
def epoch_of(state: i64) -> i64:
    """Return the epoch of a state word."""
    return state >> 32 & 0xFFFFFFFF


@inlined
def call_chunks(function: ChunkFunction, env: Pointer | None, first: i64, end: i64) -> None:
    """Run chunks one after the other."""
    for chunk in range(first, end):
        function(env, chunk)


@native
def claim(pool: Pool, epoch: i64, is_last: bool) -> None:
    """Run tickets of one epoch until none is left or the epoch is over.

    Args:
        pool: the pool.
        epoch: the epoch.
        is_last: whether to take the last ticket that is left, not the first.
    """
    while True:
        state = pool.state.load("acquire")
        first = state & 0xFFFF
        end = state >> 16 & 0xFFFF
        if epoch_of(state) != epoch or first >= end:
            return
        ticket = end - 1 if is_last else first
        claimed = state - (1 << 16) if is_last else state + 1
        function = pool.function.load("monotonic")
        env = pool.env.load("monotonic")
        chunks = pool.chunks.load("monotonic")
        grain = pool.grain.load("monotonic")
        if pool.state.compare_exchange(state, claimed, "acq_rel", "acquire"):
            chunk = ticket * grain
            after = chunk + grain
            call_chunks(function, env, chunk, after if after < chunks else chunks)
            pool.done.fetch_add(1, "release")


@native
def wait_for_epoch(pool: Pool, seen: i64, spin: i64) -> i64:
    """Wait until the epoch is not `seen`; return the epoch, or `CROWDED`.

    Args:
        pool: the pool.
        seen: an epoch.
        spin: nanoseconds to wait after some pauses; other threads may run meanwhile.
    """
    pauses: i64 = 0
    epoch = epoch_of(pool.state.load("acquire"))
    while epoch == seen and pauses < PAUSES:
        pause()
        pauses += 1
        epoch = epoch_of(pool.state.load("acquire"))
    if epoch != seen or spin == 0:
        return epoch
    time = now(CLOCK_MONOTONIC)
    end = time + spin
    while epoch == seen and time < end:
        let_others_run()
        before = time
        time = now(CLOCK_MONOTONIC)
        if time - before > LONG_YIELD:
            return CROWDED
        epoch = epoch_of(pool.state.load("acquire"))
    return epoch


@native
def sleep(pool: Pool, seen: i64) -> None:
    """Sleep while the epoch is `seen`."""
    # A worker counts itself, then looks at the epoch; a caller publishes the epoch, then looks at
    # the count: the second of both sees what the first has written.
    epoch = Atomic[i32].at(pool.state + 4)
    pool.sleepers.fetch_add(1, "seq_cst")
    if epoch.load("seq_cst") == i32(seen):
        futex_wait(epoch, i32(seen))
    pool.sleepers.fetch_sub(1, "seq_cst")


@native
def work(argument: Pointer) -> Pointer | None:
    """Wait for a new epoch and help with it, forever."""
    # A thread begins with the modes of the one that has started it.
    set_float_modes(PLAIN)
    pool = Pool.at(argument)
    number = pool.next_worker.fetch_add(1)
    seen: i64 = 0
    crowded: i64 = 0
    while True:
        epoch = wait_for_epoch(pool, seen, pool.spin if crowded == 0 else 0)
        if epoch == CROWDED:
            crowded = CROWDED_WAITS
            epoch = epoch_of(pool.state.load("acquire"))
            sleep(pool, epoch)
        elif epoch == seen:
            sleep(pool, seen)
        elif number + 1 < pool.num_threads.load("monotonic"):
            claim(pool, epoch, number & 1 == 0)
        seen = epoch
        crowded = crowded - 1 if crowded > 0 else 0


@native
def start_workers(pool: Pool, wanted: i64) -> None:
    """Start workers until `wanted` exist; on failure fewer do, which is slower but right."""
    for count in range(pool.started.load("monotonic"), wanted):
        if start_detached(work, pool):
            pool.started.store(count + 1, "monotonic")


@inlined
def publish(pool: Pool, tickets: i64) -> i64:
    """Write the new state, after the work; return the epoch."""
    pool.done.store(0, "monotonic")
    epoch = epoch_of(pool.state.load("monotonic")) + 1
    pool.state.store(epoch << 32 | tickets << 16, "seq_cst")
    return epoch & 0xFFFFFFFF


@inlined
def wake(pool: Pool, tickets: i64, has_surplus: bool) -> None:
    """Wake as many workers as can help; all of them if some would not take part."""
    if pool.sleepers.load("seq_cst") != 0:
        helpers = i32(tickets - 1)
        futex_wake(Atomic[i32].at(pool.state + 4), i32(EVERYBODY) if has_surplus else helpers)


@exported("ingot_parallel")
def parallel(pool: Pool, function: ChunkFunction, env: Pointer | None, chunks: i64) -> None:
    """Run `function(env, chunk)` for every chunk; return when all are done."""
    threads = pool.num_threads.load("monotonic")
    if chunks <= 1 or threads <= 1 or not try_lock(pool.lock):
        call_chunks(function, env, 0, chunks)
        return
    started = pool.started.load("monotonic")
    if unlikely(started < threads - 1):
        start_workers(pool, threads - 1)
    grain = (chunks + (MAX_TICKETS - 1)) // MAX_TICKETS
    tickets = (chunks + (grain - 1)) // grain
    pool.function.store(function, "monotonic")
    pool.env.store(env, "monotonic")
    pool.chunks.store(chunks, "monotonic")
    pool.grain.store(grain, "monotonic")
    epoch = publish(pool, tickets)
    wake(pool, tickets, started > threads - 1)
    claim(pool, epoch, False)
    steps: i64 = 0
    while pool.done.load("acquire") != tickets:
        steps = wait_step(steps)
    unlock(pool.lock)
