# SPDX-License-Identifier: Apache-2.0
"""Memory by kernel: which buffers are live while each kernel runs, from the buffer assignment.

Sizes that are symbolic are left out of sums, as in the compiler's own peak.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from ingot.passes.buffers.buffer_table import BufferAssignment, Output, Temp
from ingot.passes.buffers.contents import Contents, contents
from ingot.viz.report import BufferReport


def live_bytes(assignment: BufferAssignment, positions: Sequence[int]) -> list[int]:
    """Return the bytes of temporaries and results that are live at each position."""
    changes = [0] * (len(positions) + 1)
    order = sorted(range(len(positions)), key=positions.__getitem__)
    line = [positions[number] for number in order]
    for one in _made(assignment):
        size = one.slice.size
        if isinstance(size, int):
            changes[bisect_left(line, one.first)] += size
            changes[bisect_right(line, one.last)] -= size
    found, live = [0] * len(positions), 0
    for number, change in zip(order, changes, strict=False):
        live += change
        found[number] = live
    return found


def buffers_of(assignment: BufferAssignment, positions: Sequence[int]) -> tuple[BufferReport, ...]:
    """Return the buffers that a call makes, the largest first."""
    line = sorted(positions)
    rows = [
        BufferReport(
            allocation=str(one.slice.allocation),
            size=one.slice.size if isinstance(one.slice.size, int) else str(one.slice.size),
            values=tuple(dict.fromkeys(value.instruction.name for value in one.values)),
            first=bisect_left(line, one.first),
            last=bisect_right(line, one.last) - 1,
        )
        for one in _made(assignment)
    ]
    return tuple(sorted(rows, key=lambda row: -row.size if isinstance(row.size, int) else 0))


def _made(assignment: BufferAssignment) -> list[Contents]:
    kinds = (Temp, Output)
    return [one for one in contents(assignment) if isinstance(one.slice.allocation, kinds)]
