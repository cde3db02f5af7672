# SPDX-License-Identifier: Apache-2.0
"""A choice between two loads of one buffer becomes one load with a chosen index.

`roll` is, at each point, a choice between two loads of its operand under opposite masks. If the
choice does not depend on the vector axis, the index is chosen instead, once for a row. The
alternatives are masks in lanes, or cutting the axis into pieces (`kernel.schedule.pieces`), which
multiply: a roll along three axes has 27.

Invariant: the load reads what the chosen one of the two would have read.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.hlo.dim import Dim
from ingot.hlo.opset.elementwise import INVERSE
from ingot.kernel import expr as ex
from ingot.kernel.analysis.ranges import Range, RangeSimplifier, ranges_of
from ingot.kernel.analysis.vector_axis import grid_vector_axis
from ingot.kernel.expr import Expr, axis_names, walk
from ingot.kernel.ir import Axis, LoopKernel


def select_to_index(kernel: LoopKernel) -> LoopKernel:
    """Return the kernel with one load for each choice between two that lanes agree on."""
    if kernel.serial or not kernel.grid or kernel.has_loops:
        return kernel
    if not any(node.op == "select" and _is_choice(*node.args) for node in walk(kernel.exprs)):
        return kernel
    axis = grid_vector_axis(kernel)
    assert axis is not None, "a grid without loops inside has an axis for lanes"
    return _Chooser(ranges_of(kernel.grid), axis).kernel(kernel)


def _is_choice(_: Expr, yes: Expr, no: Expr) -> bool:
    """Whether both are masked loads from one buffer, at indices without run-time values."""
    return all(
        load.op == "load" and load.payload.masked and len(load.args) == 1 for load in (yes, no)
    ) and (yes.payload.buffer == no.payload.buffer)


class _Chooser(RangeSimplifier):
    """Merges choices; comparisons that hold all over the grid are known before."""

    def __init__(self, ranges: Mapping[str, Range], vector_axis: Axis) -> None:
        super().__init__(ranges)
        self.vector_axis = vector_axis.name

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return one expression on arguments that are simplified."""
        found = super().node(item, args)
        if found.op != "select" or not _is_choice(*found.args):
            return found
        mask, yes, no = found.args
        where, other = yes.payload.index, no.payload.index
        moves = axis_names(where - other) | mask.axes
        if yes.args[0] is not mask or not _are_opposite(mask, no.args[0]):
            return found
        if self.vector_axis in moves:
            return found
        offset = ex.select(mask, ex.index(where - other), ex.index(0))
        return ex.load(no.payload.buffer, other + Dim.symbol("$0"), found.dtype, (offset,))


def _are_opposite(one: Expr, other: Expr) -> bool:
    """Whether exactly one of two comparisons of the same indices holds."""
    if one.op != "compare" or other.op != "compare" or one.args != other.args:
        return False
    if any(arg.op != "index" for arg in one.args):
        return False
    return INVERSE[one.payload.direction] == other.payload.direction
