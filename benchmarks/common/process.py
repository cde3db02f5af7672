# SPDX-License-Identifier: Apache-2.0
"""Worker processes: one for each engine, told what to do through a pipe, so engines take turns.

Serves `benchmarks` and the demo. A worker that waits for its turn sleeps. Its standard output and
error may go to a file, for libraries that are talkative while they start; what it said is shown
only if the worker dies.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ENVIRONMENT = {"INGOT_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
"""Compile times shall be those of compiling, not of finding something in a cache."""

WAITING, MOST_WAITING = 0.02, 2.0
"""Seconds without work in which a process has settled, and that it is waited for at most."""


class WorkerProcess:
    """The main process's handle of a worker."""

    def __init__(
        self, name: str, start: Callable[..., Any], arguments: tuple[Any, ...], *, quiet: bool
    ) -> None:
        """Start the process; there `start(*arguments)` gives the object whose methods are asked.

        Args:
            name: what messages call the worker.
            start: a function of a module, so that a fresh process finds it.
            arguments: its arguments.
            quiet: whether output goes to a file.
        """
        self.name = name
        self._log: Path | None = None
        if quiet:
            descriptor, path = tempfile.mkstemp(prefix="ingot-worker-", suffix=".log")
            os.close(descriptor)
            self._log = Path(path)
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        given = (theirs, self._log, start, arguments)
        self._process = context.Process(target=_serve, args=given, daemon=True)
        with _environment(ENVIRONMENT):
            self._process.start()
        theirs.close()

    def tell(self, action: str, *arguments: Any) -> None:
        """Have the worker do something; `answer` gives what came out."""
        self._pipe.send((action, arguments))

    def answer(self) -> Any:
        """Return the result of what the worker was told.

        Raises:
            RuntimeError: the worker failed; the message is its traceback or its last words.
        """
        try:
            fine, answer = self._pipe.recv()
        except EOFError:
            raise RuntimeError(f"the worker '{self.name}' died:\n{self._last_words()}") from None
        if not fine:
            raise RuntimeError(f"{self.name}:\n{answer}")
        return answer

    def ask(self, action: str, *arguments: Any) -> Any:
        """Have the worker do something and return the result."""
        self.tell(action, *arguments)
        return self.answer()

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
        if self._log is not None:
            self._log.unlink()

    def _last_words(self) -> str:
        if self._log is None:
            return "(see above)"
        return self._log.read_text(encoding="utf-8", errors="replace")[-3000:]


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    """Set environment variables in a `with` block: a child that starts in it inherits them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(
    pipe: Connection, log: Path | None, start: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    """Answer the main process until it closes the pipe."""
    if log is not None:
        sys.stdout.flush()
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
    actions = start(*arguments)
    while True:
        try:
            action, values = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            answer = getattr(actions, action)(*values)
            settle()
            pipe.send((True, answer))
        except Exception:
            pipe.send((False, traceback.format_exc()))


def settle() -> None:
    """Wait until no thread of this process runs, so that the next one's turn has the CPUs.

    Threads of OpenBLAS and OpenMP wait for further work with their CPU busy: OpenBLAS's took 0.1 s
    after a product, all of the turn of whoever came next.
    """
    deadline = time.monotonic() + MOST_WAITING
    while time.monotonic() < deadline:
        before = time.process_time()
        time.sleep(WAITING)
        if time.process_time() - before < WAITING / 10:
            return


def take_cpus(threads: int) -> None:
    """Restrict this process to `threads` CPUs; libraries that start afterwards see no more.

    Threads that libraries have started before (OpenBLAS's, when NumPy was imported) share them.
    """
    cpus = sorted(os.sched_getaffinity(0))
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), cpus[-threads:])
    os.environ.pop("INGOT_NUM_THREADS", None)


class Stopwatch:
    """Times calls, several at a time where they are short, so that the clock costs nothing."""

    def __init__(self, run: Callable[[], Any], shortest: float) -> None:
        """Time `run` in batches of `shortest` seconds at least."""
        self._run = run
        self._calls = 1
        for _ in range(3):
            self.batch()
        while self.batch() * self._calls < shortest:
            self._calls *= 2

    def batch(self) -> float:
        """Return the seconds per call of one batch."""
        run = self._run
        start = time.perf_counter()
        for _ in range(self._calls):
            run()
        return (time.perf_counter() - start) / self._calls

    def sample(self, budget: float) -> list[float]:
        """Return the seconds per call of each batch in `budget` seconds."""
        self.batch()
        end = time.perf_counter() + budget
        times = [self.batch()]
        while time.perf_counter() < end:
            times.append(self.batch())
        return times
