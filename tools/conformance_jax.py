# SPDX-License-Identifier: Apache-2.0
"""Runs JAX's own tests on Ingot and writes what passed: `make conformance-jax JAX_TESTS=path`.

`path` is the `tests` folder of JAX's repository at the tag of the installed version; nothing of it
is kept here. Each file runs in a process of its own, with `JAX_PLATFORMS=ingot`; the outcome of
each test is kept in `--results`, and a run that was ended is taken up where it stopped. What failed
or was skipped runs again on JAX's own CPU backend: what does so there too says nothing of Ingot.
Needs `pytest<9`, `hypothesis` and `mpmath` beside JAX (JAX's own requirements).

Example:
    python tools/conformance_jax.py ~/jax/tests lax_test api_test --cases 10 --again failed

`--write` makes `docs/conformance_jax.md` of all that is in `--results`, with the reason of every
exception; what the page says of other settings stays.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path

from conformance_plugin import read_lines

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "conformance_jax.md"
RESULTS = ROOT / ".venv" / "jax-results"
FILES = (
    *("lax_test", "lax_numpy_test", "lax_numpy_operators_test", "lax_numpy_reducers_test"),
    *("lax_numpy_indexing_test", "lax_numpy_einsum_test", "nn_test", "linalg_test", "fft_test"),
    *("lax_scipy_test", "random_test", "lax_control_flow_test", "lax_autodiff_test"),
    *("batching_test", "api_test", "dtypes_test", "pmap_test", "export_test", "ffi_test"),
    *("debugging_primitives_test", "python_callback_test", "memories_test", "aot_test"),
    "compilation_cache_test",
)
"""The files that run when none are named."""

REASONS = (
    (
        "testViewScalar1",
        "The test makes booleans of random bytes. Converted to `uint8`, such a byte is what it was "
        "on XLA:CPU (to `int8` it is 1); on Ingot a boolean is 0 or 1 as every number.",
    ),
    (
        "testSuccessOnComplexPlane_exp_complex64",
        "The test wants NaN for e^(-inf + i inf), as XLA gives. Ingot gives 0, as NumPy, C99, "
        "PyTorch and TensorFlow's kernels do.",
    ),
)
"""What a failure's name or text contains, and why that is an exception."""
_ON_CPU = "Fails on JAX's own CPU backend too, on the same machine."
_ENDS = (0, 1, 2, 5)
"""pytest's codes: all passed, some failed, time was over, nothing was left to run."""
_NO_HOLE = "\nEach of them is skipped on JAX's own CPU backend too."
_RESTARTS = 20
"""Processes for one file: each takes up what the one before left."""
_INTRODUCTION = """# Conformance: JAX's own tests on Ingot

Measured by `make conformance-jax JAX_TESTS=path` (`tools/conformance_jax.py`): JAX's own tests of
the tag of the installed version (jax-v{version}), `JAX_PLATFORMS=ingot`. A run keeps its outcomes
and can be resumed; tests that failed and were fixed ran again. `tests` counts the tests of a file,
`run` those that there was time for. Tests that JAX does not generate are the same with every number
of cases and ran once.
"""


@dataclass
class Report:
    """What happened to the tests of one file.

    Attributes:
        collected: how many tests the file has.
        outcomes: the last outcome of each test that ran.
        texts: why tests failed.
        last: when the last test ended, in seconds since 1970.
        commits: Ingot's commits that ran, the oldest one first.
    """

    name: str
    collected: int = 0
    outcomes: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    last: float = 0.0
    commits: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """The tests that failed."""
        return self.ended("failed")

    def ended(self, *outcomes: str) -> list[str]:
        """Return the tests that ended in one of these ways."""
        return [name for name, outcome in self.outcomes.items() if outcome in outcomes]

    @property
    def row(self) -> list[int]:
        """Tests, run, passed, failed, skipped."""
        counts = Counter(self.outcomes.values())
        run = sum(counts.values())
        kinds = [counts[kind] for kind in ("passed", "failed", "skipped")]
        return [max(self.collected, run), run, *kinds]


def read_report(path: Path) -> Report:
    """Return what a file of results says; a test without outcome ended its process."""
    report = Report(path.stem)
    for row in read_lines(path):
        if "collected" in row:
            report.collected = row["collected"]
            report.commits += [row["commit"]] if row.get("commit") else []
            continue
        if "test" not in row:
            continue
        name, outcome = row["test"], row["outcome"]
        if outcome == "begun":
            outcome, row["text"] = "failed", "it did not end: its process died or ran out of time"
        report.outcomes[name] = outcome
        report.texts[name] = row.get("text", "")
        report.last = max(report.last, row["time"])
    return report


