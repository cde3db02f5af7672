# SPDX-License-Identifier: Apache-2.0
"""Plain gathers and scatters, which do little more than follow an array of indices, and `iota`.

The code of a gather of elements, or of a scatter that combines elements or short rows (sums by
segment), depends on element types and on how an index is computed from the array. The number of
indices, and the lengths that they are compared with, are parameters. So such a kernel is library
code, as a plain reduction is (`kernel.generic.reduction`).

Invariant: updates happen in the order of the grid, as in a kernel compiled alone.

Values that are sorted together with their positions, or gathered by them, begin with a kernel that
writes the position of each element along an axis. It reads nothing, so it cannot depend on data.
"""

from __future__ import annotations

from ingot.hlo.dim import Dim
from ingot.kernel.analysis.gathers import LEAST_AHEAD
from ingot.kernel.expr import Expr, is_position, walk
from ingot.kernel.generic.generalize import IN_TILES, GenericKernel, generalized
from ingot.kernel.generic.reduction import is_element
from ingot.kernel.ir import LoopKernel, Store
from ingot.kernel.schedule.loop_schedule import InLanes, LoopSchedule
from ingot.kernel.schedule.serial import StagedUpdates
from ingot.kernel.schedule.tiles import SquareTiles

OF_INDICES = frozenset({
    "load", "constant", "convert", "compare", "and", "add", "select", "maximum", "minimum",
})  # fmt: skip
"""Ops that indices go through: they are held within lengths, or counted from the end if negative
(JAX, NumPy). What lies outside may be left out, or be something else."""

MAX_NODES = 24
"""Longer ways are their programs' own."""

MORE = "it does more than gather or scatter elements"


def generic_indexing(kernel: LoopKernel, own: LoopSchedule) -> GenericKernel | str:
    """Return the generic kernel of a plain gather or scatter, or why a kernel is none."""
    if not (_has_lanes_to_fill(own) or isinstance(own.strategy, StagedUpdates)):
        return "it has no long axis of indices"
    if kernel.local_buffers or len(kernel.passes) != 1 or not _is_plain(kernel.exprs):
        return MORE
    (only,) = kernel.passes
    if only.axes or len(only.stores) != 1:
        return MORE
    (store,) = only.stores
    if not (_combines(store) if kernel.serial else store.is_simple and _gathers(store.value)):
        return MORE
    return generalized(kernel, own, "update" if kernel.serial else "gather")


def _has_lanes_to_fill(own: LoopSchedule) -> bool:
    """Whether lanes run along a long axis, at indices computed ahead or where they are used."""
    axis = own.vector_axis
    is_short = axis is None or (isinstance(axis.extent, int) and axis.extent < LEAST_AHEAD)
    return own.ahead.bits > 0 or (isinstance(own.strategy, InLanes) and not is_short)


def _is_plain(exprs: tuple[Expr, ...]) -> bool:
    nodes = walk(exprs)
    return len(nodes) <= MAX_NODES and all(node.op in OF_INDICES for node in nodes)


def _combines(store: Store) -> bool:
    """Whether a store combines elements of an array, or a constant, by one op."""
    if store.combiner is None or store.combiner.opcode is None:
        return False
    return is_element(store.value) or store.value.op == "constant"


def _gathers(value: Expr) -> bool:
    """Whether a value is an element of one array at an index that others hold, or a constant."""
    loads = [node for node in walk((value,)) if node.op == "load" and node.args]
    ends = value.args[1:] if value.op == "select" else (value,)
    return len(loads) == 1 and all(end is loads[0] or end.op == "constant" for end in ends)


MIN_ELEMENTS = 1 << 12
"""Fewer positions are compiled with their program's other kernels: they have other lanes."""

NO_POSITIONS = "it does more than write the positions of an axis"


def generic_iota(kernel: LoopKernel, own: LoopSchedule) -> GenericKernel | str:
    """Return the generic kernel of a write of positions, or why a kernel is none."""
    if kernel.serial or kernel.local_buffers or len(kernel.passes) != 1 or len(kernel.buffers) != 1:
        return NO_POSITIONS
    (only,) = kernel.passes
    if only.axes or only.reductions or len(only.stores) != 1:
        return NO_POSITIONS
    (store,) = only.stores
    elements = kernel.grid_size
    if not store.is_simple or not is_position(store.value):
        return NO_POSITIONS
    if isinstance(elements, Dim) or elements < MIN_ELEMENTS:
        return f"fewer than {MIN_ELEMENTS} elements, or how many is symbolic"
    if isinstance(own.strategy, SquareTiles):
        return IN_TILES
    return generalized(kernel, own, "iota")
