# SPDX-License-Identifier: Apache-2.0
"""A fuzz run: gives targets their time on worker processes, and keeps what they find.

Two workers or more run side by side, each on the target that is furthest behind its share. What is
found is reduced at once and stands in `<folder>/<target>/`, the case and beside it what is known;
counts of all runs stand in `<folder>/state.json`.

Invariant: a finding of a known signature is only counted, but for the first few cases, as wrong
numbers of several defects look alike.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.finding import Finding
from tests.fuzz.reduce import reduced
from tests.fuzz.state import Record, State
from tests.fuzz.target import Target
from tests.fuzz.watch import Watched

BATCH_SECONDS = 25.0, 120.0
"""How long a worker process lives: the least, and the most. It takes seconds to begin."""

BATCHES = 4
"""Batches of a target in a run, if they are not to be shorter than the least."""

REDUCE_SECONDS = 60.0
KEPT_CASES = 3
"""Cases that are kept of one signature."""

REWARDED = 20
"""Things newly reached for which a target gets half of the time back that it took."""

FUNCTIONS_EVERY = 4
"""Of how many batches of a target one notes the functions that it reaches."""

Say = Callable[[str], None]


@dataclass(slots=True)
class Campaign:
    """A run over targets until a time.

    Attributes:
        targets: what is fuzzed.
        folder: where findings and counts are kept.
        end: when to stop, on the monotonic clock.
        say: prints a line.
        state: the counts of this run and those before.
    """

    targets: Sequence[Target]
    folder: Path
    end: float
    say: Say
    state: State
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _batch_seconds: float = BATCH_SECONDS[0]
    _spent: dict[str, float] = field(default_factory=dict[str, float])
    _batches: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, workers: int) -> None:
        """Fuzz until the end."""
        least, most = BATCH_SECONDS
        each = (self.end - time.monotonic()) * workers / (BATCHES * len(self.targets))
        self._batch_seconds = min(max(least, each), most)
        threads = [threading.Thread(target=self._work) for _ in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.state.save()

    def _work(self) -> None:
        while (left := self.end - time.monotonic()) > 0:
            chosen, functions = self._next()
            watched = Watched(chosen, self.folder, functions=functions)
            # One thread at a time: CPython 3.11 cannot parse source in two at once.
            with self._lock:
                unreached = self.state.all_unreached()
            watched.steer(unreached)
            try:
                self._batch(chosen, watched, min(left, self._batch_seconds))
            finally:
                watched.close()

    def _next(self) -> tuple[Target, bool]:
        """Return the target that is furthest behind, and whether functions are to be noted."""
        with self._lock:
            chosen = min(self.targets, key=lambda t: self._spent.get(t.name, 0.0) / t.share)
            self._spent[chosen.name] = self._spent.get(chosen.name, 0.0) + self._batch_seconds
            number = self._batches[chosen.name] = self._batches.get(chosen.name, -1) + 1
        return chosen, chosen.runs_compiler and number % FUNCTIONS_EVERY == 0

    def _batch(self, chosen: Target, watched: Watched, seconds: float) -> None:
        begun = time.monotonic()
        seed, end = secrets.randbits(40), begun + seconds
        while (left := end - time.monotonic()) > 0:
            outcome = watched.run(seed, seconds=left)
            seed = outcome.next_seed
            with self._lock:
                new = self.state.count(chosen.name, outcome)
                self._spent[chosen.name] -= min(new, REWARDED) * self._batch_seconds / REWARDED / 2
            for number, finding, data in outcome.findings:
                self._keep(chosen, number, finding, data, watched)
            if not outcome.cases and outcome.findings:
                break  # it does not even begin
        with self._lock:
            self.state.record(chosen.name).seconds += time.monotonic() - begun
            self.state.save()

    def _keep(
        self, chosen: Target, seed: int, finding: Finding, data: bytes, watched: Watched
    ) -> None:
        with self._lock:
            record: Record = self.state.record(chosen.name)
            count = record.findings[finding.signature] = (
                record.findings.get(finding.signature, 0) + 1
            )
        if count > KEPT_CASES:
            return
        self.say(f"{chosen.name} seed {seed}: {finding.signature}")
        folder = self.folder / chosen.name
        folder.mkdir(exist_ok=True)
        stem = f"{re.sub(r'[^a-zA-Z0-9]+', '_', finding.signature)[:60].strip('_')}-{count}"
        known: dict[str, Any] = {
            "signature": finding.signature, "seed": seed, "detail": finding.detail,
        }  # fmt: skip
        (folder / f"{stem}.json").write_text(json.dumps(known, indent=1))
        (folder / f"{stem}.whole{chosen.suffix}").write_bytes(data)
        small = reduced(chosen, data, finding.signature, watched, REDUCE_SECONDS)
        (folder / f"{stem}{chosen.suffix}").write_bytes(small)
