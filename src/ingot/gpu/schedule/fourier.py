# SPDX-License-Identifier: Apache-2.0
"""Fourier transforms: the stages of `kernel.fft.build`, one launch each.

A sequence that two tiles in shared memory have no room for is two stages, if its length has
factors. One with a large prime factor is convolved, by stages of a length that has small ones.
Where even a half of a sequence does not fit, a block's tiles are in scratch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import (
    ChirpConvolution,
    GpuSchedule,
    SequenceTransforms,
    SpectrumFold,
    Stage,
    Strategy,
)
from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div
from ingot.kernel.fft import build as fft
from ingot.kernel.fft.radices import factors
from ingot.kernel.fft.steps import is_columns, padded_length
from ingot.kernel.ir import Buffer, FftKernel, Kernel
from ingot.support.records import replace

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
"""Factors that passes take off: larger ones do not fit registers."""

BLOCK_ELEMENTS = 1024
"""Elements that are work for a block; of shorter sequences it has several."""

COLUMNS = 8
"""Sequences of a block that lie side by side, at least: so that it reads whole sectors."""


AREAS: Mapping[fft.Area, int] = {"operand": 0, "result": 1, "first": 2, "second": 3}
"""Buffer numbers of the areas of a plan."""

CONVOLVED, HALFWAY, TILES = 4, 5, 6
"""Sequences that are convolved, their transforms halfway, tiles that are in scratch."""


def match_transforms(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the stages of a Fourier transform, or why it is none."""
    if not isinstance(kernel, FftKernel):
        return "it is no Fourier transform"
    most = machine.shared_bytes // (2 * kernel.element.bytes)
    plan = fft.plan_fft(kernel, longest=most, fewest=0)
    planner = _Planner(kernel, machine, most)
    for stage in plan.stages:
        planner.add(stage)
    sizes = [plan.first, plan.second, planner.convolved, planner.convolved, planner.tiles]
    scratch = tuple(Buffer(kernel.element, size, is_output=False) for size in sizes)
    whole = replace(kernel, buffers=(*kernel.buffers, *scratch))
    return GpuSchedule(tuple(replace(each, kernel=whole) for each in planner.stages), scratch)


class _Planner:
    """Collects the launches of one kernel, and how much scratch they need."""

    def __init__(self, kernel: FftKernel, machine: GpuMachine, most: int) -> None:
        self.kernel = kernel
        self.threads = machine.threads
        self.most = most
        self.stages: list[Stage] = []
        self.convolved: int | Dim = 0
        self.tiles: int | Dim = 0

    def add(self, stage: fft.Stage | fft.FoldStage) -> None:
        """Add the launches of a stage."""
        if isinstance(stage, fft.FoldStage):
            source, target = AREAS[stage.source], AREAS[stage.target]
            points = stage.outer * fold_points(stage)
            self._launch(SpectrumFold(stage, source, target), ceil_div(points, self.threads))
            return
        source, target = AREAS[stage.source.area], AREAS[stage.target.area]
        room = _room(stage)
        if room != stage.length and room > self.most:
            self._convolve(stage, source, target)
        else:
            self._transform(stage, source, target, inverse=self.kernel.inverse)

    def _launch(self, strategy: Strategy, blocks: int | Dim) -> None:
        self.stages.append(Stage(self.kernel, strategy, blocks, self.threads))

    def _transform(self, stage: fft.Stage, source: int, target: int, *, inverse: bool) -> None:
        """Add a launch whose blocks have sequences each."""
        room, sequences = _room(stage), stage.outer * stage.lanes
        is_shared = room <= self.most
        count = _sequences(stage, self.most // room) if is_shared else 1
        if not is_shared:
            self.tiles = dim.maximum(self.tiles, sequences * (2 * room))
        tiles = None if is_shared else TILES
        strategy = SequenceTransforms(stage, inverse, source, target, count, room, tiles)
        self._launch(strategy, ceil_div(sequences, count))

    def _convolve(self, stage: fft.Stage, source: int, target: int) -> None:
        """Add the launches of a convolution: its sequences lie one after the other in scratch."""
        room, sequences = _room(stage), stage.outer * stage.lanes
        self.convolved = dim.maximum(self.convolved, (sequences + 1) * room)
        steps = ChirpConvolution("begin", stage, self.kernel.inverse, source, CONVOLVED, room)
        self._launch(steps, ceil_div((sequences + 1) * room, self.threads))
        self._transform_room(room, sequences + 1)
        product = replace(steps, step="multiply", source=CONVOLVED)
        self._launch(product, ceil_div(sequences * room, self.threads))
        self._transform_room(room, sequences)
        last = replace(steps, step="end", source=CONVOLVED, target=target)
        # Half a spectrum may have one element more.
        self._launch(last, ceil_div(sequences * (stage.length + 1), self.threads))

    def _transform_room(self, room: int, sequences: int | Dim) -> None:
        """Add the two launches that transform rows to convolve, as `kernel.fft.build` splits."""
        count = next(n for n in range(math.isqrt(room), 0, -1) if room % n == 0)
        rest = room // count
        along = fft.Strides("first", room, rest, 1)
        columns = fft.Stage(count, sequences, rest, along, along, twiddle=room)
        here, there = fft.Strides("first", room, 1, rest), fft.Strides("first", room, count, 1)
        rows = fft.Stage(rest, sequences, count, here, there)
        self._transform(columns, CONVOLVED, HALFWAY, inverse=False)
        self._transform(rows, HALFWAY, CONVOLVED, inverse=False)


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
