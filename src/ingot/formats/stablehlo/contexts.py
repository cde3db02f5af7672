# SPDX-License-Identifier: Apache-2.0
"""Reused MLIR contexts: making and ending one takes longer than reading a module.

A context keeps every attribute that it has seen, so it is used for few modules and little data.
Invariant: a context belongs to one reader at a time, and is not reused after a failure.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from ingot.formats.stablehlo.binding import new_context
from ingot.support.forking import ForkLock
from ingot.support.records import mutable

_MOST_MODULES = 100
_MOST_BYTES = 1 << 20
_MOST_IDLE = 4


@mutable
class _Context:
    """A context and its use so far."""

    context: Any
    modules: int = 0
    size: int = 0


_lock = ForkLock()
_idle: list[_Context] = []


@contextmanager
def borrowed_context(size: int) -> Generator[Any]:
    """Lend a context to read a module of `size` bytes."""
    with _lock:
        row = _idle.pop() if _idle else None
    if row is None:
        row = _Context(new_context())
    yield row.context
    row.modules, row.size = row.modules + 1, row.size + size
    with _lock:
        fresh = row.modules < _MOST_MODULES and row.size < _MOST_BYTES
        if fresh and len(_idle) < _MOST_IDLE:
            _idle.append(row)


def _forget_contexts() -> None:
    """Use no context of the parent in a forked child, and end none."""
    _abandoned.extend(_idle)
    _idle.clear()


_abandoned: list[_Context] = []
os.register_at_fork(after_in_child=_forget_contexts)
