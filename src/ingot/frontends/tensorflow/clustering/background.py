# SPDX-License-Identifier: Apache-2.0
"""When a cluster is compiled: in the background, once it has run long enough to be worth it.

TensorFlow's kernels run a cluster until its program is ready. A cluster is compiled when it has
been in use for as long as compiling it will take, as far as earlier compilations tell: so a program
that ends early loses at most as much as it ran, and one that continues soon runs compiled code.

Invariants: one thread compiles, one cluster after the other; whoever waits for a program is never
waited for. A cluster that cannot be compiled, or that would be compiled again and again for other
values, stays with TensorFlow's kernels.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ingot.frontends.tensorflow.launches.launch import Launch
from ingot.frontends.tensorflow.variants.specialisation import MOST_ELEMENTS, Reader, Sizes
from ingot.support.tracing import Level, log

MOST_VARIANTS = 16
"""Programs of one cluster; XLA calls a cluster that needs more megamorphic."""

_logger = logging.getLogger("ingot.tensorflow")

_SWITCH_INTERVAL = 0.0005
"""Seconds that the compiler may keep the interpreter while others want it."""
_EXIT_SECONDS = 10


class _Cost:
    """What compiling takes: seconds, by the number of nodes."""

    def __init__(self) -> None:
        self._seconds, self._nodes = 0.5, 100  # a guess that counts as one small cluster

    def estimate(self, nodes: int) -> float:
        return nodes * self._seconds / self._nodes

    def learn(self, nodes: int, seconds: float) -> None:
        self._seconds += seconds
        self._nodes += nodes


_cost = _Cost()


class Requester:
    """Decides when one cluster is compiled; called by the kernel of `Ingot_XlaCompile`."""

    def __init__(self, launch: Launch, nodes: int, dtypes: list[np.dtype], mode: str) -> None:
        """Decide for `launch`.

        Args:
            launch: the cluster's launch.
            nodes: how many nodes it has.
            dtypes: element type of each input.
            mode: `background`, `at_once` or `never`.
        """
        self._launch, self._nodes, self._dtypes, self._mode = launch, nodes, dtypes, mode
        self._first: float | None = None
        if mode == "never":
            launch.record.quiet = 1

    def __call__(self, sizes: Sizes, read: Reader) -> None:
        """Take note that there is no program for a call."""
        if self._mode == "at_once":
            self._compile(sizes, read)
            return
        now = time.perf_counter()
        if self._first is None:
            self._first = now
            return
        if now - self._first < _cost.estimate(self._nodes):
            return
        self._launch.record.quiet = 1
        values = self._copies(sizes, read)
        _worker.put(lambda: self._compile(sizes, values))

    def _copies(self, sizes: Sizes, read: Reader) -> Reader:
        """Return a reader of what small inputs hold now."""
        copies: dict[int, bytes | None] = {}
        for index, (dims, dtype) in enumerate(zip(sizes, self._dtypes, strict=True)):
            if prod(dims) <= MOST_ELEMENTS:
                copies[index] = read(index, prod(dims) * dtype.itemsize)

        def read_copy(parameter: int, count: int) -> bytes | None:
            data = copies.get(parameter)
            return data if data is not None and len(data) == count else None

        return read_copy

    def _compile(self, sizes: Sizes, read: Reader) -> None:
        start = time.perf_counter()
        report = self._launch.compile_for(sizes, read)
        seconds = time.perf_counter() - start
        if report is not None:
            _logger.info("Ingot leaves %s to TensorFlow: %s", self._launch.name, report[1])
            log(Level.COMPILATION, "cluster.refused", cluster=self._launch.name, why=report[1])
        else:
            _cost.learn(self._nodes, seconds)
        too_many = len(self._launch.variants) >= MOST_VARIANTS
        self._launch.record.quiet = int(report is not None or too_many)


class _Worker:
    """The thread that compiles."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.unfinished = 0

    def put(self, job: Callable[[], None]) -> None:
        """Do a job when those before it are done."""
        with self._lock:
            self.unfinished += 1
            self._jobs.put(job)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="ingot-clusters", daemon=True
                )
                self._thread.start()
                atexit.register(self._stop)

    def _run(self) -> None:
        while True:
            job = self._jobs.get()
            before = sys.getswitchinterval()
            sys.setswitchinterval(min(before, _SWITCH_INTERVAL))
            try:
                job()
            except SystemExit:
                return
            except BaseException:
                _logger.exception("Ingot: a cluster is not compiled")
            finally:
                sys.setswitchinterval(before)
                with self._lock:
                    self.unfinished -= 1

    def _stop(self) -> None:
        """End the thread: what it compiles is not needed any more."""
        thread = self._thread
        if thread is None or thread.ident is None:
            return
        self._jobs.put(_leave)
        if self.unfinished:
            stop = ctypes.pythonapi.PyThreadState_SetAsyncExc
            stop(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        thread.join(_EXIT_SECONDS)


def _leave() -> None:
    raise SystemExit


_worker = _Worker()


def wait_for_compilations(seconds: float = 60.0) -> bool:
    """Wait until no cluster is being compiled; False if that took too long. For tests and tools."""
    end = time.perf_counter() + seconds
    while _worker.unfinished:
        if time.perf_counter() > end:
            return False
        time.sleep(0.01)
    return True


def requester_of(launch: Launch, nodes: int, dtypes: list[Any], mode: str) -> Requester:
    """Return the requester of a launch, and let the launch call it."""
    made = Requester(launch, nodes, [np.dtype(item) for item in dtypes], mode)
    launch.requester = made
    return made
