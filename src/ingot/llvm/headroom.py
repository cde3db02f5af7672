# SPDX-License-Identifier: Apache-2.0
"""Memory for LLVM: checks before each call that it can allocate enough.

LLVM cannot recover from a failed allocation: it ends the process (`LLVM ERROR: out of memory`, or
an uncaught C++ exception; llvmlite offers no handler for either). So each call is preceded by a
test of the address space: a mapping as large as LLVM may need is made and dropped.

Invariant: the tested size includes that of every call in progress; where there is not room for all,
a call waits for those of other threads. Allocations by other code of the process are not known: a
process can still end this way if other code takes the rest of its address space at that moment.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Generator
from contextlib import contextmanager

from ingot.support.diagnostics import ResourceError
from ingot.support.forking import ForkLock

BASE_BYTES = 8 << 20
BYTES_PER_CHARACTER = 150
"""Kernels take 1 to 3 MB and 10 to 120 bytes for each character of their IR (33 modules of 2 to 240
KB, optimization level 2, growth of the address space)."""


class _Own(threading.local):
    """Bytes promised to the calls in progress of a thread."""

    promised = 0


_changed = threading.Condition(ForkLock())
_promised = 0
_own = _Own()


@contextmanager
def headroom(characters: int) -> Generator[None]:
    """Reserve memory for LLVM to compile IR of a number of characters, for a `with` block.

    Raises:
        ResourceError: INGOT0404, there is not enough, not even when no other thread compiles.
    """
    global _promised
    wanted = BASE_BYTES + BYTES_PER_CHARACTER * characters
    with _changed:
        while not _is_free(_promised + wanted):
            # A thread that waited within a call of its own could wait for one that waits for it.
            if _own.promised or not _promised:
                raise _no_room(_promised + wanted)
            _changed.wait()
        _promised += wanted
        _own.promised += wanted
    try:
        yield
    finally:
        with _changed:
            _promised -= wanted
            _own.promised -= wanted
            _changed.notify_all()


def _is_free(size: int) -> bool:
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, ValueError, OverflowError, MemoryError):
        return False
    return True


def _no_room(size: int) -> ResourceError:
    return ResourceError(
        f"there is no memory to compile: LLVM may need {size} bytes of address space",
        code="INGOT0404",
        hint="raise the limit of the address space (ulimit -v), or compile smaller programs",
    )
