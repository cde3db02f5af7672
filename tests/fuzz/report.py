"""The report of fuzz runs: counts by target, what this run found, and what nothing reached."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from tests.fuzz.reach import all_functions, all_rules
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
    lines += _reached("Rewrite rules", all_rules(), state.unreached_rules())
    lines += _reached("Functions", all_functions(), state.unreached_functions())
    lines += _by_file(state.unreached_functions())
    return "\n".join(lines) + "\n", len(new)


def _row(name: str, cases: int, seconds: float, findings: int, since: int) -> str:
    rate = f"{cases / seconds:.1f}" if seconds else ""
    return f"| {name} | {cases:,} | {seconds / 60:.1f} | {rate} | {findings} | {since} |"


def _reached(what: str, there: list[str], missing: list[str]) -> list[str]:
    share = 100 * (len(there) - len(missing)) / max(1, len(there))
    named = "" if what == "Functions" else f" Not reached: {', '.join(missing) or 'none'}."
    return [f"{what}: {len(there) - len(missing)} of {len(there)} ({share:.1f} %).{named}", ""]


def _by_file(functions: list[str]) -> list[str]:
    files: dict[str, list[str]] = defaultdict(list)
    for name in functions:
        path, _, inner = name.partition(":")
        files[path].append(inner)
    return [f"* {path}: {', '.join(inner)}" for path, inner in sorted(files.items())]
