# SPDX-License-Identifier: Apache-2.0
"""The whole differential run, in several processes: `make conformance`.

Prints what disagrees without a reason, and writes a page of what was compared.

Example:
    .venv/bin/python -m tests.differential --workers 2 --only 'gather|scatter'
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from tests.differential.disagreements import ROWS, explain, is_refused
from tests.differential.engine import BATCH, run_cases
from tests.differential.table import all_cases

PAGE = Path(__file__).resolve().parent / "RESULTS.md"


def work(part: int, parts: int, only: str) -> None:
    """Run one part of the table; print one JSON line per case."""
    chosen = [case for case in all_cases() if re.search(only, case.name)]
    mine = [
        case for number, case in enumerate(chosen) if number // BATCH % parts == part
    ]  # whole batches
    for result in run_cases(mine, is_refused=is_refused):
        unknown, known = explain(result)
        line = {
            "name": result.case.name,
            "opcode": result.case.opcode,
            "unknown": unknown,
            "known": [[engine, text, ROWS.index(row)] for engine, text, row in known],
        }
        print(json.dumps(line), flush=True)


def collect(workers: int, only: str) -> list[dict[str, object]]:
    """Run all parts side by side; return their lines."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.differential", "--only", only]
    # Files, not pipes: a full pipe would stop a worker until the ones before it are done.
    files = [tempfile.TemporaryFile("w+") for _ in range(workers)]  # noqa: SIM115
    running = [
        subprocess.Popen([*command, "--part", f"{part}/{workers}"], stdout=file)
        for part, file in enumerate(files)
    ]
    for process in running:
        if process.wait():
            raise SystemExit(f"a worker died with status {process.returncode}")
    for file in files:
        file.seek(0)
    return [json.loads(line) for file in files for line in file]


def page(lines: list[dict[str, object]], seconds: float) -> str:
    """Return the page: cases and disagreements by opcode, and the reasons."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[int] = Counter()
    for line in lines:
        row = rows[str(line["opcode"])]
        row["cases"] += 1
        row["agree"] += not line["known"] and not line["unknown"]
        row["unexplained"] += bool(line["unknown"])
        reasons.update(number for _, _, number in line["known"])  # type: ignore[attr-defined]
    total = sum(row["cases"] for row in rows.values())
    agree = sum(row["agree"] for row in rows.values())
    text = [
        "# Evaluator, Ingot's CPU and real XLA, compared",
        "",
        f"{total} cases; all three agree on {agree}. `make conformance` runs them"
        f" ({seconds:.0f} s with two workers); every disagreement has a reason below.",
        "",
        "| op | cases | agree | without a reason |",
        "|---|---|---|---|",
    ]
    for opcode in sorted(rows):
        row = rows[opcode]
        text.append(f"| `{opcode}` | {row['cases']} | {row['agree']} | {row['unexplained']} |")
    text += ["", "| cases | engine | how often | reason |", "|---|---|---|---|"]
    for number, row in enumerate(ROWS):
        pattern = row.pattern.replace("|", "\\|")
        text.append(f"| `{pattern}` | {row.engine} | {reasons[number]} | {row.reason} |")
    return "\n".join(text) + "\n"


def main() -> int:
    """Run; return 1 when something disagrees without a reason."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--part", default="")
    options.add_argument("--only", default="")
    options.add_argument("--write", action="store_true", help="write the page of results")
    given = options.parse_args()
    if given.part:
        part, parts = map(int, given.part.split("/"))
        work(part, parts, given.only)
        return 0
    start = time.perf_counter()
    lines = collect(given.workers, given.only)
    seconds = time.perf_counter() - start
    unknown = [item for line in lines for item in line["unknown"]]  # type: ignore[attr-defined]
    for engine, name, text in unknown:
        print(f"{engine:9} {name}: {text}")
    print(f"{len(lines)} cases in {seconds:.0f} s, {len(unknown)} disagreements without a reason")
    if given.write:
        PAGE.write_text(page(lines, seconds), encoding="utf-8")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
