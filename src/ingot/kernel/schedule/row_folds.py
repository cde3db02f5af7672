# SPDX-License-Identifier: Apache-2.0
"""Folds of many rows: joined, one for each lane of a register; streamed; or transposed.

`rows_together`: each row is folded along itself in lanes. Joining the lanes of one row takes a
chain of steps on half as many lanes each time. Joining the lanes of many rows at once, whole
registers of halves of rows, takes as many steps for all rows together, and the passes after the
fold get a vector.

`streamed_rows`: a unit of a column reduction keeps sums in registers and walks down the rows: it
reads a short piece of each, and the next piece is far away in memory. For an array that is in no
near cache that is slow, as memory delivers long runs faster. So a few rows are folded into all
columns, whose sums wait in the part's scratch, before the next rows are read
(`cpu.emit.loop.split`). Without it sums of columns take 1.2 to 2.2 times as long, of 25088x768
numbers 4.8 times, and two of them in one kernel 1.15 to 1.9 times; 100 rows of 16384 squares take
0.8 of the time (AVX2, one thread, 2026-11-28).

`transposed_rows`: a row of five, folded along itself, leaves most lanes empty; with one lane for
each row, every load of a column is a gather. Instead as many rows as a register has lanes are read
whole, in vectors of 8 or 16 elements, and transposed: columns are vectors of rows, folded one after
the other. `tiles` does the same for transposes.

`cpu.emit.loop.rows` emits rows that are joined or transposed.

Invariants: lanes are joined in the order in which those of a single row would be; each column's
elements are folded in the order of the rows, each transposed row's in its own order; nothing is
read outside of the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from ingot.hlo import dim
from ingot.hlo.dim import Dim, round_up
from ingot.hlo.dtype import PRED
from ingot.kernel.analysis.lane_counts import LANE_BITS, LONG_ROW, starts_from_identity
from ingot.kernel.expr import Expr, is_expensive, loads_of, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.schedule.loop_schedule import (
    Constraints,
    LaneBlocks,
    LoopSchedule,
    LoopStrategy,
    Sizes,
)
from ingot.llvm.machine_model import L1_WAYS, L2_BYTES, Vectors
from ingot.support.records import record, replace

LONGEST_ROW = 512
"""Elements of a row beside which joining its lanes is little work."""

LEAST_ELEMENTS = 1 << 15
"""Fewer elements are folded before the longer code is compiled, unless rows end in expensive ops:
one by one those of 1000 rows of 28 took 1.8 to 4.9 times as long (AVX-512, one thread,
2026-11-28)."""

LEAST_BLOCKS = 4
"""Blocks of rows at least: parts of one are wasted."""

NO_ROWS = "it does not fold rows in lanes"


@record
class JoinedRows(LaneBlocks):
    """Rows are folded along themselves; then the lanes of a block of rows are joined at once.

    Attributes:
        axis: the grid axis whose points are rows (`kernel.schedule.row_folds`).
    """

    name = "joined rows"
    has_whole_blocks = True

    axis: Axis

    @property
    def own_blocks(self) -> tuple[Axis, ...]:
        """As in `LoopStrategy`."""
        return (self.axis,)

    def words(self) -> Sequence[str]:
        """As in `LoopStrategy`."""
        return ["rows"]

    def generalized(self, sizes: Sizes, part_lanes: int) -> Self:
        """As in `LoopStrategy`."""
        return replace(self, axis=sizes.axis_of(self.axis), ahead=sizes.ahead(self.ahead))

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        axis, is_along = self.axis, schedule.vector_axis is None
        yield is_along, "joined: lanes run along an axis of the grid, not along rows"
        yield axis in kernel.grid, f"joined: {axis.name} is no axis of the grid"
        yield bool(kernel.passes[0].reductions), "joined: nothing is folded"


@record
class TransposedRows(LoopStrategy):
    """Short rows are read whole and transposed in registers, to be folded in lanes of rows.

    Attributes:
        lanes: rows of a block (`kernel.schedule.row_folds`).
        width: elements that are read of each.
        loads: the loads that are transposed.
    """

    name = "transposed rows"

    lanes: int
    width: int
    loads: tuple[Expr, ...]

    @property
    def early_loads(self) -> Iterable[Expr]:
        """As in `LoopStrategy`."""
        return self.loads

    def words(self) -> Sequence[str]:
        """As in `LoopStrategy`."""
        return [f"transposed{self.width}"]

    def generalized(self, sizes: Sizes, part_lanes: int) -> Self:
        """As in `LoopStrategy`."""
        return replace(self, loads=sizes.exprs(self.loads))

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        is_last = kernel.grid[-1:] == (schedule.vector_axis,)
        yield is_last, "transposed: rows are not along the last axis"
        has_lanes = set(schedule.lanes) <= {self.lanes}
        yield has_lanes, "transposed: lanes are not the rows of a block"
        extents = [axis.extent for item in kernel.passes for axis in item.axes]
        fits = all(isinstance(each, int) and each <= self.width for each in extents)
        yield fits, "transposed: a row is longer than what is read of it"


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


STREAMED_ROWS = L1_WAYS
"""Rows that are read at once: the lines of a set of the L1 cache."""

LEAST_BYTES = L2_BYTES // 2
"""Smaller arrays stay in the L2 cache."""

LEAST_ROW_BYTES = 2048
"""Of shorter rows a unit's pieces are near each other as it is."""

