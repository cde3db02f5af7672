# SPDX-License-Identifier: Apache-2.0
"""Log lines: what the compiler does, on standard error, as much as `INGOT_DEBUG` asks for.

The same lines are records of the logger `ingot.compiler`, for programs that set up `logging`:
compilations at INFO, passes at DEBUG, and the rest below (`LOGGING_LEVELS`).

A line is an event and its fields, `[ingot  12.3 ms] fusion.fused producer=multiply.3 reason=loop`,
so that people read it and `grep` finds it. Levels are those of `flags.DEBUG`.

Invariant: a level that is not asked for costs one comparison and formats nothing; give fields
that are dear to compute as callables.

Example:
    >>> with flags.override(flags.DEBUG, 0):
    ...     log(Level.PASS, "pass.run", name="dce")  # prints nothing
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from enum import IntEnum

from ingot.support import flags

_START = time.perf_counter()
_logger = logging.getLogger("ingot.compiler")


class Level(IntEnum):
    """What is told from which `INGOT_DEBUG` on."""

    COMPILATION = 1
    PASS = 2
    REWRITE = 3
    PROGRAM = 4
    EVERYTHING = 5


LOGGING_LEVELS = {
    Level.COMPILATION: logging.INFO,
    Level.PASS: logging.DEBUG,
    Level.REWRITE: 8,
    Level.PROGRAM: 6,
    Level.EVERYTHING: 4,
}
"""The levels of `logging` that records have."""


def enabled(level: Level) -> bool:
    """Return whether lines of `level` are printed or logged now."""
    return flags.DEBUG.value() >= level or _logger.isEnabledFor(LOGGING_LEVELS[level])


def log(level: Level, event: str, **fields: object) -> None:
    """Print one line if `level` is asked for; a callable field is called only then."""
    if not enabled(level):
        return
    words = [event, *(f"{name}={_field_text(value)}" for name, value in fields.items())]
    _emit(level, " ".join(words))


def log_text(level: Level, event: str, text: Callable[[], str]) -> None:
    """Print an event followed by a whole text (a module, LLVM IR), made only when asked for."""
    if enabled(level):
        _emit(level, f"{event}\n{text()}")


def _emit(level: Level, message: str) -> None:
    """Print a message if `INGOT_DEBUG` asks for it, log it if `logging` does."""
    if flags.DEBUG.value() >= level:
        milliseconds = (time.perf_counter() - _START) * 1e3
        print(f"[ingot {milliseconds:8.1f} ms] {message}", file=sys.stderr)
    _logger.log(LOGGING_LEVELS[level], "%s", message)


def _field_text(value: object) -> str:
    text = str(value() if callable(value) else value)
    return repr(text) if not text or any(character.isspace() for character in text) else text
