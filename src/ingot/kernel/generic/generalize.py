# SPDX-License-Identifier: Apache-2.0
"""Generic kernels: a loop kernel with sizes in place of its numbers.

Kernels that differ only in extents, steps of indices, float constants and the schedule's numbers
have the same generic kernel. One function serves them all: the host program passes the numbers.
That is how kernels of one program share code (`cpu.kernels`), and how plain reductions and the
like become library code (`kernel.generic.reduction`).

Numbers that code depends on stay numbers: steps 0 and 1, steps of rows in registers, short steps
from lane to lane (such lanes are picked out of whole vectors, others are gathered), extents too
short for whole vectors or with special loops, everything inside of divisions, and positions as
values. Of an extent that lanes divide, whole vectors stay: it is lanes times a size.

Invariant: the schedule is the kernel's own, so the order of additions and the result's bits are
those of the kernel compiled alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from ingot.hlo.dim import Dim, product
from ingot.hlo.dtype import F32, S32
from ingot.kernel import expr as ex
from ingot.kernel.analysis.gathers import Gather, GathersAhead
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import dim_of
from ingot.kernel.ir import Axis, Buffer, LoopKernel, Pass
from ingot.kernel.rewrite import Rewriter
from ingot.kernel.schedule.loop_schedule import Effort, LoopSchedule
from ingot.kernel.schedule.serial import StagedUpdates
from ingot.kernel.text import fingerprint
from ingot.support.records import record, replace

SHORT = 8
"""Extents below stay numbers, and so do steps below from lane to lane."""

PLAIN = frozenset({0.0, 0.5, 1.0, 2.0, float("inf")})
"""Magnitudes of constants that stay numbers: they define the computation."""

OWN_NUMBERS = "its code depends on its numbers"
IN_TILES = "it runs in square tiles"
"""Why a kernel has no generic kernel, and why the library does not run one that has."""

MOST_LENGTH = 1 << 62
"""Larger integers are no lengths."""


@record
class GenericKernel:
    """A kernel for every size.

    Attributes:
        kernel: its numbers are named sizes.
        schedule: likewise.
        values: of the sizes, for the kernel at hand.
        symbol: of its function; it says all that the code depends on.
    """

    kernel: LoopKernel
    schedule: LoopSchedule
    values: Mapping[str, int]
    symbol: str


def generalized(
    kernel: LoopKernel, schedule: LoopSchedule, library: str = ""
) -> GenericKernel | str:
    """Return the generic kernel of a kernel, or why its code depends on its numbers.

    Args:
        kernel: without symbolic sizes.
        schedule: how it runs.
        library: if it is for the library, which all programs share: how its symbol begins. Then it
            does not even depend on which extents are short and which ones lanes divide. Passes
            that are written out keep their extents; beside them it matters whether blocks are
            whole.
    """
    strategy = schedule.strategy
    if not strategy.is_generic or kernel.symbols or kernel.local_buffers:
        return OWN_NUMBERS
    is_staged = isinstance(strategy, StagedUpdates)
    if is_staged and schedule.units != 1:
        return OWN_NUMBERS
    forgets = bool(library) and not schedule.unrolls_passes
    lanes = {} if forgets else _lanes_of_axes(kernel, schedule)
    row, short = strategy.row if is_staged else None, 0 if library else SHORT
    sizes = _Sizes(lanes, short, None if row is None else row.extent, _lengths(kernel))
    grid = tuple(axis if axis == row else sizes.axis(axis) for axis in kernel.grid)
    passes = tuple(
        replace(
            sizes.sweep(item),
            axes=item.axes if schedule.unrolls_passes else tuple(map(sizes.axis, item.axes)),
        )
        for item in kernel.passes
    )
    sizes.grid = dict(zip(kernel.grid, grid, strict=True))
    general = _general_schedule(sizes, schedule, kernel.passes[0])
    buffers = tuple(Buffer(b.dtype, Dim.symbol("elements"), b.is_output) for b in kernel.buffers)
    made = replace(
        kernel, grid=grid, passes=passes, buffers=buffers, parameters=tuple(sizes.values)
    )
    symbol = f"{library or 'k'}_{_code_key(made, general)}"
    return GenericKernel(made, general, sizes.values, symbol)


def _code_key(kernel: LoopKernel, schedule: LoopSchedule) -> str:
    """Return a text that says all that the code of a generic kernel depends on."""
    axes = [axis.name[1:] for axis in schedule.blocked_axes]
    words = ["x".join(map(str, schedule.lanes)), str(schedule.block).replace("*", "t"), *axes]
    words += [schedule.effort.value] * (schedule.effort is not Effort.FULL)
    words += ["written"] * schedule.unrolls_passes
    words += [f"large{number}" for number in sorted(schedule.large_buffers)]
    words += schedule.strategy.words()
    words += [f"indices{schedule.ahead.bits}"] * (schedule.ahead.bits > 0)
    return f"{fingerprint(kernel)}_{'_'.join(words)}"


def _lengths(kernel: LoopKernel) -> frozenset[Expr]:
    """Return the integers that a kernel which goes by indices has: lengths of where they are in."""
    stores = kernel.stores
    nodes = walk(kernel.exprs)
    by_indices = any(store.values for store in stores) or any(
        node.op == "load" and node.args for node in nodes
    )
    if not by_indices or any(item.reductions for item in kernel.passes):
        return frozenset()
    return frozenset(
        node
        for node in nodes
        if node.op == "constant"
        and node.dtype.is_integer
        and abs(int(node.payload.value)) <= MOST_LENGTH
    )


def _lanes_of_axes(kernel: LoopKernel, schedule: LoopSchedule) -> dict[str, int]:
    """Return the lanes that run along each axis."""
    if schedule.vector_axis is not None:
        return {axis.name: schedule.lanes[0] for axis in schedule.blocked_axes}
    pairs = zip(kernel.passes, schedule.lanes, strict=True)
    found = {item.axes[-1].name: lanes for item, lanes in pairs if item.axes}
    for axis in schedule.blocked_axes:
        assert isinstance(schedule.block, int), "rows fill a register"
        found[axis.name] = schedule.block
    return found


def _general_schedule(sizes: _Sizes, own: LoopSchedule, first: Pass) -> LoopSchedule:
    vector_axis = None if own.vector_axis is None else sizes.axis_of(own.vector_axis)
    strategy, lanes, block = own.strategy, own.lanes[0], own.block
    if isinstance(strategy, StagedUpdates):
        # Updates in order are one unit, of whatever size.
        return replace(own, vector_axis=vector_axis)
    if not strategy.has_whole_blocks and isinstance(block, int) and block > lanes:
        block = sizes.multiple("block", block, lanes)
    part_lanes = sizes.lanes.get(first.axes[0].name, 1) if first.axes else 1
    return replace(
        own,
        vector_axis=vector_axis,
        block=block,
        strategy=strategy.generalized(sizes, part_lanes),
        units=sizes.multiple("units", own.units, 1),
        grain=sizes.multiple("grain", own.grain, 1),
        chunks=sizes.multiple("chunks", own.chunks, 1),
    )


class _Sizes(Rewriter):
    """Puts sizes in place of the numbers of one kernel: one for each, equal ones for equal steps.

    `values` are those of the sizes made so far, `grid` the axes that have one; `lanes` how many run
    along an axis, by its name; extents below `short` or that fill no vector stay, and so do steps
    of a `row`; constants in `lengths` are sizes too.
    """

    def __init__(
        self,
        lanes: Mapping[str, int],
        short: int,
        row: int | Dim | None,
        lengths: frozenset[Expr],
    ) -> None:
        super().__init__()
        self.lanes = lanes
        self.short = short
        self.known = (-1, 0, 1, row)
        self.lengths = lengths
        self.values: dict[str, int] = {}
        self.grid: Mapping[Axis, Axis] = {}
        self._steps: dict[int, Dim] = {}
        self._extents = 0

    def multiple(self, name: str, value: int | Dim, factor: int) -> int | Dim:
        """Return a number as a size, times `factor` where that divides it."""
        assert isinstance(value, int), "a kernel without sizes has a schedule without sizes"
        factor = factor if value % factor == 0 else 1
        self.values[name] = value // factor
        return Dim.symbol(name) * factor

    def axis(self, axis: Axis) -> Axis:
        """Return an axis with a size for its extent."""
        lanes = self.lanes.get(axis.name, 1)
        if isinstance(axis.extent, int) and axis.extent < max(self.short, lanes):
            return axis
        self._extents += 1
        name = f"extent{self._extents}"
        return Axis(axis.name, self.multiple(name, axis.extent, lanes))

    def axis_of(self, axis: Axis) -> Axis:
        """Return an axis of the grid, which has its size."""
        return self.grid[axis]

    def index(self, where: int | Dim) -> int | Dim:
        """Return the index of an access with sizes for steps and offset."""
        if isinstance(where, int):
            return self._step(where)
        total: int | Dim = 0
        for key, factor in where.terms:
            is_close = abs(factor) < SHORT and any(atom.text in self.lanes for atom in key)
            step = factor if is_close else self._step(factor)
            total = total + product([step, *map(dim_of, key)])
        return total

    def ahead(self, given: GathersAhead) -> GathersAhead:
        """Return the gathers of a kernel as they are in the generic one."""
        found = [tuple(map(self._gather, gathers)) for gathers in given.of_passes]
        return replace(given, of_passes=tuple(found))

    def _gather(self, given: Gather) -> Gather:
        return Gather(self.expr(given.load), self.index(given.near), self.index(given.base))

    def _step(self, number: int) -> int | Dim:
        if number in self.known:
            return number
        if number not in self._steps:
            name = f"step{len(self._steps) + 1}"
            self.values[name] = number
            self._steps[number] = Dim.symbol(name)
        return self._steps[number]

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an expression on new arguments; lengths and bits of f32 come as sizes."""
        if item in self.lengths:
            length = ex.index(self._step(int(item.payload.value)))
            return ex.compute("convert", length, dtype=item.dtype)
        if item.op != "constant" or item.dtype is not F32 or _is_plain(item.payload.value):
            return super().node(item, args)
        bits = self._step(int.from_bytes(item.payload.bits, sys.byteorder, signed=True))
        word = ex.converted(ex.index(bits), S32)
        return ex.as_bits(word, F32)


def _is_plain(value: float) -> bool:
    return abs(float(value)) in PLAIN or math.isnan(value)
