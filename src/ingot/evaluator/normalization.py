# SPDX-License-Identifier: Apache-2.0
"""Evaluates batch normalization in f64, rounded once.

Source: the formulas of the StableHLO specification.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import doubled, rounded
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.instruction import Instruction


def _spread(op: Instruction, vector: Array, like: Array) -> Array:
    """Return one element per feature, broadcast over an operand's dimensions."""
    dims = [1] * like.ndim
    dims[op.attributes.feature_index] = -1
    return np.broadcast_to(doubled(vector).reshape(dims), like.shape)


def _others(op: Instruction, value: Array) -> tuple[int, ...]:
    return tuple(n for n in range(value.ndim) if n != op.attributes.feature_index)


@evaluates("batch-norm-inference")
def inference(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    value = doubled(operands[0])
    scale, offset, mean, variance = (_spread(op, each, value) for each in operands[1:])
    deviation = np.sqrt(variance + op.attributes.exact_epsilon)
    return rounded((value - mean) / deviation * scale + offset, op.operands[0].shape.dtype)


@evaluates("batch-norm-training")
def training(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The normalized operand, its mean and its variance over all but the features."""
    value, others = doubled(operands[0]), _others(op, operands[0])
    # Not NumPy's `mean`, which warns of no elements.
    count = math.prod(value.shape[dim] for dim in others)
    mean = value.sum(axis=others) / np.float64(count)
    squares = np.square(value - _spread(op, mean, value)).sum(axis=others)
    variance = squares / np.float64(count)
    output = inference(op, (*operands, mean, variance), context)
    element = op.shape.elements[1].dtype
    return output, rounded(mean, element), rounded(variance, element)


@evaluates("batch-norm-grad")
def grad(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Gradients for operand, scale and offset."""
    value, gradient, others = doubled(operands[0]), doubled(operands[4]), _others(op, operands[0])
    scale, mean, variance = (_spread(op, each, value) for each in operands[1:4])
    spread_variance = variance + op.attributes.exact_epsilon
    centered = value - mean
    count = value.size // max(1, value.shape[op.attributes.feature_index])
    total = gradient.sum(axis=others)
    product = (gradient * centered).sum(axis=others)
    inner = gradient * count - _spread(op, total, value)
    inner -= _spread(op, product, value) * centered / spread_variance
    for_operand = scale / np.sqrt(spread_variance) / max(1, count) * inner
    for_scale = (gradient * centered / np.sqrt(spread_variance)).sum(axis=others)
    elements = [shape.dtype for shape in op.shape.elements]
    found = (for_operand, for_scale, total)
    return tuple(rounded(each, element) for each, element in zip(found, elements, strict=True))
