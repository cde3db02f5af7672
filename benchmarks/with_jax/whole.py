# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.with_jax.whole`: whole JAX programs on Ingot and on JAX's own CPU backend.

Both sides are the same `jax.jit` of the same function in a process of its own, one with
`JAX_PLATFORMS=ingot`, one with `cpu`; they take turns. Compile time is `lowered.compile()` without
any cache. Results are compared before anything is timed. `--libraries` runs the programs of other
libraries than JAX.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from textwrap import fill
from typing import Any

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
from benchmarks.with_jax import dispatch

PLATFORMS = ("ingot", "cpu")
TITLES = ("program", "Ingot", "XLA", "best Ingot", "best XLA", "XLA / Ingot", "compile: Ingot",
          "XLA", "XLA / Ingot")  # fmt: skip
EXPLANATION = """\
The same `jax.jit` of the same function in processes of their own, `JAX_PLATFORMS=ingot` and `cpu`,
which take turns. A time is the median over the turns of the fastest call in each, a ratio the
median of each turn's: above 1 Ingot is faster, `!` marks where it is not. Compile time is
`lowered.compile()` without any cache, but for libraries: XLA's are precompiled, the parts that a
program needs of Ingot's are kept on disk and were loaded. Results were compared before timing."""
LIBRARIES = (
    "Models, optimizers, solvers and samplers are those of the libraries, used as their "
    "documentation shows: "
)


@dataclass(frozen=True, slots=True)
class Page:
    """A table of programs, and the page that shows its results.

    Attributes:
        programs: the module whose `PROGRAMS` are the rows.
        file: name of the page.
        title: its heading.
        target: what writes it.
        libraries: the packages that its programs use, besides JAX.
    """

    programs: str
    file: str
    title: str
    target: str
    libraries: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the page is."""
        return PAGES / self.file

    def rows(self) -> tuple[Any, ...]:
        """Return its programs; JAX starts on the platform of the environment."""
        return importlib.import_module(self.programs).PROGRAMS


PLAIN = Page(
    "benchmarks.with_jax.whole_programs",
    "JAX_RESULTS.md",
    "JAX programs on Ingot and on XLA:CPU",
    "make bench-jax",
)
OF_LIBRARIES = Page(
    "benchmarks.with_jax.library_programs",
    "JAX_LIBRARY_RESULTS.md",
    "JAX libraries on Ingot and on XLA:CPU",
    "make bench-jax-libraries",
    ("flax", "optax", "dm-haiku", "equinox", "diffrax", "optimistix", "numpyro", "blackjax",
     "mctx", "e3nn-jax", "jraph", "tinygp"),
)  # fmt: skip


@dataclass(slots=True)
class Side:
    """What one platform took for one program: seconds of each turn."""

    calls: Timing = field(default_factory=Timing)
    compilations: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Plan:
    """Turns, seconds of calls per turn, turns of compilations."""

    rounds: int
    budget: float
    compilations: int


def start(platform: str, threads: int, page: Page) -> Runner:
    """Take so many CPUs, then start JAX on `platform`."""
    take_cpus(threads)
    os.environ["JAX_PLATFORMS"] = platform
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "0"
    return Runner(platform, page)


class Runner:
    """What a worker can be asked for."""

    def __init__(self, platform: str, page: Page) -> None:
        """Compile something, so that no program pays for starting the platform."""
        import jax

        self._jax = jax
        self._table = {row.name: row for row in page.rows()}
        self._forget = lambda: None
        jax.block_until_ready(jax.jit(lambda x: x @ x)(np.ones((8, 8), np.float32)))
        if platform == "ingot":
            from ingot.client import clear_caches, load_library

            self._forget = clear_caches
            load_library()

    def compile_once(self, name: str) -> float:
        """Return the seconds from a lowered program to an executable."""
        row = self._table[name]
        jax = self._jax
        jax.clear_caches()
        self._forget()
        self._arguments = jax.device_put(row.arguments(Samples()))
        jitted = jax.jit(row.function)
        lowered = jitted.lower(*self._arguments)
        begin = time.perf_counter()
        lowered.compile()
        taken = time.perf_counter() - begin
        self._jit = jitted
        return taken

    def results(self) -> list[np.ndarray]:
        """Return the program's results as f64 or c128 arrays, and get ready to time calls."""
        found = self._jax.tree.leaves(self._run())
        self._watch = Stopwatch(self._run, 1e-3)
        return [np.asarray(leaf) for leaf in found]

    def _run(self) -> Any:
        return self._jax.block_until_ready(self._jit(*self._arguments))

    def sample(self, budget: float) -> float:
        """Return the seconds of the fastest of the calls in `budget` seconds."""
        return min(self._watch.sample(budget))


