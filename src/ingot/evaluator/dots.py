# SPDX-License-Identifier: Apache-2.0
"""Evaluates ragged and scaled dots: a `dot` for each group, a `dot` of products with scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import converted, doubled, rounded, summed_as, sums_of_products
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import DotAttributes
from ingot.support.diagnostics import UnsupportedError


def _dot(left: Array, right: Array, given: DotAttributes) -> Array:
    """Return the product of wide operands: batch, lhs free, rhs free dimensions."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    lhs = [next(letters) for _ in range(left.ndim)]
    rhs = [next(letters) for _ in range(right.ndim)]
    for ours, theirs in (
        *zip(given.lhs_batch_dims, given.rhs_batch_dims, strict=True),
        *zip(given.lhs_contracting_dims, given.rhs_contracting_dims, strict=True),
    ):
        rhs[theirs] = lhs[ours]
    result = [lhs[dim] for dim in (*given.lhs_batch_dims, *given.lhs_free_dims(left.ndim))]
    result += [rhs[dim] for dim in given.rhs_free_dims(right.ndim)]
    return sums_of_products(f"{''.join(lhs)},{''.join(rhs)}->{''.join(result)}", left, right)


def _wide(value: Array, element: DType) -> Array:
    if element.is_integer:
        return value.astype(np.int64 if element.is_signed else np.uint64)
    return doubled(value)


@evaluates("ragged-dot")
def ragged_dot(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Rows of group g meet rhs g; or group g of the contraction gives result g."""
    element = summed_as(operands[:2], op.shape.dtype)
    return converted(rounded(_ragged(op, operands, element, context), element), op.shape.dtype)


def _ragged(op: Instruction, operands: Sequence[Any], element: DType, context: Context) -> Array:
    lhs, rhs, sizes = operands
    given = op.attributes
    if sizes.ndim != 1:
        raise UnsupportedError(
            f"ragged-dot with group sizes {op.operands[2].shape} per batch",
            code="INGOT0254",
            instruction=repr(op),
            hint="give one vector of group sizes",
        )
    left, right = _wide(lhs, element), _wide(rhs, element)
    plain = DotAttributes(
        given.lhs_batch_dims, given.lhs_contracting_dims, given.rhs_batch_dims,
        given.rhs_contracting_dims,
    )  # fmt: skip
    mode, (ragged,) = given.mode(), given.lhs_ragged_dims
    if mode == "batch":
        return _dot(left, right, plain)
    limits = np.clip(np.cumsum(sizes), 0, lhs.shape[ragged])
    ranges = list(zip([0, *limits[:-1]], limits, strict=True))
    if mode == "contraction":
        other = given.rhs_contracting_dims[given.lhs_contracting_dims.index(ragged)]
        parts = [
            _dot(_taken(left, ragged, *range_), _taken(right, other, *range_), plain)
            for range_ in ranges
        ]
        return np.stack(parts)
    (group,) = given.rhs_group_dims
    dim = (*given.lhs_batch_dims, *given.lhs_free_dims(lhs.ndim)).index(ragged)
    result = np.zeros(context.dims(op.shape), left.dtype)
    for number, (start, limit) in enumerate(ranges):
        right_one = np.take(right, number, axis=group)
        part = _dot(_taken(left, ragged, start, limit), right_one, _without(plain, group))
        # After a negative size a row belongs to two groups, as it does in XLA.
        result[(slice(None),) * dim + (slice(start, limit),)] += part
    return result


def _taken(value: Array, dim: int, start: int, limit: int) -> Array:
    return value[(slice(None),) * dim + (slice(start, limit),)]


def _without(given: DotAttributes, group: int) -> DotAttributes:
    """Return the dimension numbers of an rhs without dimension `group`."""
    batch, contracting = (
        tuple(dim - (dim > group) for dim in dimensions)
        for dimensions in (given.rhs_batch_dims, given.rhs_contracting_dims)
    )
    return DotAttributes(given.lhs_batch_dims, given.lhs_contracting_dims, batch, contracting)


@evaluates("scaled-dot")
def scaled_dot(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The dot of both operands, each times its scale."""
    lhs, rhs, lhs_scale, rhs_scale = (doubled(value) for value in operands)
    left, right = lhs * _blocks(lhs_scale, lhs), rhs * _blocks(rhs_scale, rhs)
    element = summed_as(operands[:2], op.shape.dtype)
    return converted(rounded(_dot(left, right, op.attributes), element), op.shape.dtype)


def _blocks(scale: Array, like: Array) -> Array:
    """Return scales, each repeated over its block of elements."""
    for dim in range(scale.ndim):
        scale = np.repeat(scale, like.shape[dim] // scale.shape[dim], axis=dim)
    return scale
