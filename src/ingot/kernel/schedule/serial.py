# SPDX-License-Identifier: Apache-2.0
"""Updates in order: which of them may be lanes, or have their indices computed ahead.

`schedule` asks about the kernels of scatters (`update`). Two updates of one element must not run at
once, or one would be lost. So single elements and short rows are combined one by one, from indices
that were computed together; the elements of a row are lanes.

Invariant: every element's updates happen in the order of the grid.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.kernel.analysis.gathers import bits_of_index
from ingot.kernel.expr import walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Store
from ingot.kernel.schedule.loop_schedule import (
    INDEX_BITS,
    Constraints,
    LoopSchedule,
    LoopStrategy,
    UnitAxes,
)
from ingot.support.records import record

LEAST_STAGED, MOST_STAGED = 8, 32
"""Updates that are computed together, of elements or rows: enough for vectors to gain, few enough
for the stack."""


UNROLL, UNROLL_ROWS = 8, 4
"""Updates of single elements, and of rows, in a round of a loop without branches."""

UNROLL_HELD = 4
"""Updates in a round of the loop that holds an element while the index stays: they branch, and
depend on each other."""

MOSTLY = 3, 4
"""Share of a block's indices that must equal the one before for elements to be held in registers: a
mispredicted branch costs as much as a few round trips through memory."""


@record
class StagedUpdates(LoopStrategy):
    """Updates in order, whose indices and values are computed in lanes before they are made.

    Attributes:
        count: updates that are computed together.
        row: the grid axis that the lanes of each update run along; None: updates of one element.
        recomputes: whether each update computes its index and value again, and only whether it
            counts comes from the lanes.
        index_bits: bits of the integers that hold the indices.
    """

    name = "staged updates"

    count: int
    row: Axis | None
    recomputes: bool
    index_bits: int

    @property
    def unroll(self) -> int:
        """Updates of a round of the loop that makes them one by one."""
        return UNROLL if self.row is None else UNROLL_ROWS

    def unit_axes(self, grid: tuple[Axis, ...], schedule: LoopSchedule) -> UnitAxes:
        """As in `LoopStrategy`."""
        return tuple(axis for axis in grid if axis != self.row), schedule.blocked_axes[::-1]

    def words(self) -> Sequence[str]:
        """As in `LoopStrategy`."""
        return [f"staged{self.count}", *["again"] * self.recomputes, f"indices{self.index_bits}"]

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        count, rounds = self.count, (self.unroll, UNROLL_HELD)
        yield kernel.serial, "staged: updates are not made in order"
        has_integers = count >= 1 and self.index_bits in INDEX_BITS
        yield has_integers, "staged: no updates, or no integers for their indices"
        is_whole = all(count % each == 0 for each in rounds)
        yield is_whole, "staged: updates are not whole rounds of a loop"
        yield self.row in (None, kernel.grid[-1]), "staged: rows are not along the last axis"


def lanes_may_meet(kernel: LoopKernel, axis: Axis) -> bool:
    """Whether two lanes may combine into one element, where one of both would be lost."""
    reads_back = kernel.serial and _reads_back(kernel)
    return any(
        (reads_back or store.combiner is not None) and coefficient(store.index, axis.name) != 1
        for store in kernel.stores
    )


def staged_lanes(kernel: LoopKernel, lanes: int) -> int:
    """Return how many updates may be computed before they are made: they read no result."""
    if _only_store(kernel) is None or lanes < LEAST_STAGED:
        return 0
    return min(lanes, MOST_STAGED)


def staged_rows(kernel: LoopKernel, axis: Axis, lanes: int) -> int:
    """Return how many rows along `axis`, a vector each, have their indices computed together."""
    store = _only_store(kernel)
    is_vector = isinstance(axis.extent, int) and 1 < axis.extent <= lanes
    if not kernel.serial or store is None or not is_vector or len(kernel.grid) < 2:
        return 0
    *_, rows, last = kernel.grid
    is_short = isinstance(rows.extent, int) and rows.extent < MOST_STAGED
    where = (*store.values, *(() if store.mask is None else (store.mask,)))
    varies = any(axis.name in item.axes for item in where)
    is_dense = last is axis and not varies and coefficient(store.index, axis.name) == 1
    return MOST_STAGED if is_dense and not is_short else 0


def staged_updates(
    kernel: LoopKernel, count: int, row: Axis | None, *, recomputes: bool
) -> StagedUpdates:
    """Return how the updates of a kernel are staged.

    Args:
        kernel: the kernel.
        count: updates that are computed together.
        row: the axis that the lanes of each update run along; None: updates of one element.
        recomputes: whether each update computes its index and value again.
    """
    store = _only_store(kernel)
    assert store is not None, "a staged kernel has one store"
    bits = bits_of_index(store.index, kernel.buffers[store.buffer], kernel.grid)
    return StagedUpdates(count, row, recomputes, bits)


def _only_store(kernel: LoopKernel) -> Store | None:
    """Return the store of a kernel that does nothing but combine, and reads no result."""
    stores = kernel.stores
    is_simple = len(kernel.passes) == len(stores) == 1 and not kernel.passes[0].axes
    if not is_simple or _reads_back(kernel) or stores[0].combiner is None:
        return None
    return stores[0]


def _reads_back(kernel: LoopKernel) -> bool:
    results = {number for number, buffer in enumerate(kernel.buffers) if buffer.is_output}
    return any(node.op == "load" and node.payload.buffer in results for node in walk(kernel.exprs))
