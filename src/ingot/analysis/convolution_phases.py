# SPDX-License-Identifier: Apache-2.0
"""Phases of convolutions with a dilated input: which results use which elements of the filter.

With `base_dilation` d (the input gradient of a strided convolution), result p along a dimension
uses only every d-th element of the filter, and which ones depends on p mod d alone. So the results
r, r + d, … are those of a dense convolution with a part of the filter: 1/d of the products.

Read by the pass that cuts such convolutions apart (`passes.simplify.convolutions.phases`) and for
the driver that runs them whole (`direct_convolution`), which is quicker to compile.

Source: the idea is sub-pixel convolution (Shi et al., 2016); also oneDNN's strided backward data.
"""

from __future__ import annotations

import math

from ingot.hlo.window import WindowDimension
from ingot.support.records import record

MAX_PHASES = 16


@record
class Phase:
    """Results r, r + d, … along one dimension: their part of the filter, their dense window.

    Attributes:
        filter_slice: (start, limit, stride) of the filter; empty if start == limit.
        window: how the dense convolution slides.
    """

    filter_slice: tuple[int, int, int]
    window: WindowDimension


def phases_of(one: WindowDimension, more: int) -> list[Phase]:
    """Return the phases along a dimension, each with `more` results than the input has elements."""
    if one.base_dilation == 1:
        return [Phase((0, one.size, 1), one)]
    step = one.base_dilation
    found: list[Phase] = []
    for number in range(step):
        first = (one.low - number) % step
        part = len(range(first, one.size, step))
        low = (one.low - number - first) // step
        high = more - low + part - 1
        start = one.size - 1 - first - step * (part - 1) if one.reversal else first
        limit = start + step * (part - 1) + 1 if part else start
        window = WindowDimension(part, low=low, high=high, reversal=one.reversal)
        found.append(Phase((start, limit, step), window))
    return found


def has_phases(window: tuple[WindowDimension, ...]) -> bool:
    """Whether the phases of a window over a dilated input are dense convolutions."""
    spread = [one for one in window if one.base_dilation > 1]
    is_simple = all(one.stride == 1 and one.window_dilation == 1 for one in spread)
    phases = math.prod(one.base_dilation for one in spread)
    return bool(spread) and is_simple and phases <= MAX_PHASES
