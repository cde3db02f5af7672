# SPDX-License-Identifier: Apache-2.0
"""The functions of the C library that native functions of the runtime call, and their structs.

Invariant: types are those of 64-bit Linux; `int` is i32, `size_t` is i64.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from ingot.native.functions import external, inlined
from ingot.native.pointers import Array, Pointer, Struct
from ingot.native.types import i32, i64

SIGINT = int(signal.SIGINT)

CLOCK_REALTIME = 0
"""Counts from 1970, as other recorders of this machine do."""
CLOCK_MONOTONIC = 1

_NANOSECONDS = 1_000_000_000


class Time(Struct):
    """`struct timespec`."""

    seconds: i64
    nanoseconds: i64


SignalHandler = Callable[[i32, Pointer | None, Pointer | None], None]
"""`void(int signal, siginfo_t*, void* context)`."""


class SignalAction(Struct, counts={"rest": 18}):
    """glibc's `struct sigaction`."""

    handler: SignalHandler | None
    rest: Array[i64]


@external("mmap")
def mmap(
    address: Pointer | None, size: i64, protection: i32, flags: i32, file: i32, offset: i64
) -> Pointer:
    """Map pages; the address -1 on failure."""
    ...


@external("munmap")
def munmap(address: Pointer, size: i64) -> i32:
    """Give pages back."""
    ...


@external("madvise")
def madvise(address: Pointer, size: i64, advice: i32) -> i32:
    """Tell the system how pages will be used."""
    ...


@external("aligned_alloc")
def aligned_alloc(alignment: i64, size: i64) -> Pointer | None:
    """Return memory, or null."""
    ...


@external("free")
def c_free(memory: Pointer) -> None:
    """Give memory of `aligned_alloc` back."""


@external("pthread_self")
def pthread_self() -> i64:
    """Return the number of this thread."""
    ...


@external("sigaction")
def sigaction(number: i32, action: SignalAction | None, before: SignalAction | None) -> i32:
    """Get what handles a signal, set it, or both."""
    ...


@external("clock_gettime")
def clock_gettime(clock: i32, time: Time) -> i32:
    """Store the time of a clock."""
    ...


@inlined
def now(clock: i32) -> i64:
    """Return the time of a clock in ns."""
    time = Time.on_stack()
    clock_gettime(clock, time)
    return time.seconds * _NANOSECONDS + time.nanoseconds
