# SPDX-License-Identifier: Apache-2.0
"""Workers of the benchmarks: one process with one engine on a number of CPUs.

The number of threads is set in the same way for all engines: by the CPUs of the process.
"""

from __future__ import annotations

from typing import Any

from benchmarks.common.process import Stopwatch, WorkerProcess, take_cpus
from benchmarks.common.programs import Program

_SHORTEST_BATCH = 2e-4
"""Seconds: shorter calls are timed several at a time."""


class Worker(WorkerProcess):
    """The parent's handle of a worker."""

    def __init__(self, engine: str, threads: int) -> None:
        """Start the process."""
        self.engine = engine
        self.threads = threads
        super().__init__(f"{engine}, {threads} threads", _start, (engine, threads), quiet=False)


def _start(engine: str, threads: int) -> Actions:
    """Take `threads` CPUs, then start the engine; its libraries see no more."""
    take_cpus(threads)
    from benchmarks.common.engines import ENGINES

    return Actions(ENGINES[engine]())


class Actions:
    """What a worker can be asked for."""

    def __init__(self, engine: Any) -> None:
        """Use `engine`."""
        self.engine = engine
        self._watch: Stopwatch | None = None

    def load(self, program: Program, hlo: str) -> str:
        """Load a program; return its HLO text if the engine makes it."""
        return self.engine.load(program, hlo)

    def compile_once(self) -> float:
        """Return the seconds that compiling takes."""
        return self.engine.compile_once()

    def library_seconds(self) -> float:
        """Return what the engine spent on code that a machine makes once."""
        return self.engine.library_seconds

    def results(self) -> Any:
        """Return the program's results, and get ready to time calls."""
        found = self.engine.results()
        self._watch = Stopwatch(self.engine.run, _SHORTEST_BATCH)
        return found

    def sample(self, budget: float) -> float:
        """Call for `budget` seconds; return the seconds of the fastest calls.

        The fastest of a turn is what a busy machine disturbs least; turns are compared by median.
        """
        assert self._watch is not None, "results come before samples"
        return min(self._watch.sample(budget))
