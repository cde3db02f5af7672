"""From a fused `sort` to a `SortKernel`, and how its rows are shared out."""

from __future__ import annotations

from dataclasses import dataclass

from ingot.hlo import dim
from ingot.hlo.computation import Computation
from ingot.hlo.dim import Dim, product
from ingot.hlo.opset.indexing import SortAttributes
from ingot.kernel import expr as ex
from ingot.kernel.ir import SortKernel
from ingot.kernel.loops import buffers_of
from ingot.kernel.pull import combiner_exprs

MAX_CHUNKS = 32
"""Chunks at most: each has scratch for a row of its own."""

CHUNK_ELEMENTS = 4096
"""Elements per chunk at least: some ten microseconds."""


@dataclass(frozen=True, slots=True)
class SortSchedule:
    """How a sort kernel runs: `rows` in all, `grain` of them in each of `chunks`."""

    rows: int | Dim
    grain: int | Dim
    chunks: int | Dim


def build_sort_kernel(fused: Computation) -> SortKernel:
    """Return the kernel of a fused computation that is one `sort`."""
    root = fused.root
    given: SortAttributes = root.attributes
    (place,) = given.dimensions
    dims = root.operands[0].shape.dims
    arguments = {
        parameter: ex.argument(number, parameter.shape.dtype)
        for number, parameter in enumerate(given.to_apply.parameters)
    }
    (comparator,) = combiner_exprs(given.to_apply.root, arguments)
    numbers = [fused.parameters.index(operand) for operand in root.operands]
    buffers = buffers_of(fused)
    return SortKernel(
        product(dims[:place]),
        dims[place],
        product(dims[place + 1 :]),
        comparator,
        buffers,
        tuple(numbers),
    )


def schedule_sort(kernel: SortKernel) -> SortSchedule:
    """Return the schedule of a sort kernel."""
    rows = kernel.outer * kernel.inner
    least = dim.maximum(dim.floordiv(CHUNK_ELEMENTS, dim.maximum(kernel.length, 1)), 1)
    grain = dim.maximum(dim.floordiv(rows + (MAX_CHUNKS - 1), MAX_CHUNKS), least)
    return SortSchedule(rows, grain, dim.floordiv(rows + grain - 1, grain))
