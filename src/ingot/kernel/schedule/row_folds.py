# SPDX-License-Identifier: Apache-2.0
"""Rows that are folded together: one for each lane of a register.

Each row is folded along itself in lanes. Joining the lanes of one row takes a chain of steps on
half as many lanes each time. Joining the lanes of many rows at once, whole registers of halves of
rows, takes as many steps for all rows together, and the passes after the fold get a vector.
`cpu.emit.loop.rows` emits it.

Invariant: lanes are joined in the order in which those of a single row would be.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.dtype import PRED
from ingot.kernel.expr import walk
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.lane_counts import is_expensive
from ingot.kernel.schedule.lane_folds import starts_from_identity

LONGEST_ROW = 512
"""Elements of a row beside which joining its lanes is little work."""

LEAST_ELEMENTS = 1 << 15
"""Fewer elements are folded before the longer code is compiled, unless rows end in expensive ops:
one by one those of 1000 rows of 28 took 1.8 to 4.9 times as long (AVX-512, one thread,
2026-11-28)."""

LEAST_BLOCKS = 4
"""Blocks of rows at least: parts of one are wasted."""

NO_ROWS = "it does not fold rows in lanes"


def rows_together(kernel: LoopKernel, lanes: int, rows: int) -> Axis | str:
    """Return the grid axis whose points are rows that are folded `rows` at a time, or why not."""
    if kernel.serial or kernel.local_buffers or not kernel.grid or lanes == 1 or rows == 1:
        return NO_ROWS
    first, *rest = kernel.passes
    if not first.reductions or first.stores or first.is_running or not rest:
        return NO_ROWS
    if any(item.axes or item.reductions for item in rest):
        return "a pass after the fold loops over the rows again"
    truths = any(value.dtype is PRED for fold in first.reductions for value in fold.inputs)
    if truths or not all(map(starts_from_identity, first.reductions)):
        return "a fold does not start from its identity"
    axis = kernel.grid[-1]
    length = dim.product(item.extent for item in first.axes)
    if not isinstance(length, int) or not isinstance(axis.extent, int):
        return "rows have symbolic sizes"
    if length > LONGEST_ROW:
        return f"rows have more than {LONGEST_ROW} elements"
    if axis.extent < LEAST_BLOCKS * rows:
        return f"fewer than {LEAST_BLOCKS} blocks"
    ends = tuple(value for item in rest for value in item.exprs)
    is_much = axis.extent * length >= LEAST_ELEMENTS or any(map(is_expensive, walk(ends)))
    return axis if is_much else f"fewer than {LEAST_ELEMENTS} elements, and cheap ends"
