# SPDX-License-Identifier: Apache-2.0
"""Memory by kernel: which buffers are live while each kernel runs, from the buffer assignment.

Symbolic sizes are left out of sums, as in the compiler's own peak.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ingot.passes.buffers.buffer_table import BufferAssignment, Output, Temp
from ingot.passes.buffers.contents import Contents, buffer_usage
from ingot.viz.content import BufferReport


def made_buffers(assignment: BufferAssignment) -> list[Contents]:
    """Return the buffers that a call allocates: temporaries and results."""
    kinds = (Temp, Output)
    return [
        one for one in buffer_usage(assignment).buffers if isinstance(one.slice.allocation, kinds)
    ]


def live_bytes(buffers: Sequence[Contents], positions: Sequence[int]) -> list[int]:
    """Return the bytes of `buffers` that are live at each position."""
    changes = [0] * (len(positions) + 1)
    order = sorted(range(len(positions)), key=positions.__getitem__)
    line = [positions[number] for number in order]
    for one in buffers:
        size = one.slice.size
        if isinstance(size, int):
            changes[bisect_left(line, one.first)] += size
            changes[bisect_right(line, one.last)] -= size
    found, live = [0] * len(positions), 0
    for number, change in zip(order, changes, strict=False):
        live += change
        found[number] = live
    return found


def rows_of(buffers: Sequence[Contents], positions: Sequence[int]) -> tuple[BufferReport, ...]:
    """Return `buffers` as the report shows them, the largest first."""
    line = sorted(positions)
    rows = [
        BufferReport(
            allocation=str(one.slice.allocation),
            size=one.slice.size if isinstance(one.slice.size, int) else str(one.slice.size),
            values=tuple(dict.fromkeys(value.instruction.name for value in one.values)),
            first=bisect_left(line, one.first),
            last=bisect_right(line, one.last) - 1,
        )
        for one in buffers
    ]
    return tuple(sorted(rows, key=lambda row: -row.size if isinstance(row.size, int) else 0))
