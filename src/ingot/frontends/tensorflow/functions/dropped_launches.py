# SPDX-License-Identifier: Apache-2.0
"""Launches whose functions are gone: what they were compiled to is let go.

TensorFlow may run a graph that holds the launch op after the Python function is gone. So a launch
waits here until no kernel of the op is left. An eager call leaves its kernel in a cache that
TensorFlow never empties by itself: where many launches wait, it is asked to; the next eager call of
each op makes its kernel anew.

Invariant: only `release_dropped` lets go of anything. It runs where a function is traced, never
inside of a finalizer, which may come at any place and on any thread.
"""

from __future__ import annotations

from contextlib import suppress

from ingot.frontends.tensorflow.api.modules import context
from ingot.frontends.tensorflow.launches.launch import Launch

_MOST_WAITING = 32
"""Launches that wait until TensorFlow's cache is emptied."""

_waiting: list[Launch] = []
_held: list[Launch] = []


def drop(launch: Launch) -> None:
    """Let a launch go as soon as no kernel may run it: its function is gone."""
    _waiting.append(launch)


def release_dropped() -> None:
    """Let go of the launches that no kernel may run."""
    _waiting.extend([launch for launch in _take(_waiting) if not launch.release()])
    if len(_waiting) < _MOST_WAITING:
        return
    context.context().clear_kernel_cache()
    # What a session or an iterator still runs does not empty the cache again.
    held = [launch for launch in _take(_waiting) + _take(_held) if not launch.release()]
    _held.extend(held)


def _take(launches: list[Launch]) -> list[Launch]:
    """Empty a list, to which a finalizer may add meanwhile, and return what was in it.

    Each launch is taken once, whatever other threads take.
    """
    taken: list[Launch] = []
    with suppress(IndexError):
        for _ in range(len(launches)):
            taken.append(launches.pop())
    return taken
