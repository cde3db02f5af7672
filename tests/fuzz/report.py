# SPDX-License-Identifier: Apache-2.0
"""The report of fuzz runs: counts by target, what this run found, and what nothing reached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tests.fuzz.reach import KINDS, all_of
from tests.fuzz.state import State


def report(state: State, before: Mapping[str, Mapping[str, int]]) -> tuple[str, int]:
    """Return the report as Markdown, and how many findings came since `before`."""
    lines = [
        "| target | cases | minutes | cases a second | findings | in this run |",
        "|---|---|---|---|---|---|",
    ]
    new: list[str] = []
    for name, row in sorted(state.records.items()):
        known = before.get(name, {})
        since = {s: n - known.get(s, 0) for s, n in row.findings.items() if n > known.get(s, 0)}
        new += [f"* {name}: {signature} ({count})" for signature, count in since.items()]
        lines.append(_row(name, row.cases, row.seconds, len(row.findings), len(since)))
    rows = state.records.values()
    totals = sum(row.cases for row in rows), sum(row.seconds for row in rows)
    lines.append(_row("all runs", *totals, sum(len(row.findings) for row in rows), len(new)))
    lines += ["", "Found in this run:" if new else "Nothing was found in this run.", *new, ""]
    lines += ["| reached | of | all | |", "|---|---|---|---|"]
    lines += [_share(kind, len(state.unreached(kind))) for kind in KINDS]
    for kind in KINDS:
        lines += ["", f"## {kind.capitalize()} that nothing reached", ""]
        lines += _by_index(state.unreached(kind)) or ["None."]
    return "\n".join(lines) + "\n", len(new)


def _row(name: str, cases: int, seconds: float, findings: int, since: int) -> str:
    rate = f"{cases / seconds:.1f}" if seconds else ""
    return f"| {name} | {cases:,} | {seconds / 60:.1f} | {rate} | {findings} | {since} |"


def _share(kind: str, missing: int) -> str:
    there = len(all_of(kind))
    return f"| {kind} | {there - missing} | {there} | {100 * (1 - missing / there):.1f} % |"


def _by_index(names: list[str]) -> list[str]:
    """Return a line for each file or class, with what of it is in `names`."""
    places: dict[str, list[str]] = defaultdict(list)
    for name in names:
        place, _, inner = name.rpartition(":")
        places[place].append(inner.strip())
    return [
        f"* {place}{': ' if place else ''}{', '.join(inner)}"
        for place, inner in sorted(places.items())
    ]
