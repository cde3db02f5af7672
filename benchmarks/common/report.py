# SPDX-License-Identifier: Apache-2.0
"""Tables: the terminal's and `RESULTS.md`'s, from one list of cells."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from benchmarks.common.compare import Key, Row
from benchmarks.common.programs import Timing

PAGES = Path(__file__).resolve().parents[1]
"""The folder of the result pages."""
PAIRS = (("Ingot", "XLA"), ("TF Ingot", "TF XLA"))
"""What is compared: the same HLO, and the same `tf.function`."""

_PACKAGES = ("ingot-compiler", "llvmlite", "jaxlib", "tensorflow", "numpy")


def duration(seconds: float) -> str:
    """Return seconds with a fitting unit."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def factor(ratio: float | None) -> str:
    """Return a ratio as text; a peer that is faster than Ingot is marked."""
    if ratio is None:
        return "-"
    return f"{ratio:.2f}" + (" !" if ratio < 1 else "")


def geometric_mean(ratios: Sequence[float]) -> float:
    """Return the mean of ratios."""
    return float(np.exp(np.mean(np.log(ratios))))


def rate(row: Row, seconds: float) -> str:
    """Return GFLOP/s or GB/s."""
    if row.program.flops:
        return f"{row.program.flops / seconds * 1e-9:.0f} GF/s"
    return f"{row.program.bytes / seconds * 1e-9:.1f} GB/s" if row.program.bytes else ""


def run_table(rows: list[Row], threads: int) -> list[list[str]]:
    """Return the cells of the run-time table, heading first."""
    pairs = _pairs(rows)
    table = [["program", *_headings(pairs), "Ingot's rate"]]
    for row in rows:
        cells = _cells(pairs, row.calls, row.ratio, threads)
        ours = row.calls.get(("Ingot", threads))
        table.append([row.program.name, *cells, rate(row, ours.median) if ours else "-"])
    return table


def compile_table(rows: list[Row], threads: int) -> list[list[str]]:
    """Return the cells of the compile-time table, heading first."""
    pairs = _pairs(rows)
    table = [["program", *_headings(pairs)]]
    for row in rows:
        cells = _cells(pairs, row.compilations, row.compile_ratio, threads)
        table.append([row.program.name, *cells])
    return table


Pairs = Sequence[tuple[str, str]]


def _pairs(rows: list[Row]) -> Pairs:
    """Return the pairs of engines that ran any of the rows."""
    ran = {engine for row in rows for engine, _ in (*row.calls, *row.compilations)}
    return [pair for pair in PAIRS if ran & set(pair)]


def _headings(pairs: Pairs) -> list[str]:
    return [cell for ours, theirs in pairs for cell in (ours, theirs, f"{theirs} / {ours}")]


def _cells(
    pairs: Pairs,
    timings: dict[Key, Timing],
    ratio: Callable[[str, str, int], float | None],
    threads: int,
) -> list[str]:
    return [
        cell
        for ours, theirs in pairs
        for cell in (
            _time(timings.get((ours, threads))),
            _time(timings.get((theirs, threads))),
            factor(ratio(ours, theirs, threads)),
        )
    ]


def _time(timing: Timing | None) -> str:
    return duration(timing.median) if timing is not None else "-"


def as_text(table: list[list[str]]) -> str:
    """Return a table for the terminal."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in table
    ]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def as_markdown(table: list[list[str]]) -> str:
    """Return a table in Markdown."""
    heading, *body = ["| " + " | ".join(row) + " |" for row in table]
    rule = "|---" + "|---:" * (len(table[0]) - 1) + "|"
    return "\n".join([heading, rule, *body])


def sections(rows: list[Row], threads: list[int]) -> list[tuple[str, list[list[str]]]]:
    """Return every table with its title; rows of a section have tables of their own."""
    names = dict.fromkeys(row.program.section for row in rows)
    return [
        table
        for name in names
        for table in _tables(name, [r for r in rows if r.program.section == name], threads)
    ]


def _tables(section: str, rows: list[Row], threads: list[int]) -> list[tuple[str, list[list[str]]]]:
    found = [
        (f"Time per call, {number_of_threads(count)}", run_table(rows, count)) for count in threads
    ]
    if any(row.compilations for row in rows):
        found += [
            (f"Compile time, {number_of_threads(count)}", compile_table(rows, count))
            for count in threads
        ]
    return [(f"{section}: {title}" if section else title, table) for title, table in found]


def number_of_threads(threads: int) -> str:
    """Return a number of threads as text."""
    return "1 thread" if threads == 1 else f"{threads} threads"


def machine(packages: Sequence[str] = _PACKAGES) -> list[str]:
    """Return what the numbers depend on, one fact per line.

    Args:
        packages: whose versions are among them.
    """
    cpus = len(os.sched_getaffinity(0))
    facts = [
        f"{datetime.now():%Y-%m-%d %H:%M}, {_cpu_name()}, {cpus} CPUs, {platform.system()}",
        f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {_version(name)}" for name in packages),
    ]
    load = os.getloadavg()[0]
    if load > 0.5:
        facts.append(f"the machine was busy (load {load:.1f}): trust the ratios, not the times")
    return facts


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "-"


EXPLANATION = """\
Every program runs in processes of their own, one for each engine and number of threads (set by CPU
affinity), which take turns. A time is the median over the turns of the fastest call in each; ratios
are medians of each turn's ratio: above 1 Ingot is faster, `!` marks where it is not.

- Ingot and XLA: the same HLO, which JAX lowers to. XLA is jaxlib's, called through `jax.jit`; Ingot
  is called with NumPy arrays, aligned as its results are. Compile time is from the lowered or
  parsed module to an executable.
- TF Ingot and TF XLA: the same `tf.function(jit_compile=True)`, compiled by Ingot after
  `ingot.tensorflow.enable()` and by TensorFlow's XLA. Compile time is the first call after tracing,
  less what a second one takes.

Results were checked against XLA's before timing. No compilation was taken from a cache. What an
installation has was loaded before: XLA's precompiled libraries (Eigen, oneDNN, YNNPACK, DUCC,
LAPACK), and Ingot's library (products, convolutions, reductions, sums by segment, moves,
transforms, sorts of any size), whose parts are compiled when a program first needs them on a
machine, and kept on disk; what that takes stands above.
"""


def markdown(rows: list[Row], threads: list[int], facts: list[str]) -> str:
    """Return the text of `RESULTS.md`."""
    parts = ["# Ingot beside XLA", "Written by `make bench`.", "\n".join(f"- {f}" for f in facts)]
    parts.append(EXPLANATION.strip())
    parts.append("![XLA's time divided by Ingot's](results.svg)")
    for title, table in sections(rows, threads):
        parts += [f"## {title}", as_markdown(table)]
    return "\n\n".join(parts) + "\n"
