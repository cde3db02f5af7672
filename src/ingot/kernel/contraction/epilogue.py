# SPDX-License-Identifier: Apache-2.0
"""How the epilogue of a contraction takes its sums: in how many lanes, row by row or in squares.

`cpu.emit.contraction.epilogue` emits it. Invariant: each element of the results is computed once.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim, floordiv, mod, round_up
from ingot.kernel.contraction.operands import oriented
from ingot.kernel.contraction.schedule import ContractionSchedule, schedule_contraction
from ingot.kernel.expr import is_expensive, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import ContractionKernel
from ingot.llvm.machine_model import Vectors
from ingot.support.records import record, replace

CALLED_VECTORS = 4
"""Vectors that a function is called for at a time: its steps wait for one another."""

MOST_WASTED = 0.125
"""Share of empty lanes up to which CALLED_VECTORS are worth it."""

STRIP_ROWS = 64
"""Rows of sums that are transposed together: they stay in the L1 cache."""


@record
class EpilogueSchedule:
    """How results are made of the sums.

    Attributes:
        swapped: see `ContractionSchedule`.
        n_block: elements from row to row of the sums.
        lanes: lanes along a row.
        is_even: whether the columns of every tile fill whole vectors.
        plane: rows of a plane, where the result has one for each column in turn and squares of
            results are transposed in registers; None: rows are stored as they are.
        side: rows and columns of a square.
        strip_rows: rows of squares that are stored down one column before the next.
    """

    swapped: bool
    n_block: int
    lanes: int
    is_even: bool
    plane: int | None
    side: int
    strip_rows: int = STRIP_ROWS


def schedule_epilogue(kernel: ContractionKernel, schedule: ContractionSchedule) -> EpilogueSchedule:
    """Return how the epilogue of a kernel takes sums that come as a schedule says."""
    given = oriented(kernel) if schedule.swapped else kernel
    lanes = _lanes(given, schedule)
    columns = given.n.extent
    is_whole = isinstance(columns, int) and columns % lanes == schedule.n_block % lanes == 0
    return EpilogueSchedule(
        schedule.swapped,
        schedule.n_block,
        lanes,
        lanes == 1 or is_whole,
        _plane(given),
        schedule.lanes,
    )


def driver_epilogue(kernel: ContractionKernel, vectors: Vectors, n_block: int) -> EpilogueSchedule:
    """Return how the epilogue of a kernel takes the sums of a driver, in rows of `n_block`."""
    own = schedule_contraction(kernel, vectors)
    return schedule_epilogue(kernel, replace(own, n_block=n_block))


def _lanes(kernel: ContractionKernel, schedule: ContractionSchedule) -> int:
    """Return two vectors' lanes where the register block has them, four where functions are called.

    A function is a subroutine, whose steps wait for one another (`kernel.analysis.lane_counts`).
    """
    if kernel.n.extent == 1:
        return 1
    wide = schedule.lanes * CALLED_VECTORS
    exprs = tuple(item for store in kernel.stores for item in store.exprs)
    if (
        schedule.n_block % wide == 0
        and _wasted(kernel.n.extent, wide) <= MOST_WASTED
        and any(map(is_expensive, walk(exprs)))
    ):
        return wide
    return schedule.lanes * (2 if schedule.columns > schedule.lanes else 1)


def _wasted(extent: int | Dim, lanes: int) -> float:
    """Return the share of the lanes along a row that hold nothing; none if it is not known."""
    if not isinstance(extent, int):
        return 0
    return 1 - extent / (round_up(extent, lanes))


def _plane(kernel: ContractionKernel) -> int | None:
    """Return the rows of a plane, if the one result has a plane of them for each column in turn.

    None otherwise: then columns lie side by side, or their rows do not.
    """
    columns = kernel.n.extent
    if len(kernel.stores) != 1 or not isinstance(columns, int) or columns == 1:
        return None
    (store,) = kernel.stores
    plane = coefficient(store.index, kernel.n.name)
    if not store.is_simple or not isinstance(plane, int) or plane < 2:
        return None
    row, column = Dim.symbol(kernel.m.name), Dim.symbol(kernel.n.name)
    image = floordiv(row, plane) * (columns * plane)
    whole = store.index == row + column * plane and kernel.m.extent == plane
    is_moved = store.index == image + mod(row, plane) + column * plane
    return plane if whole or is_moved else None
