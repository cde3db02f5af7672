"""Evaluates contractions.

Float products are summed in f64 and rounded once; f64 by NumPy's matmul. Integers wrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import converted, doubled, rounded
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction


@evaluates("dot")
def dot(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Sums of products over the contracting dimensions: batch, then lhs free, then rhs free."""
    lhs, rhs = operands
    given, element = op.attributes, op.shape.dtype
    left_free, right_free = given.lhs_free_dims(lhs.ndim), given.rhs_free_dims(rhs.ndim)
    batch, contracted = given.lhs_batch_dims, given.lhs_contracting_dims
    left = lhs.transpose(*batch, *left_free, *contracted)
    right = rhs.transpose(*given.rhs_batch_dims, *given.rhs_contracting_dims, *right_free)
    sizes = [lhs.shape[place] for place in batch]
    inner = _size(lhs, contracted)
    product = np.matmul(
        _summed(left, element).reshape(*sizes, _size(lhs, left_free), inner),
        _summed(right, element).reshape(*sizes, inner, _size(rhs, right_free)),
    )
    return rounded(product.reshape(context.dims(op.shape)), element)


def _size(value: Array, places: Sequence[int]) -> int:
    return math.prod(value.shape[place] for place in places)


def _summed(value: Array, element: DType) -> Array:
    """Return an operand in the type that products are summed in."""
    if element.is_integer:
        return converted(value, element).astype(np.int64 if element.is_signed else np.uint64)
    return doubled(value) if not element.is_complex else doubled(converted(value, element))
