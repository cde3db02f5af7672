# SPDX-License-Identifier: Apache-2.0
"""Sorts: blocks sort tiles, then stages merge runs of a tile, of two tiles, ... till a row is one.

Rows of a known length that a tile has room for are sorted by the first stage alone, several of them
in a tile if they are short. Elements of all operands move together, from the scratch to the results
or back, so that the last stage leaves them in the results.
"""

from __future__ import annotations

from ingot.emit.values.types import memory_type
from ingot.gpu.machine import GpuMachine, array_bytes
from ingot.gpu.schedule.strategies import (
    GpuSchedule,
    MergeRuns,
    SortBuffers,
    SortTiles,
    Stage,
    Widths,
)
from ingot.hlo.dim import Dim, ceil_div
from ingot.kernel.expr import walk
from ingot.kernel.ir import Buffer, Kernel, SortKernel
from ingot.support.records import replace

TILE = 1024
"""Elements that a block sorts, or makes of two runs: a power of two."""

NUMBER_BYTES = 4
"""Bytes of the number that represents an element while it is sorted."""


def match_sort(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the stages of a sort, or why it is none."""
    if not isinstance(kernel, SortKernel):
        return "it is no sort"
    count = len(kernel.buffers)
    results = tuple(range(count - len(kernel.operands), count))
    stages, scratch = sort_stages(kernel, results, machine)
    return GpuSchedule(stages, scratch)


def sort_stages(
    kernel: SortKernel, results: tuple[int, ...], machine: GpuMachine
) -> tuple[tuple[Stage, ...], tuple[Buffer, ...]]:
    """Return the stages of a sort, and the scratch behind its buffers.

    Args:
        kernel: the sort.
        results: numbers of the buffers where it leaves the elements of its operands.
        machine: where it runs.
    """
    count = len(kernel.buffers)
    rows, length = kernel.outer * kernel.inner, kernel.length
    keys = _shared_keys(kernel, machine)
    if isinstance(length, int) and length <= TILE:
        slots = _slots(length)
        tiles = SortTiles(SortBuffers(results, (), keys), slots)
        blocks = ceil_div(rows, TILE // slots)
        return (Stage(kernel, tiles, blocks, machine.threads),), ()
    total = rows * length
    scratch = tuple(Buffer(element, total, is_output=False) for element in kernel.elements)
    buffers = SortBuffers(results, tuple(range(count, count + len(scratch))), keys)
    whole = replace(kernel, buffers=(*kernel.buffers, *scratch))
    blocks = rows * ceil_div(length, TILE)
    first = Stage(whole, SortTiles(buffers, TILE), blocks, machine.threads)
    merges = Stage(whole, MergeRuns(buffers), blocks, machine.threads, Widths(TILE, length))
    return (first, merges), scratch


def _slots(length: int | Dim) -> int:
    """Return the slots of a row: the least power of two that has room for it."""
    assert isinstance(length, int), "rows of unknown length are cut"
    return 1 << max(0, length - 1).bit_length()


def _shared_keys(kernel: SortKernel, machine: GpuMachine) -> tuple[int, ...]:
    """Return the operands that the comparator reads, up to the size of shared memory."""
    nodes = walk((kernel.comparator,))
    arguments: set[int] = {node.payload // 2 for node in nodes if node.op == "argument"}
    found: list[int] = []
    left = machine.shared_bytes - array_bytes(NUMBER_BYTES, TILE)
    for operand in sorted(arguments):
        size = array_bytes(memory_type(kernel.elements[operand]).bytes, TILE)
        if size <= left:
            found.append(operand)
            left -= size
    return tuple(found)
