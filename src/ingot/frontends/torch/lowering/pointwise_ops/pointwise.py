# SPDX-License-Identifier: Apache-2.0
"""Elementwise rules from functions of a builder and operands, shared by the families of rules.

PyTorch's kernels compute half types in f32 and round once; so do these rules.

Example: `RULES.add(in_wide(lambda b, x: b.multiply(x, x)), "square")`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, wider
from ingot.frontends.building.special_functions.reals import Real
from ingot.frontends.torch.lowering.context.op import Op, Operand, Rule
from ingot.hlo.dtype import F64, DType
from ingot.hlo.instruction import Instruction

Compute = Callable[..., Instruction]
"""`compute(b, *operands)`: the result, of operands of one element type and the same sizes."""


def computed(op: Op, compute: Compute, *values: Operand) -> Instruction:
    """Return `compute` of operands of the result's type; halves in f32, rounded once.

    Numbers are rounded to the result's type first, as in PyTorch's kernels.
    """
    element = op.dtype
    operands = op.together(*values, element=element)
    made = compute(op.b, *(op.b.convert_to(x, wider(element)) for x in operands))
    return op.b.convert_to(made, element)


def in_wide(compute: Compute) -> Rule:
    """Return the rule of a function of operands of the result's type."""

    def rule(op: Op, *values: Operand) -> Instruction:
        return computed(op, compute, *values)

    return rule


def in_f64(compute: Compute) -> Rule:
    """Return the rule of a function that is computed in f64 and rounded to the result's type."""

    def rule(op: Op, *values: Operand) -> Instruction:
        return op.b.convert_to(compute(op.b, *op.together(*values, element=F64)), op.dtype)

    return rule


def in_reals(function: Callable[..., Real]) -> Rule:
    """Return the rule of a function of `Real` operands."""

    def compute(b: ArrayBuilder, *operands: Instruction) -> Instruction:
        with np.errstate(all="ignore"):
            return function(*(Real(b, x) for x in operands)).x

    return in_f64(compute)


def is_exact(element: DType) -> bool:
    """Whether an element type holds integers or truth values."""
    return not (element.is_float or element.is_complex)
