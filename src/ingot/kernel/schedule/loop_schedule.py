# SPDX-License-Identifier: Apache-2.0
"""The schedule of a loop kernel: `decide` makes it, the emitters spell it out.

A schedule says how the work is divided into units and how many lanes each pass has. Its `strategy`
describes the special loops of a unit. Each strategy has a record with its own numbers, here or in
`analysis.row_nests`, a function that decides whether a kernel takes it (`decide`), and an emitter
(`cpu.emit.loop.kernel`). A kernel has one strategy.

Invariant: plain data; equal schedules of equal kernels are equal code.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from ingot.hlo.dim import Dim
from ingot.kernel.analysis.gathers import NOTHING_AHEAD, GathersAhead
from ingot.kernel.analysis.row_nests import RowNest
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.piece_loops import Band, PieceLoop
from ingot.kernel.schedule.pieces import Cut
from ingot.support.records import record

UNROLL, UNROLL_ROWS = 8, 4
"""Updates of single elements, and of rows, in a round of a loop without branches."""

UNROLL_HELD = 4
"""Updates in a round of the loop that holds an element while the index stays: they branch, and
depend on each other."""

MOSTLY = 3, 4
"""Share of a block's indices that must equal the one before for elements to be held in registers: a
mispredicted branch costs as much as a few round trips through memory."""


@record(kw_only=True)
class LaneBlocks:
    """What strategies have whose loops run over blocks of lanes, of the grid or of passes.

    Attributes:
        ahead: the gathers whose indices are computed ahead.
        unrolls_passes: whether passes have a copy of their point for each position of their axes:
            library reductions over small windows.
    """

    ahead: GathersAhead = NOTHING_AHEAD
    unrolls_passes: bool = False


@record
class InLanes(LaneBlocks):
    """Lanes run along the vector axis, or along each pass's last axis, as they lie.

    Attributes:
        copies: whether all that is done along the vector axis is to copy long runs
            (`piece_loops.is_copied`).
        fetched: loads of rows that are fetched some rows before they are read
            (`analysis.gathers.rows_fetched`).
        peeled: which passes begin their rows with a vector of as many lanes as are left of a cache
            line (`analysis.peeled_rows`); of lanes along the grid one entry for all passes.
    """

    name = "lanes"

    copies: bool = False
    fetched: tuple[Expr, ...] = ()
    peeled: tuple[bool, ...] = ()


@record
class Pieces(LaneBlocks):
    """Axes are cut where masks change, and each piece has loops of its own without them.

    Attributes:
        cuts: the axes and where they are cut (`kernel.schedule.pieces`), the vector axis last.
        bands: the kernels of the pieces (`kernel.schedule.piece_loops`).
    """

    name = "pieces"

    cuts: tuple[Cut, ...]
    bands: tuple[Band, ...]

    @property
    def loops(self) -> Iterator[PieceLoop]:
        """The loops of all pieces, band by band."""
        return (loop for band in self.bands for loop in band.loops)


@record
class SquareTiles:
    """Loads across the vector axis are read in square tiles, transposed in registers.

    Both axes are cut into blocks (`kernel.schedule.tiles`).

    Attributes:
        axis: the grid axis that makes square tiles with the vector axis.
        side: elements along both.
        rows: positions of a unit along `axis`; the schedule's block is of the vector axis.
        overlaps: whether the last tile along an axis begins sooner to be whole; what it computes
            a second time is read from buffers that the kernel does not write.
        loads: the loads that are transposed.
    """

    name = "square tiles"

    axis: Axis
    side: int
    rows: int
    overlaps: bool
    loads: tuple[Expr, ...]


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


@record
class StagedUpdates:
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


@record
class JoinedRows(LaneBlocks):
    """Rows are folded along themselves; then the lanes of a block of rows are joined at once.

    Attributes:
        axis: the grid axis whose points are rows (`kernel.schedule.row_folds`).
    """

    name = "joined rows"

    axis: Axis


@record
class GatheredRows(LaneBlocks):
    """Lanes run along short rows whose gather indices are computed ahead for a block of rows."""

    name = "gathered rows"


@record
class TransposedRows:
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


Strategy = (
    InLanes
    | Pieces
    | RowNest
    | SquareTiles
    | SplitReduction
    | StagedUpdates
    | JoinedRows
    | GatheredRows
    | TransposedRows
)
"""What is special about the loops of a kernel."""


class Effort(Enum):
    """How hard LLVM works on the code of a kernel.

    `MEMORY_BOUND` kernels wait for memory or for the C library: LLVM compiles them at level 0,
    which takes a third of the time, from code that is written for it. `LATENCY_BOUND` ones are many
    ops on few values: LLVM's quick register allocation is as good there as its slow one, if each
    value is computed near its use.
    """

    FULL = "full"
    MEMORY_BOUND = "memory"
    LATENCY_BOUND = "latency"


@record
class LoopSchedule:
    """How a loop kernel runs.

    Attributes:
        vector_axis: the grid axis that lanes run along, or None: each pass has its own.
        lanes: lanes per pass (all equal when there is a vector grid axis).
        block: positions of a unit along the axes that the strategy cuts into blocks.
        units: number of units.
        grain: units per chunk.
        chunks: number of chunks.
        strategy: the special loops of a unit.
        large_buffers: buffers that caches do not hold: lanes gathered from them are better read one
            by one.
        effort: how hard LLVM works on its code.
        masks_all_blocks: whether every block of lanes is masked, not only the last one, so that the
            body is emitted once.
    """

    vector_axis: Axis | None
    lanes: tuple[int, ...]
    block: int | Dim
    units: int | Dim
    grain: int | Dim
    chunks: int | Dim
    strategy: Strategy = InLanes()
    large_buffers: frozenset[int] = frozenset()
    effort: Effort = Effort.FULL
    masks_all_blocks: bool = False

    @property
    def ahead(self) -> GathersAhead:
        """As in `LaneBlocks`; none of strategies that have lanes of their own."""
        return self.strategy.ahead if isinstance(self.strategy, LaneBlocks) else NOTHING_AHEAD

    @property
    def unrolls_passes(self) -> bool:
        """As in `LaneBlocks`."""
        return isinstance(self.strategy, LaneBlocks) and self.strategy.unrolls_passes

    @property
    def kernels(self) -> Iterator[LoopKernel]:
        """The kernels that the strategy made of the scheduled one: pieces, the fold of parts."""
        if isinstance(self.strategy, Pieces):
            yield from (loop.kernel for loop in self.strategy.loops)
        elif isinstance(self.strategy, SplitReduction) and self.strategy.fold is not None:
            yield self.strategy.fold

    def block_along(self, axis: Axis) -> int | Dim:
        """Return how many positions of an axis that is cut into blocks a unit has."""
        if isinstance(self.strategy, SquareTiles) and axis == self.strategy.axis:
            return self.strategy.rows
        return self.block

    @property
    def blocked_axes(self) -> tuple[Axis, ...]:
        """The axes whose positions are dealt out in blocks, and by lanes."""
        own = () if self.vector_axis is None else (self.vector_axis,)
        if isinstance(self.strategy, SquareTiles | JoinedRows):
            return (*own, self.strategy.axis)
        return own


UnitAxes = tuple[tuple[Axis, ...], tuple[Axis, ...]]
"""The axes that units are made of, and those of them that a unit has a block of."""


def unit_axes(kernel: LoopKernel, schedule: LoopSchedule) -> UnitAxes:
    """Return the axes of units, which count those that are cut into blocks last, in this order."""
    strategy, grid = schedule.strategy, kernel.grid
    if isinstance(strategy, RowNest):
        inner = {*strategy.axes[1:], schedule.vector_axis}
        return tuple(axis for axis in grid if axis not in inner), strategy.axes[:1]
    if isinstance(strategy, GatheredRows):
        return grid[:-1], (grid[-2],)
    if isinstance(strategy, StagedUpdates) and strategy.row is not None:
        grid = tuple(axis for axis in grid if axis != strategy.row)
    return grid, schedule.blocked_axes[::-1]
