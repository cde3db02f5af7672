# SPDX-License-Identifier: Apache-2.0
"""Log lines of the compiler, on standard error, at the level of `INGOT_DEBUG`.

The same lines are records of the logger `ingot.compiler`, for programs that set up `logging`:
compilations at INFO, passes at DEBUG, and the rest below (`LOGGING_LEVELS`).

A line is an event and its fields, `[ingot  12.3 ms] fusion.fused producer=multiply.3 reason=loop`,
so that people read it and `grep` finds it. Levels are those of `flags.DEBUG`.

Invariant: a disabled level costs one comparison and formats nothing; fields that are expensive to
compute are passed as callables.

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
    """The values of `INGOT_DEBUG`: each shows its own lines and those of lower levels."""

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


EVENTS: dict[Level, dict[str, str]] = {
    Level.COMPILATION: {
        "compiled": "a program was compiled: its module, instructions, kernels, seconds",
        "tensorflow.specialised": "a TensorFlow function was compiled again, and for what",
        "cluster": "auto-clustering made a cluster of this many nodes",
        "cluster.refused": "a cluster runs in TensorFlow, and why",
        "pass.no_fixed_point": "a group of passes did not come to rest",
        "rules.no_fixed_point": "rewrite rules did not come to rest",
    },
    Level.PASS: {
        "pass.run": "a pass ran: whether it changed its module or kernel, and its time in us",
        "kernel": "a kernel of the program: its ops, bytes and operations",
    },
    Level.REWRITE: {
        "rule.fired": "a rewrite rule fired: its file:line, and on what",
        "fusion": "two instructions are one kernel or are not, and why",
    },
    Level.PROGRAM: {
        "module": "the whole module: before the first pass, and after each that changed it",
        "loops": "the loops of a kernel: before the first kernel pass, and after each likewise",
    },
    Level.EVERYTHING: {
        "buffers": "where every value lives",
        "kernels": "the loops of every kernel",
        "llvm": "the LLVM IR, before LLVM optimizes it",
    },
}
"""What each level adds: the first word of a line, and what it tells."""


def markdown() -> str:
    """Return the reference section of the levels."""
    lines = [
        "## INGOT_DEBUG",
        "",
        "Each level shows what the levels below it show, and more. Lines go to standard error,",
        "and as records of the logger `ingot.compiler` to programs that set up `logging`. From",
        "level 1 on the module or kernel is verified after each pass; from level 4 on passes that",
        "say that they changed nothing are held to it.",
        "",
        "| level | line | what it tells |",
        "|---|---|---|",
    ]
    lines += [
        f"| {int(level)} | `{event}` | {doc} |"
        for level, events in EVENTS.items()
        for event, doc in events.items()
    ]
    return "\n".join(lines) + "\n"


def enabled(level: Level) -> bool:
    """Return whether lines of `level` are printed or logged now."""
    return flags.DEBUG.value() >= level or _logger.isEnabledFor(LOGGING_LEVELS[level])


def log(level: Level, event: str, **fields: object) -> None:
    """Print one line if `level` is enabled; callable fields are called only then."""
    if not enabled(level):
        return
    words = [event, *(f"{name}={_field_text(value)}" for name, value in fields.items())]
    _emit(level, " ".join(words))


def log_text(level: Level, event: str, text: Callable[[], str]) -> None:
    """Print an event followed by a whole text (a module, LLVM IR), made only if enabled."""
    if enabled(level):
        _emit(level, f"{event}\n{text()}")


def _emit(level: Level, message: str) -> None:
    """Print a message if `INGOT_DEBUG` enables its level, log it if `logging` does."""
    if flags.DEBUG.value() >= level:
        milliseconds = (time.perf_counter() - _START) * 1e3
        print(f"[ingot {milliseconds:8.1f} ms] {message}", file=sys.stderr)
    _logger.log(LOGGING_LEVELS[level], "%s", message)


def _field_text(value: object) -> str:
    text = str(value() if callable(value) else value)
    return repr(text) if not text or any(character.isspace() for character in text) else text
