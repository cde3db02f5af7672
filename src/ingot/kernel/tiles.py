"""Square tiles: how a kernel that reads across its vector axis (a transpose) is blocked.

Where lanes run along one grid axis and a load walks another one with stride one, each lane would
fetch a cache line for one element. Instead lanes x lanes elements are read along the other axis,
turned around in registers, and used row by row. Which loads that is, is decided here alone; the
schedule asks whether there are any, the emitter which they are.
"""

from __future__ import annotations

from collections import Counter

from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel

SIDE_TILES = 4
"""Tiles along each side of a block: whole cache lines and their neighbours at both ends."""

LANE_BITS = 32
"""A tile's side is the lanes of a register of elements this wide, whatever the elements are."""

SHORTEST_SIDE = 8
"""Smaller tiles are no better than lanes one by one."""

MAX_TILED_LOADS = 4
"""Loads that are turned around in one kernel; each has a tile on the stack."""


def transposed_loads(exprs: tuple[Expr, ...], axis: str, tile: str) -> list[Expr]:
    """Return the loads that walk `tile` with stride one and `axis` with another stride."""
    return [
        item
        for item in walk(exprs)
        if item.op == "load"
        and not item.args
        and coefficient(item.payload.index, tile) == 1
        and coefficient(item.payload.index, axis) not in (None, 0, 1)
    ]


def side_of_tile(axis: Axis, lanes: int) -> int:
    """Return the side of tiles along an axis: that of the register, less where it is shorter."""
    side = lanes
    while side > SHORTEST_SIDE and isinstance(axis.extent, int) and axis.extent < side:
        side //= 2
    return side


def tile_axis(kernel: LoopKernel, axis: Axis, side: int) -> Axis | None:
    """Return the grid axis that makes square tiles with the vector axis, or None without need."""
    if kernel.serial or any(item.axes for item in kernel.passes) or _is_short(axis, side):
        return None
    counts = Counter(
        {
            other: len(transposed_loads(kernel.exprs, axis.name, other.name))
            for other in kernel.grid
            if other != axis and not _is_short(other, side)
        }
    )
    best, count = counts.most_common(1)[0] if counts else (None, 0)
    return best if 0 < count <= MAX_TILED_LOADS else None


def _is_short(axis: Axis, side: int) -> bool:
    return isinstance(axis.extent, int) and axis.extent < side
