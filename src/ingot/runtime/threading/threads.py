# SPDX-License-Identifier: Apache-2.0
"""Detached threads.

Invariant: such a thread takes no signals, so the user's handlers run on the user's threads.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.native.functions import external, native
from ingot.native.operations import memset
from ingot.native.pointers import Array, Pointer
from ingot.native.types import i8, i32, i64

_SIGSET_BYTES = 128
_SIG_SETMASK = 2

ThreadFunction = Callable[[Pointer], Pointer | None]


@external("pthread_sigmask")
def pthread_sigmask(mode: i32, signals: Pointer, before: Pointer | None) -> i32:
    """Set the signals that this thread blocks."""
    ...


@external("pthread_create")
def pthread_create(
    thread: Array[i64], attributes: Pointer | None, function: ThreadFunction, argument: Pointer
) -> i32:
    """Start a thread; 0 if it exists."""
    ...


@external("pthread_detach")
def pthread_detach(thread: i64) -> i32:
    """Let the system clean up a thread when it ends: it is never joined."""
    ...


@native
def start_detached(function: ThreadFunction, argument: Pointer) -> bool:
    """Start a detached thread that takes no signals; return whether it exists."""
    everything = Array[i8].on_stack(_SIGSET_BYTES)
    before = Array[i8].on_stack(_SIGSET_BYTES)
    thread = Array[i64].on_stack(1)
    memset(everything, -1, _SIGSET_BYTES)
    # A thread inherits the mask: the user's signal handlers must run on the user's threads.
    pthread_sigmask(_SIG_SETMASK, everything, before)
    failed = pthread_create(thread, None, function, argument)
    pthread_sigmask(_SIG_SETMASK, before, None)
    if failed != 0:
        return False
    pthread_detach(thread[0])
    return True
