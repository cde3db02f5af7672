# SPDX-License-Identifier: Apache-2.0
"""Evaluates reductions and `map`.

`reduce` folds a tree of neighbours, which every associative computation with a neutral initial
value allows and which keeps rounding errors small. Float sums narrower than f64 are summed in f64
and rounded once: the value that every order of summation approximates.
A reduction over no dimensions returns its operands, as XLA's simplifier does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.indexing import combine_at
from ingot.evaluator.numbers import doubled, element_of, rounded
from ingot.evaluator.pointwise import apply
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.evaluator.windows import padded, window_elements
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.support.trampoline import Recursion


@evaluates("reduce")
def reduce(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """Each input's `dimensions` folded into its initial value by the computation."""
    count = len(operands) // 2
    dimensions: tuple[int, ...] = op.attributes.dimensions
    computation: Computation = op.attributes.to_apply
    # A reducer of another precision gets converted operands.
    taken = [p.shape.dtype for p in computation.parameters]
    starts = [rounded(v, e) for v, e in zip(operands[count:], taken[:count], strict=True)]
    values = [rounded(v, e) for v, e in zip(operands[:count], taken[count:], strict=True)]
    inputs = [_reduced_last(value, dimensions) for value in values]
    if dimensions:
        results = yield from _fold(computation, inputs, starts, context)
    else:
        pairs = zip(values, op.operands, strict=False)
        results = tuple(rounded(value, like.shape.dtype) for value, like in pairs)
    return results if op.shape.is_tuple else results[0]


@evaluates("reduce-window")
def reduce_window(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """Each window folded into the initial value; elements outside the input take no part."""
    count = len(operands) // 2
    inputs, starts = operands[:count], operands[count:]
    dimensions, computation = op.attributes.window, op.attributes.to_apply
    shapes = op.shape.parts
    dims = context.dims(shapes[0])
    wide = is_float_sum(computation)
    if wide:
        inputs, starts = ([doubled(value) for value in given] for given in (inputs, starts))
    bases = [padded(value, dimensions, np.array(0)) for value in inputs]
    inside = padded(np.ones(inputs[0].shape, np.bool_), dimensions, np.array(False))
    totals = tuple(np.broadcast_to(start, dims) for start in starts)
    for index in np.ndindex(*(one.size for one in dimensions)):
        box = window_elements(dimensions, index, dims)
        taken = [base[box] for base in bases]
        if wide:
            totals = (totals[0] + taken[0],)
            continue
        joined = yield from apply(computation, [*totals, *taken], context)
        pairs = zip(joined, totals, strict=True)
        totals = tuple(np.where(inside[box], new, old) for new, old in pairs)
    results = tuple(rounded(t, s.dtype) for t, s in zip(totals, shapes, strict=True))
    return results if op.shape.is_tuple else results[0]


@evaluates("select-and-scatter")
def select_and_scatter(
    op: Instruction, operands: Sequence[Any], context: Context
) -> Recursion[Value]:
    """The element of each window that `select` keeps to the end takes the source by `scatter`."""
    operand: Array = operands[0]
    source: Array = operands[1]
    start: Array = operands[2]
    dimensions, dims = op.attributes.window, source.shape
    values = padded(operand, dimensions, start)
    count = int(operand.size)
    numbers: Array = np.arange(count, dtype=np.int64)
    sources = padded(numbers.reshape(operand.shape), dimensions, np.array(-1))
    kept, chosen = np.broadcast_to(start, dims), np.full(dims, -1, np.int64)
    for index in np.ndindex(*(one.size for one in dimensions)):
        box = window_elements(dimensions, index, dims)
        value, number = values[box], sources[box]
        (keep,) = yield from apply(op.attributes.select, [kept, value], context)
        takes = (number >= 0) & ((chosen < 0) | ~keep)
        kept, chosen = np.where(takes, value, kept), np.where(takes, number, chosen)
    result: Array = np.full(count, start, operand.dtype)
    found = chosen.reshape(-1) >= 0
    updates = source.reshape(-1)[found]
    sources = chosen.reshape(-1)[found]
    yield from combine_at(op.attributes.scatter, [result], sources, [updates], context)
    return result.reshape(operand.shape)


@evaluates("map")
def map_(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """The computation at each element."""
    return (yield from apply(op.attributes.to_apply, operands, context))[0]


def _reduced_last(value: Array, dimensions: tuple[int, ...]) -> Array:
    """Return `value` with the reduced dimensions as one last dimension, in row-major order."""
    kept = [dim for dim in range(value.ndim) if dim not in dimensions]
    moved = value.transpose(*kept, *sorted(dimensions))
    size = math.prod(value.shape[dim] for dim in dimensions)
    return moved.reshape(*(value.shape[dim] for dim in kept), size)


def _fold(
    computation: Computation,
    inputs: list[Array],
    starts: Sequence[Array],
    context: Context,
) -> Recursion[tuple[Array, ...]]:
    """Return `inputs` with the last dimension folded."""
    dims = inputs[0].shape[:-1]
    beginning = tuple(np.broadcast_to(start, dims) for start in starts)
    if inputs[0].shape[-1] == 0:
        return beginning
    if is_float_sum(computation):
        element = element_of(inputs[0])
        total = inputs[0].astype(np.float64).sum(axis=-1) + starts[0].astype(np.float64)
        return (rounded(total, element),)
    values = tuple(inputs)
    while (size := values[0].shape[-1]) > 1:
        even = size - size % 2
        pairs = [value[..., begin:even:2] for begin in (0, 1) for value in values]
        folded = yield from apply(computation, pairs, context)
        rest = [value[..., even:] for value in values]
        values = tuple(np.concatenate(both, axis=-1) for both in zip(folded, rest, strict=True))
    firsts = [value[..., 0] for value in values]
    return (yield from apply(computation, [*beginning, *firsts], context))


def is_float_sum(computation: Computation) -> bool:
    """Whether the computation adds two real floats."""
    root = computation.root
    return (
        root.opcode == "add"
        and root.shape.dtype.is_float
        and set(root.operands) == set(computation.parameters)
    )
