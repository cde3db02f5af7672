# SPDX-License-Identifier: Apache-2.0
"""Square tiles: how a kernel that reads across its vector axis (a transpose) is blocked.

If lanes run along one grid axis and a load has stride one along another, each lane would fetch a
cache line for one element. Instead, lanes x lanes elements are read along the other axis,
transposed in registers, and used row by row. `tiles_of` decides for the schedule whether there are
such loads, and which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.analysis.gathers import is_large_buffer
from ingot.kernel.analysis.lane_counts import LANE_BITS
from ingot.kernel.expr import Expr, loads_of, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.loop_schedule import Constraints, LoopSchedule, LoopStrategy, Sizes
from ingot.support.records import record, replace

SIDE_TILES = 8
"""Tiles along each side of a block: whole cache lines and their neighbours at both ends."""

RUN_TILES = 32
"""Tiles along the vector axis of a block that is one tile wide. So rows of large results are
written to their ends, which keeps memory busier: transposes of 6 to 24 MB took 0.61 to 0.84 of the
time, 2048x2048 f32 0.99 to 1.06; of up to 4 MB 1.0 to 1.15 (AMD EPYC, one thread, 2026-11-30)."""

SHORTEST_SIDE = 8
"""Smaller tiles are no better than lanes one by one."""

MAX_TILED_LOADS = 4
"""Loads that are transposed in one kernel; each has a tile on the stack."""


@record
class SquareTiles(LoopStrategy):
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
    has_whole_blocks = True

    axis: Axis
    side: int
    rows: int
    overlaps: bool
    loads: tuple[Expr, ...]

    @property
    def early_loads(self) -> Iterable[Expr]:
        """As in `LoopStrategy`."""
        return self.loads

    @property
    def own_blocks(self) -> tuple[Axis, ...]:
        """As in `LoopStrategy`."""
        return (self.axis,)

    def block_along(self, axis: Axis, block: int | Dim) -> int | Dim:
        """As in `LoopStrategy`."""
        return self.rows if axis == self.axis else block

    def words(self) -> Sequence[str]:
        """As in `LoopStrategy`."""
        return [f"rows{self.rows}"] + ["overlaps"] * self.overlaps

    def generalized(self, sizes: Sizes, part_lanes: int) -> Self:
        """As in `LoopStrategy`."""
        return replace(self, axis=sizes.axis_of(self.axis), loads=sizes.exprs(self.loads))

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        axis, side, block = self.axis, self.side, schedule.block
        is_other = axis in kernel.grid and axis != schedule.vector_axis
        yield is_other, "tiles: both sides are along one axis, or along none of the grid"
        is_vector = side.bit_count() == 1 and set(schedule.lanes) <= {side}
        yield is_vector, "tiles: a side is not as long as a vector, a power of two"
        is_whole = self.rows % side == 0 and (not isinstance(block, int) or block % side == 0)
        yield is_whole, "tiles: a block is not whole tiles"


def transposed_loads(exprs: tuple[Expr, ...], axis: str, tile: str) -> tuple[Expr, ...]:
    """Return the loads that walk `tile` with stride one and `axis` with another stride."""
    return tuple(
        item
        for item in walk(exprs)
        if item.op == "load"
        and not item.args
        and coefficient(item.payload.index, tile) == 1
        and coefficient(item.payload.index, axis) not in (None, 0, 1)
    )


LEAST_ROW_BITS = 128
"""Narrower rows of a tile are no better either."""


def tiles_of(kernel: LoopKernel, axis: Axis, register: int) -> SquareTiles | str:
    """Return the tiles that a kernel with a vector axis needs on registers of `register` bits.

    A row of a tile is a register of the widest elements, of `LANE_BITS` at least, and less where an
    axis is shorter. Returns the reason if there are none.
    """
    least = min(SHORTEST_SIDE, register // LANE_BITS)
    if least <= 1 or kernel.serial or kernel.has_loops:
        return "its points have loops or an order"
    found = {
        other: transposed_loads(kernel.exprs, axis.name, other.name)
        for other in kernel.grid
        if other != axis and not _is_short(other, least) and not _is_short(axis, least)
    }
    best = max(found, key=lambda other: len(found[other]), default=None)
    if best is None or not 0 < len(found[best]) <= MAX_TILED_LOADS:
        return f"not 1 to {MAX_TILED_LOADS} loads go across the lanes, on axes that are long enough"
    widest = max(load.dtype.bits for load in found[best])
    least = max(least, LEAST_ROW_BITS // widest)
    if _is_short(axis, least) or _is_short(best, least):
        return f"an axis is shorter than {least}"
    side = max(least, register // max(widest, LANE_BITS))
    while side > least and (_is_short(axis, side) or _is_short(best, side)):
        side //= 2
    overlaps = _may_overlap(kernel, found[best], (axis, best), side)
    is_large = any(is_large_buffer(each) for each in kernel.buffers if each.is_output)
    return SquareTiles(best, side, side * (1 if is_large else SIDE_TILES), overlaps, found[best])


def block_of_tiles(tiles: SquareTiles) -> int:
    """Return the positions of a unit along the vector axis."""
    return tiles.side * (RUN_TILES if tiles.rows == tiles.side else SIDE_TILES)


def _may_overlap(
    kernel: LoopKernel, transposed: tuple[Expr, ...], axes: tuple[Axis, ...], side: int
) -> bool:
    """Whether tiles may be computed twice, and are needed to be."""
    loads = loads_of(kernel.exprs)
    is_plain = all(store.is_simple for store in kernel.stores)
    is_static = all(isinstance(axis.extent, int) for axis in axes)
    is_whole = all(dim.known_multiple_of(axis.extent, side) for axis in axes)
    return is_static and is_plain and not is_whole and len(loads) == len(transposed)


def _is_short(axis: Axis, side: int) -> bool:
    return isinstance(axis.extent, int) and axis.extent < side
