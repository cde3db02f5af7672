"""Workers: one process with one engine on a number of CPUs, told what to do through a pipe.

The number of threads is set for all engines alike: the process may use so many CPUs. A worker that
waits for its turn sleeps.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.programs import Program

_SHORTEST_BATCH = 2e-4
"""Seconds: shorter calls are timed several at a time, so that the clock costs nothing."""


class Worker:
    """The parent's handle of a worker process."""

    def __init__(self, engine: str, threads: int) -> None:
        """Start the process."""
        self.engine = engine
        self.threads = threads
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, engine, threads), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, action: str, *arguments: Any) -> Any:
        """Have the worker do something and return the answer.

        Raises:
            RuntimeError: the worker failed; the message is its traceback.
        """
        self._pipe.send((action, arguments))
        fine, answer = self._pipe.recv()
        if not fine:
            raise RuntimeError(f"{self.engine}, {self.threads} threads:\n{answer}")
        return answer

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()


def _serve(pipe: Connection, engine_name: str, threads: int) -> None:
    """Answer the parent until it closes the pipe."""
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[-threads:])
    os.environ |= {"INGOT_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    os.environ.pop("INGOT_NUM_THREADS", None)
    from benchmarks.engines import ENGINES

    actions = Actions(ENGINES[engine_name]())
    while True:
        try:
            action, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send((True, getattr(actions, action)(*arguments)))
        except Exception:
            import traceback

            pipe.send((False, traceback.format_exc()))


class Actions:
    """What a worker can be asked for."""

    def __init__(self, engine: Any) -> None:
        """Use `engine`."""
        self.engine = engine
        self.batch = 1

    def load(self, program: Program, hlo: str) -> str:
        """Load a program; return its HLO text if the engine makes it."""
        return self.engine.load(program, hlo)

    def compile_once(self) -> float:
        """Return the seconds that compiling takes."""
        return self.engine.compile_once()

    def results(self) -> Any:
        """Return the program's results, and find out how many calls fill the shortest batch."""
        found = self.engine.results()
        for _ in range(3):
            self._time_batch(1)
        self.batch = 1
        while self._time_batch(self.batch) < _SHORTEST_BATCH:
            self.batch *= 2
        return found

    def sample(self, budget: float) -> float:
        """Call for `budget` seconds; return the seconds of the fastest calls.

        The fastest of a turn is what a busy machine disturbs least; turns are compared by median.
        """
        self._time_batch(self.batch)
        end = time.perf_counter() + budget
        times = [self._time_batch(self.batch)]
        while time.perf_counter() < end:
            times.append(self._time_batch(self.batch))
        return min(times) / self.batch

    def _time_batch(self, calls: int) -> float:
        run = self.engine.run
        start = time.perf_counter()
        for _ in range(calls):
            run()
        return time.perf_counter() - start
