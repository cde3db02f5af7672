"""Runs JAX's own tests on Ingot and prints what passed: `make conformance-jax JAX_TESTS=path`.

`path` is the `tests` folder of JAX's repository at the tag of the installed version; nothing of it
is kept here. Each file runs in a process of its own, with `JAX_PLATFORMS=ingot`, and pytest's XML
report is read. Needs `pytest<9`, `hypothesis` and `mpmath` beside JAX (JAX's own requirements).

Example:
    python tools/conformance_jax.py ~/jax/tests lax_test api_test --failures failures.txt

`--write` makes `docs/conformance_jax.md` of what was measured, with the reason of every exception.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

FILES = (
    *("lax_test", "lax_numpy_test", "lax_numpy_operators_test", "lax_numpy_reducers_test"),
    *("lax_numpy_indexing_test", "lax_numpy_einsum_test", "nn_test", "linalg_test", "fft_test"),
    *("lax_scipy_test", "random_test", "lax_control_flow_test", "lax_autodiff_test"),
    *("batching_test", "api_test", "dtypes_test", "pmap_test", "export_test", "ffi_test"),
    *("debugging_primitives_test", "python_callback_test", "memories_test", "aot_test"),
    "compilation_cache_test",
)
"""The files that run when none are named."""

PAGE = Path(__file__).resolve().parent.parent / "docs" / "conformance_jax.md"
REASONS = (
    (
        "INGOT0360",
        "A sharded `jit` that needs automatic partitioning, which Ingot does not have yet: the "
        "error says so. `shard_map` and `pmap` programs run.",
    ),
    (
        "no custom-call target 'InspectSharding'",
        "Asks the automatic partitioner how it divided a value.",
    ),
    (
        "'lapack_sgetrf_ffi': it takes",
        "Compiles a LAPACK call without operands and never runs it; Ingot checks such calls when "
        "it compiles, XLA when it runs them.",
    ),
    (
        "test_dump_on_cache_hit",
        "Looks for the files that XLA writes for the compiler option `xla_dump_to`.",
    ),
)
"""What a failure's name or text contains, and why that is an exception."""
_INTRODUCTION = """# Conformance: JAX's own tests on Ingot

Measured on {date} by `make conformance-jax JAX_TESTS=path` (`tools/conformance_jax.py`): JAX's own
tests of the tag of the installed version (jax-v{version}), `JAX_PLATFORMS=ingot`,
`JAX_NUM_GENERATED_CASES={cases}`.{note}

"""


@dataclass
class Report:
    """What happened to the tests of one file."""

    name: str
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)


def run_file(folder: Path, name: str, arguments: argparse.Namespace) -> Report:
    """Run one file; a process that dies counts as an error."""
    environment = dict(os.environ)
    environment.setdefault("JAX_NUM_GENERATED_CASES", str(arguments.cases))
    environment["JAX_PLATFORMS"] = arguments.platform
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        xml = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "--tb=short"]
        command += [f"--junitxml={xml}", "--import-mode=importlib", *arguments.pytest]
        if arguments.select:
            command += ["-k", arguments.select]
        try:
            done = subprocess.run(
                [*command, str(folder / f"{name}.py")],
                env=environment,
                cwd=folder.parent,
                capture_output=True,
                text=True,
                timeout=arguments.timeout,
                check=False,
            )
            ending = done.stdout + done.stderr
        except subprocess.TimeoutExpired as expired:
            output = expired.stdout or b""
            ending = output.decode() if isinstance(output, bytes) else output
        report = Report(name, time.monotonic() - start)
        if xml.exists():
            read_xml(xml, report)
        else:
            read_lines(ending, report)
            report.counts["died"] += 1
            report.failures.append((name, f"no end; the last lines:\n{ending[-2000:]}"))
    return report


def read_xml(path: Path, report: Report) -> None:
    """Add what pytest's report says."""
    for case in ElementTree.parse(path).iter("testcase"):
        outcome, text = "passed", ""
        for kind in ("failure", "error", "skipped"):
            found = case.find(kind)
            if found is not None:
                outcome = "failed" if kind in ("failure", "error") else kind
                text = (found.get("message") or "") + "\n" + (found.text or "")
        report.counts[outcome] += 1
        if outcome == "failed":
            report.failures.append((f"{case.get('classname')}.{case.get('name')}", text))


