# SPDX-License-Identifier: Apache-2.0
"""What a foreign call says about its failure, from the call to whoever raises.

A target returns a status, no text: before it returns it leaves the text here, on its own thread,
which is the thread that executes the program. Invariant: a failure is taken once, by the execution
that it ended.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a foreign call failed.

    Attributes:
        message: a text.
        cause: the exception behind it, if there is one.
        status: absl's name for the failure, if the call gives one.
    """

    message: str
    cause: BaseException | None = None
    status: str = ""


class _Slot(threading.local):
    failure: Failure | None = None


_slot = _Slot()


def set_error(message: str, cause: BaseException | None = None, status: str = "") -> None:
    """Say why the foreign call that runs on this thread is about to return non-zero."""
    _slot.failure = Failure(message, cause, status)


def take_error() -> Failure | None:
    """Return and forget what the last failed foreign call of this thread said."""
    failure, _slot.failure = _slot.failure, None
    return failure
