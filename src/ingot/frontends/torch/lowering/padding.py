# SPDX-License-Identifier: Apache-2.0
"""Gradients of padding that repeats the border elements; PyTorch decomposes the padding itself."""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.indexing import scatter_slices
from ingot.frontends.torch.lowering.op import Op
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.frontends.torch.sizes import Size
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


@RULES.rule(
    "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward"
)
def _replication_backward(
    op: Op, gradient: Instruction, x: Instruction, padding: Sequence[Size]
) -> Instruction:
    """A border element gets the sum of its copies' gradients; `padding` begins at the last axis."""
    b = op.b
    if 0 in (*gradient.shape.dims, *x.shape.dims):
        return b.zeros(op.shape)
    made = b.convert_to(gradient, wider(op.dtype))
    if any(map(b.names_number, padding)):
        for number in range(len(padding) // 2):
            made = _scattered(b, made, x.shape.rank - 1 - number, x, padding[2 * number])
        return b.convert_to(made, op.dtype)
    for number in range(len(padding) // 2):
        axis = x.shape.rank - 1 - number
        (low, first), (high, last) = (_parts(item) for item in padding[2 * number :][:2])
        kept = x.shape.dims[axis] - first - last
        if isinstance(kept, int) and kept < 1:
            raise op.error("a negative padding cuts all elements off")
        made = _folded(b, made, axis, kept, low, high)
        made = b.padded(made, axis, first, last, b.scalar(0, made.shape.dtype))
    return b.convert_to(made, op.dtype)


def _scattered(
    b: ArrayBuilder, gradient: Instruction, axis: int, x: Instruction, low: Size
) -> Instruction:
    """Add each element along an axis to the one that it is a copy of, for a padding by a number."""
    dims = gradient.shape.dims
    number = b.iota_of(S64, (dims[axis],), 0)
    number = b.subtract(number, b.like(low, number.shape))
    last = b.like(x.shape.dims[axis] - 1, number.shape)
    number = b.minimum(b.binary("maximum", number, 0), last)
    sizes = (*dims[:axis], x.shape.dims[axis], *dims[axis + 1 :])
    return scatter_slices(
        b, "add", b.zeros(gradient.shape.with_dims(sizes)), number, gradient, axis
    )


def _parts(padding: Size) -> tuple[Size, int]:
    """Return how many elements are added, and how many a negative padding cuts off."""
    if isinstance(padding, int) and padding < 0:
        return 0, -padding
    return padding, 0


def _folded(
    b: ArrayBuilder, gradient: Instruction, axis: int, size: Size, low: Size, high: Size
) -> Instruction:
    """Add the elements before and after an axis to its first and last element."""
    zero = b.scalar(0, gradient.shape.dtype)
    made = b.sliced(gradient, axis, low, low + size)
    if low != 0:
        total = b.reduced("add", b.sliced(gradient, axis, 0, low), (axis,), keep=True)
        made = b.add(made, b.padded(total, axis, 0, size - 1, zero))
    if high != 0:
        behind = b.sliced(gradient, axis, low + size, low + size + high)
        total = b.reduced("add", behind, (axis,), keep=True)
        made = b.add(made, b.padded(total, axis, size - 1, 0, zero))
    return made
