# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.kernels.libraries`: single kernels beside the best library for each.

Ingot runs a function of JAX; PyTorch (MKL, oneDNN, its own kernels), NumPy and SciPy run what
computes the same. Each has a process of its own; they take turns, and the best library is the one
whose time is the least over all turns. Results are compared before anything is timed. Besides the
fixed rows there is a draw of shapes by the day, which nothing can have been tuned to.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from benchmarks.common.compare import largest_error
from benchmarks.common.process import Stopwatch, WorkerProcess, take_cpus
from benchmarks.common.programs import Samples, Timing
from benchmarks.common.report import (
    PAGES,
    as_markdown,
    as_text,
    duration,
    factor,
    geometric_mean,
    machine,
    number_of_threads,
)
from benchmarks.kernels import library_functions
from benchmarks.kernels.library_functions import Call
from benchmarks.kernels.library_rows import FIXED, Row, drawn

OURS = "Ingot"
TITLES = ("kernel", OURS, "best library", "its time", "library / Ingot")
RESULTS = PAGES / "LIBRARY_RESULTS.md"
EXPLANATION = """\
Each kernel runs in processes of its own for each library, which take turns. A time is the median
over the turns of the fastest call in each, a ratio the median of each turn's: above 1 Ingot is
faster, `!` marks where it is not. PyTorch stands for MKL, oneDNN and its own kernels, NumPy for
NumPy and SciPy; the best of them is compared. Ingot is called through JAX. Results were compared
before timing. The rows of the second table have shapes that the date decides."""


def start(engine: str, threads: int, day: date) -> Runner:
    """Take `threads` CPUs, then start a library or Ingot: their thread pools see no more."""
    take_cpus(threads)
    os.environ["JAX_PLATFORMS"] = "ingot"
    return Runner(ENGINES[engine](), {row.name: row for row in (*FIXED, *drawn(day))})


class Runner:
    """What a worker can be asked for."""

    def __init__(self, engine: Engine, rows: dict[str, Row]) -> None:
        """Run `rows` on `engine`."""
        self._engine = engine
        self._rows = rows

    def results(self, name: str) -> list[np.ndarray] | None:
        """Run a row once, and get ready to time it; None if the library has no such kernel."""
        row = self._rows[name]
        call = self._engine.call(row, row.arguments(Samples()))
        if call is None:
            return None
        self._watch = Stopwatch(call, 2e-4)
        return self._engine.arrays(call())

    def sample(self, budget: float) -> float:
        """Return the seconds of the fastest of the calls in `budget` seconds."""
        return min(self._watch.sample(budget))


class Engine(Protocol):
    """A library, or Ingot."""

    def call(self, row: Row, arguments: Sequence[np.ndarray]) -> Call | None:
        """Return a call of a kernel; None if there is no such kernel."""
        ...

    def arrays(self, result: Any) -> list[np.ndarray]:
        """Return the arrays of a result."""
        ...


class IngotEngine:
    """Ingot through `jax.jit`."""

    def __init__(self) -> None:
        """Load JAX and Ingot's library."""
        import jax

        from ingot.client import load_library

        self._jax = jax
        self._functions = library_functions.jax_functions()
        load_library()

    def call(self, row: Row, arguments: Sequence[np.ndarray]) -> Call:
        """Compile."""
        jax = self._jax
        function = jax.jit(partial(self._functions[row.function], **row.options))
        given = jax.device_put(list(arguments))
        return lambda: jax.block_until_ready(function(*given))

    def arrays(self, result: Any) -> list[np.ndarray]:
        """Return the leaves."""
        return [np.asarray(leaf) for leaf in self._jax.tree.leaves(result)]


class TorchEngine:
    """PyTorch's CPU kernels."""

    def __init__(self) -> None:
        """Load PyTorch."""
        import torch

        self._torch = torch
        torch.set_grad_enabled(False)
        torch.set_num_threads(len(os.sched_getaffinity(0)))
        self._functions = library_functions.torch_functions()

    def call(self, row: Row, arguments: Sequence[np.ndarray]) -> Call | None:
        """Return the call of a kernel."""
        prepare = self._functions.get(row.function)
        return None if prepare is None else prepare(*map(self._tensor, arguments), **row.options)

    def _tensor(self, array: np.ndarray) -> Any:
        if array.dtype == ml_dtypes.bfloat16:
            return self._torch.from_numpy(array.view(np.int16)).view(self._torch.bfloat16)
        return self._torch.from_numpy(array)

    def arrays(self, result: Any) -> list[np.ndarray]:
        """Return the tensors as arrays."""
        found = result if isinstance(result, tuple) else (result,)
        return [(t.float() if t.dtype == self._torch.bfloat16 else t).numpy() for t in found]


