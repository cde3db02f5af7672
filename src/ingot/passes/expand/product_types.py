"""Products of floats that give integers, as products that give floats, and conversions.

What is summed are the products of the floats; the sum is converted. In f64 where an operand is of
f64, else in f32.

Source: xla/hlo/transforms/expanders/convolution_type_canonicalizer.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F32, F64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.passes.expand.expander import Expander


@dataclass(frozen=True, slots=True)
class ConvolutionTypeCanonicalizer(Expander):
    """Rewrites dots and convolutions of floats that give integers."""

    name: ClassVar[str] = "convolution-type-canonicalizer"
    concerns: ClassVar[frozenset[str] | None] = frozenset(
        {"convolution", "dot", "ragged-dot", "scaled-dot"}
    )

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the converted sum; the op itself where it gives what it sums."""
        kinds = [operand.shape.dtype for operand in op.operands[:2]]
        if not op.shape.dtype.is_integer or not all(kind.is_float for kind in kinds):
            return op
        made = op.computation.copy_of(op, op.operands)
        op.computation.set_shape(made, op.shape.with_dtype(F64 if F64 in kinds else F32))
        return build.convert_to(made, op.shape.dtype)
