# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.ops.every_op`: every op and element type on Ingot and XLA (`EVERY_OP.md`).

The same workers, turns and checks as `python -m benchmarks`, with less time for each row: what it
is for is to find where Ingot is slower, not to measure by how much. Compile time is measured once,
with the first of the numbers of threads.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from dataclasses import replace

import numpy as np

from benchmarks.common.compare import Plan, Row, measure, workers
from benchmarks.common.programs import OP_ENGINES, Program
from benchmarks.common.report import PAGES, as_markdown, factor, machine, number_of_threads
from benchmarks.common.worker import Worker
from benchmarks.ops.every_op_programs import DTYPES, programs

RESULTS = PAGES / "EVERY_OP.md"
PLAN = Plan(rounds=5, budget=0.008, compilations=2)
EXPLANATION = """\
Each op with each element type that it is common with, as one program, on Ingot and on XLA:CPU with
as many threads, in turn: XLA's time divided by Ingot's, above 1 Ingot is faster, `!` marks where it
is not. Rows are quick, so single figures are rough; results were checked before they were timed."""


def main() -> int:
    """Run; return 1 if a row failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ops.every_op", description=__doc__)
    parser.add_argument("names", nargs="*", help="only rows whose names begin with one of these")
    parser.add_argument(
        "--threads", type=int, action="append", help="how many; may stand several times (1 and 2)"
    )
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    os.environ["JAX_ENABLE_X64"] = "1"
    wanted = tuple(options.names)
    threads: list[int] = options.threads or [1, 2]
    chosen = [item for item in programs() if not wanted or item.name.startswith(wanted)]
    facts = machine()
    rows, failures = _measure_all(chosen, threads)
    print("\n" + summary(rows, threads))
    if options.write:
        RESULTS.write_text(page(rows, threads, facts), encoding="utf-8")
    print(*failures, sep="\n")
    return 1 if failures else 0


def _measure_all(chosen: list[Program], threads: list[int]) -> tuple[list[Row], list[str]]:
    """Return the rows, and what was said of those that failed."""
    rows: list[Row] = []
    failures: list[str] = []
    with ExitStack() as open_:
        crews = [open_.enter_context(workers(OP_ENGINES, [count])) for count in threads]
        for program in chosen:
            try:
                row = measure_on_each(program, crews)
            except (RuntimeError, ArithmeticError) as error:
                failures.append(f"{program.name}: {str(error).strip().splitlines()[-1]}")
                print("FAILED", failures[-1], flush=True)
                continue
            rows.append(row)
            figures = [*(_run(row, count) for count in threads), _compilation(row, threads[0])]
            print(f"{program.name:34}", *(f"{ratio:8.2f}" for ratio in figures), flush=True)
    return rows, failures


def measure_on_each(program: Program, crews: list[list[Worker]]) -> Row:
    """Time a program's calls with each crew, its compilation with the first."""
    first, *others = crews
    row = measure(program, first, PLAN)
    for crew in others:
        row.calls |= measure(program, crew, replace(PLAN, compilations=0)).calls
    return row


def _run(row: Row, threads: int) -> float:
    ratio = row.ratio("Ingot", "XLA", threads)
    assert ratio is not None, "both engines ran"
    return ratio


def _compilation(row: Row, threads: int) -> float:
    ratio = row.compile_ratio("Ingot", "XLA", threads)
    assert ratio is not None, "both engines compiled"
    return ratio


Figures = tuple[str, list[float]]
"""What was compared, and XLA's time divided by Ingot's for each row."""


def figures_of(rows: list[Row], threads: list[int]) -> list[Figures]:
    """Return every table's title and figures."""
    calls = [
        (f"Time per call, {number_of_threads(count)}", [_run(row, count) for row in rows])
        for count in threads
    ]
    return [*calls, ("Compile time", [_compilation(row, threads[0]) for row in rows])]


def summary(rows: list[Row], threads: list[int]) -> str:
    """Return counts and means."""
    lines: list[str] = []
    for title, figures in figures_of(rows, threads):
        ratios = np.array(figures)
        mean = float(np.exp(np.log(ratios).mean()))
        lines.append(
            f"- {title}: geometric mean {mean:.2f}, at least 1 in {(ratios >= 1).sum()} of "
            f"{len(ratios)} rows, below 0.9 in {(ratios < 0.9).sum()}"
        )
    return "\n".join(lines)


def page(rows: list[Row], threads: list[int], facts: list[str]) -> str:
    """Return the page: a table of ops by element types for calls and for compilations."""
    parts = ["# Every op beside XLA\n", "Written by `make bench-ops`.\n", "\n".join(facts) + "\n"]
    parts += [EXPLANATION + "\n", summary(rows, threads) + "\n"]
    for title, figures in figures_of(rows, threads):
        cells: dict[str, dict[str, str]] = {}
        for row, ratio in zip(rows, figures, strict=True):
            name, dtype = row.program.name.split(": ")
            line = cells.setdefault(name, {})
            while dtype in line:  # the same op with other sizes
                name += "'"
                line = cells.setdefault(name, {})
            line[dtype] = factor(ratio)
        table = [["op", *DTYPES]]
        table += [[name, *(line.get(d, "") for d in DTYPES)] for name, line in cells.items()]
        parts += [f"## {title}\n", as_markdown(table) + "\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
