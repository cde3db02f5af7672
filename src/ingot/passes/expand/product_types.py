# SPDX-License-Identifier: Apache-2.0
"""The types that products are summed in.

A sum that is declared in a less general type is computed in its own, then converted.
Products of complex numbers or floats are summed; the sum is converted to the integer,
pred or real number that is declared (`summed_type`). Integers of a complex sum become floats first.

On CPUs, convolutions of bf16 and f16 become convolutions of f32, for which there are drivers. Code
of a kernel's own converts each element as often as a window reads it: with the operands converted
before, a training step of a small CNN of Keras (3x3, 64 to 128 channels, `mixed_bfloat16`) took
0.72 of the time (Sapphire Rapids, one thread, 2026-11-29). Sums are f32 either way.

Source: xla/hlo/transforms/expanders/convolution_type_canonicalizer.cc; XLA's ChangeOpDataType
(xla/service/change_op_data_type.cc).
"""

from __future__ import annotations

from ingot.analysis.direct_convolution import is_driven_in_f32
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F32, REAL_OF, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opdef import Trait, opcodes
from ingot.hlo.opset.contraction import summed_type
from ingot.hlo.rewrite.op_pass import expander


@expander("convolution-type-canonicalizer", *opcodes(lambda row: row.has(Trait.CONTRACTION)))
def convolution_type_canonicalizer(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites dots and convolutions that give numbers of a lesser kind than they sum."""
    result = op.shape.dtype
    if all(operand.shape.dtype is result for operand in op.operands[:2]):
        return op
    operands = [_complex_part(operand, result, build) for operand in op.operands[:2]]
    left, right = (operand.shape.dtype for operand in operands)
    element = summed_type(left, right, result)
    if element is result and operands == list(op.operands[:2]):
        return op
    made = op.computation.copy_of(op, (*operands, *op.operands[2:]))
    op.computation.set_shape(made, op.shape.with_dtype(element))
    return build.convert_to(made, result)


def _complex_part(operand: Instruction, result: DType, build: Builder) -> Instruction:
    """Return an operand of a complex product as floats, which it is the real part of."""
    element = operand.shape.dtype
    if not result.is_complex or element.is_complex or element.is_float:
        return operand
    return build.convert_to(operand, REAL_OF[result])


@expander("change-op-data-type", "convolution")
def change_op_data_type(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Converts the operands of convolutions to the type that they are summed in."""
    if any(0 in value.shape.dims for value in (op, *op.operands)) or not is_driven_in_f32(op):
        return op
    made = op.computation.add(
        "convolution",
        tuple(build.convert_to(operand, F32) for operand in op.operands),
        op.attributes,
        shape=op.shape.with_dtype(F32),
        name=op.name,
        metadata=op.metadata,
    )
    return build.convert_to(made, op.shape.dtype)
