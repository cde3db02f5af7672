# SPDX-License-Identifier: Apache-2.0
"""Transposes that a reshape makes into operands whose elements lie at no constant steps.

Fused into a contraction, `reshape(transpose(x))` would be read at quotients and remainders of the
operand's indices, each element many times. Outside, the transpose is one quick kernel, or the order
in which the kernel that computes `x` writes it, and the reshape is free.

Invariant: a dimension is torn only if the reshape makes it of several dimensions that the transpose
took from dimensions of its operand that are not neighbours.
"""

from __future__ import annotations

from ingot.analysis.common_factors import common_factors
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.opset.shaping import DimensionsAttributes
from ingot.hlo.shape import Shape


def tears_operand(transpose: Instruction, reshape: Instruction, dot: Instruction) -> bool:
    """Whether a dot would read a reshaped transpose at no constant steps.

    Steps between the matrices of a batch may vary: each is computed once.

    Args:
        transpose: an instruction that `reshape` may read.
        reshape: an instruction that `dot` may read.
        dot: the contraction.
    """
    if transpose.opcode != "transpose" or reshape.opcode != "reshape" or dot.opcode != "dot":
        return False
    if reshape.operands[0] is not transpose:
        return False
    attributes = dot.as_(DotAttributes)
    torn = torn_dims(transpose, reshape.shape)
    sides = zip(dot.operands, (attributes.lhs_batch_dims, attributes.rhs_batch_dims), strict=True)
    return any(operand is reshape and not torn <= set(batch) for operand, batch in sides)


def torn_dims(transpose: Instruction, reshaped: Shape) -> set[int]:
    """Return which dimensions of a reshaped transpose have no constant step in its operand."""
    if reshaped.size == 0:
        return set()
    order = transpose.as_(DimensionsAttributes).dimensions
    kept = [dim for dim, size in enumerate(transpose.operands[0].shape.dims) if size != 1]
    rank = {dim: number for number, dim in enumerate(kept)}
    torn: set[int] = set()
    for before, after in common_factors(transpose.shape.dims, reshaped.dims):
        sources = [rank[order[dim]] for dim in range(*before) if order[dim] in rank]
        if sources and sources != list(range(sources[0], sources[0] + len(sources))):
            torn.update(dim for dim in range(*after) if reshaped.dims[dim] != 1)
    return torn
