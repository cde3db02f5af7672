# SPDX-License-Identifier: Apache-2.0
"""Trials of programs in a child process: an error, a crash, a hang, or other numbers.

`Trials` is the parent's side. Invariant: whatever a program does to the child, the next trial has a
working one.

Example:
    with Trials(Bounds(1e-3, 1e-3)) as trials:
        outcome = trials.of(Path("module.hlo").read_text())
        print(outcome.signature)  # "" where nothing is wrong
"""

from __future__ import annotations

import contextlib
import json
from types import TracebackType
from typing import Self

from ingot.support.channel import ChannelError
from ingot.support.records import record
from ingot.support.worker import Worker, spawned
from ingot.tools.programs.comparing import Bounds

WORKER = "ingot.tools.reduction.trial_worker"
SECONDS = 60.0
"""Seconds that a trial may take."""
COMPILED = "ingot: the program is compiled"
"""The text that the child prints before it runs a program."""
CRASH = "crash: "
_LOG_BYTES = 1 << 16
"""Bytes of a child's output that are read: `COMPILED`, and the stack of a crash after it."""


@record
class Outcome:
    """The outcome of a trial.

    Attributes:
        signature: the same for programs that fail in one way, "" for one that does not fail.
        detail: the facts about the failure.
        compiled: whether it could be compiled, so that its inputs matter.
    """

    signature: str = ""
    detail: str = ""
    compiled: bool = True


class Trials:
    """Runs programs in a child process."""

    def __init__(
        self, bounds: Bounds, *, seed: int = 0, seconds: float = SECONDS, worker: str = WORKER
    ) -> None:
        """Make an object without a child.

        Args:
            bounds: errors that are allowed of the compiled program's results.
            seed: of random inputs, where a case has none.
            seconds: a trial that takes longer hangs.
            worker: the module that runs in the child.
        """
        self._head = {"absolute": bounds.absolute, "relative": bounds.relative, "seed": seed}
        self._seconds = seconds
        self._name = worker
        self._worker: Worker | None = None
        self.count = 0

    def __enter__(self) -> Self:
        """Return this."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the child."""
        self._end()

    def of(self, text: str) -> Outcome:
        """Return how the program in a text fails: HLO with inputs in comments, or without."""
        self.count += 1
        worker = self._worker = self._worker or spawned(self._name)
        worker.forget_printed()
        answer = None
        with contextlib.suppress(ChannelError):
            head = json.dumps(self._head).encode()
            worker.channel.send(head, b"\n", text.encode("utf-8", "surrogateescape"))
            if not worker.channel.is_ready(self._seconds):
                compiled = COMPILED in worker.printed(_LOG_BYTES)
                self._end()
                return Outcome("hang", f"no answer in {self._seconds:g} seconds", compiled)
            answer = worker.channel.receive()
        if answer is None:
            found = Outcome(f"{CRASH}{worker.how_it_ended()}")
        else:
            found = Outcome(**json.loads(bytes(answer)))
        if found.signature.startswith(CRASH):
            printed = worker.printed(_LOG_BYTES).strip("\0").strip()
            found = Outcome(found.signature, printed, COMPILED in printed)
        if answer is None:
            self._end()
        return found

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