def read_lines(output: str, report: Report) -> None:
    """Add what the lines of an unfinished run say."""
    for name, outcome in re.findall(r"::(\w+) (PASSED|FAILED|SKIPPED)", output):
        report.counts[outcome.lower()] += 1
        if outcome == "FAILED":
            report.failures.append((name, "failed in a run that did not end"))


def cause(text: str) -> str:
    """Return the line that says why a test failed."""
    lines = [line.strip() for line in text.splitlines()]
    for mark in ("error[INGOT", "Ingot does not have", "Ingot failed"):
        found = [line for line in lines if mark in line]
        if found:
            return found[0][:200]
    errors = [line for line in lines if line.startswith("E ")]
    return (errors[0] if errors else lines[0] if lines else "")[:200]


def table(reports: Iterable[Report]) -> str:
    """Return the table as Markdown."""
    lines = ["| file | passed | failed | skipped | seconds |", "|---|---|---|---|---|"]
    for report in reports:
        counts = report.counts
        failed = counts["failed"] + counts["died"]
        row = (report.name, counts["passed"], failed, counts["skipped"], f"{report.seconds:.0f}")
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


def causes(reports: Iterable[Report]) -> str:
    """Return the causes of failures, the most frequent ones first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for report in reports:
        for name, text in report.failures:
            why = cause(text)
            counts[why] += 1
            examples.setdefault(why, name)
    return "\n".join(
        f"{count:5} {why}\n      {examples[why]}" for why, count in counts.most_common()
    )


def exceptions(reports: Iterable[Report]) -> str:
    """Return the failed tests by the reason, as Markdown."""
    tests: dict[str, list[str]] = {}
    for report in reports:
        for name, text in report.failures:
            found = (reason for mark, reason in REASONS if mark in name + text)
            tests.setdefault(next(found, "A defect: to be mended."), []).append(name)
    if not tests:
        return "Nothing failed.\n"
    parts = ["## Exceptions\n"]
    for reason, names in tests.items():
        parts.append(f"{reason} ({len(names)})\n")
        parts.append("\n".join(f"- `{name}`" for name in sorted(names)) + "\n")
    return "\n".join(parts)


def page(reports: Iterable[Report], cases: int, note: str = "") -> str:
    """Return the page of documentation."""
    reports = list(reports)
    start = _INTRODUCTION.format(
        date=datetime.date.today().isoformat(), version=version("jax"), cases=cases, note=note
    )
    return f"{start}{table(reports)}\n\n{exceptions(reports)}"


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="the `tests` folder of JAX's repository")
    parser.add_argument("files", nargs="*", help="names of files, without .py")
    parser.add_argument("--cases", type=int, default=1, help="JAX_NUM_GENERATED_CASES")
    parser.add_argument("--platform", default="ingot", help="JAX_PLATFORMS")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds per file")
    parser.add_argument("--processes", type=int, default=1, help="files at once")
    parser.add_argument("--select", default="", help="pytest's -k")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--failures", type=Path, help="file for the texts of all failures")
    parser.add_argument("--pytest", type=str.split, default=[], help="more arguments for pytest")
    return parser.parse_args()


def main() -> int:
    """Run; 0 if nothing failed."""
    arguments = parse_arguments()
    names = arguments.files or [n for n in FILES if (arguments.tests / f"{n}.py").exists()]
    with ThreadPoolExecutor(arguments.processes) as pool:
        jobs = [pool.submit(run_file, arguments.tests, name, arguments) for name in names]
        reports = [job.result() for job in jobs]
    print(table(reports))
    print()
    print(causes(reports))
    if arguments.write:
        PAGE.write_text(page(reports, arguments.cases), encoding="utf-8")
    if arguments.failures:
        rows = [row for report in reports for row in report.failures]
        text = "\n\n".join(f"==== {name}\n{text}" for name, text in rows)
        arguments.failures.write_text(text, encoding="utf-8")
    return int(any(report.failures for report in reports))


if __name__ == "__main__":
    raise SystemExit(main())
