# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: the stages of `kernel.fft.build`, one launch each.

A sequence that two tiles in shared memory have no room for is two stages, if its length has
factors; else its block's tiles are in scratch.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import GpuSchedule, SequenceTransforms, SpectrumFold, Stage
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.fft import build as fft
from ingot.kernel.fft.steps import factors, is_columns, padded_length
from ingot.kernel.ir import Buffer, FftKernel, Kernel
from ingot.kernel.schedule.work import ceil_div
from ingot.support.records import replace

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
"""Factors that passes take off: larger ones do not fit registers."""

BLOCK_ELEMENTS = 1024
"""Elements that are work for a block; of shorter sequences it has several."""

COLUMNS = 8
"""Sequences of a block that lie side by side, at least: so that it reads whole sectors."""


AREAS: Mapping[fft.Area, int] = {"operand": 0, "result": 1, "first": 2, "second": 3}
"""Buffer numbers of the areas of a plan; behind them are the tiles that are in scratch."""

TILES = 4


def match_transforms(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the stages of a Fourier transform, or why it is none."""
    if not isinstance(kernel, FftKernel):
        return "it is no Fourier transform"
    most = machine.shared_bytes // (2 * kernel.element.bytes)
    plan = fft.plan_fft(kernel, longest=most, fewest=0)
    tiles = dim.greatest([0, *(_tile_elements(stage, most) for stage in plan.stages)])
    sizes = [plan.first, plan.second, tiles]
    scratch = tuple(Buffer(kernel.element, size, is_output=False) for size in sizes)
    whole = replace(kernel, buffers=(*kernel.buffers, *scratch))
    stages = tuple(_stage(whole, stage, most, machine) for stage in plan.stages)
    return GpuSchedule(stages, scratch)


def _stage(
    kernel: FftKernel, stage: fft.Stage | fft.FoldStage, most: int, machine: GpuMachine
) -> Stage:
    threads = machine.threads
    if isinstance(stage, fft.FoldStage):
        source, target = AREAS[stage.source], AREAS[stage.target]
        points = stage.outer * fold_points(stage)
        return Stage(
            kernel, SpectrumFold(stage, source, target), ceil_div(points, threads), threads
        )
    room = _room(stage)
    is_shared = room <= most
    count = _sequences(stage, most // room) if is_shared else 1
    strategy = SequenceTransforms(
        stage,
        kernel.inverse,
        AREAS[stage.source.area],
        AREAS[stage.target.area],
        count,
        room,
        None if is_shared else TILES,
    )
    return Stage(kernel, strategy, ceil_div(stage.outer * stage.lanes, count), threads)


def fold_points(stage: fft.FoldStage) -> int:
    """Return the elements that a fold makes of a sequence."""
    return stage.length if stage.packs else stage.length + 1


def _sequences(stage: fft.Stage, most: int) -> int:
    """Return the sequences of a block, of which there is room for `most`."""
    has_columns = is_columns(stage.source) or is_columns(stage.target)
    wanted = max(COLUMNS if has_columns else 1, BLOCK_ELEMENTS // stage.length)
    return min(most, wanted)


def _room(stage: fft.Stage) -> int:
    """Return the elements of a sequence while it is worked on."""
    is_convolved = factors(stage.length, RADICES) is None
    return padded_length(stage.length) if is_convolved else stage.length


def _tile_elements(stage: fft.Stage | fft.FoldStage, most: int) -> int | Dim:
    """Return the elements of scratch for the tiles of all blocks of a stage."""
    if isinstance(stage, fft.FoldStage) or _room(stage) <= most:
        return 0
    return stage.outer * stage.lanes * (2 * _room(stage))
