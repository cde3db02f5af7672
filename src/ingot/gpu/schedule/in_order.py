# SPDX-License-Identifier: Apache-2.0
"""Updates in order (scatter): which of them cannot meet, so that they may run in parallel.

Either the innermost grid axes are rows of elements that lie apart whatever the indices are. Or
updates are sorted by their element, and each thread makes those of one element. Where there are so
few updates that sorting is not worth it, each thread owns the elements whose index modulo the
number of owners is its own: it visits all updates in order and makes those of its own elements.
That is a rewrite of the kernel: an axis of owners and a mask.

Invariant: the updates of one element are made by one thread, in the order of the grid.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.sorts import TILE, sort_stages
from ingot.gpu.schedule.strategies import (
    GpuSchedule,
    InOrder,
    SortedUpdates,
    Stage,
    Threads,
    one_stage,
)
from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dtype import S32, S64, DType
from ingot.kernel import expr as ex
from ingot.kernel.expr import Access, Expr, compare, converted, walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, Buffer, Kernel, LoopKernel, Pass, SortKernel, Store
from ingot.kernel.rewrite import Rewriter
from ingot.support.records import replace

OWNERS = 1024
"""Threads that share the elements of a scatter: each reads all indices, so no more than these."""

OWNER = "@owner"

LEAST_SORTED = 2 * TILE
"""Fewer updates are read by all owners faster than they are sorted."""

SMALL = 1 << 31
"""Numbers below this are sorted as s32."""

LEAST_APART = 32
"""Rows of fewer elements are no work for a warp."""


def match_in_order(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the schedule of a serial kernel, or why not."""
    if not isinstance(kernel, LoopKernel) or not kernel.serial:
        return "its points may run in any order"
    apart = axes_apart(kernel)
    count = dim.product(axis.extent for axis in apart)
    is_narrow = isinstance(count, int) and count < LEAST_APART
    if is_narrow and has_one_element_per_point(kernel):
        if not isinstance(kernel.grid_size, int) or kernel.grid_size >= LEAST_SORTED:
            return _sorted(kernel, machine)
        kernel = owned(kernel)
        apart, count = (kernel.grid[-1],), OWNERS
    blocks = ceil_div(count, machine.threads)
    return one_stage(kernel, InOrder(apart), blocks, machine.threads)


def _sorted(kernel: LoopKernel, machine: GpuMachine) -> GpuSchedule:
    """Return the stages that sort updates by their element, and make each one's in order."""
    count, points = len(kernel.buffers), kernel.grid_size
    store = kernel.stores[0]
    key = _whole(kernel.buffers[store.buffer].size)
    number = _whole(points)
    pair = (Buffer(key, points, is_output=False), Buffer(number, points, is_output=False))
    own = (*pair, *pair)
    sides = tuple(ex.argument(side, key) for side in (0, 1))
    order = compare("LT", *sides)
    sort = SortKernel(1, points, 1, order, (*kernel.buffers, *own), (count, count + 1))
    stages, more = sort_stages(sort, (count + 2, count + 3), machine)
    scratch = (*own, *more)
    buffers = (*kernel.buffers, *scratch)
    point: int | Dim = 0
    for axis in kernel.grid:
        point = point * axis.extent + Dim.symbol(axis.name)
    # A masked update is sorted by a meaningless element; the last stage tests the mask again.
    stores = (
        Store(count, point, converted(ex.index(store.index, store.values), key)),
        Store(count + 1, point, converted(ex.index(point), number)),
    )
    threads, blocks = machine.threads, ceil_div(points, machine.threads)
    keys = LoopKernel(kernel.grid, (Pass((), (), stores),), buffers)
    updates = SortedUpdates(count + 2, count + 3)
    sorting = tuple(
        replace(stage, kernel=replace(stage.kernel, buffers=buffers)) for stage in stages
    )
    first = Stage(keys, Threads(), blocks, threads)
    last = Stage(replace(kernel, buffers=buffers), updates, blocks, threads)
    return GpuSchedule((first, *sorting, last), scratch)


