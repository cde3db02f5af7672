# SPDX-License-Identifier: Apache-2.0
"""Pseudoinverses of matrices: `linalg_pinv`.

PyTorch does not decompose the op, and its kernel gives wrong results for complex matrices while
AOTAutograd checks the first call of a graph (PyTorch 2.13).

Source: `linalg_pinv` of PyTorch's aten/src/ATen/native/LinearAlgebra.cpp.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.linalg import conjugate_transposed, eigh, svd
from ingot.frontends.building.products import dot
from ingot.frontends.torch.lowering.context.op import Op
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


@RULES.rule("linalg_pinv.atol_rtol_tensor")
def _pinv(
    op: Op,
    a: Instruction,
    *,
    atol: Instruction | None = None,
    rtol: Instruction | None = None,
    hermitian: bool = False,
) -> Instruction:
    """V / s @ U^H of the singular values above the tolerances; the others count as 0."""
    b, rank = op.b, a.shape.rank
    if 0 in a.shape.dims:
        return b.zeros(op.shape)
    if hermitian:
        s, u, _ = eigh(b, a, lower=True, vectors=True)
        v, size = u, b.abs(s)
    else:
        u, s, vh, _ = svd(b, a, full=False, vectors=True)
        v, size = conjugate_transposed(b, vh), s
    most = b.reduced("maximum", size, (rank - 2,))
    kept = b.compare(size, _limit(op, a, most, atol, rtol, size), direction="GT")
    inverse = b.select(kept, b.divide(b.like(1, s.shape), s), b.zeros(s.shape))
    batch = tuple(range(rank - 2))
    factors = b.spread(b.convert_to(inverse, a.shape.dtype), v.shape.dims, (*batch, rank - 1))
    adjoint = conjugate_transposed(b, u)
    return dot(b, b.multiply(v, factors), adjoint, ((rank - 1,), (rank - 2,)), (batch, batch))


def _limit(
    op: Op,
    a: Instruction,
    most: Instruction,
    atol: Instruction | None,
    rtol: Instruction | None,
    like: Instruction,
) -> Instruction:
    """Return the threshold of singular values, with the sizes of `like`.

    The absolute tolerance defaults to 0; the relative one to the larger side times the precision of
    the type, or to 0 if the absolute one is above 0.
    """
    b, element, batch = op.b, most.shape.dtype, tuple(range(most.shape.rank))
    least = _tolerance(b, atol, most)
    share = _tolerance(b, rtol, most)
    if rtol is None:
        side = max(op.known(size, "the size of the matrix") for size in a.shape.dims[-2:])
        share = b.like(float(np.finfo(element.numpy).eps) * side, most.shape)
        share = b.select(b.compared("GT", least, 0), b.zeros(most.shape), share)
    return b.spread(b.maximum(least, b.multiply(share, most)), like.shape.dims, batch)


def _tolerance(b: ArrayBuilder, given: Instruction | None, like: Instruction) -> Instruction:
    if given is None:
        return b.zeros(like.shape)
    return b.spread(b.convert_to(given, like.shape.dtype), like.shape.dims)
