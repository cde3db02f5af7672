# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes, and argmax and argmin.

Sums and means of half floats are accumulated in f32, as TensorFlow's kernels do.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import wider
from ingot.frontends.building.extremes import arg_extreme
from ingot.frontends.building.products import conjugate
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import F64, PRED
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def _axes(op: Op) -> tuple[int, ...]:
    rank, found = op.rank(0), op.integers(1, "reduction axes")
    for axis in found:
        if not -rank <= axis < rank:
            raise op.error(
                f"Invalid reduction dimension ({axis} for input with {rank} dimension(s))"
            )
    axes = tuple(dict.fromkeys(axis % rank for axis in found))
    if len(axes) < len(found):
        # TensorFlow's kernel takes an axis twice; its XLA refuses the call.
        words = "Invalid reduction arguments: Axes contains duplicate dimension"
        emit_assertion(op.b, op.b.constant(False, PRED), words)
    return axes


def _keep(op: Op) -> bool:
    return bool(op.attribute("keep_dims", False))


def _reduce(opcode: str) -> Rule:
    return lambda op: op.b.reduced(opcode, op.tensor(0), _axes(op), keep=_keep(op))


def _sum(op: Op) -> Value:
    return op.b.summed(op.tensor(0), _axes(op), keep=_keep(op))


def _product(op: Op) -> Value:
    x = op.tensor(0)
    wide = op.b.convert_to(x, wider(x.shape.dtype))
    return op.b.convert_to(op.b.reduced("multiply", wide, _axes(op), keep=_keep(op)), x.shape.dtype)


def mean(b: TensorBuilder, x: Instruction, axes: tuple[int, ...], keep: bool) -> Instruction:
    """Mean over axes: the sum divided by the number of elements.

    Of no elements it is NaN, and 0 for integers and complex numbers, as in TensorFlow's kernel.
    """
    element = x.shape.dtype
    wide = wider(element)
    total = b.reduced("add", b.convert_to(x, wide), axes, keep=keep)
    elements = dim_math.product(x.shape.dims[axis] for axis in axes)
    if not element.is_float:
        elements = dim_math.maximum(elements, 1)
    count = b.scalar(elements, wide)
    return b.convert_to(b.divide(total, b.spread(count, total.shape.dims)), element)


def _mean(op: Op) -> Value:
    return mean(op.b, op.tensor(0), _axes(op), _keep(op))


def _euclidean_norm(op: Op) -> Value:
    """The root of the sum of squares, which wraps around in the type of integers."""
    x, b = op.tensor(0), op.b
    element = x.shape.dtype
    square = b.multiply(x, conjugate(b, x))
    total = b.summed(square, _axes(op), keep=_keep(op))
    wide = F64 if element.is_integer else element
    return b.convert_to(b.sqrt(b.convert_to(total, wide)), element)


def _arg(largest: bool) -> Rule:
    def rule(op: Op) -> Value:
        axis = op.axis(1, op.rank(0))
        return op.b.convert_to(arg_extreme(op.b, op.tensor(0), axis, largest), op.result())

    return rule


RULES: dict[str, Rule] = {
    "All": _reduce("and"),
    "Any": _reduce("or"),
    "ArgMax": _arg(True),
    "ArgMin": _arg(False),
    "EuclideanNorm": _euclidean_norm,
    "Max": _reduce("maximum"),
    "Mean": _mean,
    "Min": _reduce("minimum"),
    "Prod": _product,
    "Sum": _sum,
}
