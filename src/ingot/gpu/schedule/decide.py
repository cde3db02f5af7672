# SPDX-License-Identifier: Apache-2.0
"""Which strategy runs a kernel: the first of a literal table that takes it.

Invariant: some strategy takes every kernel; the reasons why those before it did not are recorded.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.contractions import match_contraction
from ingot.gpu.schedule.few_rows import NAME as FEW_ROWS
from ingot.gpu.schedule.few_rows import match_few_rows
from ingot.gpu.schedule.folds import match_block_rows, match_columns, match_warp_rows
from ingot.gpu.schedule.fourier import match_transforms
from ingot.gpu.schedule.in_order import match_in_order
from ingot.gpu.schedule.scans import match_scan
from ingot.gpu.schedule.selections import match_selection
from ingot.gpu.schedule.sorts import match_sort
from ingot.gpu.schedule.splits import split_fold
from ingot.gpu.schedule.strategies import (
    BlockRows,
    Columns,
    GpuSchedule,
    InOrder,
    Selection,
    SequenceTransforms,
    SortTiles,
    TensorCores,
    Threads,
    TiledContraction,
    TransposeTiles,
    WarpRows,
    WarpScan,
)
from ingot.gpu.schedule.tensor_cores import match_tensor_cores
from ingot.gpu.schedule.threads import match_threads
from ingot.gpu.schedule.transposes import match_transposes
from ingot.kernel.ir import Kernel, LoopKernel, general_kernel
from ingot.support.diagnostics import InternalError
from ingot.support.records import replace

Match = Callable[[Kernel, GpuMachine], GpuSchedule | str]

STRATEGIES: tuple[tuple[str, Match], ...] = (
    (FEW_ROWS, match_few_rows),
    (TensorCores.name, match_tensor_cores),
    (TiledContraction.name, match_contraction),
    (InOrder.name, match_in_order),
    (WarpScan.name, match_scan),
    (WarpRows.name, match_warp_rows),
    (BlockRows.name, match_block_rows),
    (Columns.name, match_columns),
    (TransposeTiles.name, match_transposes),
    (Threads.name, match_threads),
    (SortTiles.name, match_sort),
    (Selection.name, match_selection),
    (SequenceTransforms.name, match_transforms),
)
"""In priority order: the name of a strategy, and what returns its schedule or says why not."""


def schedule_kernel(kernel: Kernel, machine: GpuMachine) -> GpuSchedule:
    """Return how a kernel runs on a machine: a convolution as its general form."""
    kernel = general_kernel(kernel)
    found = _found(kernel, machine)
    halves = split_fold(kernel, found) if isinstance(kernel, LoopKernel) else None
    if halves is not None:
        parts, whole = (_found(each, machine) for each in (halves.parts, halves.whole))
        stages = (*parts.stages, *whole.stages)
        found = replace(found, stages=stages, scratch=halves.scratch)
    return replace(found, sizes=kernel.symbols)


def _found(kernel: Kernel, machine: GpuMachine) -> GpuSchedule:
    """Return the schedule of the first strategy that takes a kernel."""
    refused: list[tuple[str, str]] = []
    for name, match in STRATEGIES:
        found = match(kernel, machine)
        if not isinstance(found, str):
            return replace(found, refused=tuple(refused))
        refused.append((name, found))
    raise InternalError("no strategy takes the kernel", notes=tuple(map(": ".join, refused)))
