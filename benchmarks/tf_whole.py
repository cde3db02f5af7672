# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.tf_whole`: whole models on TensorFlow's kernels, its XLA and Ingot.

For each row, step, batch size and number of threads every engine has a fresh process of its own, so
that its peak memory is that of the row. The processes take turns. Results of the first two calls
are compared before anything is timed; a row stands with a note where it is XLA's that differ.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import largest_error
from benchmarks.process import ENVIRONMENT, Stopwatch, WorkerProcess, take_cpus
from benchmarks.programs import Samples
from benchmarks.report import as_text, machine
from benchmarks.tf_report import (
    ENGINES,
    OURS,
    REFERENCE,
    XLA,
    Measured,
    Side,
    Task,
    cost_table,
    failure_text,
    page,
    sections,
    step_table,
)
from benchmarks.tf_rows import load, save

KINDS = ("infer", "train")
RESULTS = Path(__file__).resolve().parent / "TF_RESULTS.md"
ROWS = RESULTS.with_name("tf_rows.json")


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns, seconds of calls per turn, and whether scripts are run."""

    rounds: int
    budget: float
    scripts: bool


def start(engine: str, threads: int) -> Runner:
    """Take so many CPUs, then start TensorFlow with `engine`."""
    take_cpus(threads)
    return Runner(engine)


class Runner:
    """What a worker can be asked for."""

    def __init__(self, engine: str) -> None:
        """Import TensorFlow and what the engine needs."""
        import tensorflow as tf

        self._tf = tf
        self._jit = engine != ENGINES[0]
        if engine == OURS:
            import ingot.tensorflow

            ingot.tensorflow.enable()
        self._seconds: list[float] = []

    def load(self, name: str, kind: str, batch: int) -> None:
        """Build a row's step."""
        from benchmarks.tf_programs import WHOLE

        tf = self._tf
        row = next(row for row in WHOLE if row.name == name)
        self._before = _status_bytes("VmRSS")
        tf.keras.utils.set_random_seed(0)
        step = getattr(row, kind)(batch, Samples())
        made = tf.function(step.function, jit_compile=self._jit, input_signature=step.signature)
        made.get_concrete_function(*step.arguments)
        self._around = step.around
        self._arguments = step.arguments
        self._made = made

    def compile_once(self) -> list[list[np.ndarray]]:
        """Call twice; return the results of both."""
        found = []
        for _ in range(2):
            begin = time.perf_counter()
            result = self._run()
            self._seconds.append(time.perf_counter() - begin)
            found.append([np.asarray(leaf) for leaf in self._tf.nest.flatten(result)])
        self._watch = Stopwatch(self._run, 1e-3)
        return found

    def _run(self) -> Any:
        if self._around is not None:
            return self._around(self._made, *self._arguments)
        return self._made(*self._arguments)

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
        return _status_bytes("VmHWM") - self._before

    def executables(self) -> int:
        """Return how many programs Ingot compiled."""
        import ingot.tensorflow

        return sum(map(len, ingot.tensorflow.executables().values()))

    def steps(self, count: int) -> None:
        """Run so many steps."""
        for _ in range(count):
            self._run()


