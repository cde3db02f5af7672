# SPDX-License-Identifier: Apache-2.0
"""Room on the stack for a recursion of bounded depth: on Python's, and on the machine's.

Python's limit is the process's own, so it is raised while somebody needs it, and put back after the
last one. Functions that are called from Python take no machine stack (CPython 3.11 and later).
Native code that recurses takes one: it runs in a thread whose stack is as large as it needs.

Example:
    >>> def depth(n: int) -> int:
    ...     return 1 + depth(n - 1) if n else 0
    >>> with deeper_stack(5_000):
    ...     depth(4_000)
    4000
    >>> on_large_stack(1 << 28, lambda: depth(10))
    10
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeVar

from ingot.support.forking import ForkLock

_Result = TypeVar("_Result")

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


def on_large_stack(size: int, call: Callable[[], _Result]) -> _Result:
    """Return the result of a call that runs on a machine stack of `size` bytes.

    Raises:
        RuntimeError: there is no memory for such a stack.
    """
    results: list[_Result] = []
    errors: list[BaseException] = []

    def body() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=body, name="ingot-deep", daemon=True)
    with _lock:
        before = threading.stack_size(size)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
