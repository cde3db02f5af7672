# SPDX-License-Identifier: Apache-2.0
"""`make accuracy`: measures every math function, in ulp, and writes `docs/accuracy.md`.

What is measured is kept in `results.json` beside this file after every piece of work, and a run
goes on where the last one stopped; `--again` starts afresh. It comes in rounds over all functions,
so that a run that is stopped has measured a part of each.

Example:
    .venv/bin/python -m tests.accuracy --workers 2 --minutes 60
    .venv/bin/python -m tests.accuracy tanh erf --again
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from benchmarks.common.report import machine
from tests.accuracy import compositions, measure, report, signs
from tests.accuracy.dense import Worst
from tests.accuracy.engines import LEVELS, XLA
from tests.accuracy.functions import FUNCTIONS, find
from tests.accuracy.measure import Job, Record

ROUNDS = (1, 8, 32, 1 << 30)
"""Up to how many pieces of each function a round goes."""
Key = tuple[str, str]


def main() -> int:
    """Measure what is left, write the page; return 1 if a function is behind."""
    options = _options()
    # The workers inherit these; blocks are small, and a second thread would only wait.
    os.environ.setdefault("INGOT_NUM_THREADS", "1")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    records = report.load()
    for key in (wanted := _wanted(options.names, options.element)):
        if options.again or key not in records:
            records[key] = Record(*key)
    if not options.page:
        left = list(jobs(records, wanted, options.pieces))
        run(records, left, options.workers, time.monotonic() + 60 * options.minutes)
    report.PAGE.write_text(report.page(), encoding="utf-8")
    behind = [
        f"{record.name} of {record.element}, {level}: {worst.ulp:.3f}, XLA {record.xla.ulp:.3f}"
        for record in records.values()
        for level, worst in record.worst.items()
        if record.xla and report.is_behind(worst.ulp, record)
    ]
    print(*behind, sep="\n")
    return 1 if behind else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", help="only functions of these names")
    parser.add_argument("--element", action="append", help="only these element types")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--pieces", type=int, default=1 << 30, help="at most so many of each")
    parser.add_argument("--again", action="store_true", help="forget what was measured")
    parser.add_argument("--page", action="store_true", help="only write the page")
    return parser.parse_args()


def _wanted(names: list[str], elements: list[str] | None) -> list[Key]:
    return [
        (item.name, element)
        for item in FUNCTIONS
        for element in item.types
        if (not names or item.name in names) and (not elements or element in elements)
    ]


def run(records: report.Records, left: list[Job], workers: int, end: float) -> None:
    """Do the work that is left, and save after every piece."""
    # Seconds and a minute; the rest takes so long that it is done in pieces.
    rest = (
        report.facts(machine()[:2]),
        all_signs(),
        report.load_compositions() or compositions.all_figures(),
    )
    report.save(records, *rest)
    # Processes of their own: XLA's threads must not be forked.
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for job, inputs, found in pool.imap(measure.work, left):
            take(records[job[:2]], job[2], inputs, found)
            report.save(records, *rest)
            if time.monotonic() > end:
                break
        pool.terminate()


def all_signs() -> report.Signs:
    """Return the signs of NaN results of all functions on f32."""
    return {
        function.name: {level: signs.signs(function, "f32", level) for level in LEVELS}
        for function in signs.functions()
    }


def jobs(records: report.Records, wanted: list[Key], pieces: int) -> Iterator[Job]:
    """Yield the work that is left up to so many pieces of each, a little of each first."""
    done = {key: {level: records[key].done.get(level, 0) for level in LEVELS} for key in wanted}
    for limit in ROUNDS:
        for key in wanted:
            most = min(limit, pieces, measure.pieces(find(*key), key[1]))
            for at in range(min(done[key].values()), most):
                # A level that the last machine did not have starts at the first piece.
                yield (*key, at, tuple(level for level in LEVELS if done[key][level] <= at))
            done[key] = {level: max(count, most) for level, count in done[key].items()}
            if limit == ROUNDS[0] and records[key].xla is None:
                yield (*key, measure.XLA_JOB, ())


def take(record: Record, number: int, inputs: int, found: dict[str, Worst]) -> None:
    """Put the result of a piece of work into its record."""
    if number == measure.XLA_JOB:
        record.xla, record.xla_inputs = found[XLA], inputs
    else:
        record.add(inputs, found)


if __name__ == "__main__":
    sys.exit(main())
