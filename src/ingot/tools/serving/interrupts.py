# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C for one piece of work: `interruptible` marks where an interrupt may raise.

It is for processes that a parent interrupts (`SIGINT`) and that continue afterwards. Elsewhere in
the program an interrupt has no effect, so no data is left half changed.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

_depth = 0


@contextmanager
def interruptible() -> Generator[None]:
    """Let an interrupt raise KeyboardInterrupt in the block."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def handle_interrupts() -> None:
    """Handle `SIGINT` in this way in this process, whose main thread is the caller."""
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    if _depth:
        raise KeyboardInterrupt
