# SPDX-License-Identifier: Apache-2.0
"""The page of `make bench-torch`: what was measured, in tables.

`benchmarks.with_torch.whole` measures; nothing here needs PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.report import duration, factor, geometric_mean, number_of_threads
from benchmarks.common.whole import (
    FAILS,
    HEADING,
    Measured,
    Side,
    megabytes,
    sections_text,
    step_table,
    tables_by_threads,
)

EAGER, INDUCTOR, OURS = "eager", "inductor", "Ingot"
ENGINES = (EAGER, INDUCTOR, OURS)
EXPLANATION = """\
Each engine has a process of its own for each row: PyTorch's kernels without compilation,
`torch.compile` with PyTorch's compiler (inductor, which calls g++), and `torch.compile` with
`backend="ingot"`; the processes take turns. `infer` is a call of the model without gradients.
`train` is `zero_grad`, the loss, `backward` and the optimizer's step; what is compiled is the model
with its loss, and the optimizer only where the row's name says so. A time is the median over the
turns of the fastest call in each, a ratio the median of each turn's: above 1 Ingot is better, `!`
marks where it is not.

The first call is measured in a fresh process and without caches of compiled programs (a folder of
its own and `TORCHINDUCTOR_FORCE_DISABLE_CACHES` for inductor, `INGOT_CACHE=0` for Ingot): tracing,
which is PyTorch's on both sides, compiling, and running once. What an engine does once per process
or machine was done before, by compiling a function of two ops: inductor's precompiled headers,
Ingot's run-time code. The parts of Ingot's kernel library that a row needs are not among that.
Memory is the most that the process had resident while it compiled and ran the row, above what it
had when the model was built; processes that it starts, as g++, are not counted. Recurrent layers
are compiled (`torch._dynamo.config.allow_rnn`).

Results of the first two calls were compared before timing: outputs, or losses and the norm of each
parameter's gradient. `programs` is how many Ingot compiled, `on the host` the ops that it left to
PyTorch's kernels. Rows may be measured in parts, on different days; `load` is how many other
processes wanted the machine's CPUs when a row began: where there were any, trust the ratios, not
the times."""


def first_call(side: Side) -> float:
    """Return the seconds of the first call."""
    return side.compilation + min(side.calls.seconds)


def cost_table(rows: Sequence[Measured]) -> list[list[str]]:
    """Return the cells of first calls, memory and programs, heading first."""
    heading = [*HEADING, *(f"first call: {engine}" for engine in (OURS, INDUCTOR, EAGER))]
    heading += [f"{INDUCTOR} / {OURS}"]
    heading += [f"memory: {engine}" for engine in (OURS, INDUCTOR, EAGER)]
    heading += ["programs", "on the host", "measured", "load"]
    table = [heading]
    ratios: list[float] = []
    for row in rows:
        ours = row.sides[OURS]
        sides = [row.sides.get(engine) for engine in (OURS, INDUCTOR, EAGER)]
        ratio = ""
        if INDUCTOR in row.sides:
            ratios.append(first_call(row.sides[INDUCTOR]) / first_call(ours))
            ratio = factor(ratios[-1])
        table.append(
            [
                *row.task.cells,
                *(duration(first_call(side)) if side else FAILS for side in sides),
                ratio,
                *(megabytes(side.memory) if side else FAILS for side in sides),
                str(ours.programs),
                ", ".join(ours.host) or "-",
                row.when,
                f"{row.load:.1f}",
            ]
        )
    blank = [""] * (len(heading) - 2)
    blank[len(HEADING) + 2] = factor(geometric_mean(ratios)) if ratios else ""
    return [*table, ["geometric mean", *blank, ""]]


def sections(rows: Sequence[Measured]) -> list[tuple[str, list[list[str]]]]:
    """Return the tables of each number of threads with their titles."""
    kinds = (
        ("Time per call", lambda these: step_table(these, ENGINES)),
        ("First call and memory", cost_table),
    )
    return tables_by_threads(rows, kinds)


def page(rows: Sequence[Measured], facts: Sequence[str]) -> str:
    """Return the text of the page of results."""
    parts = ["# PyTorch models on Ingot, PyTorch's kernels and inductor"]
    parts += ["Written by `make bench-torch`.", "\n".join(f"- {fact}" for fact in facts)]
    parts.append(EXPLANATION)
    notes = [f"{row.note}, {number_of_threads(row.threads)}" for row in rows if row.note]
    parts += sections_text(sections(rows), rows, "inductor", notes)
    return "\n\n".join(parts) + "\n"