def read_reports(folder: Path) -> list[Report]:
    """Return the reports of a folder, in the order of `FILES`."""
    found = {path.stem: read_report(path) for path in folder.glob("*.jsonl")}
    known = [name for name in FILES if name in found]
    return [found[name] for name in (*known, *sorted(found.keys() - set(known)))]


@cache
def commit() -> str:
    """Return the commit of this checkout; empty if it is none."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def run_file(
    arguments: argparse.Namespace, name: str, folder: Path, platform: str, again: Sequence[str] = ()
) -> None:
    """Run the tests of a file that have no outcome, or those of `again`."""
    folder.mkdir(parents=True, exist_ok=True)
    results, chosen = folder / f"{name}.jsonl", folder / f"{name}.again"
    chosen.write_text("\n".join(again), encoding="utf-8")
    same = folder.parent / "1" / f"{name}.jsonl" if arguments.cases != 1 else Path(os.devnull)
    environment = {
        **os.environ,
        "JAX_NUM_GENERATED_CASES": str(arguments.cases),
        "JAX_PLATFORMS": platform,
        "CONFORMANCE_RESULTS": str(results),
        "CONFORMANCE_AGAIN": str(chosen) if again else "",
        "CONFORMANCE_SAME": str(same) if platform == "ingot" and same.exists() else "",
        "CONFORMANCE_COMMIT": commit(),
        "CONFORMANCE_SECONDS": str(0 if again else arguments.seconds),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tools"), os.environ.get("PYTHONPATH", "")]),
    }
    if arguments.devices > 1:  # A test may ask for several itself, unless a number is said.
        environment["JAX_NUM_CPU_DEVICES"] = str(arguments.devices)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "conformance_plugin"]
    command += ["-q", "--tb=short", "--import-mode=importlib", *arguments.pytest]
    for _ in range(1 if again else _RESTARTS):
        before = len(read_lines(results))
        try:
            done = subprocess.run(
                [*command, str(arguments.tests / f"{name}.py")],
                env=environment,
                cwd=arguments.tests.parent,
                capture_output=True,
                text=True,
                timeout=arguments.timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            continue
        if len(read_lines(results)) == before:
            raise SystemExit(f"{name}: no test was collected\n{done.stdout}{done.stderr}"[-4000:])
        if done.returncode in _ENDS:
            break
    chosen.unlink()


def run(arguments: argparse.Namespace, names: Sequence[str], folder: Path) -> None:
    """Run files on Ingot, and what fails or is skipped there on JAX's own CPU backend."""
    for name in names:
        results = folder / f"{name}.jsonl"
        if arguments.again == "all":
            results.unlink(missing_ok=True)
        elif arguments.again == "failed" and results.exists():
            failed = read_report(results).failures
            if failed:
                run_file(arguments, name, folder, "ingot", failed)
        run_file(arguments, name, folder, "ingot")
        report = read_report(results)
        known = read_report(folder / "cpu" / f"{name}.jsonl").outcomes
        unknown = [test for test in report.ended("failed", "skipped") if test not in known]
        if unknown:
            run_file(arguments, name, folder / "cpu", "cpu", unknown)
        print(f"{name}: {dict(Counter(report.outcomes.values()))}", flush=True)


def table(reports: Sequence[Report]) -> str:
    """Return the table as Markdown."""
    lines = ["| file | tests | run | passed | failed | skipped |", "|---|---|---|---|---|---|"]
    rows = [(report.name, report.row) for report in reports]
    total = [sum(column) for column in zip(*(row for _, row in rows), strict=True)]
    for name, row in [*rows, ("all", total)]:
        lines.append("| " + " | ".join(map(str, (name, *row))) + " |")
    return "\n".join(lines)


def cause(text: str) -> str:
    """Return the line that says why a test failed."""
    lines = [line.strip() for line in text.splitlines()]
    for mark in ("error[INGOT", "Ingot does not have", "Ingot failed"):
        found = [line for line in lines if mark in line]
        if found:
            return found[0][:200]
    errors = [line for line in lines if line.startswith("E ")]
    return (errors[0] if errors else lines[0] if lines else "")[:200]


