# SPDX-License-Identifier: Apache-2.0
"""What ran in a profile: the times of a program's kernels, and when each ran in its last execution.

`gather` asks for both; `flame` draws the second. A profile may hold many programs and executions,
of many threads. The last execution of a program is the one that ended last: the events of its
thread and device, back to where a kernel, call or loop that no loop runs would come twice.

Invariant: an event is as deep as the loops around it that the same execution runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from ingot.client.executable import Executable
from ingot.client.profile import Profile, Site
from ingot.runtime.recording import Event
from ingot.runtime.records import PROGRAM
from ingot.viz.report import EventReport

_LEAST = 1e-3
"""A shorter event, as a share of the whole execution, is left out: a loop may run a million."""

Run = tuple[Site, Event]


def runs_of(profile: Profile, executable: Executable) -> list[Run]:
    """Return what a profile has of one program."""
    record = executable.program.record_address
    key = (PROGRAM.read(record, "run"), PROGRAM.read(record, "constants"))
    return [(site, event) for site, event in profile.runs if event.program == key]


def shortest_times(runs: Sequence[Run]) -> dict[str, float]:
    """Return the seconds of the shortest call of each site, by its instruction."""
    times: defaultdict[str, list[int]] = defaultdict(list)
    for site, event in runs:
        times[site.name].append(event.end - event.start)
    return {name: min(found) / 1e9 for name, found in times.items()}


def last_execution(runs: Sequence[Run], kernels: int) -> tuple[EventReport, ...]:
    """Return the events of the last execution, each before what is inside it.

    Args:
        runs: what a profile has of one program.
        kernels: how many kernels the program has; they are its first sites.
    """
    if not runs:
        return ()
    last = max((event for _, event in runs), key=lambda event: event.end)
    rows = [run for run in runs if (run[1].thread, run[1].device) == (last.thread, last.device)]
    rows.sort(key=lambda run: (run[1].start, -run[1].end))
    placed = _last_part(_with_depths(rows))
    begin = min(event.start for _, event, _ in placed)
    whole = max(event.end for _, event, _ in placed) - begin
    return tuple(
        EventReport(
            name=site.name,
            kind=site.kind,
            kernel=event.site if event.site < kernels else None,
            depth=depth,
            start=(event.start - begin) / 1e9,
            seconds=(event.end - event.start) / 1e9,
        )
        for site, event, depth in placed
        if event.end - event.start >= _LEAST * whole
    )


def _with_depths(rows: Sequence[Run]) -> list[tuple[Site, Event, int]]:
    """Return events, in order of their starts, with how many of the others hold each."""
    around: list[int] = []  # where those end that began before and go on
    placed: list[tuple[Site, Event, int]] = []
    for site, event in rows:
        while around and around[-1] < event.end:
            around.pop()
        placed.append((site, event, len(around)))
        around.append(event.end)
    return placed


def _last_part(placed: list[tuple[Site, Event, int]]) -> list[tuple[Site, Event, int]]:
    """Return the end of a list in which no outermost site comes twice."""
    seen: set[int] = set()
    begin = len(placed)
    for number in range(len(placed) - 1, -1, -1):
        _, event, depth = placed[number]
        if depth:
            continue
        if event.site in seen:
            break
        seen.add(event.site)
        begin = number
    return placed[begin:]
