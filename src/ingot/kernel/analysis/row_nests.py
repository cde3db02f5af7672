# SPDX-License-Identifier: Apache-2.0
"""Short rows in a nest of loops: rows of a known length in whole and narrower vectors, no masks.

Patches of an image, heads of attention, repeated pixels: a result whose rows are a few elements
beside each other in memory, each row from somewhere else. A unit walks the rows around them in
loops of its own, so that addresses grow by steps and nothing is divided. A row is written out at
positions that are known: 17 elements are 16 and 1, and each lane knows its place in a pattern.

Invariant: the parts cover each row; they overlap only where no element is read that was written.
"""

from __future__ import annotations

import math

from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel.analysis.lane_offsets import is_near, lane_offsets
from ingot.kernel.expr import MOVING_OPS, is_expensive, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, LoopKernel
from ingot.support.records import record

LONGEST_ROW = 256
"""Elements of a row at most: along longer ones a unit is worth its divisions."""

MOST_COPIES = 8
"""Vectors of a row at most, and of all rows that are written out where rows around are few: what
they have in common is read once."""

MOST_NODES = 250
"""Expressions of all copies of a row together, at most."""

LEAST_UNIT = 4096
"""Elements of a unit at least, if the grid has them."""

MOST_PICKED = 4
"""Vectors that a part picks its elements from, and runs that it reads, at most."""

MOST_MASKS = 4
"""Comparisons that say which rows are read, at most: padded rows took 0.6 to 0.8 of the time that
their pieces take, those of an associative scan, chosen by a dozen, 1.2 (AMD EPYC with AVX2)."""

LONGEST_MASKED = 32
"""Elements of a row at most if masks say whether it is read."""

Part = tuple[int, int]
"""Position of the first lane in a row, and number of lanes."""


@record
class Nest:
    """How short rows are written out, in loops over the rows around them.

    Attributes:
        axes: the grid's axes that a unit walks, outermost first; the first one in blocks.
        parts: first lane and number of lanes of each part of a row.
        written: innermost axes of `axes` whose positions have a copy each.
    """

    axes: tuple[Axis, ...]
    parts: tuple[Part, ...]
    written: int


def row_nest(kernel: LoopKernel, axis: Axis, lanes: int) -> Nest | str:
    """Return how the rows along a kernel's last axis are walked, or why they are not.

    Args:
        kernel: the kernel.
        axis: the axis of the grid that lanes run along.
        lanes: how many lanes would; a power of two.
    """
    refusal = _refusal(kernel, axis)
    if refusal:
        return refusal
    length = axis.known_extent
    parts = parts_of(length, lanes, may_overlap=_may_overlap(kernel))
    count = len(tuple(walk(kernel.exprs)))
    if len(kernel.grid) == 2 and all(each == lanes for _, each in parts):
        return "its rows are whole vectors, and units divide nothing"
    if len(parts) > MOST_COPIES or len(parts) * count > MOST_NODES:
        return "its rows are too much code"
    if _has_pieces(kernel, length):
        return "masks of rows are better known in pieces"
    if not all(_is_known(kernel, axis.name, part) for part in parts):
        return "the offsets of lanes are not known"
    axes = _axes_around(kernel, length)
    most = min(MOST_COPIES, MOST_NODES // count)
    return Nest(axes, parts, _written(axes[1:], len(parts), most))


def _refusal(kernel: LoopKernel, axis: Axis) -> str:
    """Return why a kernel has no rows to be walked along its axis, or nothing."""
    if kernel.serial or kernel.local_buffers or kernel.has_loops:
        return "its points have loops or an order"
    if len(kernel.grid) < 2 or axis != kernel.grid[-1]:
        return "its rows are not the last axis of several"
    if not isinstance(axis.extent, int) or not 1 < axis.extent <= LONGEST_ROW:
        return f"rows do not have 2 to {LONGEST_ROW} elements"
    nodes = tuple(walk(kernel.exprs))
    if not any(node.op == "load" for node in nodes):
        return "it reads nothing at known offsets of lanes"
    if any(map(is_expensive, nodes)):
        return "expensive functions fill whole registers"
    stores = kernel.stores
    if not all(one.is_simple and coefficient(one.index, axis.name) == 1 for one in stores):
        return "it does not write rows from end to end"
    return ""


def _has_pieces(kernel: LoopKernel, length: int) -> bool:
    """Whether loops of their own for the pieces where masks are known are the better ones.

    So it is where rows are long, where they are only moved, in one piece with those beside them,
    and where each row would ask many masks.
    """
    nodes = tuple(walk(kernel.exprs))
    masks = sum(1 for node in nodes if node.op == "compare")
    is_static = all(isinstance(axis.extent, int) for axis in kernel.grid)
    is_move = all(node.op in MOVING_OPS for node in nodes)
    is_short = length <= LONGEST_MASKED and is_static
    return masks > 0 and (masks > MOST_MASKS or is_move or not is_short)


def _written(axes: tuple[Axis, ...], copies: int, most: int) -> int:
    """Return how many of the innermost axes are written out: up to `most` copies of a vector."""
    for written, axis in enumerate(reversed(axes)):
        copies *= axis.known_extent
        if copies > most:
            return written
    return len(axes)


def parts_of(length: int, lanes: int, *, may_overlap: bool) -> tuple[Part, ...]:
    """Return the parts of a row: vectors of `lanes`, then narrower ones.

    Where they may overlap, the last one begins sooner if that saves more than one.
    """
    parts: list[Part] = []
    at = 0
    while at < length:
        rest = length - at
        width = min(lanes, 1 << rest.bit_length() - 1)
        wider = 2 * width
        if may_overlap and rest.bit_count() > 2 and wider <= min(lanes, length) and rest < wider:
            parts.append((length - wider, wider))
            break
        parts.append((at, width))
        at += width
    return tuple(parts)


def _may_overlap(kernel: LoopKernel) -> bool:
    """Whether an element may be computed twice: nothing that was written is read again.

    A result may have the memory of an operand that is read, element by element, where it is stored.
    """
    stores = kernel.stores
    written, indices = {one.buffer for one in stores}, {one.index for one in stores}
    loads = [node.payload for node in walk(kernel.exprs) if node.op == "load"]
    return not any(one.buffer in written or one.index in indices for one in loads)


def _is_known(kernel: LoopKernel, name: str, part: Part) -> bool:
    """Whether each load of a part is of vectors, or of lanes out of a few of them."""
    start, lanes = part
    for load in walk(kernel.exprs):
        if load.op != "load" or lanes == 1:
            continue
        if any(name in value.axes for value in load.args):
            return False
        where = dim.substitute(load.payload.index, {name: Dim.symbol(name) + start})
        offsets = lane_offsets(where, name, lanes, 0)
        if offsets is None or not is_near(offsets, MOST_PICKED):
            return False
    return True


def _axes_around(kernel: LoopKernel, length: int) -> tuple[Axis, ...]:
    """Return the axes around rows that a unit walks, outermost first."""
    *_, last, _ = kernel.grid
    axes: list[Axis] = [last]
    for axis in reversed(kernel.grid[:-2]):
        inner = [one.extent for one in axes if isinstance(one.extent, int)]
        if len(inner) < len(axes) or math.prod(inner) * length >= LEAST_UNIT:
            break
        axes.insert(0, axis)
    return tuple(axes)
