"""`python -m benchmarks.tf_whole`: whole models on TensorFlow's kernels, its XLA and Ingot.

For each row, step, batch size and number of threads every engine has a fresh process of its own, so
that its peak memory is that of the row. The processes take turns. Results of the first two calls
are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.compare import largest_error
from benchmarks.process import ENVIRONMENT, Stopwatch, WorkerProcess, take_cpus
from benchmarks.programs import Samples, Timing
from benchmarks.report import (
    as_markdown,
    as_text,
    duration,
    factor,
    geometric_mean,
    machine,
    number_of_threads,
)

OURS = "Ingot"
ENGINES = ("TensorFlow", "XLA", OURS)
"""The first one's results are the reference."""
KINDS = ("infer", "train")
HEADING = ("model", "step", "batch")
RESULTS = Path(__file__).resolve().parent / "TF_RESULTS.md"
EXPLANATION = """\
Each engine has a process of its own for each row: TensorFlow's kernels (oneDNN on), TensorFlow's
XLA (`jit_compile=True`), Ingot (`ingot.tensorflow.enable()` and `jit_compile=True`); the processes
take turns. A time of a step is the median over the turns of the fastest call in each, a ratio the
median of each turn's: above 1 Ingot is better, `!` marks where it is not. Compile time is the first
call of the traced function, less what the fastest call takes; nothing comes from a cache of
compiled programs. Memory is the most that the process had resident while it built, compiled and ran
the row, above what it had after TensorFlow was imported. A script is timed from the start of its
process, Python's and TensorFlow's included, to the end of its last step. Results of the first two
calls were compared before timing: Ingot's and XLA's to TensorFlow's."""


@dataclass(slots=True)
class Side:
    """What one engine took for one row.

    Attributes:
        calls: seconds of a step in each turn.
        compilation: seconds of the first call, less a step.
        memory: bytes at the peak.
        script: seconds of the short script; None if it was not run.
        programs: how many Ingot compiled, one for each of a function's ranks and constants.
    """

    calls: Timing = field(default_factory=Timing)
    compilation: float = 0.0
    memory: int = 0
    script: float | None = None
    programs: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns, seconds of calls per turn, and whether scripts are run."""

    rounds: int
    budget: float
    scripts: bool


@dataclass(frozen=True, slots=True)
class Task:
    """One row's one step with a batch size."""

    name: str
    kind: str
    batch: int
    tolerance: float
    script: int

    @property
    def cells(self) -> list[str]:
        """What the first columns of its line say."""
        return [self.name, self.kind, str(self.batch)]


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


def measure(task: Task, threads: int, plan: Plan) -> dict[str, Side]:
    """Compile, check and time one task.

    Raises:
        ArithmeticError: results differ.
        RuntimeError: an engine failed.
    """
    sides = {engine: Side() for engine in ENGINES}
    with crew(threads) as workers:
        results: dict[str, Any] = {}
        for engine, worker in workers.items():
            worker.ask("load", task.name, task.kind, task.batch)
            results[engine] = worker.ask("compile_once")
        for engine in ENGINES[1:]:
            check(task, engine, results[engine], results[ENGINES[0]])
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
    return sides


def check(task: Task, engine: str, found: list[Any], expected: list[Any]) -> None:
    """Compare the results of the first calls.

    Raises:
        ArithmeticError: they differ by more than the task allows.
    """
    for call, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        worst = largest_error(ours, theirs)
        if not worst <= task.tolerance:
            raise ArithmeticError(
                f"{' '.join(task.cells)}: result {call} of {engine} is {worst:.2g} away from "
                f"{ENGINES[0]}'s, relative to the largest element"
            )


def script(task: Task, engine: str, threads: int) -> float:
    """Return the seconds of a process that builds the model and runs the first steps."""
    begin = time.perf_counter()
    with crew(threads, (engine,)) as workers:
        workers[engine].ask("load", task.name, task.kind, task.batch)
        workers[engine].ask("steps", task.script)
        return time.perf_counter() - begin


Rows = list[tuple[Task, dict[str, Side]]]


