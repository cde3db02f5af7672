# SPDX-License-Identifier: Apache-2.0
"""What front ends do that makes programs slow without looking so: for reports.

A function was compiled again, and for what; a part of it runs on the host, and why. Front ends say
so with `note`; `ingot explain` listens with `observed`. Invariant: while nobody listens, nothing is
kept.

Example:
    >>> with observed() as found:
    ...     note(Observation(COMPILED_AGAIN, "f", ("size 0 of x is 3",)))
    >>> found[0].function
    'f'
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ingot.support.forking import ForkLock
from ingot.support.records import record

COMPILED_AGAIN, ON_HOST = "compiled again", "runs on the host"
"""Kinds of observations."""


@record
class Observation:
    """Something that a front end did: its kind, the function, and why (a line each)."""

    kind: str
    function: str
    reasons: tuple[str, ...]


_lock = ForkLock()
_listeners: list[list[Observation]] = []


def note(observation: Observation) -> None:
    """Tell those who listen."""
    with _lock:
        for found in _listeners:
            found.append(observation)


@contextmanager
def observed() -> Generator[list[Observation]]:
    """Collect what is noted inside of the `with`, by any thread."""
    found: list[Observation] = []
    with _lock:
        _listeners.append(found)
    try:
        yield found
    finally:
        with _lock:
            _listeners[:] = [other for other in _listeners if other is not found]
