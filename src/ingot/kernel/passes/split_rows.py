# SPDX-License-Identifier: Apache-2.0
"""Rows whose lanes would be gathered are split into runs that are read in one piece.

Heads of 17 beside each other are read at `2176*floordiv(@1,17) + mod(@1,17)`: vectors hold no
whole number of them, so lanes along the row would be gathered. As an axis of heads and one of 17
elements they are short rows in a nest of loops (`analysis.row_nests`). Where a run goes on in the
next row, and only a few elements repeat with each, rows are joined: `mod(@1,3)` in rows of nine.

Invariant: the grid has the same points in the same order.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim, symbols_of
from ingot.kernel.analysis.lane_offsets import is_near, lane_offsets
from ingot.kernel.analysis.row_nests import MOST_PICKED, row_nest
from ingot.kernel.expr import walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.passes.collapse import collapse, indices_of, walks_as_one
from ingot.kernel.passes.short_rows import joined_rows, lanes_of_rows
from ingot.kernel.passes.split_axes import split_into_rows

LANES, REGISTER = 16, 8
"""Lanes whose offsets must be known, and lanes of a register."""

LONGEST_JOINED = 32
"""Elements of joined rows at most."""

FEW = 8
"""Elements from the first to the last of those that repeat with each row, at most."""


def split_rows(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with its rows split into runs, where lanes along them would be gathered.

    Where rows are short without that, the axes around them are split.
    """
    if not kernel.grid or kernel.serial or kernel.has_loops:
        return kernel
    if _has_known_offsets(kernel, kernel.grid[-1]):
        return kernel
    made = split_into_rows(kernel)
    if made is kernel or _refuses(made):
        return kernel
    while (longer := _joined(made)) is not None:
        made = longer
    return collapse(made)


def _refuses(kernel: LoopKernel) -> bool:
    return isinstance(row_nest(kernel, kernel.grid[-1], LANES), str)


def _has_known_offsets(kernel: LoopKernel, axis: Axis) -> bool:
    """Whether lanes along an axis, which fills them, read elements at known distances."""
    lanes = lanes_of_rows(kernel, axis, LANES, REGISTER)
    if isinstance(axis.extent, int) and axis.extent < lanes:
        return False
    for load in walk(kernel.exprs):
        if load.op != "load" or axis.name not in symbols_of((load.payload.index,)):
            continue
        offsets = lane_offsets(load.payload.index, axis.name, lanes, lanes)
        if offsets is None or not is_near(offsets, MOST_PICKED):
            return False
    return True


def _joined(kernel: LoopKernel) -> LoopKernel | None:
    """Return the kernel with its last two axes as one where runs go on from row to row, or None."""
    if len(kernel.grid) < 3:
        return None
    *_, outer, inner = kernel.grid
    if not isinstance(outer.extent, int) or not isinstance(inner.extent, int):
        return None
    if outer.extent * inner.extent > LONGEST_JOINED:
        return None
    indices = indices_of(kernel)
    if not all(walks_as_one(each, outer, inner) or _is_few(each, outer, inner) for each in indices):
        return None
    made = joined_rows(kernel)
    return None if _refuses(made) else made


def _is_few(where: int | Dim, outer: Axis, inner: Axis) -> bool:
    """Whether an index goes to few elements, which are near each other, along two axes."""
    reach = 1
    for axis in (outer, inner):
        step = coefficient(where, axis.name)
        if not isinstance(step, int) or not isinstance(axis.extent, int):
            return False
        reach += abs(step) * (axis.extent - 1)
    return reach <= FEW
