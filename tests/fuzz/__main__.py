# SPDX-License-Identifier: Apache-2.0
"""`make fuzz MINUTES=n`: looks for inputs that Ingot does not survive or gets wrong.

Findings, reduced, and the report are kept in `.fuzz/` here. `--case FILE` checks one file again.

Example:
    .venv/bin/python -m tests.fuzz --minutes 10 --target exact_programs
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.fuzz.report import report
from tests.fuzz.state import State
from tests.fuzz.target import target, target_names
from tests.fuzz.watch import ROOT, Watched


def main() -> int:
    """Fuzz, report, and fail if anything was found in this run."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10.0)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--target", action="append", choices=target_names(), help="else all")
    options.add_argument("--folder", type=Path, default=ROOT / ".fuzz")
    options.add_argument("--case", type=Path, help="check this file (with --target) and stop")
    given = options.parse_args()
    names = given.target or target_names()
    given.folder.mkdir(exist_ok=True)
    if given.case:
        return _check(names[0], given.case, given.folder)
    state = State.load(given.folder / "state.json")
    before = {name: dict(row.findings) for name, row in state.records.items()}
    end = time.monotonic() + 60 * given.minutes
    targets = [target(name) for name in names]
    campaign = Campaign(targets, given.folder, end, lambda line: print(line, flush=True), state)
    campaign.run(given.workers)
    text, found = report(state, before)
    print(text)
    (given.folder / "report.md").write_text(text)
    return 1 if found else 0


def _check(name: str, path: Path, folder: Path) -> int:
    watched = Watched(target(name), folder)
    found = watched.check(path.read_bytes())
    watched.close()
    print(f"{found.signature}\n{found.detail}" if found else "nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
