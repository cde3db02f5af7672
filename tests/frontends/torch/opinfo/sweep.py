# SPDX-License-Identifier: Apache-2.0
"""All rows of PyTorch's table of ops, or those that a pattern matches.

    python -m tests.frontends.torch.opinfo.sweep ['names'] [--grad] [--dynamic] [--log FILE]

compares them with eager PyTorch, prints those that differ or fail, which ops PyTorch ran, and the
counts of each element type. With a log, a sweep that was interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from tests.frontends.torch.opinfo.exceptions import exceptions
from tests.frontends.torch.opinfo.row import Row, check_row, has_gradient, rows

from ingot.support.flags import IngotWarning


def main() -> int:
    """Compare the rows that the command line asks for; return how many failed, 100 at most."""
    parser = argparse.ArgumentParser(description="PyTorch's table of ops, compiled beside eager")
    parser.add_argument("names", nargs="?", default="", help="a pattern of the names of rows")
    parser.add_argument("--grad", action="store_true", help="compare gradients, too")
    parser.add_argument("--dynamic", action="store_true", help="compile for symbolic sizes")
    parser.add_argument("--log", type=Path, help="a file with a line per row that was compared")
    options = parser.parse_args()
    warnings.simplefilter("ignore", IngotWarning)
    warnings.simplefilter("ignore", UserWarning)
    torch.set_num_threads(1)
    listed = exceptions(dynamic=options.dynamic)
    found = _logged(options.log)
    for name, row in rows().items():
        if name in found or not re.search(options.names, name):
            continue
        if options.grad and not has_gradient(row):
            continue
        found[name] = line = _compared(row, options.grad, options.dynamic)
        if options.log is not None:
            with options.log.open("a") as log:
                log.write(json.dumps(line) + "\n")
        if line["error"]:
            print(f"{_verdict(line, listed):9} {name:44} {line['error'][:300]}", flush=True)
    return _report(list(found.values()), listed)


def _compared(row: Row, grad: bool, dynamic: bool) -> dict[str, Any]:
    """Compare a row; return what became of it."""
    begin = time.process_time()
    line: dict[str, Any] = {"name": row.name, "error": ""}
    try:
        made = check_row(row, grad=grad, dynamic=dynamic)
    except Exception as error:  # each row is its own
        line["error"] = re.sub(r"\s+", " ", f"{type(error).__name__}: {error}")
    else:
        line |= {"samples": made.samples, "programs": made.programs, "host": sorted(made.host)}
    return line | {"seconds": round(time.process_time() - begin, 2)}


def _logged(log: Path | None) -> dict[str, dict[str, Any]]:
    if log is None or not log.exists():
        return {}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return {line["name"]: line for line in lines}


def _verdict(line: dict[str, Any], listed: dict[str, str]) -> str:
    if not line["error"]:
        return "passed" if line["samples"] else "no sample"
    return "exception" if line["name"] in listed else "FAILED"


def _report(lines: list[dict[str, Any]], listed: dict[str, str]) -> int:
    on_host = Counter(name for line in lines for name in line.get("host", ()))
    for name, count in on_host.most_common():
        print(f"run by PyTorch in {count} rows: {name}")
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        kind = line["name"].rpartition("-")[2]
        for group in (kind, "all"):
            counts.setdefault(group, Counter())[_verdict(line, listed)] += 1
    for kind, verdicts in counts.items():
        print(f"{kind:10} {', '.join(f'{n} {name}' for name, n in sorted(verdicts.items()))}")
    samples = sum(line.get("samples", 0) for line in lines)
    programs = sum(line.get("programs", 0) for line in lines)
    seconds = sum(line["seconds"] for line in lines)
    print(f"{samples} samples, {programs} programs, {seconds:.0f} s of one core")
    return min(counts["all"]["FAILED"], 100) if counts else 0


if __name__ == "__main__":
    sys.exit(main())
