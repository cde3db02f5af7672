# SPDX-License-Identifier: Apache-2.0
"""Split reductions: which large reductions of few units are cut into parts, and how long those are.

The cut depends on sizes alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div, round_up
from ingot.kernel.analysis.lane_counts import folds_lanes
from ingot.kernel.analysis.work import LARGE_SHARE, pass_work, share_of, weight
from ingot.kernel.expr import Access, is_expensive, make, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, Buffer, LoopKernel, Pass
from ingot.kernel.schedule.loop_schedule import (
    Constraints,
    LaneBlocks,
    LoopSchedule,
    Sizes,
)
from ingot.llvm.machine_model import ENOUGH_UNITS, LINE_BYTES
from ingot.support.records import record, replace

MAX_SPLITS = 256
"""Parts at most."""

NO_REDUCTION = "it is not one reduction, with what follows it"
TOO_SMALL = "there is too little work to share out"

MOST_RUNS, MOST_ARRAYS = 4, 3
"""Runs that a part is read in at most, and arrays that are read so. One run of each array keeps the
prefetchers of some CPUs from more than 15 of 27 GB/s. Against it maxima, norms, sums of f16 and
bytes took 0.5 to 0.6 of the time, of what the L3 cache holds 0.9, dot products 0.82, `x + y * z`
0.89; sums in the L2 cache as long (AVX2, one thread, 2026-11-29)."""

WHOLE_LINES = LINE_BYTES
"""Lengths of parts of a single axis are multiples: whole lines of elements of every type."""


@record
class SplitReduction(LaneBlocks):
    """A reduction of few units is cut along the outermost axis of the first pass.

    Each part is folded into scratch memory; then the parts are combined in order.

    Attributes:
        length: positions of a part along the axis.
        count: number of parts.
        rows: how many positions all units of a part fold before the next ones; 0: each unit folds
            the whole part.
        runs: runs of positions that a part is cut into, which are read in turn, block by block;
            each has lanes of its own (`kernel.schedule.splits`).
        fold: the kernel that combines the parts, if all reductions by the same fold share it
            (`splits.plain_fold`); None: the kernel at hand has code of its own for that.
    """

    name = "split reduction"

    length: int | Dim
    count: int | Dim
    rows: int = 0
    runs: int = 1
    fold: LoopKernel | None = None

    @property
    def kernels(self) -> Iterable[LoopKernel]:
        """As in `LoopStrategy`."""
        return () if self.fold is None else (self.fold,)

    def words(self) -> Sequence[str]:
        """As in `LoopStrategy`."""
        return [f"split{self.rows or ''}", *[f"runs{self.runs}"] * (self.runs > 1)]

    def generalized(self, sizes: Sizes, part_lanes: int) -> Self:
        """As in `LoopStrategy`."""
        length = sizes.multiple("part_length", self.length, part_lanes)
        count, ahead = sizes.multiple("parts", self.count, 1), sizes.ahead(self.ahead)
        return replace(self, length=length, count=count, ahead=ahead, fold=None)

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        first, *rest = kernel.passes
        is_one = first.reductions and first.axes and not any(item.axes for item in rest)
        yield bool(is_one), "split: it is not one reduction, with what follows it"
        length, extent, rows = self.length, first.axes[0].extent, self.rows
        parts = dim.maximum(dim.ceil_div(extent, length), 1)
        yield parts == self.count, f"split: {self.count} parts of {length} are not {extent}"
        is_whole = not rows or not isinstance(length, int) or length % rows == 0
        yield is_whole, "split: a part is not whole rows"
        yield not rows or self.runs <= 1, "split: rows and runs"
        yield self.runs >= 1, "split: no runs"


def split_of(kernel: LoopKernel, units: int | Dim, points: int, rows: int) -> SplitReduction | str:
    """Cut a reduction when there are too few units, of `points` grid points each, to share it out.

    Only kernels whose first pass is the only one with axes: then the parts are combined and the
    rest runs once. `rows`: how many are read from end to end before the next ones, if not 0.
    Returns why not, where it is not cut.
    """
    if kernel.serial or not kernel.passes:
        return NO_REDUCTION
    if not isinstance(units, int):
        return "the number of units is symbolic"
    if units >= ENOUGH_UNITS and not rows:
        return f"{ENOUGH_UNITS} units or more are shared out as they are"
    first, *rest = kernel.passes
    if not first.axes or not first.reductions or first.stores or any(i.axes for i in rest):
        return NO_REDUCTION
    if not folds_lanes(first):
        return "its fold keeps an order"
    outer = first.axes[0].extent
    if not isinstance(outer, int):
        return _of_symbolic_length(outer, first, units * points, rows)
    work = pass_work(first) * points * units
    if not isinstance(work, int):
        return "the work of a step is symbolic"
    return _of_known_length(outer, first, work, rows)


def _of_known_length(outer: int, first: Pass, work: int, rows: int) -> SplitReduction | str:
    """Cut an outer axis by the `work` of all units."""
    if work < LARGE_SHARE or outer < 2:
        return TOO_SMALL
    step_work = max(1, work // outer)
    length = max(1, share_of(work) // step_work, ceil_div(outer, MAX_SPLITS))
    if rows:
        length = round_up(length, rows)
    elif len(first.axes) == 1:
        length = round_up(length, WHOLE_LINES)
    if length >= outer:
        return TOO_SMALL
    return SplitReduction(length, ceil_div(outer, length), rows)


def _of_symbolic_length(outer: Dim, first: Pass, points: int, rows: int) -> SplitReduction:
    """Cut an outer axis by the work of a step at all points."""
    inner = dim.product(axis.extent for axis in first.axes[1:])
    step_work = dim.maximum(inner * weight(first.exprs) * points, 1)
    by_work = dim.maximum(dim.floordiv(LARGE_SHARE, step_work), 1)
    length = dim.maximum(by_work, ceil_div(outer, MAX_SPLITS))
    if len(first.axes) == 1:
        length = round_up(length, WHOLE_LINES)
    # Nothing to reduce is still one part: the last phase reads the first part's value.
    return SplitReduction(length, dim.maximum(ceil_div(outer, length), 1), rows)


def runs_of(first: Pass, lanes: int, register: int) -> int:
    """Return how many runs a part is read in, one block of each in turn.

    One run of a long array keeps the CPU's prefetchers waiting; several runs in pages of their own
    do not. `lanes` are those of the fold, `register` how many a register holds: each run has some.
    """
    nodes = walk(first.exprs)
    if register == 1 or len(first.axes) != 1 or any(map(is_expensive, nodes)):
        return 1
    loads = [node for node in nodes if node.op == "load"]
    steps = [coefficient(node.payload.index, first.axes[0].name) for node in loads]
    if any(node.args for node in loads) or any(step not in (0, 1) for step in steps):
        return 1
    arrays = steps.count(1)
    return min(MOST_RUNS, max(1, lanes // register)) if 0 < arrays <= MOST_ARRAYS else 1


def plain_fold(kernel: LoopKernel) -> LoopKernel | None:
    """Return the kernel that folds the parts of a reduction to one number, stored as it is.

    It stands for every such reduction by that fold: it has neither the folded values nor a length.
    Lanes run along the pass's axis. Returns None if another kernel has to finish this one.
    """
    if kernel.grid or kernel.symbols or len(kernel.passes) != 2:
        return None
    first, last = kernel.passes
    if len(first.reductions) != 1 or last.axes or last.reductions or len(last.stores) != 1:
        return None
    (fold,), (store,) = first.reductions, last.stores
    is_stored = store.value.op == "reduced" and store.is_simple
    at_end = store.index == 0 and store.buffer == len(kernel.buffers) - 1
    if not (is_stored and at_end) or fold.combiner.opcode is None:
        return None
    if len(fold.inputs) != 1 or fold.inits[0].op != "constant":
        return None
    parts, axis = Dim.symbol("parts"), first.axes[0].name
    (value,) = fold.inputs
    anything = make("load", value.dtype, (), Access(0, Dim.symbol(axis)))
    return LoopKernel(
        (),
        (Pass((Axis(axis, parts),), (replace(fold, inputs=(anything,)),)), last),
        (*[Buffer(value.dtype, parts, False)] * store.buffer, kernel.buffers[-1]),
        parameters=("parts",),
    )