def _status_bytes(key: str) -> int:
    """Return a size of this process from the kernel's table of it."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) << 10
    raise KeyError(key)


@contextmanager
def crew(threads: int, engines: tuple[str, ...] = ENGINES) -> Iterator[dict[str, WorkerProcess]]:
    """Start a process for each engine; end them afterwards."""
    os.environ |= ENVIRONMENT
    started = {
        engine: WorkerProcess(f"{engine}, {threads} threads", start, (engine, threads), quiet=True)
        for engine in engines
    }
    try:
        yield started
    finally:
        for worker in started.values():
            worker.close()


def measure(task: Task, threads: int, plan: Plan) -> tuple[dict[str, Side], str]:
    """Compile, check and time one task; return what it took, and where XLA's results differ.

    Raises:
        ArithmeticError: Ingot's results differ.
        RuntimeError: an engine failed.
    """
    sides = {engine: Side() for engine in ENGINES}
    with crew(threads) as workers:
        results: dict[str, Any] = {}
        for engine, worker in workers.items():
            worker.ask("load", task.name, task.kind, task.batch)
            results[engine] = worker.ask("compile_once")
        check(task, OURS, results[OURS], results[REFERENCE])
        note = difference(task, XLA, results[XLA], results[REFERENCE])
        for _ in range(plan.rounds):
            for engine, worker in workers.items():
                sides[engine].calls.seconds.append(worker.ask("sample", plan.budget))
        for engine, worker in workers.items():
            sides[engine].compilation = worker.ask("compilation")
            sides[engine].memory = worker.ask("memory")
        sides[OURS].programs = workers[OURS].ask("executables")
    if plan.scripts and task.script:
        for engine, side in sides.items():
            side.script = script(task, engine, threads)
    return sides, note


def check(task: Task, engine: str, found: list[Any], expected: list[Any]) -> None:
    """Compare the results of the first calls.

    Raises:
        ArithmeticError: they differ by more than the task allows.
    """
    text = difference(task, engine, found, expected)
    if text:
        raise ArithmeticError(text)


def difference(task: Task, engine: str, found: list[Any], expected: list[Any]) -> str:
    """Return which result of the first calls differs by more than the task allows, and how far."""
    for call, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        worst = largest_error(ours, theirs)
        if not worst <= task.tolerance:
            return (
                f"{' '.join(task.cells)}: result {call} of {engine} is {worst:.2g} away from "
                f"{REFERENCE}'s, relative to the largest element"
            )
    return ""


def script(task: Task, engine: str, threads: int) -> float:
    """Return the seconds of a process that builds the model and runs the first steps."""
    begin = time.perf_counter()
    with crew(threads, (engine,)) as workers:
        workers[engine].ask("load", task.name, task.kind, task.batch)
        workers[engine].ask("steps", task.script)
        return time.perf_counter() - begin


def tasks(names: list[str], kinds: list[str], batches: list[int]) -> list[Task]:
    """Return what is measured: rows whose names have one of `names`, `batches` their places."""
    from benchmarks.tf_programs import WHOLE

    chosen = [
        row for row in WHOLE if not names or any(name.lower() in row.name.lower() for name in names)
    ]
    return [
        Task(row.name, kind, row.batches[place], row.tolerance, row.script)
        for row in chosen
        for kind in row.kinds()
        if kind in kinds
        for place in batches
    ]


def run(task: Task, threads: int, plan: Plan) -> Measured:
    """Measure a row."""
    before = (f"{datetime.now():%Y-%m-%d}", os.getloadavg()[0])
    try:
        sides, note = measure(task, threads, plan)
        return Measured(task, threads, *before, sides=sides, note=note)
    except (RuntimeError, ArithmeticError) as error:
        return Measured(task, threads, *before, failure=str(error))


def keep(row: Measured) -> None:
    """Write the file of rows and the page, with `row` in the place of the one that was there."""
    order = {task: number for number, task in enumerate(tasks([], list(KINDS), [0, 1]))}
    rows = [old for old in load(ROWS) if old.key != row.key and old.task in order]
    rows = sorted([*rows, row], key=lambda each: (each.threads, order[each.task]))
    save(ROWS, rows)
    RESULTS.write_text(page(rows, machine()[:2]), encoding="utf-8")


def main() -> int:
    """Run; return 1 if a row failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tf_whole", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names have one of these")
    parser.add_argument("--kinds", default=",".join(KINDS), help="infer, train or both (default)")
    parser.add_argument("--batches", default="0,1", help="0: the small size, 1: the large one")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds of calls per turn")
    parser.add_argument("--no-scripts", action="store_true", help="leave out the scripts")
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"write the rows to {RESULTS.name}, each when it is measured",
    )
    options = parser.parse_args()
    plan = Plan(options.rounds, options.budget, not options.no_scripts)
    batches = [int(place) for place in options.batches.split(",")]
    chosen = tasks(options.only, options.kinds.split(","), batches)
    rows: list[Measured] = []
    for threads in map(int, options.threads.split(",")):
        for task in chosen:
            row = run(task, threads, plan)
            rows.append(row)
            if row.failure:
                print(f"FAILED: {failure_text(row)}", flush=True)
            else:
                print("  ".join(step_table([row])[1] + cost_table([row])[1][3:]), flush=True)
            if options.write:
                keep(row)
    print(*(f"\n{title}\n{as_text(cells)}" for title, cells in sections(rows)), sep="\n")
    return 1 if any(row.failure for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
