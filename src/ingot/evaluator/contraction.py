# SPDX-License-Identifier: Apache-2.0
"""Evaluates contractions: dot as one matrix product, convolution as one per kernel element.

Float products are summed in f64 and rounded once; f64 by NumPy's matmul. Integers wrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import converted, doubled, rounded, summed_as, sums_of_products
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.evaluator.windows import padded, window_elements
from ingot.hlo.dtype import F64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.window import WindowDimension

_WHOLE = WindowDimension(1)


@evaluates("dot")
def dot(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Sums of products over the contracting dimensions: batch, then lhs free, then rhs free."""
    lhs, rhs = operands
    given, element = op.attributes, summed_as(operands, op.shape.dtype)
    left_free, right_free = given.lhs_free_dims(lhs.ndim), given.rhs_free_dims(rhs.ndim)
    batch, contracted = given.lhs_batch_dims, given.lhs_contracting_dims
    left = lhs.transpose(*batch, *left_free, *contracted)
    right = rhs.transpose(*given.rhs_batch_dims, *given.rhs_contracting_dims, *right_free)
    sizes = [lhs.shape[dim] for dim in batch]
    inner = _size(lhs, contracted)
    product = np.matmul(
        _summed(left, element).reshape(*sizes, _size(lhs, left_free), inner),
        _summed(right, element).reshape(*sizes, inner, _size(rhs, right_free)),
    )
    total = rounded(product.reshape(context.dims(op.shape)), element)
    return converted(total, op.shape.dtype)


def _size(value: Array, dimensions: Sequence[int]) -> int:
    return math.prod(value.shape[dim] for dim in dimensions)


def _summed(value: Array, element: DType) -> Array:
    """Return an operand in the type that products are summed in."""
    if element.is_integer:
        return converted(value, element).astype(np.int64 if element.is_signed else np.uint64)
    if element.is_float:
        return converted(value, F64)
    return doubled(converted(value, element))


@evaluates("convolution")
def convolution(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Sums over windows and input features, group by group."""
    given, element = op.attributes, summed_as(operands, op.shape.dtype)
    labels, window = given.labels, given.window
    lhs = _summed(operands[0], element).transpose(labels.dimensions(labels.lhs, "bf"))
    rhs = _summed(operands[1], element).transpose(labels.dimensions(labels.rhs, "io"))
    lhs = padded(lhs, (_WHOLE, *window, _WHOLE), np.zeros((), lhs.dtype))
    groups = given.feature_group_count
    if given.batch_group_count > 1:
        # Groups of batches are groups of features: put each group's batches side by side.
        groups = given.batch_group_count
        split = lhs.reshape(groups, lhs.shape[0] // groups, *lhs.shape[1:])
        lhs = np.moveaxis(split, 0, -2)
        lhs = lhs.reshape(*lhs.shape[:-2], groups * lhs.shape[-1])
    lhs = lhs.reshape(*lhs.shape[:-1], groups, rhs.shape[0])
    rhs = rhs.reshape(*rhs.shape[:-1], groups, rhs.shape[-1] // groups)
    order: tuple[int, ...] = labels.dimensions(labels.output, "bf")
    dims: list[int] = [context.dims(op.shape)[dim] for dim in order]
    total = np.zeros([*dims[:-1], groups, rhs.shape[-1]], lhs.dtype)
    for index in np.ndindex(*(one.size for one in window)):
        box = window_elements(window, index, dims[1:-1])
        at = tuple(
            one.size - 1 - number if one.reversal else number
            for one, number in zip(window, index, strict=True)
        )
        total += sums_of_products(
            "...gi,igo->...go", lhs[(slice(None), *box)], rhs[(slice(None), *at)]
        )
    flat = total.reshape(dims)
    return converted(rounded(flat.transpose(np.argsort(order)), element), op.shape.dtype)
