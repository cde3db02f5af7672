# SPDX-License-Identifier: Apache-2.0
"""`Later`: a result that a helper thread may have made before somebody needs it.

Machine code is made outside Python's lock, so helpers compile the first modules of a program while
this thread writes the next ones. There are as many helpers as other CPUs; one ends when it finds
nothing to do. Who needs a result that nobody has begun makes it.

Invariant: forks wait for what helpers have to do (`support.forking`), and so does the end of the
interpreter: no helper is in LLVM while its destructors run. All functions are thread-safe.

Example:
    >>> total = Later(lambda: sum(range(10)))
    >>> total.begin()
    >>> total.result()
    45
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ingot.support.forking import ForkLock, deferring_fork, defers_fork

T = TypeVar("T")


def usable_cpus() -> int:
    """Return the number of CPUs that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Later(Generic[T]):
    """What `job` returns, which is called once; a job that raises is called again."""

    __slots__ = ("_job", "_lock", "_made")

    def __init__(self, job: Callable[[], T]) -> None:
        """Hold `job`, which is not begun."""
        self._job: Callable[[], T] | None = job
        self._lock = threading.Lock()
        self._made: list[T] = []

    def begin(self) -> None:
        """Let a helper call the job, if this process has a CPU for one."""
        if not self._made and usable_cpus() > 1:
            _put(self._attempt)

    def result(self) -> T:
        """Return the result: wait for the helper that makes it, or make it.

        Raises what the job raises.
        """
        return self._made[0] if self._made else self._awaited()

    @defers_fork
    def _awaited(self) -> T:
        with self._lock:
            return self._finished()

    def _attempt(self) -> None:
        """Make the result, unless another thread does."""
        if self._lock.acquire(blocking=False):
            try:
                # An error is raised again where the result is needed.
                with contextlib.suppress(Exception):
                    self._finished()
            finally:
                self._lock.release()

    def _finished(self) -> T:
        if self._job is not None:
            self._made.append(self._job())
            self._job = None
        return self._made[0]


def made(result: T) -> Later[T]:
    """Return a result that is there already."""
    later = Later(lambda: result)
    later.result()
    return later


_lock = ForkLock()
_waiting: deque[Callable[[], None]] = deque()
_helpers: list[threading.Thread] = []


def _put(attempt: Callable[[], None]) -> None:
    """Queue an attempt; start a helper if none is free."""
    with _lock:
        # In a forked child the helpers of the parent are not alive.
        _helpers[:] = [helper for helper in _helpers if helper.is_alive()]
        if len(_helpers) < usable_cpus() - 1:
            helper = threading.Thread(target=_help, name="ingot-helper", daemon=False)
            try:
                helper.start()
            except RuntimeError:  # The system gives no thread, for want of memory or by a limit.
                if not _helpers:
                    return
            else:
                _helpers.append(helper)
        _waiting.append(deferring_fork(attempt))


def _help() -> None:
    """Make attempts as long as there are any."""
    while True:
        with _lock:
            if not _waiting:
                _helpers.remove(threading.current_thread())
                return
            attempt = _waiting.popleft()
        attempt()
