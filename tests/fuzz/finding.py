# SPDX-License-Identifier: Apache-2.0
"""Findings: what went wrong in a case, and a signature that two cases of one defect share.

A signature is made of what does not depend on the case: the type of the exception and the function
of Ingot that raised it, the signal that ended the process and the last function on its stack, or
the words of a wrong result without its numbers.
"""

from __future__ import annotations

import re
import signal
import traceback
from dataclasses import dataclass
from types import FrameType, TracebackType

_NUMBERS = re.compile(r"\[[^\]]*\]|'[^']*'|%[\w.-]+|-?\d[\w.+-]*")
_FRAME = re.compile(r'File "[^"]*/(?:ingot|tests)/([^"]*)", line \d+ in (\w+)')
_WORDS = 160


@dataclass(frozen=True, slots=True)
class Finding:
    """What went wrong.

    Attributes:
        signature: the same for cases of one defect, as far as can be told.
        detail: all that is known: the message, the traceback or the process's last words.
    """

    signature: str
    detail: str


def of_text(text: str) -> Finding:
    """Return the finding of a check that said what is wrong."""
    return Finding(_NUMBERS.sub("#", text)[:_WORDS], text)


def of_exception(error: BaseException) -> Finding:
    """Return the finding of an exception that nobody caught."""
    frames = [
        f"{name.rsplit('/ingot/', 1)[-1].rsplit('/tests/', 1)[-1]}:{frame.f_code.co_name}"
        for frame in _frames(error.__traceback__)
        if "/ingot/" in (name := frame.f_code.co_filename) or "/tests/" in name
    ]
    where = frames[-1] if frames else "?"
    message = _NUMBERS.sub("#", str(error).split("\n")[0])[:60]
    signature = f"{type(error).__name__} at {where}: {message}"
    return Finding(signature, "".join(traceback.format_exception(error)))


def _frames(trace: TracebackType | None) -> list[FrameType]:
    return [frame for frame, _ in traceback.walk_tb(trace)]


def of_death(status: int, errors: str, hung: bool) -> Finding:
    """Return the finding of a process that ended, by its status and what it wrote as an error."""
    name = signal.Signals(-status).name if status < 0 else f"exit {status}"
    found = _FRAME.search(errors[errors.rfind("Current thread") :])
    where = f" in {found.group(1)}:{found.group(2)}" if found else ""
    return Finding(f"{'hang' if hung else name}{where}", errors[-6000:])
