# SPDX-License-Identifier: Apache-2.0
"""`unfold_backward`: windows of a dimension are added where they overlap, as `istft` does.

A window is cut into pieces as long as the step. Pieces of one number lie side by side in the
result, those of the next number a step behind: so the result is a sum of a few padded arrays, which
is one kernel. Windows of many pieces, or of symbolic numbers, are a scatter.

Example:
    windows [0 1 2 3] [4 5 6 7] with step 2
    0 1 4 5 . . + . . 2 3 6 7
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.indexing import scatter_slices
from ingot.frontends.torch.fx.sizes import Size
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_MOST_PIECES = 32
"""Arrays that a kernel adds."""


@RULES.rule("unfold_backward")
def _unfold_backward(
    op: Op, windows: Instruction, input_sizes: Sequence[Size], dim: int, size: int, step: int
) -> Instruction:
    del input_sizes  # the result's
    b, dims = op.b, op.dims
    if not dims:
        return b.reshape_to(windows, ())
    axis = op.axis(dim, len(dims))
    count = windows.shape.dims[axis]
    if 0 in (*dims, count):
        return b.zeros(op.shape)
    # Sizes of 1 stand for those of the result, which `istft` makes use of.
    windows = b.spread(windows, (*dims[:axis], count, *dims[axis + 1 :], size))
    rest = range(axis + 1, len(dims))
    windows = b.transposed(windows, (*range(axis + 1), len(dims), *rest))
    wide = b.convert_to(windows, wider(op.dtype))
    length = dims[axis]
    if isinstance(length, int) and isinstance(count, int) and size <= step * _MOST_PIECES:
        made = _by_pieces(op, wide, axis, (count, size, step, length))
    else:
        made = _by_scatter(op, wide, axis, step)
    return b.convert_to(made, op.dtype)


def _by_pieces(
    op: Op, windows: Instruction, axis: int, numbers: tuple[int, int, int, int]
) -> Instruction:
    """Return the sum of the pieces, the last ones first, as PyTorch's kernel adds windows."""
    b = op.b
    count, size, step, length = numbers
    zero = b.scalar(0, windows.shape.dtype)
    pieces = -(-size // step)
    windows = b.padded(windows, axis + 1, 0, pieces * step - size, zero)
    total: Instruction | None = None
    for piece in reversed(range(pieces)):
        part = b.sliced(windows, axis + 1, piece * step, (piece + 1) * step)
        part = b.padded(part, axis, piece, pieces - 1 - piece, zero)
        total = part if total is None else b.add(total, part)
    assert total is not None, "a window has a piece"
    dims = total.shape.dims
    covered = (count + pieces - 1) * step
    made = b.reshape_to(total, (*dims[:axis], covered, *dims[axis + 2 :]))
    made = b.padded(made, axis, 0, max(length - covered, 0), zero)
    return b.sliced(made, axis, 0, length)


def _by_scatter(op: Op, windows: Instruction, axis: int, step: int) -> Instruction:
    """Add each element at its index; those behind the end are dropped."""
    b = op.b
    dims = windows.shape.dims[axis : axis + 2]
    first = b.binary("multiply", b.iota_of(S64, dims, 0), step)
    indices = b.add(first, b.iota_of(S64, dims, 1))
    start = b.zeros(op.shape.with_dtype(windows.shape.dtype))
    return scatter_slices(b, "add", start, indices, windows, axis)
