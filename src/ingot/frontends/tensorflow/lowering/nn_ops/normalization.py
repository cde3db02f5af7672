# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation and its gradients.

Statistics are computed in f32 for half floats. The reserved outputs hold the batch mean and the
(biased) variance, which the gradient reads. Source: TensorFlow's `kernels/fused_batch_norm_op.cc`.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.math_ops.reduction import mean
from ingot.hlo import dim as dim_math
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _channel(op: Op, x: Instruction) -> int:
    return 1 if str(op.attribute("data_format", "NHWC")).startswith("NC") else x.shape.rank - 1


def _others(x: Instruction, channel: int) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.shape.rank) if axis != channel)


def _batch_norm(op: Op) -> tuple[Value, ...]:
    b = op.b
    given = op.tensor(0)
    scale, offset, old_mean, old_variance = op.tensors(1, 5)
    x = b.convert_to(given, scale.shape.dtype)
    channel = _channel(op, x)
    channels = (channel,)

    def spread(vector: Instruction) -> Instruction:
        return b.spread(vector, x.shape.dims, channels)

    if not op.attribute("is_training", True):
        average, variance = old_mean, old_variance
        outputs = (average, variance)
    else:
        axes = _others(x, channel)
        average = mean(b, x, axes, False)
        centred = b.subtract(x, spread(average))
        variance = mean(b, b.multiply(centred, centred), axes, False)
        outputs = _running(op, x, axes, (average, variance), (old_mean, old_variance))
    epsilon = float(op.attribute("epsilon", 1e-4))
    factor = b.multiply(b.rsqrt(b.binary("add", variance, epsilon)), scale)
    y = b.add(b.multiply(b.subtract(x, spread(average)), spread(factor)), spread(offset))
    reserved: list[Value] = [average, variance]
    if len(op.node.outputs) > 5:
        reserved.append(b.zeros(Shape.array(op.result(5), (0,))))
    return (b.convert_to(y, given.shape.dtype), *outputs, *reserved)


def _running(
    op: Op,
    x: Instruction,
    axes: tuple[int, ...],
    batch: tuple[Instruction, Instruction],
    old: tuple[Instruction, Instruction],
) -> tuple[Instruction, Instruction]:
    """Return mean and unbiased variance, averaged with the old ones by the node's factor."""
    b = op.b
    count = b.scalar(dim_math.product(x.shape.dims[axis] for axis in axes), x.shape.dtype)
    less_one = b.binary("maximum", b.binary("add", count, -1), 1)
    unbiased = b.binary("multiply", batch[1], b.divide(count, less_one))
    factor = float(op.attribute("exponential_avg_factor", 1.0))
    if factor == 1.0:
        return batch[0], unbiased

    def mixed(before: Instruction, now: Instruction) -> Instruction:
        kept = b.binary("multiply", before, 1 - factor)
        return b.add(kept, b.binary("multiply", now, factor))

    return mixed(old[0], batch[0]), mixed(old[1], unbiased)


def _batch_norm_gradient(op: Op) -> tuple[Value, ...]:
    b = op.b
    scale, average, variance = op.tensors(2, 5)
    wide = scale.shape.dtype
    dy, x = (b.convert_to(item, wide) for item in op.tensors(0, 2))
    channel = _channel(op, x)
    axes, channels = _others(x, channel), (channel,)
    epsilon = float(op.attribute("epsilon", 1e-4))
    inverse = b.rsqrt(b.binary("add", variance, epsilon))
    normal = b.normalized(x, average, inverse, channels)
    scale_gradient = b.reduced("add", b.multiply(dy, normal), axes)
    offset_gradient = b.reduced("add", dy, axes)
    factor = b.spread(b.multiply(scale, inverse), x.shape.dims, channels)
    if op.attribute("is_training", True):
        dy_mean = b.spread(mean(b, dy, axes, False), x.shape.dims, channels)
        both = b.spread(mean(b, b.multiply(dy, normal), axes, False), x.shape.dims, channels)
        dy = b.subtract(b.subtract(dy, dy_mean), b.multiply(normal, both))
    x_gradient = b.convert_to(b.multiply(factor, dy), op.result())
    empty = [b.zeros(Shape.array(op.result(n), (0,))) for n in (3, 4)]
    return (x_gradient, scale_gradient, offset_gradient, *empty)


RULES: dict[str, Rule] = {
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm),
    **dict.fromkeys(
        ("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3"),
        _batch_norm_gradient,
    ),
}
