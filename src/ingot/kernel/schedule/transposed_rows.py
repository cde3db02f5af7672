# SPDX-License-Identifier: Apache-2.0
"""Short rows, one for each lane of a fold: whole rows are read and transposed in registers.

A row of five, folded along itself, leaves most lanes empty; with one lane for each row, every load
of a column is a gather. Instead as many rows as a register has lanes are read whole, in vectors of
8 or 16 elements, and transposed: columns are vectors of rows, folded one after the other. `tiles`
does the same for transposes; `cpu.emit.loop.rows` emits it.

Invariant: every row's elements are folded in order; nothing is read outside of the array.
"""

from __future__ import annotations

from ingot.kernel.expr import Expr, is_expensive, loads_of, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.schedule.lane_folds import LONG_ROW, starts_from_identity
from ingot.kernel.schedule.loop_schedule import TransposedRows
from ingot.kernel.schedule.tiles import LANE_BITS
from ingot.llvm.machine_model import Vectors

WIDTHS = (8, 16)
"""Elements read of each row: the first number, or a multiple of the second."""

LEAST_ROW, LONGEST_ROW, LONGEST_WIDE_ROW = 3, 8, 16
"""Rows that are transposed: of longer ones folds of one op are as quick along themselves. Of folds
that find an index longer ones are, up to where lanes find one each: f32 of 17, 50 and 127 elements
took 0.77, 0.61 and 0.62 of the time, s8 of 60 0.32, s32 of 20 0.53, but f64 of 20 1.2, of 100 1.0
(AMD EPYC with AVX-512, one thread, 2026-11-28)."""

LEAST_ELEMENTS = 1 << 14
"""Fewer elements are folded before the longer code is compiled."""

MOST_LOADS = 2
"""Arrays that are folded at once."""

NO_FOLD = "it does not fold rows once"

UNIT_BLOCKS = 32
"""Blocks of lanes of a unit."""


def transposed_rows(kernel: LoopKernel, vectors: Vectors) -> TransposedRows | str:
    """Return how the rows of a kernel are transposed, or why they are not."""
    if vectors.bits < WIDTHS[0] * LANE_BITS:
        return "the target's registers are too short"
    if kernel.serial or kernel.local_buffers or not kernel.grid:
        return NO_FOLD
    first, *rest = kernel.passes
    is_fold = len(first.axes) == 1 and first.reductions and not first.stores
    if not is_fold or first.is_running or any(item.axes for item in rest):
        return NO_FOLD
    length, rows = first.axes[0].extent, kernel.grid[-1].extent
    if not isinstance(length, int) or not isinstance(rows, int):
        return "rows have symbolic sizes"
    if rows * length < LEAST_ELEMENTS:
        return f"fewer than {LEAST_ELEMENTS} elements"
    if any(map(is_expensive, walk(first.exprs))):
        return "expensive functions take longer than the loads"
    loads = _row_loads(first, kernel.grid[-1])
    widest = _widest(first, loads, kernel.grid[-1], length)
    if not widest:
        return f"it does not read one or {MOST_LOADS} arrays of dense rows"
    longest = LONGEST_WIDE_ROW if widest > LANE_BITS else LONG_ROW - 1
    if all(map(starts_from_identity, first.reductions)):
        longest = LONGEST_ROW
    if not LEAST_ROW <= length <= longest:
        return f"rows do not have {LEAST_ROW} to {longest} elements"
    width = WIDTHS[0] if length <= WIDTHS[0] else -(-length // WIDTHS[1]) * WIDTHS[1]
    return TransposedRows(vectors.bits // widest, width, loads)


def _row_loads(item: Pass, rows: Axis) -> tuple[Expr, ...]:
    """Return the loads of a pass that vary with its rows and along them: those are transposed."""
    along = item.axes[0].name
    return tuple(
        node
        for node in walk(item.exprs)
        if node.op == "load"
        and coefficient(node.payload.index, along) != 0
        and coefficient(node.payload.index, rows.name) != 0
    )


def _widest(item: Pass, loads: tuple[Expr, ...], rows: Axis, length: int) -> int:
    """Return the bits of the widest elements of a pass, 0 if its rows are not dense."""
    every = loads_of(item.exprs)
    are_rows = all(
        coefficient(load.payload.index, item.axes[0].name) == 1
        and coefficient(load.payload.index, rows.name) == length
        for load in loads
    )
    if not are_rows or any(load.args for load in every) or len(loads) > MOST_LOADS:
        return 0
    elements = [value.dtype for fold in item.reductions for value in fold.inputs]
    elements += [load.dtype for load in every]
    is_real = loads and not any(element.is_complex for element in elements)
    return max(element.bits if element.bits >= 8 else 8 for element in elements) if is_real else 0
