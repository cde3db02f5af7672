# SPDX-License-Identifier: Apache-2.0
"""Total order comparisons of floats, as comparisons of integers.

The bits of a float, read as a signed integer, order the positive ones; the negative ones are in
reverse, which flipping all bits but the sign sets right. Then -NaN < -inf < -0 < 0 < inf < NaN.

Source: xla/service/comparison_expander.cc.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F32
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import Expander
from ingot.passes.simplify.algsimp.helpers import is_float
from ingot.support.records import record


@record
class ComparisonExpander(Expander):
    """Rewrites `compare` with type=TOTALORDER on floats."""

    name = "comparison-expander"
    concerns = frozenset({"compare"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the comparison of integers; the op itself in the other cases."""
        if op.attributes.type != "TOTALORDER" or not is_float(op.operands[0]):
            return op
        keys = [_ordered_bits(operand, build) for operand in op.operands]
        return build.compare(*keys, direction=op.attributes.direction)


def _ordered_bits(operand: Instruction, build: Builder) -> Instruction:
    """Return signed integers in the total order of the floats."""
    if operand.shape.dtype.bits <= 8:
        # These formats differ in where their sign is and which values are NaN.
        operand = build.convert_to(operand, F32)
    width = operand.shape.dtype.bits
    shape = operand.shape.with_dtype(f"s{width}")
    bits = build.bitcast_convert(operand, shape=shape)
    flipped = build.xor(bits, build.full((1 << (width - 1)) - 1, shape))
    negative = build.compare(bits, build.full(0, shape), direction="LT")
    return build.select(negative, flipped, bits)
