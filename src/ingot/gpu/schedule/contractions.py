# SPDX-License-Identifier: Apache-2.0
"""Matrix products: tiles of the result, one for each block, from tiles of both operands.

What every kind of tile has in common is here (`tiled`): how large tiles are, and whether several
blocks share the sums of a tile; and the plain tiles, for any element type, without tensor cores.
Which way threads read an operand is decided here, by the axis that its loads are dense along.

Invariant: parts of a sum are added in the order of k, so results depend on sizes alone.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import (
    PART,
    GpuSchedule,
    Schedulable,
    Stage,
    TensorCores,
    Threads,
    TiledContraction,
    one_stage,
)
from ingot.gpu.schedule.sums import is_along, sum_of, with_sums
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, PRED
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr
from ingot.kernel.index_math import linearize
from ingot.kernel.ir import Axis, Buffer, ContractionKernel, LoopKernel, Pass, Store
from ingot.kernel.schedule.work import ceil_div, weight
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

BLOCKS, LEAST_PART = 128, 512
"""Blocks that a GPU wants at least, and positions along k that are worth one."""


def match_contraction(kernel: Schedulable, machine: GpuMachine) -> GpuSchedule | str:
    """Return the schedule of a matrix product, or why it is none."""
    if not isinstance(kernel, ContractionKernel):
        return "it is no contraction"
    assert machine.threads == SIDE * SIDE, "the threads of a block are those of a tile"
    lhs = is_along(kernel.lhs, inner_axis(kernel, is_lhs=True).name)
    rhs = is_along(kernel.rhs, kernel.k.name)
    exprs = tuple(expr for store in kernel.stores for expr in store.exprs)
    is_large = largest_tile(kernel) == LARGE_TILE and weight(exprs) <= LIGHT_EPILOGUE
    if kernel.accumulate is F32 and is_large:
        return tiled(kernel, TiledContraction(lhs, rhs, LARGE_TILE, LARGE_DEPTH), machine)
    depth = DEPTH if kernel.accumulate.bits <= 64 else LARGE_DEPTH
    return tiled(kernel, TiledContraction(lhs, rhs, TILE, depth), machine)


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
    parts = _parts(kernel, tiles)
    if parts <= 1:
        return one_stage(kernel, strategy, tiles, machine.threads)
    assert isinstance(kernel.k.extent, int), "only known sums have parts"
    part = -(-kernel.k.extent // (parts * strategy.depth)) * strategy.depth
    parts = -(-kernel.k.extent // part)
    number = len(kernel.buffers)
    axes = (Axis(PART, parts), kernel.batch, kernel.m, kernel.n)
    scratch = Buffer(kernel.accumulate, dim.product(axis.extent for axis in axes), True)
    index = _index(axes)
    buffers = (*kernel.buffers, scratch)
    total = _accumulator(kernel)
    first = replace(kernel, stores=(Store(number, index, total),), buffers=buffers)
    second = _joined(kernel, axes, ex.load(number, index, kernel.accumulate), buffers)
    blocks = ceil_div(second.grid_size, machine.threads)
    stages = (
        Stage(first, replace(strategy, part=part), parts * tiles, machine.threads),
        Stage(second, Threads(), blocks, machine.threads),
    )
    return GpuSchedule(stages, (scratch,))


def _tiles(kernel: ContractionKernel, tile: int) -> int | Dim:
    tiles = ceil_div(kernel.m.extent, tile) * ceil_div(kernel.n.extent, tile)
    return kernel.batch.extent * tiles


def _parts(kernel: ContractionKernel, tiles: int | Dim) -> int:
    """Return into how many parts the sums are cut, each of a block of its own."""
    length = kernel.k.extent
    # A sum of logical values is no sum of numbers, and one of complex ones is none of theirs.
    is_number = kernel.accumulate is not PRED and not kernel.accumulate.is_complex
    if not isinstance(tiles, int) or not isinstance(length, int) or not is_number or tiles == 0:
        return 1
    return min(BLOCKS // tiles, length // LEAST_PART)


def _index(axes: tuple[Axis, ...]) -> int | Dim:
    return linearize(
        [0 if axis.extent == 1 else Dim.symbol(axis.name) for axis in axes],
        [axis.extent for axis in axes],
    )


def _accumulator(kernel: ContractionKernel) -> Expr:
    names = tuple(sorted(axis.name for axis in (kernel.batch, kernel.m, kernel.n)))
    return ex.make("accumulator", kernel.accumulate, (), names)


def _joined(
    kernel: ContractionKernel, axes: tuple[Axis, ...], part: Expr, buffers: tuple[Buffer, ...]
) -> LoopKernel:
    """Return the kernel that adds up the parts of each sum, then makes the product's stores."""
    part_axis, *grid = axes
    fold = Pass((part_axis,), (sum_of(0, part),))
    total = ex.reduced(0, 0, kernel.accumulate, frozenset(axis.name for axis in grid))
    return LoopKernel(tuple(grid), (fold, Pass((), (), with_sums(kernel.stores, total))), buffers)
