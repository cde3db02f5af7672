# SPDX-License-Identifier: Apache-2.0
"""Recursion on a list instead of the machine's stack, limited only by memory.

Programs nest loops and calls as deep as their author wants, but Python's stack is limited. A
function that recurses over such a nest is written as a generator: it yields a call, gets the call's
result back, and returns its own. `run` drives them.

Invariant: one frame of Python's stack is in use, however deep the calls are. An error propagates
through the waiting callers as through those of a function: their `finally` and `with` run.

Example:
    >>> def depth(nest: tuple[object, ...]) -> Recursion[int]:
    ...     inner: int = (yield depth(nest[0])) if nest else 0
    ...     return inner + 1
    >>> nest: tuple[object, ...] = ()
    >>> for _ in range(100_000):
    ...     nest = (nest,)
    >>> run(depth(nest))
    100001
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

_Result = TypeVar("_Result")

Recursion: TypeAlias = Generator[Any, Any, _Result]
"""A call that has not begun; it yields the calls that it makes."""


def run(call: Recursion[_Result]) -> _Result:
    """Return the result of a call and of all that it makes."""
    waiting: list[Recursion[Any]] = [call]
    result: Any = None
    error: BaseException | None = None
    while waiting:
        try:
            if error is None:
                made = waiting[-1].send(result)
            else:
                raised, error = error, None
                made = waiting[-1].throw(raised)
        except StopIteration as stop:
            waiting.pop()
            result = stop.value
        except BaseException as found:
            waiting.pop()
            error = found
        else:
            waiting.append(made)
            result = None
    if error is not None:
        raise error
    return result
