# SPDX-License-Identifier: Apache-2.0
"""Whole models on several engines: what is measured of each row, and its checks and tables.

Serves `with_tensorflow` and `with_torch`. Engines stand in one order everywhere: the framework's
own kernels first, which are the reference, then its compiler, Ingot last. Each has its own process
for each row, in which a `Runner` builds and times the row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.compare import largest_error
from benchmarks.common.process import Stopwatch, WorkerProcess
from benchmarks.common.programs import Timing
from benchmarks.common.report import (
    as_markdown,
    duration,
    factor,
    geometric_mean,
    number_of_threads,
)

KINDS = ("infer", "train")
HEADING = ("model", "step", "batch")
FAILS = "fails"
"""Stands for a time of the framework's compiler where it fails."""
Engines = Sequence[str]


@dataclass(slots=True)
class Side:
    """What one engine took for one row.

    Attributes:
        calls: seconds of a step in each turn.
        compilation: seconds of the first call, less a step.
        memory: bytes at the peak.
        script: seconds of the script; None if it was not run.
        script_steps: steps of the script, if it is not the task's short one.
        programs: how many Ingot compiled.
        host: the ops that Ingot left to the framework.
    """

    calls: Timing = field(default_factory=Timing)
    compilation: float = 0.0
    memory: int = 0
    script: float | None = None
    programs: int = 0
    host: list[str] = field(default_factory=list[str])
    script_steps: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """One row's one step with a batch size.

    Attributes:
        name: of the row.
        kind: one of `KINDS`.
        batch: the batch size.
        tolerance: largest difference of a result, relative to its largest element.
        script: steps of the short script that is timed from its start; 0 for none.
    """

    name: str
    kind: str
    batch: int
    tolerance: float
    script: int = 0

    @property
    def cells(self) -> list[str]:
        """What the first columns of its line say."""
        return [self.name, self.kind, str(self.batch)]


@dataclass(frozen=True, slots=True)
class Measured:
    """A row as it was measured.

    Attributes:
        task: what was measured.
        threads: how many it used.
        when: the day.
        load: processes that wanted to run when it began, those of the benchmark not among them.
        sides: what each engine took; nothing if the row failed, and nothing of the framework's
            compiler where that fails.
        failure: what was said if the row failed.
        note: where the framework's compiler fails, or its results differ from the reference.
    """

    task: Task
    threads: int
    when: str
    load: float
    sides: dict[str, Side] = field(default_factory=dict[str, Side])
    failure: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[Task, int]:
        """What the row is about; a later one replaces it."""
        return self.task, self.threads


# ---- measuring


class Runner:
    """What a worker can be asked for; a framework's own runner loads rows and runs their steps."""

    def __init__(self) -> None:
        """Begin without a row."""
        self._seconds: list[float] = []
        self._before = 0

    def load(self, name: str, kind: str, batch: int) -> None:
        """Build a row's step, and note in `_before` what memory the process has."""
        raise NotImplementedError

    def run(self) -> Any:
        """Run the loaded step once."""
        raise NotImplementedError

    def leaves(self, result: Any) -> list[np.ndarray]:
        """Return the arrays that are compared after a step: of its result, and what it changed."""
        raise NotImplementedError

    def compile_once(self) -> list[list[np.ndarray]]:
        """Call twice; return the results of both."""
        found: list[list[np.ndarray]] = []
        for _ in range(2):
            begin = time.perf_counter()
            result = self.run()
            self._seconds.append(time.perf_counter() - begin)
            found.append(self.leaves(result))
        self._watch = Stopwatch(self.run, 1e-3)
        return found

    def sample(self, budget: float) -> float:
        """Return the seconds of the fastest of the calls in `budget` seconds."""
        fastest = min(self._watch.sample(budget))
        self._seconds.append(fastest)
        return fastest

    def compilation(self) -> float:
        """Return how much longer the first call took than the fastest."""
        return self._seconds[0] - min(self._seconds)

    def memory(self) -> int:
        """Return the bytes that the row needed at its peak."""
        return status_bytes("VmHWM") - self._before


@contextmanager
def crew(
    start: Callable[..., Any], threads: int, engines: Engines
) -> Iterator[dict[str, WorkerProcess]]:
    """Start a process for each engine, which calls `start(engine, threads)`; end them after."""
    started = {
        engine: WorkerProcess(f"{engine}, {threads} threads", start, (engine, threads), quiet=True)
        for engine in engines
    }
    try:
        yield started
    finally:
        for worker in started.values():
            worker.close()


