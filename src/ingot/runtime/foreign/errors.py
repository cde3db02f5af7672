# SPDX-License-Identifier: Apache-2.0
"""Why a foreign call failed, passed from the call to the code that raises.

A target returns only a status. Before it returns it leaves the text here, on its own thread, which
is the thread that executes the program. Invariant: a failure is taken once, by the execution that
it ended.
"""

from __future__ import annotations

import threading

from ingot.support.records import record


@record
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
    """Record why the foreign call that runs on this thread is about to return non-zero.

    Args:
        message: a text.
        cause: the exception behind it, if there is one.
        status: absl's name for the failure, if the call gives one.
    """
    _slot.failure = Failure(message, cause, status)


def take_error() -> Failure | None:
    """Return and remove the failure of this thread's last foreign call; None if it has none."""
    failure, _slot.failure = _slot.failure, None
    return failure