MOST_BYTES = L2_BYTES // 4
"""Bytes of the sums at most: they stay in the L2 cache beside the rows."""


def streamed_rows(kernel: LoopKernel, axis: Axis | None, lanes: int) -> int:
    """Return how many rows are folded into all columns before the next ones, 0 for all.

    `axis` is the columns', with lanes along it.
    """
    first = kernel.passes[0]
    if axis is None or kernel.grid != (axis,) or lanes == 1 or len(first.axes) != 1:
        return 0
    held = sum(max(4, each.dtype.bits // 8) for fold in first.reductions for each in fold.inputs)
    if not held or not isinstance(axis.extent, int) or axis.extent * held > MOST_BYTES:
        return 0
    if axis.extent <= lanes:  # rows are read from end to end as they are
        return 0
    nodes = walk(first.exprs)
    if any(map(is_expensive, nodes)):
        return 0
    rows = first.axes[0]
    arrays = [node for node in nodes if node.op == "load" and _is_matrix(node, axis, rows)]
    row_bytes = axis.extent * sum(node.dtype.bits // 8 for node in arrays)
    total = row_bytes * rows.extent
    is_large = isinstance(total, Dim) or total >= LEAST_BYTES
    return STREAMED_ROWS if row_bytes >= LEAST_ROW_BYTES and is_large else 0


def _is_matrix(load: Expr, columns: Axis, rows: Axis) -> bool:
    """Whether a load reads rows whose elements lie side by side."""
    if load.args:
        return False
    step = coefficient(load.payload.index, rows.name)
    return coefficient(load.payload.index, columns.name) == 1 and step not in (0, 1, None)


WIDTHS = (8, 16)
"""Elements read of each row: the first number, or a multiple of the second."""

LEAST_ROW, LONGEST_SHORT_ROW, LONGEST_WIDE_ROW = 3, 8, 16
"""Rows that are transposed: of longer ones folds of one op are as quick along themselves. Of folds
that find an index longer ones are, up to where lanes find one each: f32 of 17, 50 and 127 elements
took 0.77, 0.61 and 0.62 of the time, s8 of 60 0.32, s32 of 20 0.53, but f64 of 20 1.2, of 100 1.0
(AMD EPYC with AVX-512, one thread, 2026-11-28)."""

LEAST_TRANSPOSED = 1 << 14
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
    if rows * length < LEAST_TRANSPOSED:
        return f"fewer than {LEAST_TRANSPOSED} elements"
    if any(map(is_expensive, walk(first.exprs))):
        return "expensive functions take longer than the loads"
    loads = _row_loads(first, kernel.grid[-1])
    widest = _widest(first, loads, kernel.grid[-1], length)
    if not widest:
        return f"it does not read one or {MOST_LOADS} arrays of dense rows"
    longest = LONGEST_WIDE_ROW if widest > LANE_BITS else LONG_ROW - 1
    if all(map(starts_from_identity, first.reductions)):
        longest = LONGEST_SHORT_ROW
    if not LEAST_ROW <= length <= longest:
        return f"rows do not have {LEAST_ROW} to {longest} elements"
    width = WIDTHS[0] if length <= WIDTHS[0] else round_up(length, WIDTHS[1])
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
