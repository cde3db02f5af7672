"""Plain reductions: kernels that sum a matrix (or all) as it lies, the same code at every size.

`reduce(x)` over rows, columns or everything needs code that depends on the element type, the
combining op and the shape of vectors, not on extents. So extents and the schedule's numbers become
symbolic sizes (`SIZES`) whose values the host program passes, and the code is shared by all such
reductions, as that of plain products is (`kernel.product`).

Invariant: the schedule is that of the kernel with its own extents, so the order of additions and
the result's bits are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ingot.hlo.dim import Dim
from ingot.hlo.dtype import PRED
from ingot.kernel import expr as ex
from ingot.kernel.expr import Access, Expr
from ingot.kernel.fingerprint import fingerprint
from ingot.kernel.ir import Axis, Buffer, LoopKernel, Pass, Reduction
from ingot.kernel.schedule import LoopSchedule, Split, Vectors, schedule_loops

SIZES = ("kept", "reduced", "units", "grain", "chunks", "parts", "part_length")
"""Names of the sizes: extents of the grid and of the reduced axis, then the schedule's numbers."""

MIN_ELEMENTS = 1 << 16
"""Smaller reductions are compiled with their program's other kernels: narrow ones have other lanes,
and there are too many kinds to keep."""


@dataclass(frozen=True, slots=True)
class PlainReduction:
    """A plain reduction.

    Attributes:
        kernel: for every size.
        schedule: for every size.
        values: of `SIZES`, for the kernel at hand.
    """

    kernel: LoopKernel
    schedule: LoopSchedule
    values: dict[str, int]

    @property
    def name(self) -> str:
        """A name that says all that the code depends on."""
        schedule = self.schedule
        lanes = "x".join(map(str, schedule.lanes))
        axis = schedule.vector_axis.name[1:] if schedule.vector_axis is not None else "none"
        form = f"{lanes}_{schedule.block}_{axis}{'_split' * (schedule.split is not None)}"
        return f"reduce_{fingerprint(self.kernel)}_{form}"


def plain_reduction(kernel: LoopKernel, vectors: Vectors) -> PlainReduction | None:
    """Return the reduction for every size that a kernel is one of, or None."""
    if not _is_candidate(kernel):
        return None
    first = kernel.passes[0]
    kept = kernel.grid[0].extent if kernel.grid else 1
    reduced = first.axes[0].extent
    if isinstance(kept, Dim) or isinstance(reduced, Dim) or kept * reduced < MIN_ELEMENTS:
        return None
    general = _general(kernel, kept, reduced)
    own = schedule_loops(kernel, vectors)
    if general is None or own.tile is not None:
        return None
    numbers = [kept, reduced, own.units, own.grain, own.chunks, 1, reduced]
    if own.split is not None:
        numbers[-2:] = [own.split.count, own.split.length]
    values = {
        name: size for name, size in zip(SIZES, numbers, strict=True) if isinstance(size, int)
    }
    if len(values) < len(SIZES):
        return None
    size = {name: Dim.symbol(name) for name in SIZES}
    axis = own.vector_axis
    schedule = replace(
        own,
        waits=False,
        vector_axis=None if axis is None else Axis(axis.name, size["kept"]),
        units=size["units"],
        grain=size["grain"],
        chunks=size["chunks"],
        split=None if own.split is None else Split(size["part_length"], size["parts"]),
    )
    return PlainReduction(general, schedule, values)


def _is_candidate(kernel: LoopKernel) -> bool:
    """Whether the kernel is one fold of one load, over one axis, stored as it is."""
    if kernel.serial or kernel.kept or len(kernel.grid) > 1 or len(kernel.passes) != 2:
        return False
    first, last = kernel.passes
    if len(first.axes) != 1 or len(first.reductions) != 1 or first.stores:
        return False
    (fold,) = first.reductions
    if fold.combiner.opcode is None or len(fold.inputs) != 1:
        return False
    (load,) = fold.inputs
    if load.op != "load" or load.args or load.dtype is PRED:
        return False
    if last.axes or last.reductions or len(last.stores) != 1 or len(kernel.buffers) != 2:
        return False
    (store,) = last.stores
    is_simple = store.mask is None and store.combiner is None and not store.values
    return is_simple and store.value.op == "reduced" and fold.inits[0].op == "constant"


def _general(kernel: LoopKernel, kept: int, reduced: int) -> LoopKernel | None:
    """Return the kernel with sizes for extents; None if the operand lies in another way."""
    first, last = kernel.passes
    (fold,), (store,) = first.reductions, last.stores
    (load,) = fold.inputs
    inner = Dim.symbol(first.axes[0].name)
    outer = Dim.symbol(kernel.grid[0].name) if kernel.grid else None
    if store.index != (0 if outer is None else outer) or load.payload.buffer != 0:
        return None
    index = _index(load.payload.index, outer, inner, kept, reduced)
    if index is None:
        return None
    many, deep = Dim.symbol("kept"), Dim.symbol("reduced")
    general_load = ex.make("load", load.dtype, (), Access(0, index))
    total: int | Dim = deep if outer is None else many * deep
    buffers = (
        Buffer(kernel.buffers[0].dtype, total, False),
        Buffer(kernel.buffers[1].dtype, 1 if outer is None else many, True),
    )
    return LoopKernel(
        tuple(Axis(axis.name, many) for axis in kernel.grid),
        (_with_input(first, fold, general_load, deep), last),
        buffers,
        parameters=SIZES,
    )


def _index(
    given: int | Dim, outer: Dim | None, inner: Dim, kept: int, reduced: int
) -> int | Dim | None:
    """Return the index of the load for every size, None if it is not one of rows or columns."""
    if outer is None:
        return inner if given == inner else None
    if given == outer * reduced + inner:
        return outer * Dim.symbol("reduced") + inner
    if given == inner * kept + outer:
        return inner * Dim.symbol("kept") + outer
    return None


def _with_input(item: Pass, fold: Reduction, load: Expr, extent: Dim) -> Pass:
    axes = (Axis(item.axes[0].name, extent),)
    return Pass(axes, (replace(fold, inputs=(load,)),))
