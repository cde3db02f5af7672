# SPDX-License-Identifier: Apache-2.0
"""Room for LLVM: what it allocates is known to exist before it is called.

LLVM has no way back when an allocation fails: it ends the process (`LLVM ERROR: out of memory`, or
an exception of C++ that nothing catches; llvmlite offers no handler for either). So each call is
preceded by a look at the address space: a mapping as large as LLVM may need, made and dropped.

Invariant: the room that was looked for includes that of every call that is under way. What other
code of the process allocates meanwhile is not known: a process can still end this way if somebody
else takes the rest of its address space at that moment.
"""

from __future__ import annotations

import mmap
from collections.abc import Generator
from contextlib import contextmanager

from ingot.support.diagnostics import ResourceError
from ingot.support.forking import ForkLock

BASE_BYTES = 8 << 20
BYTES_PER_CHARACTER = 150
"""Kernels take 1 to 3 MB and 10 to 120 bytes for each character of their IR (33 modules of 2 to 240
KB, optimization level 2, growth of the address space)."""

_lock = ForkLock()
_promised = 0


@contextmanager
def headroom(characters: int) -> Generator[None]:
    """Have room for LLVM to compile IR of so many characters while this is open.

    Raises:
        ResourceError: INGOT0404, there is none.
    """
    global _promised
    wanted = BASE_BYTES + BYTES_PER_CHARACTER * characters
    with _lock:
        _require(_promised + wanted)
        _promised += wanted
    try:
        yield
    finally:
        with _lock:
            _promised -= wanted


def _require(size: int) -> None:
    try:
        mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, ValueError, OverflowError, MemoryError):
        raise ResourceError(
            f"there is no memory to compile: LLVM may need {size} bytes of address space",
            code="INGOT0404",
            hint="raise the limit of the address space (ulimit -v), or compile smaller programs",
        ) from None
