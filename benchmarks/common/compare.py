# SPDX-License-Identifier: Apache-2.0
"""Comparison: engines take turns (A B C A B C), so a busy machine is unfair to none of them.

Results are checked before anything is timed: XLA's, through JAX, are the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from benchmarks.common.programs import Program, Timing
from benchmarks.common.worker import Worker

REFERENCE = "XLA"
Key = tuple[str, int]
"""An engine and its number of threads."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How long to measure: rounds of turns, seconds per turn, rounds of compilations."""

    rounds: int = 9
    budget: float = 0.06
    compilations: int = 3


@dataclass(slots=True)
class Row:
    """What came out for one program.

    Attributes:
        program: what was run.
        calls: seconds per call.
        compilations: seconds per compilation.
        error: the largest error against the reference, relative to the largest element.
    """

    program: Program
    calls: dict[Key, Timing] = field(default_factory=dict)
    compilations: dict[Key, Timing] = field(default_factory=dict)
    error: float = 0.0

    def ratio(self, ours: str, theirs: str, threads: int) -> float | None:
        """Return how many times slower `theirs` runs than `ours`; None if one was not run."""
        return _ratio(self.calls, ours, theirs, threads)

    def compile_ratio(self, ours: str, theirs: str, threads: int) -> float | None:
        """Return how many times longer `theirs` compiles than `ours`."""
        return _ratio(self.compilations, ours, theirs, threads)


def _ratio(timings: dict[Key, Timing], ours: str, theirs: str, threads: int) -> float | None:
    first, second = timings.get((ours, threads)), timings.get((theirs, threads))
    return first.ratio(second) if first is not None and second is not None else None


@contextmanager
def workers(engines: Sequence[str], threads: Sequence[int]) -> Iterator[list[Worker]]:
    """Start a worker for every engine and number of threads; end them afterwards."""
    started = [Worker(engine, count) for count in threads for engine in engines]
    try:
        yield started
    finally:
        for worker in started:
            worker.close()


def measure(program: Program, crew: list[Worker], plan: Plan) -> Row:
    """Check and time one program.

    Raises:
        ArithmeticError: an engine's result is not that of XLA.
        RuntimeError: an engine failed.
    """
    row = Row(program)
    _load(program, crew)
    _take_turns(crew, plan.compilations, row.compilations, lambda w: w.ask("compile_once"))
    row.error = _check(program, crew)
    _take_turns(crew, plan.rounds, row.calls, lambda w: w.ask("sample", plan.budget))
    return row


def _load(program: Program, crew: list[Worker]) -> None:
    """Load the program everywhere; the reference engine's HLO goes to all others."""
    hlo = ""
    for worker in sorted(crew, key=lambda w: w.engine != REFERENCE):
        hlo = worker.ask("load", program, hlo) or hlo


def _take_turns(
    crew: list[Worker], rounds: int, into: dict[Key, Timing], action: Callable[[Worker], float]
) -> None:
    for _ in range(rounds):
        for worker in crew:
            timing = into.setdefault((worker.engine, worker.threads), Timing())
            timing.seconds.append(action(worker))


def _check(program: Program, crew: list[Worker]) -> float:
    found = {(w.engine, w.threads): w.ask("results") for w in crew}
    reference = next(value for (engine, _), value in found.items() if engine == REFERENCE)
    worst = 0.0
    for (engine, threads), results in found.items():
        error = largest_error(results, reference)
        if not error <= program.tolerance:
            raise ArithmeticError(
                f"{program.name}: {engine} with {threads} threads is {error:.2e} away from "
                f"{REFERENCE}, more than {program.tolerance:.0e}"
            )
        worst = max(worst, error)
    return worst


def largest_error(results: list[np.ndarray], reference: list[np.ndarray]) -> float:
    """Return the largest difference, each result's relative to its largest finite element.

    NaN where the reference has a number, or the reverse, makes it NaN.
    """
    if len(results) != len(reference):
        return float("inf")
    worst = 0.0
    for got, expected in zip(results, reference, strict=True):
        if got.shape != expected.shape:
            return float("inf")
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        got, expected = got.astype(wide), expected.astype(wide)
        scale = np.max(np.abs(expected), initial=1e-30, where=np.isfinite(expected))
        differs = (got != expected) & ~(np.isnan(got) & np.isnan(expected))
        difference = np.abs(got[differs] - expected[differs])
        worst = float(np.maximum(worst, np.max(difference, initial=0.0) / scale))
    return worst
