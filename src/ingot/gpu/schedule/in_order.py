# SPDX-License-Identifier: Apache-2.0
"""Updates in order (scatter): which of them cannot meet, so that they may run in parallel.

Either the innermost grid axes are rows of elements that lie apart whatever the indices are, or each
thread owns the elements whose number leaves its remainder: it visits all updates in order and makes
those of its own elements. The second is a rewrite of the kernel: an axis of owners and a mask.

Invariant: the updates of one element are made by one thread, in the order of the grid.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.strategies import GpuSchedule, InOrder, one_stage
from ingot.hlo import dim
from ingot.hlo.dim import Dim
from ingot.kernel import expr as ex
from ingot.kernel.elemental.points import compare
from ingot.kernel.expr import walk
from ingot.kernel.index_math import coefficient
from ingot.kernel.ir import Axis, Kernel, LoopKernel, Store
from ingot.kernel.schedule.work import ceil_div
from ingot.support.records import replace

OWNERS = 1024
"""Threads that share the elements of a scatter: each reads all indices, so no more than these."""

OWNER = "@owner"

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
        kernel = owned(kernel)
        apart, count = (kernel.grid[-1],), OWNERS
    blocks = ceil_div(count, machine.threads)
    return one_stage(kernel, InOrder(apart), blocks, machine.threads)


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
    return [*(store.index for store in _stores(kernel)), *read]


def _stores(kernel: LoopKernel) -> list[Store]:
    return [store for item in kernel.passes for store in item.stores]


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
    values = {store.values for store in _stores(kernel)}
    return len(set(_touched(kernel))) == 1 and len(values) == 1 and not _has_axes(kernel)


def _has_axes(kernel: LoopKernel) -> bool:
    return any(item.axes or item.reductions for item in kernel.passes)


def owned(kernel: LoopKernel, owners: int = OWNERS) -> LoopKernel:
    """Return the kernel with an innermost axis of owners, each of which makes its own updates."""
    owner = ex.index(Dim.symbol(OWNER))

    def masked(store: Store) -> Store:
        whose = ex.index(dim.mod(store.index, owners), store.values)
        return replace(store, mask=ex.conjunction(store.mask, compare("EQ", whose, owner)))

    passes = tuple(replace(item, stores=tuple(map(masked, item.stores))) for item in kernel.passes)
    return replace(kernel, grid=(*kernel.grid, Axis(OWNER, owners)), passes=passes)
