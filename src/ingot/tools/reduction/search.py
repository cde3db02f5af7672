# SPDX-License-Identifier: Apache-2.0
"""One search: tests whether programs fail like the first one, within a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable

from ingot.tools.reduction.trials import Outcome

Try = Callable[[str], Outcome]
"""Returns how a program fails."""


class Search:
    """Tries programs, and counts them.

    Attributes:
        count: the number of programs that were tried.
        wanted: the signature of the first one's failure.
        detail: the facts about the last failure.
        needs_inputs: whether the first one could be compiled, so that inputs matter.
    """

    def __init__(self, attempt: Try, seconds: float) -> None:
        """Start the clock."""
        self._attempt = attempt
        self._end = time.monotonic() + seconds
        self.count = 0
        self.wanted = self.detail = ""
        self.needs_inputs = True

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._end

    def begin(self, text: str) -> bool:
        """Record how the first program fails; return whether it does."""
        self.count += 1
        found = self._attempt(text)
        self.wanted, self.detail = found.signature, found.detail or found.signature
        self.needs_inputs = found.compiled
        return bool(self.wanted)

    def fails(self, text: str) -> bool:
        """Whether a program fails as the first one did."""
        if self.is_over:
            return False
        self.count += 1
        found = self._attempt(text)
        if found.signature != self.wanted:
            return False
        self.detail = found.detail or found.signature
        return True
