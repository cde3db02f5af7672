# SPDX-License-Identifier: Apache-2.0
"""Runs PyTorch's own tests of its compiler on Ingot: `make conformance-torch-tests`.

`TORCH_TESTS=path` is a folder with files of PyTorch's `test/dynamo`, `test/inductor` and
`test/functorch` at the tag of the installed version; nothing of it is kept here. Each file runs in
a process of its own, in which `conformance_torch_backend` puts Ingot in the place of inductor,
`eager` and `aot_eager`. What failed runs again with `aot_eager` in all of these places: what fails
so, too, says nothing of Ingot. Outcomes are kept in `--results`; what has one does not run again,
unless `--again` asks for it.

Example:
    python tools/conformance_torch.py ~/pytorch/test/dynamo test_unspec --again failed

`--seconds` ends a file after that time; what ran by then is a sample of the seed `--seed`, and the
page says of how many tests. `--again page` runs what the page lists as failures. `--write` makes
`docs/conformance_torch.md` of all that is in `--results`; what the page says of files without
results is kept.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from conformance_jax import ROOT, Report, cause, causes, commit, read_report
from conformance_plugin import read_lines

PAGE = ROOT / "docs" / "conformance_torch.md"
RESULTS = ROOT / ".venv" / "torch-results"
PLAIN = "aot_eager"
"""The backend of PyTorch that runs what failed on Ingot."""
_ROUNDING = "Sums of f32 are rounded in another order than eager's."
_TIES = "PyTorch promises no order of equal elements, and Ingot takes the first index."
_SIGNS = "The vectors may have either sign, and the test compares them as they are."
REASONS: dict[str, str] = {
    "comprehensive_argsort": _TIES,
    "comprehensive_kthvalue": _TIES,
    "comprehensive_mode": _TIES,
    "comprehensive_msort": _TIES,
    "comprehensive_sort": _TIES,
    "comprehensive_topk": _TIES,
    "comprehensive_linalg_eigh": _SIGNS,
    "comprehensive_linalg_svd": _SIGNS,
    "comprehensive_matrix_exp": _ROUNDING,
    "comprehensive_fft_hfft2": _ROUNDING,
    "from pytest-timeout": "It has hundreds of samples, and ended after two minutes; none failed.",
    "_cpu_float16": "Eager rounds each step to f16, and Ingot rounds once.",
    "test_compile_non_infra_multiple_compile_internal": "Ops of a compiled program do not reach the"
    " modes around its call.",
    "test_compile_with_userland_fake_tensor_mode": "A compiled program needs tensors with memory.",
    "test_aot_autograd_runtime_wrapper_prologue_profiled": "It compares two times.",
    "test_roll_as_strided_channels_last": "PyTorch traces `roll` with other strides than its kernel"
    " has; inductor takes it apart differently.",
    "test_conv2d_backward_channels_last": _ROUNDING,
    "test_cat_extern_kernel": _ROUNDING,
    "test_fft_real_input_real_output": _ROUNDING,
    "TestAOTModuleSimplified::test_layer_norm": _ROUNDING,
}
"""What the name or the text of a failure contains, and why that is right: the first counts."""
_TEST_SECONDS = 120
"""After them a test is ended."""
_ENDS = (0, 1, 2, 5)
"""pytest's codes: all passed, some failed, time was over, nothing was left to run."""
_RESTARTS = 10
"""Processes for one file: each takes up what the one before left."""
_INTRODUCTION = """# Conformance: PyTorch's own tests of its compiler

Measured on {dates} by `make conformance-torch-tests TORCH_TESTS=path`
(`tools/conformance_torch.py`), with PyTorch {version}: files of PyTorch's `test/dynamo`,
`test/inductor` and `test/functorch`, in which Ingot takes the place of inductor, `eager` and
`aot_eager`. Tests that failed ran again with `aot_eager` in place of all three. A test that fails
there too wants inductor's text, the nodes of another backend, a GPU, or another version of PyTorch,
and says nothing about Ingot. `at` is the commit of a file's last run: a failure that was fixed
after it is listed until the file runs again. The files of 2026-11-26 are copies from other public
repositories, of several versions of PyTorch; `test_functions`, `test_dynamic_shapes`, and those
named `_xpu` and `test_torchinductor` are the newer ones. `test_dynamic_shapes` ran without the
classes of `test_export`, `test_aot_autograd` and `test_sdpa`. `test_torchinductor_opinfo` has 3,739
tests, of which a random sample ran, with the seed 20261127 (`--seconds`, `--seed`). This copy was
written for another device; run on the CPU it also compares gradients, which PyTorch's own does not.
"""


