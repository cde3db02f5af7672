# SPDX-License-Identifier: Apache-2.0
"""Activations and their gradients, softmax and the cross-entropies.

Gradient ops of activations take (gradient, features) or (gradient, outputs) as TensorFlow's do.
"""

from __future__ import annotations

from ingot.frontends.building.softmax import log_softmax, shifted_powers, softmax
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule, of_operand, of_operands
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.hlo.instruction import Instruction

SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def _relu(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.maximum(x, b.zeros(x.shape))


def _relu_gradient(b: TensorBuilder, dy: Instruction, x: Instruction) -> Instruction:
    return b.select(b.compared("GT", x, 0), dy, b.zeros(dy.shape))


def _relu6(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.minimum(_relu(b, x), b.like(6, x.shape))


def _relu6_gradient(b: TensorBuilder, dy: Instruction, x: Instruction) -> Instruction:
    inside = b.and_(b.compared("GT", x, 0), b.compared("LT", x, 6))
    return b.select(inside, dy, b.zeros(dy.shape))


def _elu(b: TensorBuilder, x: Instruction) -> Instruction:
    return b.select(b.compared("LT", x, 0), b.exponential_minus_one(x), x)


def _elu_gradient(b: TensorBuilder, dy: Instruction, y: Instruction) -> Instruction:
    return b.select(b.compared("LT", y, 0), b.multiply(dy, b.binary("add", y, 1)), dy)


def _selu(b: TensorBuilder, x: Instruction) -> Instruction:
    low = b.binary("multiply", b.exponential_minus_one(x), SELU_SCALE_ALPHA)
    return b.select(b.compared("LT", x, 0), low, b.binary("multiply", x, SELU_SCALE))


def _selu_gradient(b: TensorBuilder, dy: Instruction, y: Instruction) -> Instruction:
    low = b.multiply(dy, b.binary("add", y, SELU_SCALE_ALPHA))
    return b.select(b.compared("LT", y, 0), low, b.binary("multiply", dy, SELU_SCALE))


def _leaky_relu(op: Op) -> Value:
    x, b = op.tensor(0), op.b
    low = b.binary("multiply", x, float(op.attribute("alpha", 0.2)))
    return b.select(b.compared("GT", x, 0), x, low)


def _leaky_relu_gradient(op: Op) -> Value:
    dy, x, b = op.tensor(0), op.tensor(1), op.b
    low = b.binary("multiply", dy, float(op.attribute("alpha", 0.2)))
    return b.select(b.compared("GT", x, 0), dy, low)


def _last(x: Instruction) -> tuple[int, ...]:
    return (x.shape.rank - 1,)


def _cross_entropy(op: Op) -> tuple[Value, ...]:
    """Loss `[batch]` and gradient `[batch, classes]` for dense labels."""
    b = op.b
    logits, labels = b.together(op.tensor(0), op.tensor(1))
    dims = logits.shape.dims
    shifted, powers, total = shifted_powers(b, logits, _last(logits))
    log_total = b.spread(b.log(total), dims)
    loss = b.summed(b.multiply(labels, b.subtract(log_total, shifted)), (1,))
    gradient = b.subtract(b.divide(powers, b.spread(total, dims)), labels)
    return loss, gradient


def _sparse_cross_entropy(op: Op) -> tuple[Value, ...]:
    """Loss and gradient for class numbers; a number that is no class gives NaN."""
    b = op.b
    logits, labels = op.tensor(0), op.tensor(1)
    dims = logits.shape.dims
    if len(dims) != 2 or labels.shape.rank != 1 or not b.same(dims[0], labels.shape.dims[0]):
        raise op.mismatch(0, 1)
    classes = b.iota_of(labels.shape.dtype, dims, 1)
    chosen = b.compare(b.spread(labels, dims, (0,)), classes, direction="EQ")
    shifted, powers, total = shifted_powers(b, logits, _last(logits))
    target = b.summed(b.select(chosen, shifted, b.zeros(logits.shape)), (1,))
    low = b.compared("LT", labels, 0)
    high = b.compared(
        "GE", labels, b.spread(b.scalar(dims[1], labels.shape.dtype), labels.shape.dims)
    )
    wrong = b.or_(low, high)
    loss = b.subtract(b.log(b.reshape_to(total, dims[:1])), target)
    one = b.select(chosen, b.like(1, logits.shape), b.zeros(logits.shape))
    gradient = b.subtract(b.divide(powers, b.spread(total, dims)), one)
    return (
        b.select(wrong, b.like(float("nan"), loss.shape), loss),
        b.select(b.spread(wrong, dims, (0,)), b.like(float("nan"), logits.shape), gradient),
    )


def _l2_loss(op: Op) -> Value:
    x, b = op.tensor(0), op.b
    total = b.summed(b.multiply(x, x), range(x.shape.rank))
    return b.binary("multiply", total, 0.5)


def _in_top_k(op: Op) -> Value:
    """Whether fewer than k predictions are above the target's; not for non-finite ones."""
    b = op.b
    predictions, targets = op.tensor(0), op.tensor(1)
    dims = predictions.shape.dims
    if not b.same(dims[0], targets.shape.dims[0]):
        raise op.mismatch(0, 1)
    element = targets.shape.dtype
    k = op.tensor(2) if len(op) > 2 else b.scalar(int(op.attribute("k")), element)
    chosen = b.compare(b.spread(targets, dims, (0,)), b.iota_of(element, dims, 1), direction="EQ")
    own = b.reduced("add", b.select(chosen, predictions, b.zeros(predictions.shape)), (1,))
    above = b.compare(predictions, b.spread(own, dims, (0,)), direction="GT")
    count = b.reduced("add", b.convert_to(above, element), (1,))
    finite = b.reduced("and", b.is_finite(predictions), (1,))
    known = b.reduced("or", chosen, (1,))
    few = b.compared("LT", count, b.convert_to(k, element))
    return b.and_(b.and_(few, known), finite)


RULES: dict[str, Rule] = {
    "Elu": of_operand(_elu),
    "EluGrad": of_operands(_elu_gradient),
    "InTopK": _in_top_k,
    "InTopKV2": _in_top_k,
    "L2Loss": _l2_loss,
    "LeakyRelu": _leaky_relu,
    "LeakyReluGrad": _leaky_relu_gradient,
    "LogSoftmax": of_operand(lambda b, x: log_softmax(b, x, _last(x))),
    "Relu": of_operand(_relu),
    "Relu6": of_operand(_relu6),
    "Relu6Grad": of_operands(_relu6_gradient),
    "ReluGrad": of_operands(_relu_gradient),
    "Selu": of_operand(_selu),
    "SeluGrad": of_operands(_selu_gradient),
    "Softmax": of_operand(lambda b, x: softmax(b, x, _last(x))),
    "SoftmaxCrossEntropyWithLogits": _cross_entropy,
    "SparseSoftmaxCrossEntropyWithLogits": _sparse_cross_entropy,
}
