# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks`: run the comparison, print the tables, write `RESULTS.md` and the plot."""

from __future__ import annotations

import argparse
import sys

from benchmarks.common.compare import Plan, Row, measure, workers
from benchmarks.common.engines import ENGINES
from benchmarks.common.plot import svg
from benchmarks.common.programs import OP_ENGINES, PROGRAMS, Program
from benchmarks.common.report import PAGES, PAIRS, as_text, factor, machine, markdown, sections
from benchmarks.common.worker import Worker
from benchmarks.ops.op_programs import OPS

QUICK = Plan(rounds=3, budget=0.03, compilations=1)


def arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="only programs whose names have one of these")
    parser.add_argument("--quick", action="store_true", help="few programs, one minute, no files")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--engines", default=",".join(ENGINES), help="which engines take part")
    parser.add_argument("--rounds", type=int, default=Plan().rounds, help="turns of each engine")
    parser.add_argument("--no-write", action="store_true", help="print only")
    return parser.parse_args()


def chosen(options: argparse.Namespace) -> list[Program]:
    """Return the programs to run."""
    programs = [p for p in PROGRAMS + OPS if p.quick or not options.quick or options.names]
    if options.names:
        programs = [p for p in programs if any(name in p.name for name in options.names)]
    return programs


def main() -> int:
    """Run; return 1 if a row failed."""
    options = arguments()
    threads = [int(count) for count in options.threads.split(",")]
    plan = QUICK if options.quick else Plan(rounds=options.rounds)
    facts = machine()
    print("\n".join(facts), flush=True)
    rows: list[Row] = []
    failed = 0
    with workers(options.engines.split(","), threads) as crew:
        for program in chosen(options):
            row = _attempt(program, crew, plan)
            failed += row is None
            if row is not None:
                rows.append(row)
                print(f"{program.name:34} {summary(row, threads)}", flush=True)
        facts += [library_fact(worker) for worker in crew[:1] if worker.engine == "Ingot"]
    print(facts[-1])
    for title, table in sections(rows, threads):
        print(f"\n{title}\n{as_text(table)}")
    if not (options.quick or options.names or options.no_write or failed):
        (PAGES / "RESULTS.md").write_text(markdown(rows, threads, facts), encoding="utf-8")
        (PAGES / "results.svg").write_text(
            svg([row for row in rows if not row.program.section], threads), encoding="utf-8"
        )
        print(f"\nwritten: {PAGES / 'RESULTS.md'}")
    return 1 if failed else 0


def library_fact(worker: Worker) -> str:
    """Return what Ingot's library took, as a line of `machine`'s kind."""
    seconds = worker.ask("library_seconds")
    return (
        f"Ingot's library: {seconds:.1f} s, once per machine, for all parts that were needed here"
    )


def summary(row: Row, threads: list[int]) -> str:
    """Return the ratios of one row, for those who wait."""
    return "   ".join(
        f"{theirs} / {ours}: " + ", ".join(factor(row.ratio(ours, theirs, n)) for n in threads)
        for ours, theirs in PAIRS
    )


def _attempt(program: Program, crew: list[Worker], plan: Plan) -> Row | None:
    if program.section:
        crew = [worker for worker in crew if worker.engine in OP_ENGINES]
    try:
        return measure(program, crew, plan)
    except (RuntimeError, ArithmeticError) as error:
        print(f"{program.name}: FAILED\n{error}", flush=True)
        return None


if __name__ == "__main__":
    sys.exit(main())