def run_file(arguments: argparse.Namespace, name: str, backend: str, again: Sequence[str]) -> None:
    """Run the tests of a file that have no outcome, or those of `again`."""
    results = arguments.results / backend / f"{name}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    chosen = results.with_suffix(".again")
    chosen.write_text("\n".join(again), encoding="utf-8")
    path = [str(ROOT / "tools"), str(arguments.tests), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "CONFORMANCE_BACKEND": backend,
        "CONFORMANCE_RESULTS": str(results),
        "CONFORMANCE_AGAIN": str(chosen) if again else "",
        "CONFORMANCE_COMMIT": commit(),
        "CONFORMANCE_SECONDS": "0" if again else str(arguments.seconds),
        "CONFORMANCE_SEED": str(arguments.seed),
        "PYTHONPATH": os.pathsep.join(path),
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "--import-mode=importlib"]
    command += ["-p", "no:cacheprovider", "-p", "conformance_torch_backend"]
    command += ["-p", "conformance_plugin", f"--timeout={_TEST_SECONDS}", *arguments.pytest]
    for _ in range(1 if again else _RESTARTS):
        before = len(read_lines(results))
        with results.with_suffix(".log").open("w", encoding="utf-8") as log:
            done = subprocess.run(
                [*command, f"{name}.py"],
                env=environment,
                cwd=arguments.tests,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if len(read_lines(results)) == before:
            raise SystemExit(f"{name}: no test was collected; {log.name} says why")
        if done.returncode in _ENDS:
            break
    chosen.unlink()


def run(arguments: argparse.Namespace, name: str) -> None:
    """Run a file on Ingot, and what fails there on PyTorch's own backend."""
    begin = time.monotonic()
    results = arguments.results / "ingot" / f"{name}.jsonl"
    if arguments.again == "all":
        results.unlink(missing_ok=True)
    elif arguments.again == "page":
        run_file(arguments, name, "ingot", list(rows_of_page(_page())[name].failures))
        return
    elif arguments.again == "failed" and results.exists():
        plain = read_report(arguments.results / PLAIN / results.name)
        failed = [test for test in read_report(results).failures if test not in plain.failures]
        if failed:
            run_file(arguments, name, "ingot", failed)
    run_file(arguments, name, "ingot", ())
    failed = read_report(results).failures
    known = read_report(arguments.results / PLAIN / results.name).outcomes
    unknown = [test for test in failed if test not in known]
    if unknown:
        run_file(arguments, name, PLAIN, unknown)
    counts = dict(Counter(read_report(results).outcomes.values()))
    print(f"{name}: {counts}, {time.monotonic() - begin:.0f} s", flush=True)


def compared(results: Path) -> list[tuple[Report, Report]]:
    """Return what is known of each file: its failures on Ingot alone, and the rest of them."""
    found: list[tuple[Report, Report]] = []
    for path in sorted((results / "ingot").glob("*.jsonl")):
        found.append((read_report(path), read_report(results / PLAIN / path.name)))
    return found


def alone(ours: Report, plain: Report) -> list[str]:
    """Return the tests that fail on Ingot and pass on PyTorch's own backend."""
    return [test for test in ours.failures if plain.outcomes.get(test) == "passed"]


@dataclass(slots=True)
class Row:
    """What the page says of one file.

    Attributes:
        name: of the file.
        counts: tests, and of them those skipped, passed, failed with `PLAIN` too, and on Ingot
            alone.
        at: the commit of its last run.
        failures: the tests that fail on Ingot alone, each with its line.
    """

    name: str
    counts: list[int]
    at: str
    failures: dict[str, str]


def line_of(ours: Report, test: str) -> str:
    """Return what the page says of a test that fails."""
    text = test + ours.texts[test]
    known = [reason for mark, reason in REASONS.items() if mark in text]
    why = cause(ours.texts[test]).removeprefix("E ").strip()
    return f"- `{ours.name}::{test}`: " + (known or [f"`{why}`"])[0]


def row_of(ours: Report, plain: Report) -> Row:
    """Return the row of a file that was run."""
    _, tests, passed, failed, skipped = ours.row
    lines = {test: line_of(ours, test) for test in sorted(alone(ours, plain))}
    counts = [tests, skipped, passed, failed - len(lines), len(lines)]
    return Row(ours.name, counts, ours.commits[-1] if ours.commits else "", lines)


def rows_of_page(text: str) -> dict[str, Row]:
    """Return the rows of a page by their files."""
    rows: dict[str, Row] = {}
    for name, numbers, at in re.findall(r"^\| (test_\w+) \|((?: \d+ \|){5}) (\w*) \|$", text, re.M):
        rows[name] = Row(name, [int(number) for number in re.findall(r"\d+", numbers)], at, {})
    for line, name, test in re.findall(r"^(- `(\w+)::([\w:]+)`.*)$", text, re.M):
        rows[name].failures[test] = line
    return rows


def with_part(row: Row, ours: Report) -> Row:
    """Return the row of a file of which the failures that the page lists ran again."""
    passed = [test for test in row.failures if ours.outcomes.get(test) == "passed"]
    left = {test: line for test, line in row.failures.items() if test not in passed}
    left.update({test: line_of(ours, test) for test in left if test in ours.failures})
    tests, skipped, good, plain, left_before = row.counts
    counts = [tests, skipped, good + len(passed), plain, left_before - len(passed)]
    return Row(row.name, counts, ours.commits[-1], left)


def rows_with(reports: Sequence[tuple[Report, Report]], text: str) -> list[Row]:
    """Return the rows of all files: of the page, where results are lacking or in part."""
    rows = rows_of_page(text)
    for ours, plain in reports:
        new, old = row_of(ours, plain), rows.get(ours.name)
        if old is not None and len(ours.outcomes) < old.counts[0]:
            new = with_part(old, ours)
        rows[ours.name] = new
    return [rows[name] for name in sorted(rows)]


def table(rows: Sequence[Row]) -> str:
    """Return the table as Markdown."""
    lines = [
        f"| file | tests | skipped | passed | fail with `{PLAIN}` too | fail on Ingot alone | at |",
        "|---|---|---|---|---|---|---|",
    ]
    total = Row(
        "all", [sum(column) for column in zip(*(row.counts for row in rows), strict=True)], "", {}
    )
    for row in (*rows, total):
        lines.append("| " + " | ".join(map(str, (row.name, *row.counts, row.at))) + " |")
    return "\n".join(lines)


def page(reports: Sequence[tuple[Report, Report]], before: str) -> str:
    """Return the page of documentation.

    Args:
        reports: what is in `--results`.
        before: the page as it is; what it says of other files is kept.
    """
    rows = rows_with(reports, before)
    days = {time.strftime("%Y-%m-%d", time.gmtime(ours.last)) for ours, _ in reports}
    days.update(re.findall(r"Measured on ([\d-]+)(?: to ([\d-]+))?", before)[0] if before else ())
    dates = " to ".join(sorted({min(days - {""}), max(days)}))
    start = _INTRODUCTION.format(dates=dates, version=version("torch"))
    failed = "\n".join(line for row in rows for line in row.failures.values()) or "Nothing."
    return f"{start}\n{table(rows)}\n\n## What fails on Ingot alone\n\n{failed}\n"


def _page() -> str:
    return PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""


def main() -> int:
    """Run the files; 0 if nothing fails on Ingot alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help="a folder of PyTorch's tests")
    parser.add_argument("files", nargs="*", help="names of files, without .py")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of outcomes")
    parser.add_argument("--again", choices=("failed", "all", "page"), help="run again")
    parser.add_argument("--seconds", type=float, default=0, help="for each file; 0: all its tests")
    parser.add_argument("--seed", type=int, default=1, help="of the order that --seconds cuts")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    parser.add_argument("--pytest", type=str.split, default=[], help="more arguments for pytest")
    arguments = parser.parse_args()
    arguments.tests, arguments.results = arguments.tests.resolve(), arguments.results.resolve()
    for name in arguments.files or sorted(path.stem for path in arguments.tests.glob("test_*.py")):
        run(arguments, name)
    reports = compared(arguments.results)
    left = [ours for ours, plain in reports if alone(ours, plain)]
    for ours, plain in reports:
        ours.outcomes = {
            test: outcome
            for test, outcome in ours.outcomes.items()
            if outcome != "failed" or plain.outcomes.get(test) == "passed"
        }
    print(causes(left))
    if arguments.write:
        PAGE.write_text(page(compared(arguments.results), _page()), encoding="utf-8")
    return int(bool(left))


if __name__ == "__main__":
    raise SystemExit(main())