def causes(reports: Iterable[Report]) -> str:
    """Return the causes of failures, the most frequent ones first."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for report in reports:
        for name in report.failures:
            why = cause(report.texts[name])
            counts[why] += 1
            examples.setdefault(why, f"{report.name}::{name}")
    return "\n".join(
        f"{count:5} {why}\n      {examples[why]}" for why, count in counts.most_common()
    )


def exceptions(reports: Iterable[Report], on_cpu: Iterable[Report]) -> str:
    """Return the failed tests by the reason, as Markdown."""
    elsewhere = {(report.name, name) for report in on_cpu for name in report.failures}
    tests: dict[str, list[str]] = {}
    for report in reports:
        for name in report.failures:
            text = name + report.texts[name]
            found = next((reason for mark, reason in REASONS if mark in text), "A defect.")
            reason = _ON_CPU if (report.name, name) in elsewhere else found
            tests.setdefault(reason, []).append(f"{report.name}::{name}")
    parts: list[str] = []
    for reason, names in tests.items():
        parts.append(f"{reason} ({len(names)})\n")
        parts.append("\n".join(f"- `{name}`" for name in sorted(names)) + "\n")
    return "\n".join(parts) or "Nothing failed.\n"


def skips(reports: Iterable[Report], on_cpu: Iterable[Report]) -> str:
    """Return why tests were skipped, as Markdown: JAX's reasons, and what only Ingot skips."""
    theirs = {report.name: report for report in on_cpu}
    reasons: Counter[str] = Counter()
    alone: list[str] = []
    for report in reports:
        other = theirs.get(report.name, Report(report.name))
        for name in report.ended("skipped"):
            text = (other.texts.get(name) or report.texts[name]).removeprefix("Skipped: ")
            reasons[" ".join(text.split()) or "(not said)"] += 1
            if other.outcomes.get(name) != "skipped":
                outcome = other.outcomes.get(name, "did not run")
                alone.append(f"- `{report.name}::{name}`: {text} (there: {outcome})")
    lines = ["JAX's reasons:\n", "| reason | tests |", "|---|---|"]
    lines += [f"| {why.replace('|', chr(92) + '|')} | {n} |" for why, n in reasons.most_common()]
    lines.append("\nSkipped on Ingot and not on JAX's own CPU backend:" if alone else _NO_HOLE)
    return "\n".join([*lines, "", *alone]) + "\n"


def setting_name(cases: int, devices: int) -> str:
    """Return the name of the folder of a setting's outcomes: `10`, or `1-on-8` with 8 devices."""
    return str(cases) if devices == 1 else f"{cases}-on-{devices}"


def heading(folder: Path) -> str:
    """Return the heading of a setting."""
    cases, _, devices = folder.name.partition("-on-")
    more = f", `JAX_NUM_CPU_DEVICES={devices}`" if devices else ""
    return f"## `JAX_NUM_GENERATED_CASES={cases}`{more}"


def section(folder: Path) -> str:
    """Return what the page says of a setting."""
    reports, on_cpu = read_reports(folder), read_reports(folder / "cpu")
    ends = [report.last for report in reports]
    days = sorted({datetime.date.fromtimestamp(end).isoformat() for end in (min(ends), max(ends))})
    commits = dict.fromkeys(name for report in reports for name in report.commits)
    measured = f"Measured on {' to '.join(days)} at {', '.join(commits) or 'no commit'}."
    return "\n\n".join([
        heading(folder),
        measured,
        table(reports),
        f"### Exceptions\n\n{exceptions(reports, on_cpu)}".rstrip(),
        f"### Skipped\n\n{skips(reports, on_cpu)}".rstrip() + "\n",
    ])  # fmt: skip


def page(results: Path, before: str = "") -> str:
    """Return the page of documentation: every setting that has results, and those of the page."""
    _, *kept = before.split("\n## ")
    sections = {f"## {text.splitlines()[0]}": f"## {text.rstrip()}\n" for text in kept}
    for folder in results.iterdir():
        sections[heading(folder)] = section(folder)
    start = _INTRODUCTION.format(version=version("jax"))
    order = sorted(sections, key=lambda name: (name.count(","), int(re.findall(r"\d+", name)[0])))
    return "\n".join([start, *(sections[name] for name in order)])


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="the `tests` folder of JAX's repository")
    parser.add_argument("files", nargs="*", help="names of files, without .py")
    parser.add_argument("--cases", type=int, default=1, help="JAX_NUM_GENERATED_CASES")
    parser.add_argument("--devices", type=int, default=1, help="JAX_NUM_CPU_DEVICES")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds per process")
    parser.add_argument("--seconds", type=float, default=0, help="a sample: seconds per file")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of outcomes")
    parser.add_argument("--again", choices=("failed", "all"), help="run what has outcomes again")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--pytest", type=str.split, default=[], help="more arguments for pytest")
    return parser.parse_args()


def main() -> int:
    """Run; 0 if nothing failed."""
    arguments = parse_arguments()
    arguments.tests = arguments.tests.resolve()
    folder = arguments.results.resolve() / setting_name(arguments.cases, arguments.devices)
    names = arguments.files or [n for n in FILES if (arguments.tests / f"{n}.py").exists()]
    run(arguments, names, folder)
    reports = read_reports(folder)
    print(f"{table(reports)}\n\n{causes(reports)}")
    if arguments.write:
        before = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
        PAGE.write_text(page(arguments.results, before), encoding="utf-8")
    return int(any(report.failures for report in reports))


if __name__ == "__main__":
    raise SystemExit(main())
