# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that writes each test's outcome as a line, so that a run can be taken up again.

`tools/conformance_jax.py` loads it into the processes that run JAX's tests, with the file to write
in `CONFORMANCE_RESULTS`. Tests that have an outcome there are not run; one that was begun twice
without an outcome ended its process, and is not run again either. `CONFORMANCE_AGAIN` names a file
of tests to run whatever is known of them, and no others. `CONFORMANCE_SAME` names the outcomes with
another number of generated cases: tests that JAX does not generate are the same there, and their
outcomes are taken over. After `CONFORMANCE_SECONDS` no further test begins; the order is then a
random one, always the same for one `CONFORMANCE_SEED`, so that those that ran are a sample.

Invariant: a line is complete when it is written; the last one of a test counts.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(os.environ.get("CONFORMANCE_RESULTS", "results.jsonl"))
AGAIN = os.environ.get("CONFORMANCE_AGAIN", "")
SAME = os.environ.get("CONFORMANCE_SAME", "")
COMMIT = os.environ.get("CONFORMANCE_COMMIT", "")
SECONDS = float(os.environ.get("CONFORMANCE_SECONDS", "0"))
SEED = int(os.environ.get("CONFORMANCE_SEED", "1"))
_START = time.monotonic()
_TEXT = 8000
"""Characters of a failure that are kept: its end."""


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a results file; one that was cut off is left out."""
    found: list[dict[str, Any]] = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _write(**row: Any) -> None:
    with RESULTS.open("a", encoding="utf-8") as file:
        file.write(json.dumps({**row, "time": time.time()}) + "\n")


def _name(node: str) -> str:
    return node.split("::", 1)[1]


def _families(names: Iterable[str]) -> dict[str, set[str]]:
    """Return names by what stands before the first digit: generated cases are numbered."""
    found: dict[str, set[str]] = defaultdict(set)
    for name in names:
        found[re.split(r"\d", name, maxsplit=1)[0]].add(name)
    return found


def not_generated(names: Iterable[str], others: Iterable[str]) -> set[str]:
    """Return the names of families that have the same tests with another number of cases."""
    mine, theirs = _families(names), _families(others)
    return {name for family, same in mine.items() if theirs.get(family) == same for name in same}


def _take_over(names: list[str], known: Iterable[str]) -> None:
    """Write the outcomes that another number of cases gave to the same tests."""
    rows = read_lines(Path(SAME)) if SAME else []
    outcomes = {row["test"]: row for row in rows if row.get("outcome", "begun") != "begun"}
    if not any(row.get("collected") == len(outcomes) for row in rows):
        return
    with RESULTS.open("a", encoding="utf-8") as file:
        for name in sorted(not_generated(names, outcomes) - set(known)):
            file.write(json.dumps(outcomes[name]) + "\n")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests that have no outcome yet, or those that are to run again."""
    names = [(_name(item.nodeid), item) for item in items]
    rows = read_lines(RESULTS)
    if not AGAIN:
        _take_over([name for name, _ in names], {row.get("test", "") for row in rows})
        rows = read_lines(RESULTS)
    known = {row["test"] for row in rows if row.get("outcome", "begun") != "begun"}
    begun = Counter(row["test"] for row in rows if row.get("outcome") == "begun")
    _write(collected=len(items), commit=COMMIT)
    if AGAIN:
        wanted = set(Path(AGAIN).read_text(encoding="utf-8").splitlines())
        items[:] = [item for name, item in names if name in wanted]
        return
    items[:] = [item for name, item in names if name not in known and begun[name] < 2]
    if SECONDS:
        random.Random(SEED).shuffle(items)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Write that a test begins."""
    _write(test=_name(nodeid), outcome="begun")


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End the run after this test if its time is over."""
    if SECONDS and time.monotonic() - _START > SECONDS:
        item.session.shouldstop = "its time is over"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write how a test, or what stands around it, ended."""
    if report.when == "call" or not report.passed:
        text = "" if report.passed else report.longreprtext[-_TEXT:]
        if report.skipped and isinstance(report.longrepr, tuple):
            text = report.longrepr[2]
        _write(test=_name(report.nodeid), outcome=report.outcome, text=text)