def step_table(rows: Rows) -> list[list[str]]:
    """Return the cells of the times of steps, heading first, means last."""
    table = [[*HEADING, OURS, *ENGINES[:-1], *(f"{engine} / {OURS}" for engine in ENGINES[:-1])]]
    for task, sides in rows:
        ours, *others = (sides[engine].calls for engine in (OURS, *ENGINES[:-1]))
        times = [duration(timing.median) for timing in (ours, *others)]
        table.append([*task.cells, *times, *(factor(ours.ratio(other)) for other in others)])
    means = [
        geometric_mean([sides[OURS].calls.ratio(sides[engine].calls) for _, sides in rows])
        for engine in ENGINES[:-1]
    ]
    return [*table, ["geometric mean", *[""] * 5, *map(factor, means)]]


def cost_table(rows: Rows) -> list[list[str]]:
    """Return the cells of compile time, memory and scripts, heading first."""
    heading = [*HEADING, f"programs: {OURS}", f"compile: {OURS}", "XLA", f"XLA / {OURS}"]
    heading += [f"memory: {OURS}", *ENGINES[:-1], "script steps", f"script: {OURS}", *ENGINES[:-1]]
    table = [heading]
    for task, sides in rows:
        ours, plain, xla = (sides[engine] for engine in (OURS, *ENGINES[:-1]))
        ratio = factor(xla.compilation / ours.compilation) if ours.compilation > 0 else "-"
        scripts = [side.script for side in (ours, plain, xla)]
        table.append(
            [
                *task.cells,
                str(ours.programs),
                *(duration(max(side.compilation, 0.0)) for side in (ours, xla)),
                ratio,
                *(f"{side.memory / 2**20:.0f} MB" for side in (ours, plain, xla)),
                str(task.script or "-"),
                *("-" if seconds is None else duration(seconds) for seconds in scripts),
            ]
        )
    return table


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


def run(chosen: list[Task], threads: int, plan: Plan) -> tuple[Rows, list[str]]:
    """Measure with so many threads; return the rows, and what was said of those that failed."""
    rows: Rows = []
    failures: list[str] = []
    for task in chosen:
        try:
            rows.append((task, measure(task, threads, plan)))
            print("  ".join(step_table(rows[-1:])[1] + cost_table(rows[-1:])[1][3:]), flush=True)
        except (RuntimeError, ArithmeticError) as error:
            failures.append(f"{' '.join(task.cells)}, {number_of_threads(threads)}: {error}")
            print(f"FAILED: {failures[-1]}", flush=True)
    return rows, failures


def sections(rows: Rows, threads: int) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of a number of threads with their titles."""
    title = number_of_threads(threads)
    return [
        (f"Time of a step, {title}", step_table(rows)),
        (f"Compile time, memory, scripts, {title}", cost_table(rows)),
    ]


def page(tables: list[tuple[str, list[list[str]]]], facts: list[str], failures: list[str]) -> str:
    """Return the text of the page of results."""
    parts = ["# TensorFlow models on Ingot, TensorFlow's kernels and XLA"]
    parts += ["Written by `make bench-tf`.", "\n".join(f"- {fact}" for fact in facts), EXPLANATION]
    for title, table in tables:
        parts += [f"## {title}", as_markdown(table)]
    if failures:
        lines = [failure.strip().splitlines() for failure in failures]
        said = [line[0] + (f" {line[-1]}" if len(line) > 1 else "") for line in lines]
        parts += ["## Rows without a result", "\n".join(f"- {line}" for line in said)]
    return "\n\n".join(parts) + "\n"


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
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    plan = Plan(options.rounds, options.budget, not options.no_scripts)
    batches = [int(place) for place in options.batches.split(",")]
    chosen = tasks(options.only, options.kinds.split(","), batches)
    facts = [*machine(), f"{plan.rounds} turns of {plan.budget} s of each engine"]
    tables: list[tuple[str, list[list[str]]]] = []
    failures: list[str] = []
    for threads in map(int, options.threads.split(",")):
        rows, failed = run(chosen, threads, plan)
        failures += failed
        if rows:
            found = sections(rows, threads)
            tables += found
            print(*(f"\n{title}\n{as_text(cells)}" for title, cells in found), sep="\n", flush=True)
        if options.write:
            RESULTS.write_text(page(tables, facts, failures), encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
