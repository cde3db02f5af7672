# SPDX-License-Identifier: Apache-2.0
"""The contents of each buffer over time, for reports: computed on demand, not in a compilation.

The classes of values are found again from the scheduled module, as buffer assignment found them;
the table (`buffer_table`) says where they are. Printable like XLA's buffer-assignment dump.

Invariant: the module is the one that was assigned, and nobody edited it since.

Source: xla/service/buffer_assignment.cc (BufferAssignment::ToString).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ingot.analysis.aliasing import Value
from ingot.analysis.liveness import FOREVER, call_levels
from ingot.hlo.computation import Computation
from ingot.passes.buffers.buffer_table import Allocation, BufferAssignment, Slice, Temp
from ingot.passes.buffers.coalesce import shared_buffers
from ingot.support.records import record
from ingot.support.text import braced


@record
class Contents:
    """A buffer and the values that live in it.

    Attributes:
        slice: where it is.
        values: the values that live there, in order of time.
        first: position at which it is first needed, -1 for before the program.
        last: position at which it is last needed.
    """

    slice: Slice
    values: tuple[Value, ...]
    first: int
    last: int


@record
class BufferUsage:
    """Use of a program's memory.

    Attributes:
        buffers: every buffer with its values.
        peak_bytes: most bytes of the arena that are live at once (symbolic buffers left out).
    """

    buffers: tuple[Contents, ...]
    peak_bytes: int


def buffer_usage(assignment: BufferAssignment) -> BufferUsage:
    """Return what lives in each buffer; the module keeps nothing of the analysis."""
    module = assignment.aliasing.module
    liveness, classes = shared_buffers(module)
    module.drop_analyses()
    rows: list[Contents] = []
    temps: dict[Computation, list[tuple[int, int, int]]] = {}
    for representative in classes.representatives:
        members = sorted(
            classes.members(representative),
            key=lambda value: (liveness.segments[value][0], value.number),
        )
        first, last = classes.hull(representative)
        end = liveness.end if last >= FOREVER else last // 2
        where, size = _slice(assignment, members), representative.shape.bytes
        rows.append(Contents(where, tuple(members), first // 2, end))
        if isinstance(where.allocation, Temp) and isinstance(size, int):
            function = liveness.function_of(representative)
            temps.setdefault(function, []).append((first, last, size))
    peaks: dict[int, int] = {}
    for function, level in call_levels(liveness).items():
        peaks[level] = max(peaks.get(level, 0), _peak(temps.get(function, ())))
    return BufferUsage(tuple(rows), sum(peaks.values()))


def _slice(assignment: BufferAssignment, members: Iterable[Value]) -> Slice:
    """Return where a class is: with each output in it is the value that becomes the output."""
    made = next(value for value in members if value.kind != "output")
    return assignment.slices[assignment.aliasing.values[made.number]]


def _peak(live: Iterable[tuple[int, int, int]]) -> int:
    """Return the most bytes at one time of (first time, last time, bytes)."""
    changes: list[tuple[int, int]] = []
    for first, last, size in live:
        changes += [(first, size), (last + 1, -size)]
    total = peak = 0
    for _, change in sorted(changes):
        total += change
        peak = max(peak, total)
    return peak


def assignment_text(assignment: BufferAssignment) -> str:
    """Return the table as XLA's buffer-assignment dump shows it."""
    return "\n".join(_lines(assignment))


def _lines(assignment: BufferAssignment) -> Iterator[str]:
    usage = buffer_usage(assignment)
    by_allocation: dict[Allocation, list[Contents]] = {a: [] for a in assignment.allocations}
    for one in usage.buffers:
        by_allocation[one.slice.allocation].append(one)
    yield "BufferAssignment:"
    for number, (allocation, held) in enumerate(by_allocation.items()):
        yield f"allocation {number}: size {allocation.size}, {allocation}:"
        for one in held:
            for value in one.values:
                yield (
                    f" value: {value.instruction.name}{braced(value.path)}"
                    f" {value.shape} ({value.kind})"
                    f" (size={one.slice.size},offset={one.slice.offset})"
                )
    yield f"Total temp bytes: {assignment.arena_bytes}, peak live: {usage.peak_bytes}"
