# SPDX-License-Identifier: Apache-2.0
"""Matrix products: MatMul, BatchMatMul, Einsum, and the addition of biases.

Each is one `dot`; transposed operands are contraction dimensions, never a `transpose`.
"""

from __future__ import annotations

from ingot.frontends.building.products import conjugate, dot
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.dtype import F32, S32
from ingot.hlo.instruction import Instruction


def _mat_mul(op: Op) -> Value:
    return _product(op, op.tensor(0), op.tensor(1))


def _product(op: Op, left: Instruction, right: Instruction) -> Value:
    left_axis = 0 if op.attribute("transpose_a", False) else 1
    right_axis = 1 if op.attribute("transpose_b", False) else 0
    if not op.b.same(left.shape.dims[left_axis], right.shape.dims[right_axis]):
        raise op.mismatch(0, 1)
    return dot(op.b, left, right, ((left_axis,), (right_axis,)))


def _batch_mat_mul(op: Op) -> Value:
    """Broadcast the batch dimensions, then one `dot`; adj_* also conjugates."""
    b = op.b
    element = op.result()
    left, right = (b.convert_to(x, element) for x in op.tensors(0, 2))
    adjoint = [bool(op.attribute(name, False)) for name in ("adj_x", "adj_y")]
    left, right = (
        conjugate(b, x) if flag else x for x, flag in zip((left, right), adjoint, strict=True)
    )
    batch = b.broadcast_dims(left.shape.dims[:-2], right.shape.dims[:-2])
    if batch is None:
        raise op.mismatch(0, 1)
    rank = len(batch)
    left_axis = rank if adjoint[0] else rank + 1
    right_axis = rank + 1 if adjoint[1] else rank
    left = b.spread(left, (*batch, *left.shape.dims[-2:]))
    right = b.spread(right, (*batch, *right.shape.dims[-2:]))
    if not b.same(left.shape.dims[left_axis], right.shape.dims[right_axis]):
        raise op.mismatch(0, 1)
    batch_axes = tuple(range(rank))
    return dot(b, left, right, ((left_axis,), (right_axis,)), (batch_axes, batch_axes))


def _channel(op: Op, rank: int) -> int:
    return 1 if op.attribute("data_format", "NHWC").startswith("NC") else rank - 1


def _bias_add(op: Op) -> Value:
    value, bias = op.tensor(0), op.tensor(1)
    channel = _channel(op, value.shape.rank)
    if not op.b.same(value.shape.dims[channel], bias.shape.dims[0]):
        raise op.mismatch(0, 1)
    return op.b.add(value, op.b.spread(bias, value.shape.dims, (channel,)))


def _bias_add_gradient(op: Op) -> Value:
    gradient = op.tensor(0)
    rank = gradient.shape.rank
    channel = _channel(op, rank)
    return op.b.summed(gradient, [axis for axis in range(rank) if axis != channel])


def _einsum(op: Op) -> Value:
    equation = str(op.attribute("equation")).replace(" ", "")
    inputs, _, output = equation.partition("->")
    operands = op.tensors()
    labels = inputs.split(",")
    ellipsis = _name_ellipsis(op, labels, operands)
    terms = [
        _diagonal_free(op, *pair)
        for pair in zip(operands, _expanded(labels, ellipsis), strict=True)
    ]
    result = _replaced(output, ellipsis[-1])
    if len(terms) == 1:
        made, order = terms[0]
    else:
        made, order = _contract(op, terms[0], terms[1], result)
    return _arranged(op, made, order, result)


def _name_ellipsis(op: Op, labels: list[str], operands: list[Instruction]) -> list[str]:
    """Return the labels that `...` stands for in each operand; the longest one last."""
    names = "ΑΒΓΔΕΖΗΘ"
    counts = [
        operand.shape.rank - len(text.replace("...", "")) if "..." in text else 0
        for text, operand in zip(labels, operands, strict=True)
    ]
    most = max(counts)
    if most > len(names):
        raise op.error("too many dimensions in the ellipsis of an einsum")
    return [names[most - count : most] for count in counts] + [names[:most]]


def _expanded(labels: list[str], ellipsis: list[str]) -> list[str]:
    return [_replaced(text, names) for text, names in zip(labels, ellipsis, strict=False)]


def _replaced(text: str, names: str) -> str:
    return text.replace("...", names)


