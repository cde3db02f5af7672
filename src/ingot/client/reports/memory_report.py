# SPDX-License-Identifier: Apache-2.0
"""Which allocations and values take the memory of a program: XLA's `-memory-usage-report.txt`.

Allocations come by size with XLA's columns; then the values of the temporary arena, the largest
first, with the user's line that made each. Symbolic sizes are expressions and are left out of sums.

Source: xla/service/buffer_assignment.cc (BufferAssignment::MemoryUsageReport).
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.hlo.dim import Dim
from ingot.passes.buffers.buffer_table import BufferAssignment, Temp
from ingot.passes.buffers.contents import Contents, buffer_usage
from ingot.support.text import format_bytes, format_size

_RULE = "-" * 80


def memory_usage_report(assignment: BufferAssignment) -> str:
    """Return the report of a program's buffers."""
    return "\n".join(_lines(assignment)) + "\n"


def _lines(assignment: BufferAssignment) -> Iterator[str]:
    usage = buffer_usage(assignment)
    numbered = list(enumerate(assignment.allocations))
    known = [(n, one, one.size) for n, one in numbered if isinstance(one.size, int)]
    total = sum(size for _, _, size in known)
    yield f"Total bytes used: {total} ({format_bytes(total)})"
    yield f"Most bytes of temporaries that are live at once: {usage.peak_bytes}"
    yield ""
    yield "Allocations sorted by size:"
    yield ""
    yield "cumulative_size; total_size - cumulative_size; allocation"
    yield _RULE
    sum_so_far = 0
    for number, allocation, size in sorted(known, key=lambda row: -row[2]):
        sum_so_far += size
        share = f"{100 * sum_so_far / (total or 1):3.0f}%"
        rest = format_bytes(total - sum_so_far)
        yield (
            f"{format_bytes(sum_so_far):>10}({share}); {rest:>10}; "
            f"allocation {number}: size {size}, {allocation}"
        )
    for number, allocation in numbered:
        if isinstance(allocation.size, Dim):
            yield f"  symbolic; allocation {number}: size {allocation.size}, {allocation}"
    yield ""
    yield "Values of the temporary arena sorted by size:"
    yield _RULE
    held = [one for one in usage.buffers if isinstance(one.slice.allocation, Temp)]
    for one in sorted(held, key=_order):
        yield f"{format_size(one.slice.size):>10}; {_values_text(one)}"


def _order(one: Contents) -> int:
    return -one.slice.size if isinstance(one.slice.size, int) else 0


def _values_text(one: Contents) -> str:
    """Return the values that live in a buffer, and the user's lines that made them."""
    items = dict.fromkeys(value.instruction for value in one.values)
    locations = dict.fromkeys(
        str(item.metadata.location) for item in items if item.metadata.location is not None
    )
    names = ", ".join(f"%{item.name}" for item in items)
    return f"{names} at {', '.join(locations)}" if locations else names
