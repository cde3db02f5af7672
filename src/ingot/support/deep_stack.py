"""Room on Python's stack for a recursion of bounded depth that goes beyond Python's limit.

The limit is the process's own, so it is raised while somebody needs it, and put back after the last
one. Functions that are called from Python take no machine stack (CPython 3.11 and later).

Example:
    >>> def depth(n: int) -> int:
    ...     return 1 + depth(n - 1) if n else 0
    >>> with deeper_stack(5_000):
    ...     depth(4_000)
    4000
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ingot.support.forking import ForkLock

_lock = ForkLock()
_wanted: list[int] = []
"""What each of those inside added to the limit that there was."""


@contextmanager
def deeper_stack(frames: int) -> Generator[None]:
    """Let the stack be `frames` deeper than Python's limit, inside of the block."""
    _change(frames, _wanted.append)
    try:
        yield
    finally:
        _change(frames, _wanted.remove)


def _change(frames: int, note: Callable[[int], None]) -> None:
    with _lock:
        before = max(_wanted, default=0)
        note(frames)
        sys.setrecursionlimit(sys.getrecursionlimit() - before + max(_wanted, default=0))