class NumpyEngine:
    """NumPy and SciPy."""

    def __init__(self) -> None:
        """Load them."""
        self._functions = library_functions.numpy_functions()

    def call(self, row: Row, arguments: Sequence[np.ndarray]) -> Call | None:
        """Return the call of a kernel."""
        prepare = self._functions.get(row.function)
        if prepare is None or any(array.dtype == ml_dtypes.bfloat16 for array in arguments):
            return None
        return prepare(*arguments, **row.options)

    def arrays(self, result: Any) -> list[np.ndarray]:
        """Return the arrays."""
        return [np.asarray(item) for item in (result if isinstance(result, tuple) else (result,))]


ENGINES: dict[str, type[Engine]] = {
    OURS: IngotEngine,
    "PyTorch": TorchEngine,
    "NumPy": NumpyEngine,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns, and seconds of calls in each."""

    rounds: int
    budget: float


@dataclass(frozen=True, slots=True)
class Measured:
    """What each engine took for a row."""

    name: str
    ours: Timing
    library: str
    theirs: Timing

    @property
    def ratio(self) -> float:
        """The library's time over Ingot's."""
        return self.ours.ratio(self.theirs)

    @property
    def cells(self) -> list[str]:
        """The cells of its line."""
        ours, theirs = duration(self.ours.median), duration(self.theirs.median)
        return [self.name, ours, self.library, theirs, factor(self.ratio)]


def measure(row: Row, crew: dict[str, WorkerProcess], plan: Plan) -> Measured:
    """Check and time one kernel.

    Raises:
        ArithmeticError: results differ.
        RuntimeError: an engine failed.
    """
    found = {name: worker.ask("results", row.name) for name, worker in crew.items()}
    found = {name: arrays for name, arrays in found.items() if arrays is not None}
    for name, arrays in found.items():
        error = largest_error(found[OURS], arrays)
        if not error <= row.tolerance:
            raise ArithmeticError(f"{row.name}: {name} differs by {error:.2g} of the largest one")
    timings = {name: Timing() for name in found}
    for _ in range(plan.rounds):
        for name, timing in timings.items():
            timing.seconds.append(crew[name].ask("sample", plan.budget))
    ours = timings.pop(OURS)
    best = min(timings, key=lambda name: min(timings[name].seconds))
    return Measured(row.name, ours, best, timings[best])


def table(rows: Sequence[Measured]) -> list[list[str]]:
    """Return the cells of a table, heading first, the mean last."""
    mean = ["geometric mean", "", "", "", factor(geometric_mean([row.ratio for row in rows]))]
    return [list(TITLES), *(row.cells for row in rows), mean]


def run(rows: Sequence[Row], crew: dict[str, WorkerProcess], plan: Plan) -> list[Measured]:
    """Measure rows, and print each; those that fail are printed and left out."""
    found: list[Measured] = []
    for row in rows:
        try:
            found.append(measure(row, crew, plan))
            print("  ".join(found[-1].cells), flush=True)
        except (RuntimeError, ArithmeticError) as error:
            print(f"{row.name}: FAILED\n{error}", flush=True)
    return found


def main() -> int:
    """Run; return 1 if a row failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels.libraries", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="only kernels whose names have one of these")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each engine")
    parser.add_argument("--budget", type=float, default=0.06, help="seconds of calls per turn")
    parser.add_argument(
        "--day", type=date.fromisoformat, default=date.today(), help="day of the draw"
    )
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    plan = Plan(options.rounds, options.budget)
    groups = {"Fixed rows": FIXED, f"Shapes of {options.day}": drawn(options.day)}
    parts = ["# Single kernels beside the best libraries", "Written by `make bench-libraries`."]
    facts = machine(("ingot-compiler", "torch", "numpy", "scipy"))
    parts += ["\n".join(f"- {fact}" for fact in facts), EXPLANATION]
    failed = 0
    for threads in map(int, options.threads.split(",")):
        crew = {
            name: WorkerProcess(name, start, (name, threads, options.day), quiet=True)
            for name in ENGINES
        }
        for group, rows in groups.items():
            chosen = [row for row in rows if _is_wanted(row.name, options.names)]
            if chosen:
                title = f"{group}, {number_of_threads(threads)}"
                measured = run(chosen, crew, plan)
                failed += len(chosen) - len(measured)
                cells = table(measured)
                print(f"\n{title}\n{as_text(cells)}\n", flush=True)
                parts += [f"## {title}", as_markdown(cells)]
        for worker in crew.values():
            worker.close()
    if options.write and not failed and not options.names:
        RESULTS.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 1 if failed else 0


def _is_wanted(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(part.lower() in name.lower() for part in wanted)


if __name__ == "__main__":
    sys.exit(main())
