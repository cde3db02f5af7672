# SPDX-License-Identifier: Apache-2.0
"""Observations for reports: actions of front ends that make programs slow unnoticed.

They say that a function was compiled again, and for which sizes, or that a part of it runs on the
host, and why. Front ends report them with `note`; `ingot explain` collects them with `observed`.
Invariant: without a collector, nothing is kept.

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
    """An action of a front end: its kind, the function, and the reasons (a line each)."""

    kind: str
    function: str
    reasons: tuple[str, ...]


_lock = ForkLock()
_listeners: list[list[Observation]] = []


def note(observation: Observation) -> None:
    """Report an observation to all collectors."""
    with _lock:
        for found in _listeners:
            found.append(observation)


@contextmanager
def observed() -> Generator[list[Observation]]:
    """Collect the observations of all threads in the `with` block."""
    found: list[Observation] = []
    with _lock:
        _listeners.append(found)
    try:
        yield found
    finally:
        with _lock:
            _listeners[:] = [other for other in _listeners if other is not found]
