# SPDX-License-Identifier: Apache-2.0
"""Matrix products: tiles of the result, one for each block, from tiles of both operands.

Sizes are of plain code for any element type, not of tensor cores. Which way threads read an operand
is decided here, by the axis that its loads are dense along.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import GpuSchedule, TiledContraction, one_stage
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import ContractionKernel, Kernel
from ingot.kernel.schedule.work import ceil_div

TILE = 64
"""Rows and columns of the result that a block computes."""

DEPTH = 16
"""Positions along k that are in shared memory at a time."""

SIDE = 16
"""Threads along m and along n of a tile; each computes every SIDE-th row and column."""


def match_contraction(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the schedule of a matrix product, or why it is none."""
    if not isinstance(kernel, ContractionKernel):
        return "it is no contraction"
    assert machine.threads == SIDE * SIDE, "the threads of a block are those of a tile"
    k, inner = kernel.k.name, kernel.k.name
    if kernel.patches is not None and kernel.patches.k:
        inner = kernel.patches.k[-1].name
    strategy = TiledContraction(_is_along(kernel.lhs, inner), _is_along(kernel.rhs, k))
    tiles = ceil_div(kernel.m.extent, TILE) * ceil_div(kernel.n.extent, TILE)
    return one_stage(kernel, strategy, kernel.batch.extent * tiles, machine.threads)


def _is_along(operand: Expr, axis: str) -> bool:
    """Whether the loads of an operand are dense along an axis."""
    loads = [node for node in walk((operand,)) if node.op == "load"]
    return any(coefficient(load.payload.index, axis) == 1 for load in loads)
