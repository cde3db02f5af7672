# SPDX-License-Identifier: Apache-2.0
"""What a schedule of a loop kernel says: `schedule` decides it, the emitters spell it out.

Invariant: plain data; equal schedules of equal kernels are equal code.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.kernel.ir import Axis
from ingot.kernel.schedule.pieces import Cut
from ingot.kernel.schedule.turned_rows import Turning
from ingot.support.records import record


@record
class Split:
    """A reduction cut into `count` parts of `length` along the outermost axis of the first pass.

    `rows`: how many positions along that axis all units of a part fold before the next ones; 0:
    each unit folds the whole part.
    """

    length: int | Dim
    count: int | Dim
    rows: int = 0


@record
class LoopSchedule:
    """How a loop kernel runs.

    Attributes:
        vector_axis: the grid axis that lanes run along, or None: each pass has its own.
        lanes: lanes per pass (all equal when there is a vector grid axis).
        block: elements of the vector grid axis per unit.
        units: number of units.
        grain: units per chunk.
        chunks: number of chunks.
        split: how a large reduction of few units is cut, or None.
        tile: the grid axis that makes square tiles with the vector axis (`kernel.schedule.tiles`),
            or None; it is cut into blocks as the vector axis is.
        overlaps: whether the last tiles along both axes begin sooner, to be whole.
        cuts: axes in pieces where masks are known (`kernel.schedule.pieces`), the vector axis last.
        staged: updates whose places and values are computed together before they are made one
            after the other; 0: each is computed when it is made.
        row: the grid axis that the lanes of each staged update run along, or None: one element.
        computes_again: whether each staged update computes its place and value again.
        far: buffers so large that lanes gathered from them are better read one by one.
        rows: the grid axis whose points, rows that are folded, are joined a block at a time.
        places: bits of the places of gathers (`kernel.schedule.gathers`) or of staged updates that
            are computed ahead, or 0.
        waits: whether the kernel does nothing but wait for memory, so that its code need be no
            better than quickly made.
        turning: how short rows are turned around, to be folded in lanes of rows, or None.
        gathers_rows: whether lanes run along short rows whose places are computed ahead for a
            block of rows.
        chain: whether it is one long chain of ops on few values, of which LLVM's quick way makes
            code as good as its slow way does.
        written_out: whether passes have a copy of their point for each place on their axes.
    """

    vector_axis: Axis | None
    lanes: tuple[int, ...]
    block: int | Dim
    units: int | Dim
    grain: int | Dim
    chunks: int | Dim
    split: Split | None = None
    tile: Axis | None = None
    waits: bool = False
    cuts: tuple[Cut, ...] = ()
    staged: int = 0
    row: Axis | None = None
    computes_again: bool = False
    far: frozenset[int] = frozenset()
    rows: Axis | None = None
    places: int = 0
    overlaps: bool = False
    chain: bool = False
    written_out: bool = False
    turning: Turning | None = None
    gathers_rows: bool = False
