"""Log lines: what the compiler does, on standard error, as much as `INGOT_DEBUG` asks for.

A line is an event and its fields, `[ingot  12.3 ms] fusion.fused producer=multiply.3 reason=loop`,
so that people read it and `grep` finds it. Levels are those of `flags.DEBUG`.

Invariant: a level that is not asked for costs one comparison and formats nothing; give fields
that are dear to compute as callables.

Example:
    >>> with flags.override(flags.DEBUG, 0):
    ...     log(Level.PASS, "pass.run", name="dce")  # prints nothing
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import IntEnum

from ingot.support import flags

_START = time.perf_counter()


class Level(IntEnum):
    """What is told from which `INGOT_DEBUG` on."""

    COMPILATION = 1
    PASS = 2
    REWRITE = 3
    PROGRAM = 4
    EVERYTHING = 5


def enabled(level: Level) -> bool:
    """Return whether lines of `level` are printed now."""
    return flags.DEBUG.value() >= level


def log(level: Level, event: str, **fields: object) -> None:
    """Print one line if `level` is asked for; a callable field is called only then."""
    if not enabled(level):
        return
    words = [f"[ingot {(time.perf_counter() - _START) * 1e3:8.1f} ms]", event]
    words += [f"{name}={_field_text(value)}" for name, value in fields.items()]
    print(" ".join(words), file=sys.stderr)


def log_text(level: Level, event: str, text: Callable[[], str]) -> None:
    """Print an event followed by a whole text (a module, LLVM IR), made only when asked for."""
    if enabled(level):
        log(level, event)
        print(text(), file=sys.stderr)


def _field_text(value: object) -> str:
    text = str(value() if callable(value) else value)
    return repr(text) if not text or any(character.isspace() for character in text) else text
