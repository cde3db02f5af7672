# SPDX-License-Identifier: Apache-2.0
"""Matrix products as HLO has them: `dot` with dimension numbers."""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction


def dot(
    b: ArrayBuilder,
    left: Instruction,
    right: Instruction,
    contracting: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    element: DType | None = None,
) -> Instruction:
    """Emit `dot`: batch dimensions, then the free ones of lhs, then those of rhs."""
    sides: list[list[int]] = []
    for operand, summed, kept in (
        (left, contracting[0], batch[0]),
        (right, contracting[1], batch[1]),
    ):
        taken = {*summed, *kept}
        sides.append([dim for dim in range(operand.shape.rank) if dim not in taken])
    dims = (
        *(left.shape.dims[dim] for dim in batch[0]),
        *(left.shape.dims[dim] for dim in sides[0]),
        *(right.shape.dims[dim] for dim in sides[1]),
    )
    return b.emit(
        "dot",
        left,
        right,
        shape=left.shape.with_dtype(element or left.shape.dtype).with_dims(dims),
        lhs_batch_dims=tuple(batch[0]),
        lhs_contracting_dims=tuple(contracting[0]),
        rhs_batch_dims=tuple(batch[1]),
        rhs_contracting_dims=tuple(contracting[1]),
    )


def conjugate(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return the complex conjugate; real numbers as they are."""
    if not x.shape.dtype.is_complex:
        return x
    return b.complex(b.real(x), b.negate(b.imag(x)))


def matrix_product(b: ArrayBuilder, left: Instruction, right: Instruction) -> Instruction:
    """Emit the products of matrices, `[..., m, k]` by `[..., k, n]`, of equal batches."""
    rank = left.shape.rank
    batch = tuple(range(rank - 2))
    return dot(b, left, right, ((rank - 1,), (rank - 2,)), (batch, batch))
