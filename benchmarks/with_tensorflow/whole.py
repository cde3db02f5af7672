# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.with_tensorflow.whole`: models on TensorFlow's kernels, its XLA and Ingot.

For each row, step, batch size and number of threads every engine has a fresh process of its own, so
that its peak memory is that of the row. The processes take turns. Results of the first two calls
are compared before anything is timed; a row stands with a note where it is XLA's that differ.
"""

from __future__ import annotations

import argparse
import compileall
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.process import take_cpus
from benchmarks.common.programs import Samples
from benchmarks.common.report import PAGES, as_text, machine
from benchmarks.common.whole import (
    KINDS,
    Measured,
    Runner,
    Side,
    Task,
    attempt,
    crew,
    failure_text,
    status_bytes,
    step_table,
    take_turns,
)
from benchmarks.common.whole_rows import keep
from benchmarks.with_tensorflow.report import ENGINES, OURS, cost_table, page, sections

RESULTS = PAGES / "TF_RESULTS.md"
PACKAGE = RESULTS.parents[1] / "src" / "ingot"
ROWS = Path(__file__).with_name("rows.json")


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how often a row is measured.

    Attributes:
        rounds: turns of each engine.
        budget: seconds of calls per turn.
        scripts: whether scripts are run.
        script_seconds: how long TensorFlow's kernels take for the steps of a script; 0 for scripts
            of the rows' own few steps, which not all have.
    """

    rounds: int
    budget: float
    scripts: bool
    script_seconds: float = 0.0

    def script_steps(self, task: Task, step: float) -> int:
        """Return how many steps a task's script has, 0 for no script; `step`: seconds of one."""
        if not self.scripts:
            return 0
        return max(1, round(self.script_seconds / step)) if self.script_seconds else task.script


def start_kept(folder: str, engine: str, threads: int) -> TensorFlowRunner:
    """Start TensorFlow with `engine`, whose compiled objects are kept in a folder."""
    os.environ |= {"INGOT_CACHE": "1", "INGOT_CACHE_DIR": folder}
    return start(engine, threads)


def start(engine: str, threads: int) -> TensorFlowRunner:
    """Take `threads` CPUs, then start TensorFlow with `engine`."""
    take_cpus(threads)
    return TensorFlowRunner(engine)


class TensorFlowRunner(Runner):
    """TensorFlow with one engine."""

    def __init__(self, engine: str) -> None:
        """Import TensorFlow and what the engine needs."""
        if engine == OURS:  # As the README does: it imports TensorFlow without collections.
            import ingot.tensorflow

            ingot.tensorflow.enable()
        import tensorflow as tf

        super().__init__()
        self._tf = tf
        self._jit = engine != ENGINES[0]

    def load(self, name: str, kind: str, batch: int) -> None:
        """Build a row's step."""
        from benchmarks.with_tensorflow.programs import WHOLE

        tf = self._tf
        row = next(row for row in WHOLE if row.name == name)
        self._before = status_bytes("VmRSS")
        tf.keras.utils.set_random_seed(0)
        step = getattr(row, kind)(batch, Samples())
        made = tf.function(step.function, jit_compile=self._jit, input_signature=step.signature)
        made.get_concrete_function(*step.arguments)
        self._around = step.around
        self._arguments = step.arguments
        self._made = made

    def leaves(self, result: Any) -> list[np.ndarray]:
        """Return the tensors of a result."""
        return [np.asarray(leaf) for leaf in self._tf.nest.flatten(result)]

    def run(self) -> Any:
        """Run the loaded step once."""
        if self._around is not None:
            return self._around(self._made, *self._arguments)
        return self._made(*self._arguments)

    def executables(self) -> int:
        """Return how many programs Ingot compiled."""
        import ingot.tensorflow

        return sum(map(len, ingot.tensorflow.executables().values()))

    def steps(self, count: int) -> None:
        """Run `count` steps."""
        for _ in range(count):
            self.run()


def measure(task: Task, threads: int, plan: Plan) -> tuple[dict[str, Side], str]:
    """Compile, check and time one task; return what it took, and where XLA's results differ.

    Raises:
        ArithmeticError: Ingot's results differ.
        RuntimeError: an engine failed.
    """
    with crew(start, threads, ENGINES) as workers:
        sides, note = take_turns(task, workers, plan.rounds, plan.budget)
        sides[OURS].programs = workers[OURS].ask("executables")
    steps = plan.script_steps(task, sides[ENGINES[0]].calls.median)
    if steps:
        # As users have them: with bytecode, and with the library's parts that any run keeps.
        compileall.compile_dir(str(PACKAGE), quiet=2)
        with tempfile.TemporaryDirectory() as folder:
            script(task, 1, OURS, threads, folder)
            for engine, side in sides.items():
                side.script_steps = steps
                side.script = script(task, steps, engine, threads, folder)
    return sides, note


def script(task: Task, steps: int, engine: str, threads: int, folder: str) -> float:
    """Return the seconds of a process that builds the model and runs the first steps."""
    begin = time.perf_counter()
    with crew(partial(start_kept, folder), threads, (engine,)) as workers:
        workers[engine].ask("load", task.name, task.kind, task.batch)
        workers[engine].ask("steps", steps)
        return time.perf_counter() - begin


def tasks(names: list[str], kinds: list[str], batches: list[int]) -> list[Task]:
    """Return what is measured: rows whose names have one of `names`, `batches` their places."""
    from benchmarks.with_tensorflow.programs import WHOLE

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


def write(row: Measured) -> None:
    """Write the file of rows and the page, with `row` in the place of the one that was there."""
    rows = keep(ROWS, row, tasks([], list(KINDS), [0, 1]))
    RESULTS.write_text(page(rows, machine()[:2]), encoding="utf-8")


def main() -> int:
    """Run; return 1 if a row failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.with_tensorflow.whole", description=__doc__
    )
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names have one of these")
    parser.add_argument("--kinds", default=",".join(KINDS), help="infer, train or both (default)")
    parser.add_argument("--batches", default="0,1", help="0: the small size, 1: the large one")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--budget", type=float, default=0.5, help="seconds of calls per turn")
    parser.add_argument("--no-scripts", action="store_true", help="leave out the scripts")
    parser.add_argument(
        "--script-seconds",
        type=float,
        default=0.0,
        help="scripts of as many steps as TensorFlow's kernels do in this time, for all rows",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"write the rows to {RESULTS.name}, each when it is measured",
    )
    options = parser.parse_args()
    scripts = (not options.no_scripts, options.script_seconds)
    plan = Plan(options.rounds, options.budget, *scripts)
    batches = [int(place) for place in options.batches.split(",")]
    chosen = tasks(options.only, options.kinds.split(","), batches)
    rows: list[Measured] = []
    for threads in map(int, options.threads.split(",")):
        for task in chosen:
            row = attempt(task, threads, lambda task, threads: measure(task, threads, plan))
            rows.append(row)
            if row.failure:
                print(f"FAILED: {failure_text(row)}", flush=True)
            else:
                print(
                    "  ".join(step_table([row], ENGINES)[1] + cost_table([row])[1][3:]), flush=True
                )
            if options.write:
                write(row)
    print(*(f"\n{title}\n{as_text(cells)}" for title, cells in sections(rows)), sep="\n")
    return 1 if any(row.failure for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
