# SPDX-License-Identifier: Apache-2.0
"""Long folds of few blocks, cut into two stages: folds of parts, then the fold of their results.

A rewrite of the kernel to two, each of which has a strategy of its own. Which folds are cut, and
how long the parts are, depends on sizes alone, and so does the order of sums. Folds of more than
`BLOCKS` blocks are not cut. A part of an argmax gives an index in the part; the second stage adds
the index at which the part begins.

Invariant: the first stage's folds are those of the kernel, of the elements of a part.
"""

from __future__ import annotations

from collections.abc import Mapping

from ingot.gpu.machine import BLOCKS
from ingot.gpu.schedule.strategies import PART, BlockRows, Columns, GpuSchedule, Strategy
from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div
from ingot.kernel import expr as ex
from ingot.kernel.analysis.lane_counts import starts_from_identity
from ingot.kernel.expr import Expr, converted
from ingot.kernel.ir import Axis, Buffer, LoopKernel, Pass, Reduction, Store
from ingot.kernel.rewrite import AxisSubstitution
from ingot.semantics.identities import identity_of
from ingot.support.records import record, replace

LEAST_PART: Mapping[type[Strategy], int] = {BlockRows: 4096, Columns: 256}
"""Elements of a fold that are work for a block, by its strategy."""


@record
class SplitFold:
    """A kernel as two.

    Attributes:
        parts: gives the folds of parts, in the scratch.
        whole: folds those, and stores the results.
        scratch: buffers, behind the kernel's.
    """

    parts: LoopKernel
    whole: LoopKernel
    scratch: tuple[Buffer, ...]


def split_fold(kernel: LoopKernel, found: GpuSchedule) -> SplitFold | None:
    """Return a kernel cut in two, None if the schedule that was found for it is good enough."""
    stage, *others = found.stages
    least = LEAST_PART.get(type(stage.strategy))
    first, *rest = kernel.passes
    is_few = isinstance(stage.blocks, int) and 0 < stage.blocks <= BLOCKS
    is_one_fold = not (first.stores or kernel.local_buffers or any(item.axes for item in rest))
    if others or least is None or not is_few or not is_one_fold:
        return None
    axis = max(first.axes, key=_known_extent)
    inner = dim.product(other.extent for other in first.axes if other is not axis)
    if not isinstance(inner, int) or inner == 0:
        return None
    assert isinstance(stage.blocks, int), "few blocks are a known number of them"
    most = -(-2 * BLOCKS // stage.blocks)
    length = dim.maximum(ceil_div(axis.extent, most), ceil_div(least, inner))
    if isinstance(axis.extent, int) and isinstance(length, int) and length >= axis.extent:
        return None
    count = dim.maximum(ceil_div(axis.extent, length), 1)
    return _Splitter(kernel, axis, length, Axis(PART, count)).split()


def _known_extent(axis: Axis) -> int:
    """Return the extent of an axis; one that is not known may be as long as any."""
    return axis.extent if isinstance(axis.extent, int) else 1 << 62


class _Splitter:
    """Cuts one kernel along one axis of its first pass."""

    def __init__(self, kernel: LoopKernel, axis: Axis, length: int | Dim, part: Axis) -> None:
        self.kernel = kernel
        self.axis = axis
        self.length = length
        self.part = part
        self.begin = Dim.symbol(PART) * length
        self.points = kernel.grid_size
        self.scratch: list[Buffer] = []
        self.stores: list[Store] = []
        self.loads: dict[int, tuple[Expr, ...]] = {}

    def split(self) -> SplitFold:
        """Return both kernels."""
        kernel, (first, *rest) = self.kernel, self.kernel.passes
        for fold in first.reductions:
            self._add_scratch(fold)
        scratch = tuple(self.scratch)
        buffers = (*kernel.buffers, *scratch)
        pieces = Pass(self._axes(first), tuple(map(self._of_part, first.reductions)))
        parts = replace(
            kernel,
            grid=(self.part, *kernel.grid),
            passes=(pieces, Pass((), (), tuple(self.stores))),
            buffers=buffers,
        )
        folds = tuple(replace(fold, inputs=self.loads[fold.number]) for fold in first.reductions)
        joined = Pass((self.part,), folds)
        whole = replace(kernel, passes=(joined, *rest), buffers=buffers)
        return SplitFold(parts, whole, scratch)

    def _add_scratch(self, fold: Reduction) -> None:
        """Make room for the results of a fold's parts: by part, then by grid point."""
        where: int | Dim = Dim.symbol(PART)
        for axis in self.kernel.grid:
            where = where * axis.extent + Dim.symbol(axis.name)
        names = frozenset([PART, *(axis.name for axis in self.kernel.grid)])
        loads: list[Expr] = []
        for output, value in enumerate(fold.inputs):
            number = len(self.kernel.buffers) + len(self.scratch)
            size = self.part.extent * self.points
            self.scratch.append(Buffer(value.dtype, size, is_output=False))
            given = ex.reduced(fold.number, output, value.dtype, names)
            self.stores.append(Store(number, where, given))
            loads.append(ex.load(number, where, value.dtype))
        if not starts_from_identity(fold):
            index = loads[1]
            begin = converted(ex.index(self.begin), index.dtype)
            loads[1] = ex.compute("add", index, begin)
        self.loads[fold.number] = tuple(loads)

    def _axes(self, first: Pass) -> tuple[Axis, ...]:
        """Return the axes of a part: the last one may be shorter."""
        extent, length = self.axis.extent, self.length
        is_even = self.part.extent * length == extent
        short = length if is_even else dim.minimum(length, extent - self.begin)
        own = Axis(self.axis.name, short)
        return tuple(own if axis is self.axis else axis for axis in first.axes)

    def _of_part(self, fold: Reduction) -> Reduction:
        """Return a fold of a part's elements."""
        moved = AxisSubstitution({self.axis.name: Dim.symbol(self.axis.name) + self.begin})
        if not starts_from_identity(fold):
            # The index is that in the part: `arg_fold` recognises an argmax by it.
            return replace(fold, inputs=(moved.expr(fold.inputs[0]), fold.inputs[1]))
        kind = fold.inputs[0].dtype
        identity = identity_of(fold.combiner.opcode or "", kind)
        inits = (ex.scalar(identity, kind),)
        return replace(fold, inits=inits, inputs=moved.exprs(fold.inputs))
