# SPDX-License-Identifier: Apache-2.0
"""Where compile time went, as a flame graph: phases; in that of the passes, pipelines and passes.

A bar is as wide as it took time, and lies beneath what it was part of.

Invariant: a bar lies within the one above it, and bars of one depth do not overlap.
"""

from __future__ import annotations

from collections import defaultdict

from ingot.support.records import record
from ingot.viz.report import PassReport, PhaseReport, ProgramReport

PASSES = "passes"
"""The phase that runs the passes."""
_LEAST = 1e-3
"""A bar of a smaller share of the whole is not drawn."""


@record
class Bar:
    """A bar: its left edge and its width as shares of the whole, its depth, its name, its time."""

    left: float
    width: float
    depth: int
    name: str
    seconds: float


def flame_of(program: ProgramReport) -> tuple[Bar, ...]:
    """Return the bars of a program's compile time."""
    total = program.compile_seconds
    if not total:
        return ()
    bars: list[Bar] = []
    starts = [0.0]  # where the next bar of each depth begins
    for phase in program.phases:
        del starts[phase.depth + 1 :]
        left = starts[phase.depth]
        bars.append(_bar(phase, left, total))
        starts[phase.depth] += phase.seconds
        starts.append(left)
        if phase.name == PASSES:
            bars += _passes(program.passes, phase, left, total)
    return tuple(bar for bar in bars if bar.width >= _LEAST)


def _bar(phase: PhaseReport, left: float, total: float) -> Bar:
    return Bar(left / total, phase.seconds / total, phase.depth, phase.name, phase.seconds)


def _passes(
    passes: tuple[PassReport, ...], phase: PhaseReport, left: float, total: float
) -> list[Bar]:
    """Return the bars of pipelines and passes in a phase; clocks that disagree are scaled."""
    pipelines: defaultdict[str, list[PassReport]] = defaultdict(list)
    for row in passes:
        pipelines[row.pipeline].append(row)
    whole = sum(row.seconds for row in passes)
    scale = min(1.0, phase.seconds / whole) / total if whole else 0.0
    bars: list[Bar] = []
    at = left / total
    for name, rows in pipelines.items():
        seconds = sum(row.seconds for row in rows)
        bars.append(Bar(at, seconds * scale, phase.depth + 1, name, seconds))
        for row in rows:
            bars.append(Bar(at, row.seconds * scale, phase.depth + 2, row.name, row.seconds))
            at += row.seconds * scale
    return bars
