# SPDX-License-Identifier: Apache-2.0
"""Phases of convolutions of spread-out inputs: which results use which taps.

With `base_dilation` d (the input gradient of a strided convolution), result p along a dimension
uses only every d-th tap, and which ones depends on p mod d alone. So the results r, r + d, … are
those of a dense convolution with a part of the taps: 1/d of the products.

Read by the pass that cuts such convolutions apart (`passes.simplify.convolution_phases`) and by
the driver that runs them whole (`kernel.convolution.direct`), which is quicker to compile.

Source: the idea is sub-pixel convolution (Shi et al., 2016); also oneDNN's strided backward data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ingot.hlo.dtype import BF16, F16, F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionAttributes
from ingot.hlo.window import WindowDimension

MAX_PHASES = 16

WHOLE_RANK, WHOLE_LINE = 5, 4
"""Of what runs whole: most dimensions, and results of a phase along the last one at least."""

WHOLE_COLUMNS, WHOLE_WASTE = 32, 1.4
"""Features fill blocks of so many columns but for so much."""

WHOLE_CHANNELS, WHOLE_SEGMENT, WHOLE_SEGMENTS = 256, 32, 512
"""Channels that are one segment of a sum; else they are whole segments of that length."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Results r, r + d, … along one dimension: their taps in the kernel, their dense window.

    Attributes:
        taps: (start, limit, stride) of the kernel's places; empty if start == limit.
        window: how the dense convolution slides.
    """

    taps: tuple[int, int, int]
    window: WindowDimension


def phases_of(one: WindowDimension, size: int, count: int) -> list[Phase]:
    """Return the phases along a dimension of an input of `size`, `count` results each."""
    if one.base_dilation == 1:
        return [Phase((0, one.size, 1), one)]
    step = one.base_dilation
    found: list[Phase] = []
    for number in range(step):
        first = (one.low - number) % step
        taps = len(range(first, one.size, step))
        low = (one.low - number - first) // step
        high = count - size - low + taps - 1
        start = one.size - 1 - first - step * (taps - 1) if one.reversal else first
        limit = start + step * (taps - 1) + 1 if taps else start
        window = WindowDimension(taps, low=low, high=high, reversal=one.reversal)
        found.append(Phase((start, limit, step), window))
    return found


def has_phases(window: tuple[WindowDimension, ...]) -> bool:
    """Whether a window meets a spread-out input in phases that are dense convolutions."""
    spread = [one for one in window if one.base_dilation > 1]
    is_simple = all(one.stride == 1 and one.window_dilation == 1 for one in spread)
    phases = math.prod(one.base_dilation for one in spread)
    return bool(spread) and is_simple and phases <= MAX_PHASES


def runs_whole(convolution: Instruction) -> bool:
    """Whether the driver of direct convolutions runs a convolution with phases as it is.

    It reads operands from memory, so what converts them is a kernel before it.
    """
    kinds = {item.shape.dtype for item in (convolution, *convolution.operands)}
    return kinds in ({F32}, {F64}) and _runs_in_any_type(convolution)


def runs_whole_in_f32(convolution: Instruction) -> bool:
    """Whether it runs one of narrow floats as it is, once that is one of f32."""
    kinds = {item.shape.dtype for item in (convolution, *convolution.operands)}
    return kinds <= {F32, BF16, F16} and kinds != {F32} and _runs_in_any_type(convolution)


def _runs_in_any_type(convolution: Instruction) -> bool:
    given = convolution.as_(ConvolutionAttributes)
    lhs, rhs = convolution.operands
    if given.batch_group_count > 1:
        return False
    dims = (*lhs.shape.dims, *rhs.shape.dims, *convolution.shape.dims)
    if not all(isinstance(size, int) and size > 0 for size in dims) or lhs.shape.rank > WHOLE_RANK:
        return False
    return has_phases(given.window) and _suits(convolution)


def _suits(convolution: Instruction) -> bool:
    """Whether features, channels and lines fill the driver's blocks."""
    given = convolution.as_(ConvolutionAttributes)
    weights = dict(zip(given.labels.rhs, convolution.operands[1].shape.dims, strict=True))
    results = dict(zip(given.labels.output, convolution.shape.dims, strict=True))
    channels, features = weights["i"], weights["o"]
    line = results[str(len(given.window) - 1)]
    assert isinstance(channels, int), "sizes are known"
    assert isinstance(features, int), "sizes are known"
    assert isinstance(line, int), "sizes are known"
    columns = features // given.feature_group_count
    filled = -(-columns // WHOLE_COLUMNS) * WHOLE_COLUMNS <= WHOLE_WASTE * columns
    segment = channels if channels <= WHOLE_CHANNELS else WHOLE_SEGMENT
    segments = math.prod(one.size for one in given.window) * channels // segment
    is_cut = channels % segment == 0 and segments <= WHOLE_SEGMENTS
    return filled and is_cut and line // given.window[-1].base_dilation >= WHOLE_LINE
