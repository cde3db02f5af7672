# SPDX-License-Identifier: Apache-2.0
"""Flame graphs of the time of compilation, and of the last execution.

The width of a bar is its time, and it is beneath the bar that it is a part of: passes are beneath
the phase of the passes, kernels beneath the loop that runs them.

Invariant: a bar lies within the one above it, and bars of one depth do not overlap.
"""

from __future__ import annotations

from collections import defaultdict

from ingot.support.records import record
from ingot.viz.content import PassReport, PhaseReport, ProgramReport

PASSES = "passes"
"""The phase that runs the passes."""
_LEAST = 1e-3
"""Bars of a smaller share of the whole are not drawn."""


@record
class Bar:
    """A bar.

    Attributes:
        left, width: shares of the whole.
        depth: the row; the first is 0.
        name: its text.
        seconds: its time.
        kernel: the number of its kernel, or None.
    """

    left: float
    width: float
    depth: int
    name: str
    seconds: float
    kernel: int | None = None


def execution_flame(program: ProgramReport) -> tuple[Bar, ...]:
    """Return the bars of a program's last execution; none if it did not run."""
    whole = program.execution_seconds
    return tuple(
        Bar(
            left=event.start / whole,
            width=event.seconds / whole,
            depth=event.depth,
            name=event.name if event.kernel is None else f"#{event.kernel} {event.name}",
            seconds=event.seconds,
            kernel=event.kernel,
        )
        for event in program.execution
        if whole
    )


def flame_of(program: ProgramReport) -> tuple[Bar, ...]:
    """Return the bars of a program's compile time."""
    total = program.compile_seconds
    if not total:
        return ()
    bars: list[Bar] = []
    starts = [0.0]  # the left end of the next bar at each depth
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
