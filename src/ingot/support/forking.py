# SPDX-License-Identifier: Apache-2.0
"""Deferring forks: a fork must not interrupt other threads' work, nor the locks that they hold.

A child has one thread, the one that forked. A lock that another thread held stays locked in it, and
another thread's unfinished work (LLVM's own state, an import) stays unfinished. So a fork waits:
`fork_deferred` marks work that it does not interrupt, and a `ForkLock` is a lock that the fork
itself takes, so that it is free in the child.

Invariants: work that is to begin while a fork waits begins after it; a fork within such work of its
own thread waits only for the other threads. No `ForkLock` should be held where `fork_deferred`
begins, unless that thread is within such work already. But the collector runs finalizers anywhere,
and other libraries have locks of their own, so there may be a deadlock. Therefore a fork that has
waited for some time lets waiting work in, and waits again, each time twice as long.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


PATIENCE = 1.0
"""Seconds that a fork waits before it lets work in for the first time."""

OPENING = 0.01
"""Seconds for which it lets work in."""


class _Own(threading.local):
    """State of a thread: the number of nested pieces of work, and of those that are counted."""

    depth = 0
    counted = 0


class _Gate:
    """Counts the pieces of work in progress; a fork waits for those of other threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._active = 0
        self._forks = 0
        self._lets_in = 0
        self.own = _Own()

    def enter(self) -> None:
        """Begin work; if it is not nested in other work, wait for a waiting fork first."""
        own = self.own
        if not own.depth:
            # Not `self._changed`, which is the same lock, but in Python.
            with self._lock:
                while self._forks and not self._lets_in:
                    self._changed.wait()
                self._active += 1
                own.counted += 1
        own.depth += 1

    def leave(self) -> None:
        """End work."""
        own = self.own
        own.depth -= 1
        if not own.depth:
            self._end(own)

    def reserve(self) -> None:
        """Count work that another thread will begin."""
        with self._lock:
            self._active += 1

    def adopt(self) -> None:
        """Begin work that was counted."""
        own = self.own
        own.depth += 1
        own.counted += 1

    def release(self) -> None:
        """End work that was counted."""
        own = self.own
        own.depth -= 1
        self._end(own)

    def _end(self, own: _Own) -> None:
        with self._lock:
            self._active -= 1
            own.counted -= 1
            if self._forks:
                self._changed.notify_all()

    def close(self) -> None:
        """Let no work begin from now on."""
        self._lock.acquire()
        self._forks += 1

    def wait(self, seconds: float) -> bool:
        """Wait for the work of other threads; return whether it ended in time."""
        mine = self.own.counted
        return self._changed.wait_for(lambda: self._active <= mine, seconds)

    def let_in(self) -> None:
        """Let work that waits for the fork begin."""
        self._lets_in += 1
        self._changed.notify_all()
        self._changed.wait(OPENING)
        self._lets_in -= 1

    def after_fork_in_parent(self) -> None:
        """Let work begin again."""
        self._forks -= 1
        self._changed.notify_all()
        self._lock.release()

    def after_fork_in_child(self) -> None:
        """Start with the work of the only thread."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._forks = self._lets_in = 0
        self._active = self.own.counted


# The type of reentrant locks: `threading.RLock` is a function that makes one.
_ReentrantLock: Any = type(threading.RLock())


class ForkLock(_ReentrantLock):
    """A lock that is free in a forked child: the fork itself holds it.

    For short critical sections; it is reentrant, since the collector may run any code anywhere. If
    one is taken within another one, the outer one is that of the higher layer, which is made later.
    """

    __slots__ = ()

    def __init__(self) -> None:
        """Make it, free."""
        _locks[next(_numbers)] = self


_numbers = itertools.count()
_locks: weakref.WeakValueDictionary[int, ForkLock] = weakref.WeakValueDictionary()
_gate = _Gate()
_held: list[Any] = []
"""The locks that the fork in progress has taken."""


@contextmanager
def fork_deferred() -> Generator[None]:
    """Let no other thread fork during the block."""
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()


def defers_fork(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that no fork of another thread interrupts."""

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        if _gate.own.depth:
            return function(*arguments, **options)
        _gate.enter()
        try:
            return function(*arguments, **options)
        finally:
            _gate.leave()

    return call


def deferring_fork(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that another thread calls once; forks wait for it from now on.

    Otherwise work that waits for its helpers would wait forever: a fork would wait for the work,
    and the helpers for the fork.
    """
    _gate.reserve()

    def call(*arguments: P.args, **options: P.kwargs) -> T:
        _gate.adopt()
        try:
            return function(*arguments, **options)
        finally:
            _gate.release()

    return call


def hold_over_fork(lock: Any) -> None:
    """Let forks take a lock of another library, too, which must be like `threading.RLock`."""
    _foreign.append(lock)


_foreign: list[Any] = []


def _before() -> None:
    _gate.close()
    seconds = PATIENCE
    while not (_gate.wait(seconds) and _hold(seconds)):
        _gate.let_in()
        seconds *= 2


def _hold(seconds: float) -> bool:
    """Take all locks, or none if one takes more than `seconds`; return whether they are taken."""
    ours = [lock for _, lock in sorted(_locks.items(), reverse=True)]
    for lock in (*ours, *_foreign):
        if not lock.acquire(timeout=seconds):
            _release()
            return False
        _held.append(lock)
    return True


def _release() -> None:
    while _held:
        _held.pop().release()


def _after_in_parent() -> None:
    _release()
    _gate.after_fork_in_parent()


def _after_in_child() -> None:
    _release()
    _gate.after_fork_in_child()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
