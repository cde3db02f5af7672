# SPDX-License-Identifier: Apache-2.0
"""`scaled-dot` as a `dot` of the operands times their scales.

The scales are spread over their blocks by broadcasts, which fuse into the dot's packing; products
are f32, or bf16's and f16's own width where operands are wider than that.

Source: xla/service/scaled_dot_rewriter.cc.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.contraction import DotAttributes
from ingot.hlo.rewrite.op_pass import Expander
from ingot.support.records import record


@record
class ScaledDotRewriter(Expander):
    """Rewrites `scaled-dot`."""

    name = "scaled-dot-rewriter"
    concerns = frozenset({"scaled-dot"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the dot of the products."""
        lhs, rhs, lhs_scale, rhs_scale = op.operands
        wide = F64 if op.shape.dtype is F64 else F32
        given = op.as_(DotAttributes)
        product = build.dot(
            *(
                build.multiply(build.convert_to(operand, wide), _spread(scale, operand, build))
                for operand, scale in (
                    (lhs, build.convert_to(lhs_scale, wide)),
                    (rhs, build.convert_to(rhs_scale, wide)),
                )
            ),
            shape=op.shape.with_dtype(wide),
            lhs_batch_dims=given.lhs_batch_dims,
            lhs_contracting_dims=given.lhs_contracting_dims,
            rhs_batch_dims=given.rhs_batch_dims,
            rhs_contracting_dims=given.rhs_contracting_dims,
        )
        return build.convert_to(product, op.shape.dtype)


def _spread(scale: Instruction, operand: Instruction, build: Builder) -> Instruction:
    """Return scales repeated over their blocks."""
    dims = operand.shape.dims
    if not scale.shape.dims:
        return build.broadcast_to(scale, dims, ())
    blocks: list[int | dim.Dim] = []
    dimensions: list[int] = []
    for size, count in zip(dims, scale.shape.dims, strict=True):
        dimensions.append(len(blocks))
        blocks += [count, dim.floordiv(size, count)]
    return build.reshape_to(build.broadcast_to(scale, tuple(blocks), tuple(dimensions)), dims)