def take_turns(
    task: Task, workers: dict[str, WorkerProcess], rounds: int, budget: float
) -> tuple[dict[str, Side], str]:
    """Compile, check and time a task on each engine; the workers have it loaded afterwards.

    Args:
        task: what is measured.
        workers: each engine's process.
        rounds: turns of each.
        budget: seconds of calls in each turn.

    Returns:
        What each engine took, and where the framework's compiler fails, which then took nothing, or
        where its results differ.

    Raises:
        ArithmeticError: Ingot's results differ from the reference.
        RuntimeError: Ingot or the reference failed.
    """
    reference, *compilers, ours = workers
    results: dict[str, Any] = {}
    notes: list[str] = []
    for engine, worker in workers.items():
        worker.ask("load", task.name, task.kind, task.batch)
        try:
            results[engine] = worker.ask("compile_once")
        except RuntimeError as error:
            if engine not in compilers:
                raise
            notes.append(f"{' '.join(task.cells)}: {_first_and_last(str(error))}")
    check(task, ours, results[ours], reference, results[reference])
    notes += [difference(task, each, results[each], reference, results[reference])
              for each in compilers if each in results]  # fmt: skip
    working = {engine: workers[engine] for engine in workers if engine in results}
    sides = {engine: Side() for engine in working}
    for _ in range(rounds):
        for engine, worker in working.items():
            sides[engine].calls.seconds.append(worker.ask("sample", budget))
    for engine, worker in working.items():
        sides[engine].compilation = worker.ask("compilation")
        sides[engine].memory = worker.ask("memory")
    return sides, "; ".join(filter(None, notes))


def check(task: Task, engine: str, found: list[Any], reference: str, expected: list[Any]) -> None:
    """Compare the results of the first calls.

    Raises:
        ArithmeticError: they differ by more than the task allows.
    """
    text = difference(task, engine, found, reference, expected)
    if text:
        raise ArithmeticError(text)


def difference(
    task: Task, engine: str, found: list[Any], reference: str, expected: list[Any]
) -> str:
    """Return which result of the first calls differs by more than the task allows, and how far."""
    for call, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        worst = largest_error(ours, theirs)
        if not worst <= task.tolerance:
            return (
                f"{' '.join(task.cells)}: result {call} of {engine} is {worst:.2g} away from "
                f"{reference}'s, relative to the largest element"
            )
    return ""


def status_bytes(key: str) -> int:
    """Return a size of this process from the kernel's table of it, as `VmRSS` or `VmHWM`."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    raise KeyError(key)


def attempt(
    task: Task, threads: int, measure: Callable[[Task, int], tuple[dict[str, Side], str]]
) -> Measured:
    """Return a row as `measure` finds it, or why it has no result."""
    before = (f"{datetime.now():%Y-%m-%d}", os.getloadavg()[0])
    try:
        sides, note = measure(task, threads)
        return Measured(task, threads, *before, sides=sides, note=note)
    except (RuntimeError, ArithmeticError) as error:
        return Measured(task, threads, *before, failure=str(error))


# ---- tables


def step_table(rows: Sequence[Measured], engines: Engines) -> list[list[str]]:
    """Return the cells of the times of steps, heading first, means last."""
    *others, ours = engines
    table = [[*HEADING, ours, *others, *(f"{engine} / {ours}" for engine in others)]]
    found: dict[str, list[float]] = {engine: [] for engine in others}
    for row in rows:
        times = [
            duration(row.sides[engine].calls.median) if engine in row.sides else FAILS
            for engine in (ours, *others)
        ]
        ratios = {
            engine: row.sides[ours].calls.ratio(row.sides[engine].calls)
            for engine in others
            if engine in row.sides
        }
        for engine, ratio in ratios.items():
            found[engine].append(ratio)
        factors = [factor(ratios[engine]) if engine in ratios else "" for engine in others]
        table.append([*row.task.cells, *times, *factors])
    means = [factor(geometric_mean(ratios)) if ratios else "" for ratios in found.values()]
    blank = [""] * (len(HEADING) + len(others))
    return [*table, ["geometric mean", *blank, *means]]


Table = list[list[str]]


def tables_by_threads(
    rows: Sequence[Measured], kinds: Sequence[tuple[str, Callable[[Sequence[Measured]], Table]]]
) -> list[tuple[str, Table]]:
    """Return the tables of each number of threads with their titles; `kinds` says which."""
    found: list[tuple[str, Table]] = []
    for threads in sorted({row.threads for row in rows}):
        these = [row for row in rows if row.threads == threads and row.sides]
        if these:
            title = number_of_threads(threads)
            found += [(f"{name}, {title}", table(these)) for name, table in kinds]
    return found


def sections_text(
    tables: Sequence[tuple[str, Table]], rows: Sequence[Measured], who: str, notes: Sequence[str]
) -> list[str]:
    """Return the parts of a page: tables, what is said of `who`, and failures."""
    parts: list[str] = []
    for title, table in tables:
        parts += [f"## {title}", as_markdown(table)]
    if notes:
        parts += [
            f"## Where {who} fails or its results differ",
            "\n".join(f"- {note}" for note in notes),
        ]
    failed = [f"- {failure_text(row)}" for row in rows if row.failure]
    if failed:
        parts += ["## Rows without a result", "\n".join(failed)]
    return parts


def megabytes(size: int) -> str:
    """Return bytes as MB."""
    return f"{size / 2**20:.0f} MB"


def failure_text(row: Measured) -> str:
    """Return which row has no result, and why."""
    said = _first_and_last(row.failure)
    return f"{' '.join(row.task.cells)}, {number_of_threads(row.threads)}: {said}"


def _first_and_last(text: str) -> str:
    """Return the first and the last line of an error."""
    lines = text.strip().splitlines()
    return lines[0] + (f" {lines[-1]}" if len(lines) > 1 else "")
