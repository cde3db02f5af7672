# SPDX-License-Identifier: Apache-2.0
"""The page of `make bench-tf`: what was measured, in tables.

`benchmarks.with_tensorflow.whole` measures; nothing here needs TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.report import duration, factor
from benchmarks.common.whole import (
    FAILS,
    HEADING,
    Measured,
    megabytes,
    sections_text,
    step_table,
    tables_by_threads,
)

REFERENCE, XLA, OURS = "TensorFlow", "XLA", "Ingot"
ENGINES = (REFERENCE, XLA, OURS)
EXPLANATION = """\
Each engine has a process of its own for each row: TensorFlow's kernels (oneDNN on), TensorFlow's
XLA (`jit_compile=True`), Ingot (`ingot.tensorflow.enable()` and `jit_compile=True`); the processes
take turns. A time of a step is the median over the turns of the fastest call in each, a ratio the
median of each turn's: above 1 Ingot is better, `!` marks where it is not. Compile time is the first
call of the traced function, less what the fastest call takes; nothing comes from a cache of
compiled programs. Memory is the most that the process had resident while it built, compiled and ran
the row, above what it had after TensorFlow was imported. A script is timed from the start of its
process, Python's and TensorFlow's included, to the end of its last step, on a machine where Ingot
has run before (rows until 2026-11-27: where it has not, and Python has no bytecode of it). It has
the row's own few steps or, with `--script-seconds`, as many as TensorFlow's kernels do in that
time. Results of the first two calls were compared before timing: Ingot's and XLA's to
TensorFlow's. Rows may be measured in parts, on different days; `load` is how many other processes
wanted the machine's CPUs when a row began: where there were any, trust the ratios, not the
times."""


def cost_table(rows: Sequence[Measured]) -> list[list[str]]:
    """Return the cells of compile time, memory and scripts, heading first."""
    heading = [*HEADING, f"programs: {OURS}", f"compile: {OURS}", "XLA", f"XLA / {OURS}"]
    heading += [f"memory: {OURS}", *ENGINES[:-1], "script steps", f"script: {OURS}", *ENGINES[:-1]]
    heading += ["measured", "load"]
    table = [heading]
    for row in rows:
        task, sides = row.task, row.sides
        ours, plain, xla = (sides.get(engine) for engine in (OURS, *ENGINES[:-1]))
        assert ours is not None
        ratio = "-"
        if xla and ours.compilation > 0:
            ratio = factor(xla.compilation / ours.compilation)
        scripts = [side and side.script for side in (ours, plain, xla)]
        table.append(
            [
                *task.cells,
                str(ours.programs),
                *(duration(max(side.compilation, 0.0)) if side else FAILS for side in (ours, xla)),
                ratio,
                *(megabytes(side.memory) if side else FAILS for side in (ours, plain, xla)),
                str(ours.script_steps or task.script or "-"),
                *("-" if seconds is None else duration(seconds) for seconds in scripts),
                row.when,
                f"{row.load:.1f}",
            ]
        )
    return table


def sections(rows: list[Measured]) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of each number of threads with their titles."""
    kinds = (
        ("Time of a step", lambda these: step_table(these, ENGINES)),
        ("Compile time, memory, scripts", cost_table),
    )
    return tables_by_threads(rows, kinds)


def page(rows: list[Measured], facts: list[str]) -> str:
    """Return the text of the page of results."""
    parts = ["# TensorFlow models on Ingot, TensorFlow's kernels and XLA"]
    parts += ["Written by `make bench-tf`.", "\n".join(f"- {fact}" for fact in facts), EXPLANATION]
    notes = [row.note for row in rows if row.note]
    parts += sections_text(sections(rows), rows, "XLA", notes)
    return "\n\n".join(parts) + "\n"
