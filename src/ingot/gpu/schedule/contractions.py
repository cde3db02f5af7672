# SPDX-License-Identifier: Apache-2.0
"""Matrix products: tiles of the result, one for each block, from tiles of both operands.

What every kind of tile has in common is here (`tiled`): how large tiles are, and whether several
blocks share the sums of a tile; and the plain tiles, for any element type, without tensor cores.
Which way threads read an operand is decided here, by the axis that its loads are dense along.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.parts import in_parts, most_parts
from ingot.gpu.schedule.strategies import (
    GpuSchedule,
    Stage,
    TensorCores,
    TiledContraction,
    one_stage,
)
from ingot.gpu.schedule.sums import is_along
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dtype import F32
from ingot.kernel.analysis.work import weight
from ingot.kernel.ir import Axis, ContractionKernel, Kernel
from ingot.support.records import replace

TILE, LARGE_TILE = 64, 128
"""Rows and columns of the result that a block computes: of small products, of large ones."""

DEPTH, LARGE_DEPTH = 16, 8
"""Positions along k of plain tiles that are in shared memory at a time."""

SIDE = 16
"""Threads along m and along n of a plain tile."""

MANY_TILES = 64
"""Large tiles that keep a GPU busy; where there are fewer, small ones spread the work."""

LIGHT_EPILOGUE = 32
"""Weighted ops of an epilogue that code for each sum of a large plain tile is no burden of."""


def match_contraction(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the schedule of a matrix product, or why it is none."""
    if not isinstance(kernel, ContractionKernel):
        return "it is no contraction"
    assert machine.threads == SIDE * SIDE, "the threads of a block are those of a tile"
    lhs_along_k = is_along(kernel.lhs, inner_axis(kernel, is_lhs=True).name)
    rhs_along_k = is_along(kernel.rhs, kernel.k.name)
    exprs = tuple(expr for store in kernel.stores for expr in store.exprs)
    is_large = largest_tile(kernel) == LARGE_TILE and weight(exprs) <= LIGHT_EPILOGUE
    tile, depth = TILE, DEPTH if kernel.accumulate.bits <= 64 else LARGE_DEPTH
    if kernel.accumulate is F32 and is_large:
        tile, depth = LARGE_TILE, LARGE_DEPTH
    return tiled(kernel, TiledContraction(lhs_along_k, rhs_along_k, tile, depth), machine)


def inner_axis(kernel: ContractionKernel, *, is_lhs: bool) -> Axis:
    """Return the axis along k that neighbours in an operand's memory may be along."""
    if is_lhs and kernel.patches is not None and kernel.patches.k:
        return kernel.patches.k[-1]
    return kernel.k


def largest_tile(kernel: ContractionKernel) -> int:
    """Return the side of the tiles of a product: large ones, if there are many of them."""
    tiles = _tiles(kernel, LARGE_TILE)
    is_narrow = any(
        isinstance(axis.extent, int) and axis.extent <= TILE for axis in (kernel.m, kernel.n)
    )
    return TILE if is_narrow or (isinstance(tiles, int) and tiles < MANY_TILES) else LARGE_TILE


def tiled(
    kernel: ContractionKernel, strategy: TiledContraction | TensorCores, machine: GpuMachine
) -> GpuSchedule:
    """Return the schedule of a product by tiles; few tiles of long sums are shared by blocks."""
    tiles = _tiles(kernel, strategy.tile)
    parts = most_parts(kernel, tiles)
    if parts == 1:
        return one_stage(kernel, strategy, tiles, machine.threads)
    part = ceil_div(kernel.k.known_extent, parts * strategy.depth) * strategy.depth
    parts = ceil_div(kernel.k.known_extent, part)
    cut = in_parts(kernel, parts)
    first = Stage(cut.first, replace(strategy, part=part), parts * tiles, machine.threads)
    return GpuSchedule((first, cut.last_stage(machine)), (cut.scratch,))


def _tiles(kernel: ContractionKernel, tile: int) -> int | Dim:
    tiles = ceil_div(kernel.m.extent, tile) * ceil_div(kernel.n.extent, tile)
    return kernel.batch.extent * tiles
