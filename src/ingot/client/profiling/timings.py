# SPDX-License-Identifier: Apache-2.0
"""What a profile holds: the events of a recording, each with what ran.

Below the outputs (`profile_table`, `chrome_trace`) and `Profile`, which has them as methods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import field

from ingot.llvm.machine_model import MachineModel, Roofline
from ingot.runtime.recording import Event, Recording
from ingot.support.lazy import function_at_home
from ingot.support.records import record

measured_machine = function_at_home("ingot.client.roofline", "measured_machine")
"""It compiles programs."""


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
        model: the rates of what a kernel runs on, of a CPU by the table; None for calls and loops.
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
    model: Roofline | None = field(default=None, compare=False, repr=False)

    @property
    def bound(self) -> str:
        """What limits a kernel: "memory", "compute" or "latency"; "" if its work is not known."""
        if self.model is None or not (self.bytes or self.flops):
            return ""
        return self.model.bound(self.bytes, self.flops, self.transcendentals)

    def roofline(self, seconds: float) -> float | None:
        """Return the share of the roofline that a call of this time reaches, 1 being all of it.

        It is the time that the kernel's bytes or operations take at the rates of this machine,
        whichever is longer, divided by `seconds`. On a CPU the rates are measured when they are
        first needed in a process, which takes a second; on a GPU they are those of the table. None
        if the work is not known.
        """
        model = measured_machine() if isinstance(self.model, MachineModel) else self.model
        if model is None:
            return None
        return model.share(self.bytes, self.flops, seconds, self.transcendentals)


@record
class Row:
    """A site's times in a profile, in seconds."""

    site: Site
    calls: int
    total: float
    shortest: float

    @property
    def bound(self) -> str:
        """What limits a kernel, as `Site.bound`."""
        return self.site.bound

    @property
    def roofline(self) -> float | None:
        """The share of the roofline that the shortest call reached, as `Site.roofline`."""
        return self.site.roofline(self.shortest)


def rows_of_runs(runs: Iterable[tuple[Site, Event]]) -> list[Row]:
    """Return every site of some runs with its times, the longest first."""
    times: defaultdict[Site, list[int]] = defaultdict(list)
    for site, event in runs:
        times[site].append(event.end - event.start)
    rows = [
        Row(site, len(found), sum(found) / 1e9, min(found) / 1e9) for site, found in times.items()
    ]
    return sorted(rows, key=lambda row: -row.total)


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
        return rows_of_runs(self.runs)

    def seconds_by_line(self) -> dict[str, float]:
        """Return the seconds of the kernels with ops of each of the user's lines, longest first.

        A kernel of several lines counts for each of them, so the sum may exceed the total.
        """
        found: defaultdict[str, float] = defaultdict(float)
        for row in self.rows():
            for line in row.site.lines:
                found[line] += row.total
        return dict(sorted(found.items(), key=lambda item: -item[1]))
