# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C for one piece of work: `interruptible` marks where an interrupt may raise.

For processes that a parent asks to stop what they are doing (`SIGINT`) and that go on after it. In
the rest of the program an interrupt does nothing, so no table is left half changed.
"""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager

_depth = 0


@contextmanager
def interruptible() -> Generator[None]:
    """Let an interrupt raise KeyboardInterrupt inside of the block."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


def handle_interrupts() -> None:
    """Let `SIGINT` mean this in this process, whose main thread is the caller."""
    signal.signal(signal.SIGINT, _interrupt)


def _interrupt(number: int, frame: object) -> None:
    if _depth:
        raise KeyboardInterrupt
