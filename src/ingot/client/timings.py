# SPDX-License-Identifier: Apache-2.0
"""What a profile holds: the events of a recording, each with what ran.

Below the outputs (`profile_table`, `chrome_trace`) and `Profile`, which has them as methods.
"""

from __future__ import annotations

from collections import defaultdict

from ingot.runtime.recording import Event, Recording
from ingot.support.records import record


@record
class Site:
    """One thing that a program runs.

    Attributes:
        module: name of the program.
        name: of the HLO instruction: a fusion, a custom call, a loop.
        kind: "kernel", "call" or "loop".
        opcodes: the opcodes of a kernel; the target of a call.
        op_name: the front end's name.
        source: the user's source location (file:line), or "".
        flops, transcendentals, bytes: work of one call, 0 if it is not known.
        lines: the source locations of everything that it computes, each once.
        hlo: the instruction as HLO text.
    """

    module: str
    name: str
    kind: str
    opcodes: tuple[str, ...] = ()
    op_name: str = ""
    source: str = ""
    flops: int = 0
    transcendentals: int = 0
    bytes: int = 0
    lines: tuple[str, ...] = ()
    hlo: str = ""


@record
class Row:
    """A site's times in a profile, in seconds."""

    site: Site
    calls: int
    total: float
    shortest: float


@record
class Timings:
    """The runs between the start and the stop of a recording.

    Attributes:
        recording: the events as they were recorded.
        runs: the events whose program is known, each with its site.
    """

    recording: Recording
    runs: tuple[tuple[Site, Event], ...]

    def rows(self) -> list[Row]:
        """Return every site with its times, the longest first."""
        times: defaultdict[Site, list[int]] = defaultdict(list)
        for site, event in self.runs:
            times[site].append(event.end - event.start)
        rows = [
            Row(site, len(found), sum(found) / 1e9, min(found) / 1e9)
            for site, found in times.items()
        ]
        return sorted(rows, key=lambda row: -row.total)

    def seconds_by_line(self) -> dict[str, float]:
        """Return the seconds of the kernels with ops of each of the user's lines, longest first.

        A kernel of several lines counts for each of them, so the sum may exceed the total.
        """
        found: defaultdict[str, float] = defaultdict(float)
        for row in self.rows():
            for line in row.site.lines:
                found[line] += row.total
        return dict(sorted(found.items(), key=lambda item: -item[1]))
