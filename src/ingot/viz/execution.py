# SPDX-License-Identifier: Apache-2.0
"""The events of a profile: times of a program's kernels, and the events of its last execution.

`gather` reads both; `flame` draws the second. A profile may hold many programs and executions, of
many threads. The last execution of a program is the one that ended last: the latest events of its
thread and device in which no kernel, call or loop outside of loops occurs twice.

Invariant: the depth of an event is the number of loops of the same execution that contain it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.client.executables.executable import Executable
from ingot.client.profiling.profile import Profile
from ingot.client.profiling.timings import Site
from ingot.runtime.recording import Event
from ingot.runtime.records import PROGRAM
from ingot.viz.content import EventReport

_LEAST = 1e-3
"""Shorter events, as a share of the execution, are left out: a loop may have a million."""

Run = tuple[Site, Event]


def runs_of(profile: Profile, executable: Executable) -> list[Run]:
    """Return the runs of one program in a profile."""
    record = executable.program.record_address
    key = (PROGRAM.read(record, "run"), PROGRAM.read(record, "constants"))
    return [(site, event) for site, event in profile.runs if event.program == key]


def last_execution(runs: Sequence[Run], kernels: int) -> tuple[EventReport, ...]:
    """Return the events of the last execution, each before those within it.

    Args:
        runs: the runs of one program.
        kernels: the number of the program's kernels, which are its first sites.
    """
    if not runs:
        return ()
    last = max((event for _, event in runs), key=lambda event: event.end)
    rows = [run for run in runs if (run[1].thread, run[1].device) == (last.thread, last.device)]
    rows.sort(key=lambda run: (run[1].start, -run[1].end))
    nested = _last_part(_with_depths(rows))
    begin = min(event.start for _, event, _ in nested)
    whole = max(event.end for _, event, _ in nested) - begin
    return tuple(
        EventReport(
            name=site.name,
            kind=site.kind,
            kernel=event.site if event.site < kernels else None,
            depth=depth,
            start=(event.start - begin) / 1e9,
            seconds=(event.end - event.start) / 1e9,
        )
        for site, event, depth in nested
        if event.end - event.start >= _LEAST * whole
    )


def _with_depths(rows: Sequence[Run]) -> list[tuple[Site, Event, int]]:
    """Return events, in order of their starts, each with the number of others that contain it."""
    around: list[int] = []  # the ends of events that contain the present one
    nested: list[tuple[Site, Event, int]] = []
    for site, event in rows:
        while around and around[-1] < event.end:
            around.pop()
        nested.append((site, event, len(around)))
        around.append(event.end)
    return nested


def _last_part(nested: list[tuple[Site, Event, int]]) -> list[tuple[Site, Event, int]]:
    """Return the longest end of a list in which no outermost site occurs twice."""
    seen: set[int] = set()
    begin = len(nested)
    for number in range(len(nested) - 1, -1, -1):
        _, event, depth = nested[number]
        if depth:
            continue
        if event.site in seen:
            break
        seen.add(event.site)
        begin = number
    return nested[begin:]
