# SPDX-License-Identifier: Apache-2.0
"""Synchronization of native functions: spin lock, pause, futex sleep and wake.

Linux only: sleeping is the futex system call, because a futex needs no initialization, survives
fork and is a plain i32. For another system, `pthread_mutex_t` and `pthread_cond_t` would go into
the record and replace the futex functions; nothing else depends on how a worker sleeps.

Source: futex(2); https://www.kernel.org/doc/html/latest/admin-guide/pm/ (pause in spin loops).
"""

from __future__ import annotations

import platform
import sys
import time

from ingot.llvm.builder import FunctionBuilder
from ingot.llvm.types import I32, I64, PTR, VOID
from ingot.llvm.values import Value, zero
from ingot.native.functions import emitted, inlined
from ingot.native.pointers import Array, Atomic
from ingot.native.types import i32, i64
from ingot.support.diagnostics import UnsupportedError

_FUTEX_NUMBERS = {"x86_64": 202, "AMD64": 202, "aarch64": 98, "riscv64": 98}
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129

EVERYBODY = 0x7FFFFFFF
"""The number of threads to wake that means all."""

YIELD_EVERY = 1024
"""Pauses of a waiting loop after which the thread lets others run."""


def futex_number(architecture: str) -> int:
    """Return the number of the futex system call.

    Args:
        architecture: the architecture, for code for another machine than this.

    Raises:
        UnsupportedError: there is no futex.
    """
    if architecture != "x86":
        return _FUTEX_NUMBERS[architecture]
    number = _FUTEX_NUMBERS.get(platform.machine())
    if number is None or not sys.platform.startswith("linux"):
        raise UnsupportedError(
            f"the native runtime has no thread pool for {sys.platform} on {platform.machine()}",
            hint="run on Linux (x86-64, AArch64 or RISC-V)",
        )
    return number


def discard(_: object) -> None:
    """Drop the value of an emitted call, so that a branch may end in it."""


def emit_pause(f: FunctionBuilder) -> None:
    """Tell an x86 CPU that this is a waiting loop; for other CPUs nothing is emitted."""
    if f.module.architecture == "x86" and platform.machine() in ("x86_64", "AMD64"):
        f.intrinsic("llvm.x86.sse2.pause", VOID, [])


def emit_yield(f: FunctionBuilder) -> None:
    """Let another thread run."""
    f.call(f.module.declare("sched_yield", I32, []), [])


def emit_wait_step(f: FunctionBuilder, count: Value) -> Value:
    """Pause once, yield now and then; return the next count."""
    emit_pause(f)
    following = f.add(count, f.const(I64, 1))
    rest = f.and_(following, f.const(I64, YIELD_EVERY - 1))
    f.if_(f.icmp("eq", rest, f.const(I64, 0)), lambda: emit_yield(f), likely=False)
    return following


def _emit_futex(
    f: FunctionBuilder, address: Value, operation: int, number: Value, timeout: Value
) -> None:
    # `syscall` is variadic; with integer arguments only, the plain call is the same machine code.
    types = [I64, PTR, I64, I64, PTR, PTR, I64]
    number_of_call = f.const(I64, futex_number(f.module.architecture))
    call = [number_of_call, address, f.const(I64, operation), f.zext(number, I64)]
    f.call(f.module.declare("syscall", I64, types), [*call, timeout, zero(PTR), f.const(I64, 0)])


def emit_futex_wait(
    f: FunctionBuilder, address: Value, expected: Value, timeout: Value | None = None
) -> None:
    """Sleep while the i32 at `address` is `expected`; may return early.

    `timeout` is the address of the longest time, `{i64 seconds, i64 nanoseconds}`; none: no limit.
    """
    _emit_futex(f, address, _FUTEX_WAIT_PRIVATE, expected, timeout or zero(PTR))


def emit_futex_wake(f: FunctionBuilder, address: Value, count: Value) -> None:
    """Wake at most `count` (i32) threads that sleep at `address`."""
    _emit_futex(f, address, _FUTEX_WAKE_PRIVATE, count, zero(PTR))


@emitted(emit_pause)
def pause() -> None:
    """Tell the CPU that this is a waiting loop."""
    time.sleep(0)


@emitted(emit_yield)
def let_others_run() -> None:
    """Let another thread run."""
    time.sleep(0)


@emitted(emit_wait_step)
def wait_step(count: i64) -> i64:
    """Pause once, yield now and then; return the next count."""
    time.sleep(0)
    return count + 1


@inlined
def try_lock(word: Atomic[i32]) -> bool:
    """Take the lock if it is free; return whether it was taken."""
    return word.compare_exchange(0, 1, "acquire", "monotonic")


@inlined
def lock(word: Atomic[i32]) -> None:
    """Take the lock, waiting for it. For short critical sections without system calls."""
    steps: i64 = 0
    while not try_lock(word):
        steps = wait_step(steps)


@inlined
def unlock(word: Atomic[i32]) -> None:
    """Give the lock back."""
    word.store(0)


@emitted(emit_futex_wait)
def futex_wait(word: Atomic[i32], expected: i32) -> None:
    """Sleep while `word` is `expected`; may return early."""
    if word.load() == expected:
        time.sleep(0)


@emitted(emit_futex_wait)
def futex_wait_until(word: Atomic[i32], expected: i32, limit: Array[i64]) -> None:
    """Sleep as `futex_wait`, for at most `limit`: seconds, nanoseconds."""
    futex_wait(word, expected)


@emitted(emit_futex_wake)
def futex_wake(word: Atomic[i32], count: i32) -> None:
    """Wake at most `count` threads that sleep at `word`; in plain Python none sleeps long."""