def measure(
    name: str, tolerance: float, crew: dict[str, WorkerProcess], plan: Plan
) -> dict[str, Side]:
    """Compile, check and time one program.

    Raises:
        ArithmeticError: results differ.
        RuntimeError: a platform failed.
    """
    sides = {platform: Side() for platform in PLATFORMS}
    # What the program needs of Ingot's library is loaded, as XLA's libraries are.
    crew["ingot"].ask("compile_once", name)
    for _ in range(plan.compilations):
        for platform, worker in crew.items():
            sides[platform].compilations.seconds.append(worker.ask("compile_once", name))
    results = [crew[platform].ask("results") for platform in PLATFORMS]
    worst = largest_error(*results)
    if not worst <= tolerance:
        raise ArithmeticError(f"{name}: results differ by {worst:.2g} of the largest element")
    for _ in range(plan.rounds):
        for platform, worker in crew.items():
            sides[platform].calls.seconds.append(worker.ask("sample", plan.budget))
    return sides


def cells(name: str, sides: dict[str, Side]) -> list[str]:
    """Return one row of the table."""
    ours, theirs = (sides[platform] for platform in PLATFORMS)
    return [
        name,
        duration(ours.calls.median),
        duration(theirs.calls.median),
        duration(min(ours.calls.seconds)),
        duration(min(theirs.calls.seconds)),
        factor(ours.calls.ratio(theirs.calls)),
        duration(ours.compilations.median),
        duration(theirs.compilations.median),
        factor(ours.compilations.ratio(theirs.compilations)),
    ]


def table(rows: dict[str, dict[str, Side]]) -> list[list[str]]:
    """Return the cells of the table, heading first, means last."""
    body = [cells(name, sides) for name, sides in rows.items()]
    pairs = [[sides[platform] for platform in PLATFORMS] for sides in rows.values()]
    calls = geometric_mean([ours.calls.ratio(theirs.calls) for ours, theirs in pairs])
    compilations = geometric_mean(
        [ours.compilations.ratio(theirs.compilations) for ours, theirs in pairs]
    )
    mean = ["geometric mean", "", "", "", "", factor(calls), "", "", factor(compilations)]
    return [list(TITLES), *body, mean]


def run(page: Page, threads: int, names: list[str], plan: Plan) -> tuple[list[list[str]], int]:
    """Measure with so many threads; return the table and how many rows failed."""
    crew = {
        platform: WorkerProcess(f"{platform}, {threads} threads", start, (platform, threads, page),
                                quiet=True)
        for platform in PLATFORMS
    }  # fmt: skip
    rows: dict[str, dict[str, Side]] = {}
    failed = 0
    for row in page.rows():
        if names and not any(name.lower() in row.name.lower() for name in names):
            continue
        try:
            rows[row.name] = measure(row.name, row.tolerance, crew, plan)
            print("  ".join(cells(row.name, rows[row.name])), flush=True)
        except (RuntimeError, ArithmeticError) as error:
            failed += 1
            print(f"{row.name}: FAILED\n{error}", flush=True)
    for worker in crew.values():
        worker.close()
    return table(rows), failed


def main() -> int:
    """Run; return 1 if a row failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.with_jax.whole", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="only programs whose names have one of these")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each platform")
    parser.add_argument("--budget", type=float, default=0.15, help="seconds of calls per turn")
    parser.add_argument("--compilations", type=int, default=1, help="compilations of each")
    parser.add_argument("--write", action="store_true", help="write the page of results")
    parser.add_argument("--libraries", action="store_true", help="programs of other libraries")
    options = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "cpu"
    plan = Plan(options.rounds, options.budget, options.compilations)
    page = OF_LIBRARIES if options.libraries else PLAIN
    parts = [f"# {page.title}", f"Written by `{page.target}`."]
    parts += ["\n".join(f"- {fact}" for fact in machine()), EXPLANATION]
    if page.libraries:
        used = ", ".join(f"{name} {version(name)}" for name in page.libraries)
        parts.append(fill(f"{LIBRARIES}{used}.", 100))
    failed = 0
    for threads in map(int, options.threads.split(",")):
        cells_of, failures = run(page, threads, options.names, plan)
        failed += failures
        title = number_of_threads(threads)
        print(f"\n{title}\n{as_text(cells_of)}\n", flush=True)
        parts += [f"## {title}", as_markdown(cells_of)]
    if page is PLAIN and not options.names:
        calls = dispatch.measure(options.rounds, options.budget / 3)
        print(f"\n{as_text(calls)}\n", flush=True)
        parts += ["## Dispatch", dispatch.EXPLANATION, as_markdown(calls)]
    if options.write and not failed and not options.names:
        page.path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
