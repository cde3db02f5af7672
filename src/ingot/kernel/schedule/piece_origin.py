# SPDX-License-Identifier: Apache-2.0
"""Pieces of a grid counted from their beginnings, where more is known of their indices.

Padding shifts indices by the padding before: `x[floordiv(i-3,2)]` where `mod(i-3,2)` is 0. Counted
from the beginning of its piece, 3, the index is `floordiv(i,2)`: never negative, and a pattern that
lanes know. Loads that such a mask chooses then lose it (`kernel.loop.unmask_loads`).

Invariant: at position p of an axis the passes compute what they computed at first + p.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.dim import Dim
from ingot.kernel.ir import Axis, LoopKernel, Pass
from ingot.kernel.loop.unmask_loads import unmask_loads
from ingot.kernel.rewrite import AxisSubstitution
from ingot.kernel.schedule.pieces import Range
from ingot.support.records import replace


def from_beginning(
    kernel: LoopKernel, passes: tuple[Pass, ...], ranges: Mapping[str, Range]
) -> LoopKernel:
    """Return a kernel of one piece: the passes of `kernel` as they are in the ranges of axes."""
    starts = {name: Dim.symbol(name) + first for name, (first, _) in ranges.items() if first}
    if starts:
        passes = tuple(map(AxisSubstitution(starts).sweep, passes))
    grid = tuple(Axis(axis.name, _length(axis, ranges)) for axis in kernel.grid)
    return unmask_loads(replace(kernel, grid=grid, passes=passes))


def _length(axis: Axis, ranges: Mapping[str, Range]) -> int | Dim:
    first, last = ranges.get(axis.name, (0, -1))
    return last + 1 - first if axis.name in ranges else axis.extent
