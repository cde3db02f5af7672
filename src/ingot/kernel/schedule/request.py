# SPDX-License-Identifier: Apache-2.0
"""A loop kernel that needs a schedule: the facts that strategies ask for, each computed once.

Stands between the questions of this folder and `decide`, which asks the strategies. Invariant:
answers depend on the kernel, its extents and the target's vectors alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.analysis.gathers import GathersAhead, gathers_ahead, lanes_loaded
from ingot.kernel.analysis.lane_counts import most_lanes, pass_lanes, widest_in_memory
from ingot.kernel.analysis.peeled_rows import peeled_passes
from ingot.kernel.analysis.vector_axis import grid_vector_axis, is_column_reduction
from ingot.kernel.analysis.work import (
    IN_ORDER,
    block_of,
    block_points,
    chunks_of,
    share,
    streams,
    unit_work,
)
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.passes.short_rows import lanes_of_rows
from ingot.kernel.schedule.loop_schedule import Effort
from ingot.kernel.schedule.serial import lanes_may_meet, staged_lanes, staged_rows
from ingot.llvm.machine_model import Vectors
from ingot.support.records import record, replace

Chunked = tuple[int | Dim, int | Dim, int | Dim, int | Dim]
"""Positions of a block, number of units, units per chunk, number of chunks."""


@record
class Units:
    """What a kernel's work is cut into.

    Attributes:
        block: positions of a unit along each axis that is in blocks.
        count: number of units.
        points: points of a unit.
    """

    block: int
    count: int | Dim
    points: int


@record
class GridLanes:
    """Lanes along an axis of the grid.

    Attributes:
        axis: which one.
        lanes: how many, of every pass.
        ahead: as in `LaneBlocks`.
        staged: updates that are computed together before they are made in order; 0: none.
        row: the axis that the lanes of each staged update run along; None: updates of one element.
        not_staged: why none are.
    """

    axis: Axis
    lanes: int
    ahead: GathersAhead
    staged: int = 0
    row: Axis | None = None
    not_staged: str = ""


@record
class PassLanes:
    """Lanes along the innermost axis of each pass, and `ahead` as in `LaneBlocks`."""

    lanes: tuple[int, ...]
    ahead: GathersAhead


class LoopRequest:
    """A loop kernel that wants a schedule.

    Attributes:
        kernel: the kernel to schedule.
        vectors: what the target's registers hold.
    """

    def __init__(self, kernel: LoopKernel, vectors: Vectors) -> None:
        """Ask for a schedule of `kernel`."""
        self.kernel = kernel
        self.vectors = vectors

    @cached_property
    def axis(self) -> Axis | None:
        """The grid axis that lanes run along, None where each pass has its own."""
        kernel = self.kernel
        return None if kernel.serial and kernel.grid == () else grid_vector_axis(kernel)

    @cached_property
    def streams(self) -> bool:
        """Whether the kernel is memory-bound."""
        return streams(self.kernel, self.axis)

    @cached_property
    def grid_lanes(self) -> GridLanes:
        """The lanes along the axis of the grid."""
        kernel, axis, vectors = self.kernel, self.axis, self.used_vectors
        assert axis is not None, "lanes run along an axis of the grid"
        lanes = most_lanes(kernel, vectors, axis.extent, is_column_reduction(kernel))
        lanes = lanes_of_rows(kernel, axis, lanes, vectors.lanes(widest_in_memory(kernel), 1))
        row, why = None, "it makes no updates that may meet"
        staged = staged_rows(kernel, axis, lanes)
        if staged:
            row, axis = axis, kernel.grid[-2]
        elif lanes_may_meet(kernel, axis):
            staged, lanes = staged_lanes(kernel, lanes), 1
            why = "its updates are few, read results or are more than one store"
        ahead = gathers_ahead(kernel, vectors, axis, (lanes,) * len(kernel.passes))
        return GridLanes(axis, lanes_loaded(ahead.bits, lanes), ahead, staged, row, why)

    @cached_property
    def peeled(self) -> tuple[bool, ...]:
        """As in `InLanes`."""
        kernel, axis = self.kernel, self.axis
        if axis is None:
            return peeled_passes(kernel, None, self.pass_lanes.lanes, self.vectors)
        if self.grid_lanes.ahead.bits or self.grid_lanes.staged:
            return ()
        return peeled_passes(kernel, axis, (self.grid_lanes.lanes,), self.vectors)

    @property
    def has_whole_registers(self) -> bool:
        """Whether the lanes along the grid's axis are a power of two above one."""
        lanes = self.grid_lanes.lanes
        return lanes > 1 and lanes.bit_count() == 1

    @cached_property
    def pass_lanes(self) -> PassLanes:
        """The lanes along the axes of passes.

        Folds take several registers, read in runs, even if they are memory-bound: each addition
        waits for the one before it. With one register, the sum of 16M took 1.3 times as long
        (AVX2: 1.6), the maximum 1.6, the norm 1.7, sums of 4096 rows 1.1 (1.6), `x + y * z` 1.0
        (Sapphire Rapids, one thread, 2026-11-30).
        """
        kernel = self.kernel
        lanes = tuple(pass_lanes(kernel, item, self.vectors) for item in kernel.passes)
        ahead = gathers_ahead(kernel, self.vectors, None, lanes)
        return PassLanes(tuple(lanes_loaded(ahead.bits, each) for each in lanes), ahead)

    @cached_property
    def used_vectors(self) -> Vectors:
        """Vectors with as many registers for a value as this kernel makes use of."""
        return replace(self.vectors, most=1) if self.streams else self.vectors

    @property
    def effort(self) -> Effort:
        """How hard LLVM works on loops that do nothing but what the kernel says."""
        return Effort.MEMORY_BOUND if self.streams else Effort.FULL

    def block(self, axis: Axis, lanes: int) -> int:
        """Return how many positions of the vector axis a unit has."""
        kernel = self.kernel
        if kernel.serial:
            return IN_ORDER
        work = unit_work(kernel)
        if kernel.has_loops or not isinstance(work, int):
            return lanes
        return block_of(axis.extent, work, share(kernel), lanes)

    def units(
        self, blocked: tuple[Axis, ...], block: int, grid: tuple[Axis, ...] | None = None
    ) -> Units:
        """Return the units where some axes are in blocks.

        `grid`: the axes that units are made of, if not all of the kernel's.
        """
        return self.units_of(dict.fromkeys(blocked, block), block, grid)

    def units_of(
        self, blocks: Mapping[Axis, int], block: int, grid: tuple[Axis, ...] | None = None
    ) -> Units:
        """As `units`, with a block of its own for each axis; `block` is the vector axis's."""
        axes = self.kernel.grid if grid is None else grid
        count = dim.product(dim.ceil_div(item.extent, blocks.get(item, 1)) for item in axes)
        return Units(block, count, math.prod(block_points(*item) for item in blocks.items()))

    @cached_property
    def lane_units(self) -> Units:
        """The units of lanes along the axis of the grid, or along the axes of passes."""
        if self.axis is None:
            return self.units((), 1)
        return self.units((self.axis,), self.block(self.axis, self.grid_lanes.lanes))

    def chunked(self, units: Units) -> Chunked:
        """Return block, units, grain and chunks of a schedule."""
        return units.block, units.count, *chunks_of(self.kernel, units.count, units.points)
