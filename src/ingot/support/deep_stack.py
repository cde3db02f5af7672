# SPDX-License-Identifier: Apache-2.0
"""Stack space for a recursion of bounded depth: on Python's stack, and on the machine's.

Python's limit holds for the process, so it is raised while it is needed and restored after the last
user. Functions that are called from Python need no machine stack (CPython 3.11 and later). Native
code that recurses does, so it runs in a thread with a stack of the needed size.

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
"""The frames that each active block has added to the original limit."""


@contextmanager
def deeper_stack(frames: int) -> Generator[None]:
    """Raise Python's recursion limit by `frames` in the block."""
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


def on_large_stack(size: int, call: Callable[[], _Result], *, daemon: bool = True) -> _Result:
    """Return the result of a call that runs on a machine stack of `size` bytes.

    Args:
        size: bytes of the stack.
        call: the function; it runs in a thread of its own, while this one waits.
        daemon: whether the process may end before the call has.

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

    thread = threading.Thread(target=body, name="ingot-deep", daemon=daemon)
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
