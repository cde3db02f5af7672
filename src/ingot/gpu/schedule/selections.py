# SPDX-License-Identifier: Apache-2.0
"""The first elements of rows (top-k): blocks select them; where many are wanted rows are sorted.

Few long rows are cut into parts: the best of each part are found by themselves, then the best of
those. If many elements are wanted, indices are written out, whole rows are sorted with them, and
the beginnings of the rows are copied.
"""

from __future__ import annotations

from ingot.gpu.machine import GpuMachine
from ingot.gpu.schedule.sorts import TILE, sort_stages
from ingot.gpu.schedule.strategies import GpuSchedule, Selection, Stage
from ingot.gpu.schedule.threads import match_threads
from ingot.hlo import dim
from ingot.hlo.dim import Dim, ceil_div
from ingot.hlo.dtype import PRED, S32, DType
from ingot.hlo.opset.elementwise import CompareAttributes
from ingot.kernel import expr as ex
from ingot.kernel.expr import Expr, converted
from ingot.kernel.ir import Axis, Buffer, Kernel, LoopKernel, Pass, SortKernel, Store, TopKKernel
from ingot.support.records import replace

MOST_SELECTED = TILE // 2
"""Wanted elements, at most: a tile then has room for as many new ones."""

FEW_ROWS = 64
"""Rows, at most, that do not keep all of a GPU busy."""

LEAST_PART = 4 * TILE
"""Elements of a part of a row, at least."""

MOST_PARTS = 64

LEAST_THREADS = 32

_ROW, _INDEX = "@row", "@index"


def match_selection(kernel: Kernel, machine: GpuMachine) -> GpuSchedule | str:
    """Return the stages of a selection, or why it is none."""
    if not isinstance(kernel, TopKKernel):
        return "it is no selection"
    if kernel.k > MOST_SELECTED:
        return _sorted(kernel, machine)
    parts = _parts(kernel)
    if parts == 1:
        whole = _selection(kernel, (0,), kernel.length, kernel.length)
        return GpuSchedule((_stage(kernel, whole, machine),))
    part = dim.maximum(ceil_div(kernel.length, MOST_PARTS), LEAST_PART)
    parts = ceil_div(kernel.length, part)
    count, k = len(kernel.buffers), kernel.k
    pitch = parts * k
    element = kernel.buffers[0].dtype
    scratch = _row_buffers(element, kernel.rows * pitch)
    found = dim.floordiv(kernel.length, part) * k + dim.minimum(dim.mod(kernel.length, part), k)
    together = replace(kernel, buffers=(*kernel.buffers, *scratch))
    apart = replace(
        _selection(kernel, (0,), kernel.length, kernel.length),
        target=(count, count + 1),
        part=part,
        parts=parts,
    )
    last = _selection(kernel, (count, count + 1), found, pitch)
    stages = (_stage(together, apart, machine), _stage(together, last, machine))
    return GpuSchedule(stages, scratch)


def _parts(kernel: TopKKernel) -> int:
    """Return 1 if rows are not cut."""
    is_few = isinstance(kernel.rows, int) and kernel.rows <= FEW_ROWS
    is_short = isinstance(kernel.length, int) and kernel.length < 2 * LEAST_PART
    return MOST_PARTS if is_few and not is_short else 1


def _selection(
    kernel: TopKKernel, source: tuple[int, ...], length: int | Dim, pitch: int | Dim
) -> Selection:
    """Return the selection of the results from rows of the source."""
    slots = TILE
    if isinstance(length, int):
        slots = min(TILE, 1 << (length + kernel.k - 1).bit_length())
    order = _order(kernel)
    return Selection(order, source, (1, 2), length, pitch, length, 1, max(slots, 2))


def _stage(kernel: TopKKernel, strategy: Selection, machine: GpuMachine) -> Stage:
    threads = max(LEAST_THREADS, min(machine.threads, strategy.slots // 2))
    return Stage(kernel, strategy, kernel.rows * strategy.parts, threads)


def _order(kernel: TopKKernel) -> Expr:
    """Return whether the left element comes before the right one."""
    element = kernel.buffers[0].dtype
    left, right = (ex.argument(number, element) for number in (0, 1))
    kind = "TOTALORDER" if element.is_float else ""
    given = CompareAttributes("GT" if kernel.largest else "LT", kind)
    return ex.make("compare", PRED, (left, right), given)


def _row_buffers(element: DType, size: int | Dim) -> tuple[Buffer, Buffer]:
    """Return scratch of elements and of their indices."""
    return Buffer(element, size, is_output=False), Buffer(S32, size, is_output=False)


def _sorted(kernel: TopKKernel, machine: GpuMachine) -> GpuSchedule:
    """Return the stages that sort whole rows."""
    count, rows, length = len(kernel.buffers), kernel.rows, kernel.length
    element = kernel.buffers[0].dtype
    sorted_ = _row_buffers(element, rows * length)
    own = (Buffer(S32, rows * length, is_output=False), *sorted_)
    sort = SortKernel(rows, length, 1, _order(kernel), (*kernel.buffers, *own), (0, count))
    stages, more = sort_stages(sort, (count + 1, count + 2), machine)
    buffers = (*kernel.buffers, *own, *more)

    def loop(extent: int | Dim, *stores: Store) -> Stage:
        grid = (Axis(_ROW, rows), Axis(_INDEX, extent))
        found = match_threads(LoopKernel(grid, (Pass((), (), stores),), buffers), machine)
        assert not isinstance(found, str), "its points may run in any order"
        return found.stages[0]

    row, index = Dim.symbol(_ROW), Dim.symbol(_INDEX)
    number = Store(count, row * length + index, converted(ex.index(index), S32))
    begin, to = row * length + index, row * kernel.k + index
    copies = (
        Store(1, to, ex.load(count + 1, begin, element)),
        Store(2, to, ex.load(count + 2, begin, S32)),
    )
    sorting = tuple(
        replace(stage, kernel=replace(stage.kernel, buffers=buffers)) for stage in stages
    )
    return GpuSchedule((loop(length, number), *sorting, loop(kernel.k, *copies)), (*own, *more))
