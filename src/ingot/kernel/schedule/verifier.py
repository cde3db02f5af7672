# SPDX-License-Identifier: Apache-2.0
"""The verifier of loop schedules: which ones are legal for a kernel.

`decide` makes only legal schedules, and emitters rely on that. Runs on each schedule in debug mode
(`INGOT_DEBUG=4`) and in tests. A constraint has a label, which the error names.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> from ingot.kernel.ir import Axis, Buffer, Pass
    >>> kernel = LoopKernel((Axis("@0", 4),), (Pass(()),), (Buffer(F32, 4, True),))
    >>> schedule = LoopSchedule(kernel.grid[0], (8,), 8, 1, 1, 1)
    >>> verify_schedule(kernel, schedule)
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.kernel.expr import walk
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule.loop_schedule import INDEX_BITS, Constraints, LoopSchedule
from ingot.support.diagnostics import InternalError


def verify_schedule(kernel: LoopKernel, schedule: LoopSchedule) -> None:
    """Check the schedule of a kernel.

    Raises:
        InternalError: INGOT0932, with the label of the constraint that does not hold.
    """
    require(f"schedule of {schedule.strategy.name}", _constraints(kernel, schedule))


def require(what: str, constraints: Constraints) -> None:
    """Check constraints of a schedule or plan.

    Raises:
        InternalError: INGOT0932, with the label of the first constraint that does not hold.
    """
    for holds, text in constraints:
        if not holds:
            raise InternalError(f"{what}: {text}", code="INGOT0932")


def _constraints(kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
    yield from _of_lanes(kernel, schedule)
    missing = [n for n in schedule.large_buffers if not 0 <= n < len(kernel.buffers)]
    yield not missing, f"large-buffers: there is no buffer {', '.join(map(str, missing))}"
    bits = schedule.ahead.bits
    yield bits in (0, *INDEX_BITS), f"ahead: no index has {bits} bits"
    known = frozenset(walk(kernel.exprs))
    for load in schedule.strategy.early_loads:
        yield load in known, f"loads: the kernel has no {load}"
    yield from schedule.strategy.constraints(kernel, schedule)
    yield from _of_units(kernel, schedule)


def _of_lanes(kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
    axis, lanes, passes = schedule.vector_axis, schedule.lanes, len(kernel.passes)
    yield len(lanes) == passes, f"lanes: {len(lanes)} numbers for {passes} passes"
    yield all(each >= 1 for each in lanes), "lanes: a pass has none"
    if axis is not None:
        yield axis in kernel.grid, f"vector-axis: {axis.name} is no axis of the grid"
        yield len(set(lanes)) <= 1, "vector-axis: passes have different lanes along it"


def _of_units(kernel: LoopKernel, schedule: LoopSchedule) -> Constraints:
    units, grain, chunks = schedule.units, schedule.grain, schedule.chunks
    axes, blocked = schedule.unit_axes(kernel)
    count = dim.product(
        dim.ceil_div(axis.extent, schedule.block_along(axis)) if axis in blocked else axis.extent
        for axis in axes
    )
    yield count == units, f"units: {units} are not the blocks of the grid, {count}"
    if kernel.serial:
        yield (grain, chunks) == (units, 1), "chunks: units that run in order are one chunk"
    else:
        have = dim.ceil_div(units, dim.maximum(grain, 1))
        yield have == chunks, f"chunks: {chunks} of {grain} units are not {units}"
