# SPDX-License-Identifier: Apache-2.0
"""`col2im`, the gradient of `im2col`: the elements of all windows are added at their places.

Those of one tap lie in the image as the windows do, `stride` apart, so the result is a sum of one
padded array for each tap of a dimension. Windows of many taps, or at symbolic places, are a
scatter. PyTorch's decomposition is a scatter, whose indices the forward pass would keep.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.indexing import scatter_slices
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

RULES = RuleTable("aten")

_MOST_TAPS = 8
"""Taps of a dimension: a kernel adds an array for each pair of them."""


@record
class _Windows:
    """How windows lie along a dimension.

    Attributes:
        length: the size of the dimension, with its padding.
        step: from window to window.
        gap: from tap to tap of a window.
    """

    length: Size
    step: int
    gap: int


@RULES.rule("col2im")
def _col2im(
    op: Op,
    columns: Instruction,
    output_size: Sequence[Size],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Instruction:
    """Columns `[batch, channels * taps, windows]` become images; the batch may be missing."""
    b = op.b
    if 0 in (*op.dims, *columns.shape.dims):
        return b.zeros(op.shape)
    outer = op.dims[:-2]
    windows = [
        _Windows(size + 2 * pad, step, gap)
        for size, pad, step, gap in zip(output_size, padding, stride, dilation, strict=True)
    ]
    counts = [
        dim_math.floordiv(one.length - one.gap * (taps - 1) - 1 + one.step, one.step)
        for one, taps in zip(windows, kernel_size, strict=True)
    ]
    made = b.reshape_to(columns, (*outer, *kernel_size, *counts))
    made, first = b.convert_to(made, wider(op.dtype)), len(outer)
    made = _added(op, made, (first + 1, first + 3), windows[1])
    made = _added(op, made, (first, first + 1), windows[0])
    for number, (size, pad) in enumerate(zip(output_size, padding, strict=True)):
        made = b.sliced(made, first + number, pad, pad + size)
    return b.convert_to(made, op.dtype)


def _added(op: Op, x: Instruction, axes: tuple[int, int], given: _Windows) -> Instruction:
    """Add the taps of a dimension; `axes` are that of the taps and that of the windows behind it.

    The axis of the taps goes away, that of the windows becomes the dimension.
    """
    b, (of_taps, of_windows) = op.b, axes
    taps, count = (x.shape.dims[axis] for axis in axes)
    length = given.length
    if not isinstance(length, int) or not isinstance(count, int):
        return _scattered(op, x, axes, given)
    assert isinstance(taps, int), "sizes of windows are numbers"
    if taps > _MOST_TAPS:
        return _scattered(op, x, axes, given)
    zero, covered = b.scalar(0, x.shape.dtype), (count - 1) * given.step + 1
    total: Instruction | None = None
    for tap in range(taps):
        part = b.sliced(x, of_taps, tap, tap + 1)
        dims = part.shape.dims
        part = b.reshape_to(part, (*dims[:of_taps], *dims[of_taps + 1 :]))
        edges = [(0, 0, 0)] * part.shape.rank
        behind = length - tap * given.gap - covered
        edges[of_windows - 1] = (tap * given.gap, behind, given.step - 1)
        part = b.pad(part, zero, padding=tuple(edges))
        total = part if total is None else b.add(total, part)
    assert total is not None, "a window has a tap"
    return total


def _scattered(op: Op, x: Instruction, axes: tuple[int, int], given: _Windows) -> Instruction:
    """Add each element at its index."""
    b, (of_taps, of_windows) = op.b, axes
    rest = [axis for axis in range(x.shape.rank) if axis not in axes]
    x = b.transposed(x, (*rest[: of_windows - 1], of_taps, of_windows, *rest[of_windows - 1 :]))
    at, dims = of_windows - 1, x.shape.dims
    tap = b.binary("multiply", b.iota_of(S64, dims[at : at + 2], 0), given.gap)
    window = b.binary("multiply", b.iota_of(S64, dims[at : at + 2], 1), given.step)
    start = b.zeros(x.shape.with_dims((*dims[:at], given.length, *dims[at + 2 :])))
    return scatter_slices(b, "add", start, b.add(tap, window), x, at)
