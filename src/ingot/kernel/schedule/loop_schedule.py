# SPDX-License-Identifier: Apache-2.0
"""The schedule of a loop kernel: `decide` makes it, the emitters spell it out.

A schedule says how the work is divided into units and how many lanes each pass has. Its `strategy`
describes the special loops of a unit. Each strategy is a record with its own numbers, a subclass of
`LoopStrategy` in the file that decides them; it says what is special about it to the rest of the
compiler. Its emitter is in `cpu.emit.loop`. A kernel has one strategy.

Invariant: plain data; equal schedules of equal kernels are equal code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import ClassVar, Protocol, Self

from ingot.hlo.dim import Dim
from ingot.kernel.analysis.gathers import NOTHING_AHEAD, GathersAhead
from ingot.kernel.expr import Expr
from ingot.kernel.ir import Axis, LoopKernel
from ingot.support.records import record, replace

INDEX_BITS = (32, 64)
"""Bits of integers that hold indices."""

Constraints = Iterable[tuple[bool, str]]
"""Whether each constraint holds; its label, and what is wrong where it does not."""

UnitAxes = tuple[tuple[Axis, ...], tuple[Axis, ...]]
"""The axes that units are made of, and those of them that a unit has a block of."""


class Sizes(Protocol):
    """What a strategy's numbers become in a generic kernel (`kernel.generic.generalize`)."""

    def axis_of(self, axis: Axis) -> Axis:
        """Return an axis of the grid in the generic kernel."""
        ...

    def multiple(self, name: str, value: int | Dim, factor: int) -> int | Dim:
        """Return a number as a size, times `factor` where that divides it."""
        ...

    def exprs(self, roots: tuple[Expr, ...], /) -> tuple[Expr, ...]:
        """Return loads with sizes in their indices."""
        ...

    def ahead(self, given: GathersAhead) -> GathersAhead:
        """Return gathers with sizes in their indices."""
        ...


class LoopStrategy:
    """What is special about the loops of a unit.

    Attributes:
        name: in texts and reasons.
        is_generic: whether one function serves kernels that differ in their numbers.
        has_whole_blocks: whether code depends on the length of a block, as it fills registers.
    """

    __slots__ = ()

    name: ClassVar[str]
    is_generic: ClassVar[bool] = True
    has_whole_blocks: ClassVar[bool] = False

    @property
    def kernels(self) -> Iterable[LoopKernel]:
        """The kernels that it made of the scheduled one."""
        return ()

    @property
    def early_loads(self) -> Iterable[Expr]:
        """The loads that are not read at the point where they are used."""
        return ()

    @property
    def own_blocks(self) -> tuple[Axis, ...]:
        """The axes that a unit has a block of, and lanes, beside the vector axis."""
        return ()

    def block_along(self, axis: Axis, block: int | Dim) -> int | Dim:
        """Return how many positions of an axis a unit has; `block`: those of the schedule."""
        return block

    def unit_axes(self, grid: tuple[Axis, ...], schedule: LoopSchedule) -> UnitAxes:
        """Return the axes of units, which count those that are cut into blocks last."""
        return grid, schedule.blocked_axes[::-1]

    def words(self) -> Sequence[str]:
        """Return what code depends on, but for sizes and axes: parts of the code's name."""
        return ()

    def generalized(self, sizes: Sizes, part_lanes: int) -> Self:
        """Return it with sizes in place of numbers; `part_lanes`: along the first pass's axis."""
        return self

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """Return what must hold for its numbers (`kernel.schedule.verifier`)."""
        return ()


@record(kw_only=True)
class LaneBlocks(LoopStrategy):
    """What strategies have whose loops run over blocks of lanes, of the grid or of passes.

    Attributes:
        ahead: the gathers whose indices are computed ahead.
        unrolls_passes: whether passes have a copy of their point for each position of their axes:
            library reductions over small windows.
    """

    ahead: GathersAhead = NOTHING_AHEAD
    unrolls_passes: bool = False

    @property
    def early_loads(self) -> Iterable[Expr]:
        """As in `LoopStrategy`."""
        return self.ahead.loads

    def generalized(self, sizes: Sizes, part_lanes: int) -> Self:
        """As in `LoopStrategy`."""
        return replace(self, ahead=sizes.ahead(self.ahead))


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

    @property
    def early_loads(self) -> Iterable[Expr]:
        """As in `LoopStrategy`."""
        return (*self.fetched, *self.ahead.loads)

    def words(self) -> Sequence[str]:
        """As in `LoopStrategy`."""
        words = ["copies"] * self.copies + ["fetched"] * bool(self.fetched)
        return words + [f"peeled{number}" for number, item in enumerate(self.peeled) if item]

    def generalized(self, sizes: Sizes, part_lanes: int) -> Self:
        """As in `LoopStrategy`."""
        ahead = sizes.ahead(self.ahead)
        return replace(self, ahead=ahead, fetched=sizes.exprs(self.fetched))

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        in_grid = schedule.vector_axis is not None
        stores = [kernel.stores] if in_grid else [item.stores for item in kernel.passes]
        is_for_each = len(self.peeled) in (0, len(stores))
        yield is_for_each, f"lanes: {len(self.peeled)} passes of {len(stores)} are peeled or not"
        do_store = all(made or not item for item, made in zip(self.peeled, stores, strict=False))
        yield do_store, "lanes: a pass is peeled that stores nothing"


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
    strategy: LoopStrategy = InLanes()
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
    def kernels(self) -> Iterable[LoopKernel]:
        """The kernels that the strategy made of the scheduled one: pieces, the fold of parts."""
        return self.strategy.kernels

    def block_along(self, axis: Axis) -> int | Dim:
        """Return how many positions of an axis that is cut into blocks a unit has."""
        return self.strategy.block_along(axis, self.block)

    @property
    def blocked_axes(self) -> tuple[Axis, ...]:
        """The axes whose positions are dealt out in blocks, and by lanes."""
        own = () if self.vector_axis is None else (self.vector_axis,)
        return own + self.strategy.own_blocks

    def unit_axes(self, kernel: LoopKernel) -> UnitAxes:
        """Return the axes of units, which count those that are cut into blocks last."""
        return self.strategy.unit_axes(kernel.grid, self)