def _diagonal_free(op: Op, operand: Instruction, labels: str) -> tuple[Instruction, str]:
    """Return the operand with repeated labels reduced to their diagonal."""
    b = op.b
    while len(set(labels)) < len(labels):
        first = next(n for n, label in enumerate(labels) if label in labels[n + 1 :])
        second = labels.index(labels[first], first + 1)
        dims = operand.shape.dims
        on = b.compare(b.iota_of(S32, dims, first), b.iota_of(S32, dims, second), direction="EQ")
        operand = b.reduced("add", b.select(on, operand, b.zeros(operand.shape)), (second,))
        labels = labels[:second] + labels[second + 1 :]
    return operand, labels


def _contract(
    op: Op, first: tuple[Instruction, str], second: tuple[Instruction, str], result: str
) -> tuple[Instruction, str]:
    b = op.b
    (left, left_labels), (right, right_labels) = (
        _summed_alone(b, one, other[1], result) for one, other in ((first, second), (second, first))
    )
    left, right = _common_sizes(op, left, left_labels, right, right_labels)
    shared = [label for label in left_labels if label in right_labels]
    batch = [label for label in shared if label in result]
    summed = [label for label in shared if label not in result]
    made = dot(
        b,
        left,
        right,
        ([left_labels.index(x) for x in summed], [right_labels.index(x) for x in summed]),
        ([left_labels.index(x) for x in batch], [right_labels.index(x) for x in batch]),
    )
    rest = [x for labels in (left_labels, right_labels) for x in labels if x not in shared]
    return made, "".join((*batch, *rest))


def _summed_alone(
    b: TensorBuilder, term: tuple[Instruction, str], other: str, result: str
) -> tuple[Instruction, str]:
    """Sum the dimensions that neither the other operand nor the result has."""
    operand, labels = term
    alone = [n for n, label in enumerate(labels) if label not in other and label not in result]
    kept = "".join(label for n, label in enumerate(labels) if n not in alone)
    return b.summed(operand, alone), kept


def _common_sizes(
    op: Op, left: Instruction, left_labels: str, right: Instruction, right_labels: str
) -> tuple[Instruction, Instruction]:
    """Expand dimensions of size 1 (ellipses broadcast), check all others."""
    sizes = [list(left.shape.dims), list(right.shape.dims)]
    for axis, label in enumerate(left_labels):
        if label not in right_labels:
            continue
        other = right_labels.index(label)
        fits = op.b.broadcast_dims((sizes[0][axis],), (sizes[1][other],))
        if fits is None:
            raise op.mismatch(0, 1)
        sizes[0][axis] = sizes[1][other] = fits[0]
    return op.b.spread(left, tuple(sizes[0])), op.b.spread(right, tuple(sizes[1]))


def _arranged(op: Op, operand: Instruction, labels: str, result: str) -> Value:
    """Sum what the result lacks, order the rest, and spread repeated result labels."""
    b = op.b
    extra = [n for n, label in enumerate(labels) if label not in result]
    operand = b.summed(operand, extra)
    labels = "".join(label for label in labels if label in result)
    unique = "".join(dict.fromkeys(result))
    operand = b.transposed(operand, [labels.index(label) for label in unique])
    if unique == result:
        return operand
    dims = tuple(operand.shape.dims[unique.index(label)] for label in result)
    spread = b.broadcast_to(operand, dims, tuple(result.index(label) for label in unique))
    for axis, label in enumerate(result):
        first = result.index(label)
        if first != axis:
            on = b.compare(b.iota_of(S32, dims, first), b.iota_of(S32, dims, axis), direction="EQ")
            spread = b.select(on, spread, b.zeros(spread.shape))
    return spread


def _sparse_mat_mul(op: Op) -> Value:
    """MatMul of operands that may hold many zeros; the result is f32."""
    left, right = (op.b.convert_to(item, F32) for item in op.tensors(0, 2))
    return _product(op, left, right)


RULES: dict[str, Rule] = {
    "SparseMatMul": _sparse_mat_mul,
    "BatchMatMul": _batch_mat_mul,
    "BatchMatMulV2": _batch_mat_mul,
    "BatchMatMulV3": _batch_mat_mul,
    "BiasAdd": _bias_add,
    "BiasAddGrad": _bias_add_gradient,
    "BiasAddV1": _bias_add,
    "Einsum": _einsum,
    "MatMul": _mat_mul,
}
