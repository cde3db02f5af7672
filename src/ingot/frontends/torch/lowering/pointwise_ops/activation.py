# SPDX-License-Identifier: Apache-2.0
"""Activations, and gradients of some, that PyTorch does not decompose.

Half types are computed in f32 and rounded once.
"""

from __future__ import annotations

import math

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.torch.lowering.context.op import Op, Operand, Scalar
from ingot.frontends.torch.lowering.context.table import RuleTable
from ingot.frontends.torch.lowering.pointwise_ops.pointwise import computed
from ingot.hlo.instruction import Instruction

RULES = RuleTable("aten")

_TANH_FACTOR = 0.044715
_LEAST_RANGE = 1e-6
"""The length of an interval of slopes above which PyTorch draws them."""


@RULES.rule("relu")
def _relu(op: Op, x: Instruction) -> Instruction:
    return op.b.maximum(x, op.b.zeros(x.shape))


@RULES.rule("elu")
def _elu(
    op: Op, x: Instruction, alpha: Scalar = 1, scale: Scalar = 1, input_scale: Scalar = 1
) -> Instruction:
    """Scale * x above 0, scale * alpha * (exp(input_scale * x) - 1) below."""

    def compute(b: ArrayBuilder, x: Instruction) -> Instruction:
        def scaled(value: Instruction, factor: Scalar) -> Instruction:
            if factor == 1:
                return value
            return b.multiply(value, op.scalar_like(factor, value))

        low = scaled(b.exponential_minus_one(scaled(x, input_scale)), alpha)
        return b.select(b.compared("LE", x, 0), scaled(low, scale), scaled(x, scale))

    return computed(op, compute, x)


@RULES.rule("gelu")
def _gelu(op: Op, x: Instruction, *, approximate: str = "none") -> Instruction:
    def exact(b: ArrayBuilder, x: Instruction) -> Instruction:
        inner = b.erf(b.binary("multiply", x, math.sqrt(0.5)))
        return b.multiply(b.binary("multiply", x, 0.5), b.binary("add", inner, 1))

    def by_tanh(b: ArrayBuilder, x: Instruction) -> Instruction:
        cube = b.multiply(b.multiply(x, x), x)
        inner = b.add(x, b.binary("multiply", cube, _TANH_FACTOR))
        bent = b.tanh(b.binary("multiply", inner, math.sqrt(2 / math.pi)))
        return b.multiply(b.binary("multiply", x, 0.5), b.binary("add", bent, 1))

    return computed(op, by_tanh if approximate == "tanh" else exact, x)


@RULES.rule("leaky_relu")
def _leaky_relu(op: Op, x: Instruction, negative_slope: Scalar = 0.01) -> Instruction:
    def compute(b: ArrayBuilder, x: Instruction) -> Instruction:
        slope = op.scalar_like(negative_slope, x)
        return b.select(b.compared("GT", x, 0), x, b.multiply(x, slope))

    return computed(op, compute, x)


@RULES.rule("hardtanh")
def _hardtanh(op: Op, x: Instruction, min_val: Operand = -1, max_val: Operand = 1) -> Instruction:
    least, most = op.together(min_val, max_val, element=op.dtype)
    return op.b.minimum(op.b.maximum(x, least), most)


@RULES.rule("hardshrink_backward", "softshrink_backward")
def _shrink_backward(op: Op, grad: Instruction, x: Instruction, lambd: Scalar = 0.5) -> Instruction:
    """The gradient where |x| > lambd or x is NaN, else 0."""
    b = op.b
    grad, x, limit = op.together(grad, x, lambd, element=op.dtype)
    inside = b.compare(b.abs(x), limit, direction="LE")
    return b.select(inside, b.zeros(grad.shape), grad)


@RULES.rule("rrelu_with_noise_backward")
def _rrelu_backward(
    op: Op,
    grad: Instruction,
    x: Instruction,
    noise: Instruction,
    lower: float,
    upper: float,
    training: bool,
    self_is_result: bool,
) -> Instruction:
    """The gradient times the drawn slopes; without draws it is that of a leaky ReLU.

    Source: torch/native/Activation.cpp.
    """
    del self_is_result

    def drawn(b: ArrayBuilder, grad: Instruction, noise: Instruction) -> Instruction:
        return b.multiply(grad, noise)

    if training and upper - lower > _LEAST_RANGE:
        return computed(op, drawn, grad, noise)

    def leaky(b: ArrayBuilder, grad: Instruction, x: Instruction) -> Instruction:
        slope = b.binary("multiply", grad, (lower + upper) / 2)
        return b.select(b.compared("GT", x, 0), grad, slope)

    return computed(op, leaky, grad, x)
