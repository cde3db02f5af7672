# SPDX-License-Identifier: Apache-2.0
"""Evaluates ops on dynamic dimensions: arrays have their actual sizes.

A dimension declared `<=n` holds at most n elements here. Before a rule runs, `sized` replaces the
declared sizes by the actual ones, by the table `semantics/dynamic_sizes`; most rules are then
correct unchanged. `stored` handles the elements beyond a size.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.evaluator.stored import sizes_of, storage_of, stored, with_inside
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.contraction import ConvolutionLabels
from ingot.hlo.shape import Shape
from ingot.semantics.dynamic_sizes import Sizes, is_elementwise, rule_of, stays_in_order


@evaluates("set-dimension-size")
def set_dimension_size(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The first elements of a dimension; all of them when the result has no dynamic dimension.

    If the size grows, the new elements are those that were beyond the old size.
    """
    operand, size = operands
    dim: int = op.attributes.dimensions[0]
    dims = context.dims(op.shape)
    is_marked = bool(op.shape.bounded) and op.shape.bounded[dim]
    wanted = min(max(0, int(size)), dims[dim]) if is_marked else dims[dim]
    sizes = (*operand.shape[:dim], wanted, *operand.shape[dim + 1 :])
    return stored(storage_of(operand, context.dims(op.operands[0].shape)), sizes)


@evaluates("dynamic-reshape")
def dynamic_reshape(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The elements in row-major order, in the sizes given."""
    operand, *sizes = operands
    flags = op.shape.bounded or (False,) * op.shape.rank
    most = context.dims(op.shape)
    rows = zip(sizes, most, flags, strict=True)
    dims = [min(max(0, int(size)), bound) if flag else bound for size, bound, flag in rows]
    source = op.operands[0].shape
    whole = storage_of(operand, context.dims(source))
    before = sizes_of(source, operand)
    if stays_in_order(source, op.shape, before, {n: dims[n] for n in range(len(dims)) if flags[n]}):
        return stored(whole.reshape(most), dims)
    found: Array = np.zeros(most, operand.dtype)
    taken = operand.reshape(-1)[: int(np.prod(dims))].reshape(dims)
    return stored(with_inside(found, taken), dims)


def declared(op: Instruction, value: Value, context: Context) -> Value:
    """Return a result whose static dimensions are as long as declared; zeros beyond a size."""
    if isinstance(value, tuple) or op.shape.is_tuple or np.ndim(value) != op.shape.rank:
        return value
    flags = op.shape.bounded or (False,) * op.shape.rank
    both = zip(flags, np.shape(value), context.dims(op.shape), strict=True)
    dims = tuple(have if flag else whole for flag, have, whole in both)
    return value if dims == np.shape(value) else _of_size(value, dims)


def _of_size(value: Array, dims: Sequence[int]) -> Array:
    """Return the first elements of every dimension, zeros where there are no more."""
    result = np.zeros(dims, value.dtype)
    both = tuple(slice(min(have, want)) for have, want in zip(value.shape, dims, strict=True))
    result[both] = value[both]
    return result


def is_dynamic(op: Instruction) -> bool:
    """Whether a dimension of the result or of an operand is dynamic."""
    shapes = [op.shape, *op.shape.elements, *(operand.shape for operand in op.operands)]
    return any(True in shape.bounded for shape in shapes)


def sized(
    op: Instruction, operands: Sequence[Any], context: Context
) -> tuple[Instruction, Sequence[Any]]:
    """Return the op with actual sizes in its shape, and operands of matching sizes."""
    rule = rule_of(op)
    if rule is None or op.opcode == "custom-call" or any(isinstance(v, tuple) for v in operands):
        return op, operands
    given = [sizes_of(o.shape, value) for o, value in zip(op.operands, operands, strict=True)]
    if is_elementwise(op):
        operands = _joined(operands, given, context)
        found: Sizes = dict(enumerate(np.broadcast_shapes(*(o.shape for o in operands))))
    else:
        found = rule.sizes(op, given)
        operands = _contracted(op, operands)
    actual = copy.copy(op)
    actual.shape = _with_sizes(op.shape, found)
    actual.attributes = _attributes(op, operands, given)
    return actual, operands


def _with_sizes(shape: Shape, sizes: Sizes) -> Shape:
    if shape.is_tuple:
        return Shape.tuple(tuple(_with_sizes(element, sizes) for element in shape.elements))
    return replace(shape, dims=tuple(sizes.get(n, size) for n, size in enumerate(shape.dims)))


def _joined(operands: Sequence[Any], given: Sequence[Sizes], context: Context) -> list[Any]:
    """Return operands of one size: one element is repeated, otherwise the smaller size counts."""
    wanted: dict[int, int] = {}
    for sizes in given:
        for dim, size in sizes.items():
            have = context.number(size)
            pair = sorted((wanted.setdefault(dim, have), have))
            wanted[dim] = pair[1] if pair[0] == 1 else pair[0]
    found: list[Any] = []
    for value, sizes in zip(operands, given, strict=True):
        if value.ndim:
            for dim, size in wanted.items():
                if dim in sizes and value.shape[dim] == 1 < size:
                    value = np.repeat(value, size, axis=dim)
            value = value[tuple(slice(wanted.get(n)) for n in range(value.ndim))]
        found.append(value)
    return found


def _contracted(op: Instruction, operands: Sequence[Any]) -> Sequence[Any]:
    """Return the operands of a contraction, both cut to the smaller size."""
    if op.opcode == "dot":
        lefts, rights = op.attributes.lhs_contracting_dims, op.attributes.rhs_contracting_dims
    elif op.opcode == "convolution" and op.attributes.feature_group_count == 1:
        labels = ConvolutionLabels.parse(op.attributes.dim_labels)
        lefts, rights = (labels.lhs.index("f"),), (labels.rhs.index("i"),)
    else:
        return operands
    lhs, rhs = operands
    for left, right in zip(lefts, rights, strict=True):
        size = min(lhs.shape[left], rhs.shape[right])
        lhs = lhs[(slice(None),) * left + (slice(size),)]
        rhs = rhs[(slice(None),) * right + (slice(size),)]
    return lhs, rhs


def _attributes(op: Instruction, operands: Sequence[Any], given: Sequence[Sizes]) -> Any:
    """Return the attributes, with windows that fit the actual sizes."""
    name = {"gather": "slice_sizes", "dynamic-slice": "dynamic_slice_sizes"}.get(op.opcode)
    if name is not None:
        dims = op.operands[0].shape.dims
        boxes = enumerate(getattr(op.attributes, name))
        sizes = tuple(given[0].get(n, size) if size == dims[n] else size for n, size in boxes)
        return replace(op.attributes, **{name: sizes})
    if op.opcode == "select-and-scatter":
        # Windows of the source beyond the operand are empty.
        window = tuple(
            replace(one, high=one.high + max(0, bound - size))
            for one, bound, size in zip(
                op.attributes.window,
                op.operands[0].shape.static_dims,
                operands[0].shape,
                strict=True,
            )
        )
        return replace(op.attributes, window=window)
    return op.attributes
