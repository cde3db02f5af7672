# SPDX-License-Identifier: Apache-2.0
"""Reductions over axes, and argmax and argmin.

Sums and means of half floats are accumulated in f32, as TensorFlow's kernels do.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import neutral, wider
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo import dim as dim_math
from ingot.hlo.assertions import emit_assertion
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


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
    """Mean over axes: the sum divided by the number of elements."""
    element = x.shape.dtype
    wide = wider(element)
    total = b.reduced("add", b.convert_to(x, wide), axes, keep=keep)
    count = b.scalar(dim_math.product(x.shape.dims[axis] for axis in axes), wide)
    return b.convert_to(b.divide(total, b.spread(count, total.shape.dims)), element)


def _mean(op: Op) -> Value:
    return mean(op.b, op.tensor(0), _axes(op), _keep(op))


def _euclidean_norm(op: Op) -> Value:
    x = op.tensor(0)
    square = op.b.multiply(x, x)
    return op.b.sqrt(op.b.summed(square, _axes(op), keep=_keep(op)))


def _extreme_computation(direction: str, element: DType) -> Computation:
    """Return the reducer of (value, index) pairs: the first index of the extreme, NaN first."""
    b = Builder(f"arg_{direction.lower()}_{element.name}")
    shapes = (Shape.array(element, ()), Shape.array(S32, ()))
    value, index, other, other_index = (b.parameter(n, shapes[n % 2]) for n in range(4))
    better = b.compare(value, other, direction=direction)
    if element.is_float:
        better = b.or_(better, b.compare(value, value, direction="NE"))
    equal = b.compare(value, other, direction="EQ")
    first = b.and_(equal, b.compare(index, other_index, direction="LT"))
    take = b.or_(better, first)
    return b.build(b.tuple(b.select(take, value, other), b.select(take, index, other_index)))


def arg_extreme(b: TensorBuilder, x: Instruction, axis: int, largest: bool) -> Instruction:
    """Return the first index (s32) of the largest or smallest element along an axis."""
    if x.shape.dtype is PRED:
        x = b.convert_to(x, S32)
    element = x.shape.dtype
    direction = "GT" if largest else "LT"
    key = (f"arg{direction}", element.name)
    reducers = b.reducers
    if key not in reducers:
        reducers[key] = _extreme_computation(direction, element)
    start = b.constant(neutral("maximum" if largest else "minimum", element), element)
    # The start's index is above all others, so that an element equal to the start wins.
    last = b.constant(2**31 - 1, S32)
    indices = b.iota_of(S32, x.shape.dims, axis)
    both = b.emit("reduce", x, indices, start, last, dimensions=(axis,), to_apply=reducers[key])
    return b.element_of(both, 1)


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
