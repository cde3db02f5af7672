"""`python -m benchmarks.every_op`: each op and element type on Ingot and XLA; writes `EVERY_OP.md`.

The same workers, turns and checks as `python -m benchmarks`, on one thread, with less time for each
row: what it is for is to find where Ingot is slower, not to measure by how much.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks.compare import Plan, Row, measure, workers
from benchmarks.every_op_programs import DTYPES, programs
from benchmarks.programs import OP_ENGINES
from benchmarks.report import as_markdown, factor, machine

RESULTS = Path(__file__).resolve().parent / "EVERY_OP.md"
PLAN = Plan(rounds=5, budget=0.008, compilations=2)
EXPLANATION = """\
Each op with each element type that it is common with, as one program, on Ingot and on XLA:CPU, one
thread, in turn: XLA's time divided by Ingot's, above 1 Ingot is faster, `!` marks where it is not.
Rows are quick, so single figures are rough; results were checked before they were timed."""


def main() -> int:
    """Run; return 1 if a row failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.every_op", description=__doc__)
    parser.add_argument("names", nargs="*", help="only rows whose names begin with one of these")
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    options = parser.parse_args()
    os.environ["JAX_ENABLE_X64"] = "1"
    wanted = tuple(options.names)
    rows: list[Row] = []
    failures: list[str] = []
    facts = machine()
    with workers(OP_ENGINES, [1]) as crew:
        for program in programs():
            if wanted and not program.name.startswith(wanted):
                continue
            try:
                row = measure(program, crew, PLAN)
            except (RuntimeError, ArithmeticError) as error:
                failures.append(f"{program.name}: {str(error).strip().splitlines()[-1]}")
                print("FAILED", failures[-1], flush=True)
                continue
            rows.append(row)
            print(f"{program.name:34} {_run(row):8.2f} {_compilation(row):8.2f}", flush=True)
    print("\n" + summary(rows))
    if options.write:
        RESULTS.write_text(page(rows, facts), encoding="utf-8")
    return 1 if failures else 0


def _run(row: Row) -> float:
    ratio = row.ratio("Ingot", "XLA", 1)
    assert ratio is not None, "both engines ran"
    return ratio


def _compilation(row: Row) -> float:
    ratio = row.compile_ratio("Ingot", "XLA", 1)
    assert ratio is not None, "both engines compiled"
    return ratio


def summary(rows: list[Row]) -> str:
    """Return counts and means."""
    lines: list[str] = []
    for title, pick in (("per call", _run), ("per compilation", _compilation)):
        ratios = np.array([pick(row) for row in rows])
        mean = float(np.exp(np.log(ratios).mean()))
        lines.append(
            f"- {title}: geometric mean {mean:.2f}, at least 1 in {(ratios >= 1).sum()} of "
            f"{len(ratios)} rows, below 0.9 in {(ratios < 0.9).sum()}"
        )
    return "\n".join(lines)


def page(rows: list[Row], facts: list[str]) -> str:
    """Return the page: a table of ops by element types for calls and for compilations."""
    parts = ["# Every op beside XLA\n", "Written by `make bench-ops`.\n", "\n".join(facts) + "\n"]
    parts += [EXPLANATION + "\n", summary(rows) + "\n"]
    for title, pick in (("Time per call", _run), ("Compile time", _compilation)):
        cells: dict[str, dict[str, str]] = {}
        for row in rows:
            name, dtype = row.program.name.split(": ")
            line = cells.setdefault(name, {})
            while dtype in line:  # the same op with other sizes
                name += "'"
                line = cells.setdefault(name, {})
            line[dtype] = factor(pick(row))
        table = [["op", *DTYPES]]
        table += [[name, *(line.get(d, "") for d in DTYPES)] for name, line in cells.items()]
        parts += [f"## {title}\n", as_markdown(table) + "\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
