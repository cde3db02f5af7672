# SPDX-License-Identifier: Apache-2.0
"""Matrix products. Each is one `dot`; what is added or scaled fuses into it."""

from __future__ import annotations

from ingot.frontends.building.products import dot
from ingot.frontends.torch.lowering.op import Op, Scalar
from ingot.frontends.torch.lowering.table import RuleTable
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")


@RULES.rule("mm")
def _mm(op: Op, x: Instruction, y: Instruction) -> Instruction:
    return dot(op.b, x, y, ((1,), (0,)))


@RULES.rule("bmm")
def _bmm(op: Op, x: Instruction, y: Instruction) -> Instruction:
    return dot(op.b, x, y, ((2,), (1,)), ((0,), (0,)))


@RULES.rule("mv", "dot")
def _mv(op: Op, x: Instruction, y: Instruction) -> Instruction:
    return dot(op.b, x, y, ((x.shape.rank - 1,), (0,)))


@RULES.rule("addmm", "baddbmm", "addmv")
def _add_product(
    op: Op,
    start: Instruction,
    x: Instruction,
    y: Instruction,
    *,
    beta: Scalar = 1,
    alpha: Scalar = 1,
) -> Instruction:
    """Beta * start + alpha * x @ y; a beta of 0 ignores `start`, NaN included."""
    b = op.b
    rank = x.shape.rank
    batch = ((0,), (0,)) if rank == 3 else ((), ())
    product = dot(b, x, y, ((rank - 1,), (max(y.shape.rank - 2, 0),)), batch)
    if alpha != 1:
        product = b.multiply(product, b.spread(op.scalar(alpha, op.dtype), product.shape.dims))
    if beta == 0:
        return product
    start = b.spread(start, product.shape.dims)
    if beta != 1:
        start = b.multiply(start, b.spread(op.scalar(beta, op.dtype), product.shape.dims))
    return b.add(start, product)
