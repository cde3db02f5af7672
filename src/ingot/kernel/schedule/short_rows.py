# SPDX-License-Identifier: Apache-2.0
"""Short rows in schedules: the records of two strategies.

`kernel.analysis.row_nests` finds nests of short rows, `kernel.analysis.gathers` rows whose gather
indices are worth computing ahead; `decide` makes schedules of both.
"""

from __future__ import annotations

from ingot.kernel.analysis.row_nests import Nest
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.schedule.loop_schedule import (
    Constraints,
    LaneBlocks,
    LoopSchedule,
    LoopStrategy,
    UnitAxes,
)
from ingot.support.records import record


@record
class GatheredRows(LaneBlocks):
    """Lanes run along short rows whose gather indices are computed ahead for a block of rows."""

    name = "gathered rows"
    is_generic = False

    def unit_axes(self, grid: tuple[Axis, ...], schedule: LoopSchedule) -> UnitAxes:
        """As in `LoopStrategy`."""
        return grid[:-1], (grid[-2],)

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        has_rows = len(kernel.grid) >= 2 and schedule.vector_axis == kernel.grid[-1]
        yield has_rows, "gathered: there are no rows along the last axis"
        yield any(self.ahead.of_passes), "gathered: nothing is gathered"


@record
class RowNest(Nest, LoopStrategy):
    """Short rows are written out, in loops over the rows around them."""

    name = "row nest"
    is_generic = False

    def unit_axes(self, grid: tuple[Axis, ...], schedule: LoopSchedule) -> UnitAxes:
        """As in `LoopStrategy`."""
        inner = {*self.axes[1:], schedule.vector_axis}
        return tuple(axis for axis in grid if axis not in inner), self.axes[:1]

    def constraints(self, kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
        """As in `LoopStrategy`."""
        axes, axis = self.axes, schedule.vector_axis
        yield bool(axes) and set(axes) < set(kernel.grid), "nest: there are no rows around"
        is_there = 0 <= self.written <= len(axes)
        yield is_there, "nest: more axes are written out than there are"
        end = 0
        for first, lanes in self.parts:
            yield first <= end < first + lanes, "nest: parts leave elements of a row out"
            end = first + lanes
        yield axis is None or end == axis.extent, "nest: parts are not as long as a row"
