# SPDX-License-Identifier: Apache-2.0
"""Local response normalisation over neighbouring channels, and its gradient.

Source: TensorFlow's `kernels/lrn_op.cc`.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import wider
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import WindowDimension


def _neighbours(op: Op, x: Instruction) -> Instruction:
    """Return sums over the channels within the radius."""
    radius = int(op.attribute("depth_radius", 5))
    window = (*[WindowDimension(1)] * 3, WindowDimension(2 * radius + 1, 1, radius, radius))
    element = x.shape.dtype
    reducer = op.b.reducer("add", element)
    return op.b.emit("reduce-window", x, op.b.constant(0, element), window=window, to_apply=reducer)


def _number(op: Op, name: str, default: float) -> float:
    return float(op.attribute(name, default))


def _norm(op: Op, x: Instruction) -> Instruction:
    b = op.b
    squares = _neighbours(op, b.multiply(x, x))
    return b.binary("add", b.binary("multiply", squares, _number(op, "alpha", 1)), _bias(op))


def _bias(op: Op) -> float:
    return _number(op, "bias", 1)


def _scale(op: Op, b: TensorBuilder, norm: Instruction) -> Instruction:
    """Return norm^-beta, as TensorFlow's kernel computes it."""
    beta = _number(op, "beta", 0.5)
    if beta == 0.5:
        return b.emit("rsqrt", norm)
    return b.exponential(b.binary("multiply", b.emit("log", norm), -beta))


def _forward(op: Op) -> Value:
    b, given = op.b, op.tensor(0)
    x = b.convert_to(given, wider(given.shape.dtype))
    return b.convert_to(b.multiply(x, _scale(op, b, _norm(op, x))), given.shape.dtype)


def _gradient(op: Op) -> Value:
    """Gradient, input, output: the direct share, less what goes through the neighbours' norms."""
    b, element = op.b, op.dtype(0)
    dy, x, y = (b.convert_to(item, wider(element)) for item in op.tensors())
    norm = _norm(op, x)
    through = _neighbours(op, b.divide(b.multiply(dy, y), norm))
    factor = -2 * _number(op, "alpha", 1) * _number(op, "beta", 0.5)
    less = b.multiply(b.binary("multiply", x, factor), through)
    return b.convert_to(b.add(b.multiply(dy, _scale(op, b, norm)), less), element)


RULES: dict[str, Rule] = {"LRN": _forward, "LRNGrad": _gradient}
