# SPDX-License-Identifier: Apache-2.0
"""The fork-join thread pool, emitted as LLVM IR.

`ingot_parallel(pool, fn, env, n)` calls `fn(env, chunk)` for every chunk and returns when all are
done. One 64-bit state word (epoch, tickets, next ticket) is claimed by compare-and-swap; workers
spin a little, then sleep on the epoch. The caller waits for tickets, never for workers: so a
worker that is late, descheduled, or does not exist (after fork) costs nothing but its help.

Invariants: `function` and `env` change only while every ticket of the epoch before is finished,
so a successful swap proves that what was read before it belongs to its epoch. A caller that finds
the pool taken (a nested call, or another thread's) runs its chunks itself. Workers are started by
the first call that needs them, are detached, take no signals and live as long as the process.

Source followed: the join-by-chunks idea of rayon and OpenMP's `schedule(dynamic)`; futex(2).
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import I8, I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.records import POOL
from ingot.runtime.sync import (
    discard,
    emit_futex_wait,
    emit_futex_wake,
    emit_pause,
    emit_try_lock,
    emit_unlock,
    emit_wait_step,
)

MAX_TICKETS = 65535
"""Tickets of one epoch: the state word has 16 bits. More chunks share tickets."""
TICKET_BITS = 0xFFFFFFFF
"""The bits of the state word that are not its epoch; an epoch without any has no work."""

_SIGSET_BYTES = 128
_SIG_SETMASK = 2
_WAKE_ALL = 0x7FFFFFFF


def emit_pool(module: ModuleBuilder) -> FunctionRef:
    """Add the pool to `module`; return `ingot_parallel`."""
    claim = _emit_claim(module)
    worker = _emit_worker(module, claim)
    start = _emit_start(module, worker)
    return _emit_parallel(module, claim, start)


def _epoch(f: FunctionBuilder, state: Value) -> Value:
    return f.lshr(state, f.const(I64, 32))


def _emit_claim(module: ModuleBuilder) -> FunctionRef:
    """Run tickets of one epoch until none is left or the epoch is over."""
    f = module.function(
        "ingot_pool_claim", VOID, [("pool", PTR), ("epoch", I64)], linkage="internal"
    )
    pool, epoch = f.params
    word = POOL.address(f, pool, "state")
    low = f.const(I64, 0xFFFF)

    def step(_: list[Value]) -> list[Value]:
        state = f.atomic_load(I64, word, "acquire")
        f.if_(f.icmp("ne", _epoch(f, state), epoch), f.ret)
        ticket = f.and_(state, low)
        tickets = f.and_(f.lshr(state, f.const(I64, 16)), low)
        f.if_(f.icmp("uge", ticket, tickets), f.ret)
        function = f.atomic_load(PTR, POOL.address(f, pool, "function"), "monotonic")
        env = f.atomic_load(PTR, POOL.address(f, pool, "env"), "monotonic")
        chunks = f.atomic_load(I64, POOL.address(f, pool, "chunks"), "monotonic")
        grain = f.atomic_load(I64, POOL.address(f, pool, "grain"), "monotonic")
        won = f.cmpxchg(word, state, f.add(state, f.const(I64, 1)))[1]

        def run() -> None:
            first = f.mul(ticket, grain)
            last = f.imin(f.add(first, grain), chunks)
            _call_chunks(f, function, env, first, last)
            f.atomicrmw("add", POOL.address(f, pool, "done"), f.const(I64, 1), "release")

        f.if_(won, run)
        return []

    f.while_([], lambda _: f.as_condition(True), step)
    f.unreachable()
    return f.reference


def _call_chunks(
    f: FunctionBuilder, function: Value, env: Value, first: Index, last: Index
) -> None:
    def call(chunk: Value, _: list[Value]) -> None:
        f.call_indirect(function, VOID, [PTR, I64], [env, chunk])

    f.loop(first, last, 1, [], call)


def _emit_worker(module: ModuleBuilder, claim: FunctionRef) -> FunctionRef:
    """Wait for an epoch that is new, help with it, and so on forever."""
    f = module.function("ingot_pool_worker", PTR, [("pool", PTR)], linkage="internal")
    (pool,) = f.params
    word = POOL.address(f, pool, "state")
    number = f.atomicrmw("add", POOL.address(f, pool, "next_worker"), f.const(I64, 1))
    spin = POOL.load(f, pool, "spin")

    def wait(seen: Value) -> Value:
        """Spin until the epoch is not `seen`, at most `spin` pauses; return the epoch."""

        def waiting(values: list[Value]) -> Value:
            again = f.icmp("eq", values[1], seen)
            return f.and_(again, f.icmp("slt", values[0], spin))

        def pause(values: list[Value]) -> list[Value]:
            emit_pause(f)
            state = f.atomic_load(I64, word, "acquire")
            return [f.add(values[0], f.const(I64, 1)), _epoch(f, state)]

        first = _epoch(f, f.atomic_load(I64, word, "acquire"))
        return f.while_([f.const(I64, 0), first], waiting, pause)[1]

    def help_or_sleep(values: list[Value]) -> list[Value]:
        seen = values[0]
        epoch = wait(seen)

        def work() -> None:
            wanted = f.atomic_load(I64, POOL.address(f, pool, "num_threads"), "monotonic")
            takes_part = f.icmp("slt", f.add(number, f.const(I64, 1)), wanted)
            f.if_(takes_part, lambda: discard(f.call(claim, [pool, epoch])))

        f.if_(f.icmp("ne", epoch, seen), work, lambda: _emit_sleep(f, pool, seen))
        return [epoch]

    f.while_([f.const(I64, 0)], lambda _: f.as_condition(True), help_or_sleep)
    f.unreachable()
    return f.reference


def _emit_sleep(f: FunctionBuilder, pool: Value, seen: Value) -> None:
    """Sleep while the epoch is `seen`."""
    # A worker counts itself, then looks at the epoch; a caller publishes the epoch, then looks at
    # the count: whoever is second sees the other.
    sleepers = POOL.address(f, pool, "sleepers")
    epoch_half = f.gep(POOL.address(f, pool, "state"), 4)
    expected = f.trunc(seen, I32)
    f.atomicrmw("add", sleepers, f.const(I32, 1), "seq_cst")
    unchanged = f.icmp("eq", f.atomic_load(I32, epoch_half, "seq_cst"), expected)
    f.if_(unchanged, lambda: emit_futex_wait(f, epoch_half, expected))
    f.atomicrmw("sub", sleepers, f.const(I32, 1), "seq_cst")


def _emit_start(module: ModuleBuilder, worker: FunctionRef) -> FunctionRef:
    """Start workers until `wanted` exist; on failure fewer do, which is slower but right."""
    f = module.function(
        "ingot_pool_start", VOID, [("pool", PTR), ("wanted", I64)], linkage="internal"
    )
    pool, wanted = f.params
    started = POOL.address(f, pool, "started")

    def start(count: Value, _: list[Value]) -> None:
        def made() -> None:
            f.atomic_store(f.add(count, f.const(I64, 1)), started, "monotonic")

        f.if_(emit_detached_thread(f, worker, pool), made)

    f.loop(f.atomic_load(I64, started, "monotonic"), wanted, 1, [], start)
    f.ret()
    return f.reference


def emit_detached_thread(f: FunctionBuilder, function: FunctionRef, argument: Value) -> Value:
    """Start a thread that takes no signals and nobody waits for; return whether it exists."""
    set_mask = f.module.declare("pthread_sigmask", I32, [I32, PTR, PTR])
    create = f.module.declare("pthread_create", I32, [PTR, PTR, PTR, PTR])
    detach = f.module.declare("pthread_detach", I32, [I64])
    everything, before = f.alloca(I8, _SIGSET_BYTES, 8), f.alloca(I8, _SIGSET_BYTES, 8)
    thread = f.alloca(I64)
    f.memset(everything, 0xFF, _SIGSET_BYTES)
    # A thread inherits the mask: the user's signal handlers must run on the user's threads.
    mode = f.const(I32, _SIG_SETMASK)
    f.call(set_mask, [mode, everything, before])
    failed = f.call(create, [thread, zero(PTR), Value(PTR, function.text), argument])
    f.call(set_mask, [mode, before, zero(PTR)])
    made = f.icmp("eq", failed, f.const(I32, 0))
    f.if_(made, lambda: discard(f.call(detach, [f.load(I64, thread)])))
    return made


def _emit_parallel(module: ModuleBuilder, claim: FunctionRef, start: FunctionRef) -> FunctionRef:
    f = module.function(
        "ingot_parallel",
        VOID,
        [("pool", PTR), ("function", PTR), ("env", PTR), ("chunks", I64)],
    )
    pool, function, env, chunks = f.params

    def serially() -> None:
        _call_chunks(f, function, env, 0, chunks)
        f.ret()

    f.if_(f.icmp("sle", chunks, f.const(I64, 1)), serially)
    threads = f.atomic_load(I64, POOL.address(f, pool, "num_threads"), "monotonic")
    f.if_(f.icmp("sle", threads, f.const(I64, 1)), serially)
    lock = POOL.address(f, pool, "lock")
    f.if_(f.icmp("eq", emit_try_lock(f, lock), f.as_condition(False)), serially, likely=False)
    workers = f.sub(threads, f.const(I64, 1))
    started = f.atomic_load(I64, POOL.address(f, pool, "started"), "monotonic")
    missing = f.icmp("slt", started, workers)
    f.if_(missing, lambda: discard(f.call(start, [pool, workers])), likely=False)
    grain = f.udiv(f.add(chunks, f.const(I64, MAX_TICKETS - 1)), f.const(I64, MAX_TICKETS))
    rounded = f.add(chunks, f.sub(grain, f.const(I64, 1)))
    tickets = f.udiv(rounded, grain)
    epoch = _emit_publish(f, pool, tickets, grain)
    _emit_wake(f, pool, tickets, f.icmp("sgt", started, workers))
    f.call(claim, [pool, epoch])
    done = POOL.address(f, pool, "done")
    f.while_(
        [f.const(I64, 0)],
        lambda _: f.icmp("ne", f.atomic_load(I64, done, "acquire"), tickets),
        lambda values: [emit_wait_step(f, values[0])],
    )
    emit_unlock(f, lock)
    f.ret()
    return f.reference


def _emit_publish(f: FunctionBuilder, pool: Value, tickets: Value, grain: Value) -> Value:
    """Write the work, then the new state; return the epoch."""
    _, function, env, chunks = f.params
    work = {"function": function, "env": env, "chunks": chunks, "grain": grain}
    for name, value in {**work, "done": f.const(I64, 0)}.items():
        f.atomic_store(value, POOL.address(f, pool, name), "monotonic")
    word = POOL.address(f, pool, "state")
    before = _epoch(f, f.atomic_load(I64, word, "monotonic"))
    high = f.shl(f.add(before, f.const(I64, 1)), f.const(I64, 32))
    state = f.or_(high, f.shl(tickets, f.const(I64, 16)))
    f.atomic_store(state, word, "seq_cst")
    return _epoch(f, state)


def _emit_wake(f: FunctionBuilder, pool: Value, tickets: Value, surplus: Value) -> None:
    """Wake as many workers as can help; all of them if some would not take part."""
    sleeping = f.atomic_load(I32, POOL.address(f, pool, "sleepers"), "seq_cst")
    helpers = f.trunc(f.sub(tickets, f.const(I64, 1)), I32)
    count = f.select(surplus, f.const(I32, _WAKE_ALL), helpers)
    epoch_half = f.gep(POOL.address(f, pool, "state"), 4)
    asleep = f.icmp("ne", sleeping, f.const(I32, 0))
    f.if_(asleep, lambda: emit_futex_wake(f, epoch_half, count))