def _whole(size: int | Dim) -> DType:
    """Return the type of numbers below a size."""
    return S32 if isinstance(size, int) and size <= SMALL else S64


def axes_apart(kernel: LoopKernel) -> tuple[Axis, ...]:
    """Return the innermost grid axes whose points touch different elements of the results.

    They are digits of the element's number: all else in it is a multiple of their product.
    """
    indices = _touched(kernel)
    found: tuple[Axis, ...] = ()
    stride: int | Dim = 1
    for axis in reversed(kernel.grid):
        wider = stride * axis.extent
        if not all(_is_digit(index, (axis, *found), stride, wider) for index in indices):
            break
        found, stride = (axis, *found), wider
    return found


def _touched(kernel: LoopKernel) -> list[int | Dim]:
    """Return the indices of everything that is stored, or read of the results."""
    results = {number for number, buffer in enumerate(kernel.buffers) if buffer.is_output}
    loads = (node for node in walk(kernel.exprs) if node.op == "load")
    read = [load.payload.index for load in loads if load.payload.buffer in results]
    return [*(store.index for store in kernel.stores), *read]


def _is_digit(
    index: int | Dim, axes: tuple[Axis, ...], stride: int | Dim, wider: int | Dim
) -> bool:
    """Whether the first axis has this stride, and all but `axes` is a multiple of `wider`."""
    if coefficient(index, axes[0].name) != stride:
        return False
    rest = dim.substitute(index, {axis.name: 0 for axis in axes})
    return rest == 0 or dim.exact_quotient(rest, wider) is not None


def has_one_element_per_point(kernel: LoopKernel) -> bool:
    """Whether all that a point stores, or reads of the results, is at one element number."""
    values = {store.values for store in kernel.stores}
    return len(set(_touched(kernel))) == 1 and len(values) == 1 and not _has_axes(kernel)


def _has_axes(kernel: LoopKernel) -> bool:
    return any(item.axes or item.reductions for item in kernel.passes)


def owned(kernel: LoopKernel, owners: int = OWNERS) -> LoopKernel:
    """Return the kernel with an innermost axis of owners, each of which makes its own updates."""
    made = _OwnUpdates(kernel, owners).kernel(kernel)
    return replace(made, grid=(*made.grid, Axis(OWNER, owners)))


class _OwnUpdates(Rewriter):
    """Lets only the owner of an element read or write it.

    Reads are masked too: another owner, which would throw the value away, may not look at an
    element while its owner writes it.
    """

    def __init__(self, kernel: LoopKernel, owners: int) -> None:
        super().__init__()
        self._owners = owners
        self._results = {n for n, buffer in enumerate(kernel.buffers) if buffer.is_output}

    def node(self, item: Expr, args: tuple[Expr, ...]) -> Expr:
        """Return an expression on arguments that are rewritten; loads of results get a mask."""
        found = super().node(item, args)
        if found.op != "load" or found.payload.buffer not in self._results:
            return found
        access: Access = found.payload
        mask, values = (args[0], args[1:]) if access.masked else (None, args)
        mask = self._owned(access.index, values, mask)
        return ex.load(access.buffer, access.index, found.dtype, values, mask)

    def store(self, old: Store) -> Store:
        """Return a store that only the owner of its element makes."""
        made = super().store(old)
        return replace(made, mask=self._owned(made.index, made.values, made.mask))

    def _owned(self, index: int | Dim, values: tuple[Expr, ...], mask: Expr | None) -> Expr | None:
        """Return the mask that holds where `mask` does and the element is this owner's."""
        whose = ex.index(dim.mod(index, self._owners), values)
        return ex.conjunction(mask, compare("EQ", whose, ex.index(Dim.symbol(OWNER))))
