# SPDX-License-Identifier: Apache-2.0
"""Box copies: kernels that copy boxes of arrays and fill others with a constant, in one code.

Concatenate, pad, slice and roll come down to this: in each piece of the grid
(`kernel.schedule.pieces`) runs of elements are copied as they are, or filled. Numbers describe such
a box: its offsets in source and target, the runs along each axis, and their steps. So a table of
boxes describes the kernel, and code that all programs share executes the table.

The boxes are copied together in *rounds*, each with a part of every box, so that neighbours in the
result are written together. Invariant: rounds depend on sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ingot.hlo.dim import Dim, ceil_div
from ingot.kernel.driver_parameters import DriverParameters
from ingot.kernel.expr import Expr, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel, Store
from ingot.kernel.passes.collapse import MOVING_OPS
from ingot.kernel.schedule.loop_schedule import LoopSchedule
from ingot.kernel.schedule.piece_loops import Pieces
from ingot.llvm.machine_model import L2_BYTES, Vectors
from ingot.support.records import record, replace

OUTER = 3
"""Axes of a box at most, besides its runs."""

MIN_RUN = 64
"""Bytes of a run at least, in the mean: short ones are better moved several at a time."""

FEW_RUNS = 128
"""So few runs may be short: code of their own would take longer to make than it could ever save."""

MORE = "it does more than copy and fill boxes of known sizes"

MIN_BITS = 512
"""Vectors of the target at least: the ends of runs are masked, byte by byte."""

LONG_RUN = 1 << 16
"""Bytes of a run from which on it is cut, to be shared out."""

ROUND_BYTES = L2_BYTES // 8
"""Bytes of a round: what it writes stays in the L2 cache until its lines are whole."""

FEW = 16
"""An axis of fewer positions shares a box out badly."""

FILLED = -1
"""Source of boxes that are filled with a value."""


@record
class Box(DriverParameters):
    """A box of runs; all but counts are in bytes.

    `source` and `result` are numbers of buffers; `pattern` is what a box without a source is filled
    with, 8 bytes. A run of `run` bytes goes from `from` to `to`; along each axis, outermost first,
    there are `count_d` of them, `from_d` and `to_d` apart. Rounds divide axis `shared`.
    """

    NAMES = (
        *("source", "result", "pattern", "run", "from", "to", "shared"),
        *("count_0", "count_1", "count_2"),
        *("from_0", "from_1", "from_2"),
        *("to_0", "to_1", "to_2"),
    )


@record
class BoxCopies:
    """How a kernel only copies boxes: its boxes, rounds, and how rounds are shared out."""

    boxes: tuple[Box, ...]
    rounds: int
    grain: int
    chunks: int


@record
class _Runs:
    """Runs of one box; steps are (count, from, to) of each axis, slowest first."""

    source: int
    result: int
    pattern: int
    run: int
    origin: int
    target: int
    steps: tuple[tuple[int, int, int], ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return math.prod(count for count, _, _ in self.steps)

    def shared_out(self) -> Iterator[_Runs]:
        """Yield the same runs, long ones in pieces."""
        if self.run < 2 * LONG_RUN or len(self.steps) == OUTER:
            yield self
            return
        count = self.run // LONG_RUN
        done = count * LONG_RUN
        yield replace(self, run=LONG_RUN, steps=(*self.steps, (count, LONG_RUN, LONG_RUN)))
        rest = replace(
            self, run=self.run - done, origin=self.origin + done, target=self.target + done
        )
        if rest.run:
            yield rest

    def box(self) -> Box:
        """Return its numbers: an axis of many positions is shared out, the outermost if it can be.

        The order of the axes stays as it is: moved to the outside, the rows of [8,256,12,64] that
        become [8,12,256,64] took 3.1 times as long (AMD EPYC, one thread, 2026-11-30).
        """
        steps = ((1, 0, 0),) * (OUTER - len(self.steps)) + self.steps
        counts = [count for count, _, _ in steps]
        shared = next((axis for axis, count in enumerate(counts) if count >= FEW), None)
        if shared is None:
            shared = counts.index(max(counts))
        head = (self.source, self.result, self.pattern, self.run, self.origin, self.target, shared)
        return Box((*head, *(item for column in zip(*steps, strict=True) for item in column)))


def box_copies(kernel: LoopKernel, schedule: LoopSchedule, vectors: Vectors) -> BoxCopies | str:
    """Return the copies of a kernel, or why it is more than that or runs better otherwise."""
    if vectors.bits < MIN_BITS:
        return f"the target's vectors have fewer than {MIN_BITS} bits"
    axis = schedule.vector_axis
    if axis is None or schedule.chunks == 0 or not _only_chooses(kernel):
        return MORE
    found: list[_Runs] = []
    for piece in _pieces(kernel, schedule):
        for store in (store for item in piece.passes for store in item.stores):
            runs = _runs(piece, store, axis.name)
            if runs is None:
                return MORE
            found.extend(runs.shared_out())
    assert isinstance(schedule.chunks, int), "its sizes are known"
    chunks, written = schedule.chunks, sum(runs.run * runs.count for runs in found)
    count = sum(runs.count for runs in found)
    if count > FEW_RUNS and written < MIN_RUN * count:
        return f"runs have fewer than {MIN_RUN} bytes"
    grain = max(1, ceil_div(written, ROUND_BYTES * chunks))
    return BoxCopies(tuple(runs.box() for runs in found), grain * chunks, grain, chunks)


def _only_chooses(kernel: LoopKernel) -> bool:
    """Whether a kernel of known sizes stores elements and constants as they are."""
    if kernel.serial or kernel.local_buffers or kernel.symbols or not kernel.grid:
        return False
    if any(item.axes or item.reductions for item in kernel.passes):
        return False
    return all(item.op in MOVING_OPS for item in walk(kernel.exprs))


def _pieces(kernel: LoopKernel, schedule: LoopSchedule) -> Iterator[LoopKernel]:
    """Yield the kernel of each piece; a kernel that is not cut is one piece."""
    if isinstance(schedule.strategy, Pieces):
        yield from (loop.kernel for loop in schedule.strategy.loops)
    else:
        yield kernel


def _runs(piece: LoopKernel, store: Store, along: str) -> _Runs | None:
    """Return the runs of a store, of one element across; None if it neither copies nor fills."""
    value = store.value
    width = value.dtype.bytes
    target = _linear(store.index, piece.grid)
    if not store.is_simple or target is None:
        return None
    source, pattern, origin = FILLED, _pattern(value), (0, [0] * len(piece.grid))
    if value.op == "load" and not value.args:
        source, pattern, origin = value.payload.buffer, 0, _linear(value.payload.index, piece.grid)
    if pattern is None or origin is None:
        return None
    run, steps = 1, list[tuple[int, int, int]]()
    for axis, first, second in zip(piece.grid, origin[1], target[1], strict=True):
        if axis.name == along and second == 1 and (first == 1 or source == FILLED):
            run = axis.known_extent
        elif axis.known_extent != 1:
            steps.append((axis.known_extent, first * width, second * width))
    if len(steps) > OUTER:
        return None
    return _Runs(
        source,
        store.buffer,
        pattern,
        run * width,
        origin[0] * width,
        target[0] * width,
        tuple(steps),
    )


def _linear(where: int | Dim, axes: tuple[Axis, ...]) -> tuple[int, list[int]] | None:
    """Return an index's offset and its step along each axis, None if it is not linear."""
    steps = [coefficient(where, axis.name) for axis in axes]
    known = [step for step in steps if isinstance(step, int)]
    if len(known) < len(steps):
        return None
    for axis, step in zip(axes, known, strict=True):
        where = where - step * Dim.symbol(axis.name)
    return (where, known) if isinstance(where, int) else None


def _pattern(value: Expr) -> int | None:
    """Return 8 bytes of a constant again and again, None if it is none or they are not enough."""
    if value.op != "constant":
        return None
    data: bytes = value.payload.bits
    pattern = (data * 8)[:8]
    return (
        int.from_bytes(pattern, "little", signed=True) if data * 8 == pattern * len(data) else None
    )
