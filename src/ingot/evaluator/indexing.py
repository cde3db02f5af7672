# SPDX-License-Identifier: Apache-2.0
"""Evaluates indexing ops: gather and scatter by coordinates, sort by merging.

Gather and scatter compute, for every element of the windowed array (gather's result, scatter's
updates), the coordinates of the operand element that belongs to it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import element_of, total_order_key
from ingot.evaluator.pointwise import apply
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.computation import Computation
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.indexing import IndexMap
from ingot.support.trampoline import Recursion


@evaluates("gather")
def gather(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Windows of the operand, each moved inside; zeros if the operand has no elements."""
    operand, indices = operands
    sizes = context.numbers(op.attributes.slice_sizes)
    if operand.size == 0 or 0 in sizes:  # An empty window may be collapsed to one element.
        return np.zeros(context.dims(op.shape), operand.dtype)
    numbers: IndexMap = op.attributes.index_map
    limits = [whole - size for whole, size in zip(operand.shape, sizes, strict=True)]
    starts = [
        np.clip(start, 0, limit)
        for start, limit in zip(_starts(numbers, indices, operand.ndim), limits, strict=True)
    ]
    dims = context.dims(op.shape)
    found = operand[tuple(_coordinates(numbers, starts, indices, dims))]
    return np.broadcast_to(found, dims)  # of a scalar, every window is the same


@evaluates("scatter")
def scatter(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """The operands with updates combined in, in row-major order of the updates.

    A window that does not lie wholly inside the operand is dropped, as XLA does.
    """
    count = len(operands) // 2
    inputs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
    numbers: IndexMap = op.attributes.index_map
    whole, dims = inputs[0].shape, updates[0].shape
    window = _window_sizes(numbers, dims, len(whole))
    starts = _starts(numbers, indices, len(whole))
    inside = np.ones(_batch_dims(numbers, indices), np.bool_)
    for start, size, limit in zip(starts, window, whole, strict=True):
        inside &= (start >= 0) & (start <= limit - size)
    coordinates = _coordinates(numbers, starts, indices, dims)
    kept = np.broadcast_to(_spread(numbers, inside, dims), dims).reshape(-1)
    flat = [np.broadcast_to(c, dims).reshape(-1)[kept] for c in coordinates]
    targets = np.zeros(int(kept.sum()), np.int64)
    for coordinate, size in zip(flat, whole, strict=True):
        targets = targets * size + coordinate
    results = [value.reshape(-1).copy() for value in inputs]
    yield from combine_at(
        op.attributes.to_apply, results, targets, [u.reshape(-1)[kept] for u in updates], context
    )
    shaped = tuple(result.reshape(whole) for result in results)
    return shaped if op.shape.is_tuple else shaped[0]


def combine_at(
    combiner: Computation,
    results: list[Array],
    targets: Array,
    updates: list[Array],
    context: Context,
) -> Recursion[None]:
    """Combine updates into `results` at flat indices `targets`, those of one target in order.

    Round k takes the k-th update of every target, so no target occurs twice in a round.
    """
    order = np.argsort(targets, kind="stable")
    ordered = targets[order]
    first = np.searchsorted(ordered, ordered, side="left")
    turn = np.empty_like(targets)
    turn[order] = np.arange(targets.size) - first
    for number in range(int(turn.max(initial=-1)) + 1):
        chosen = np.flatnonzero(turn == number)
        where = targets[chosen]
        old = [result[where] for result in results]
        new = yield from apply(combiner, [*old, *(update[chosen] for update in updates)], context)
        for result, value in zip(results, new, strict=True):
            result[where] = value


def _starts(numbers: IndexMap, indices: Array, rank: int) -> list[Array]:
    """Return each window's start along each operand dimension, in the indices' batch dims."""
    wide = indices
    if indices.dtype == np.uint64:
        wide = np.minimum(indices, np.uint64(np.iinfo(np.int64).max))
    wide = wide.astype(np.int64)
    if numbers.index_vector_dim == indices.ndim:
        wide = wide[..., None]
    vectors = np.moveaxis(wide, numbers.index_vector_dim, -1)
    starts = [np.zeros(vectors.shape[:-1], np.int64) for _ in range(rank)]
    for number, dim in enumerate(numbers.index_to_operand):
        starts[dim] = vectors[..., number]
    batch = numbers.indices_batch_dims(indices.ndim)
    counts = np.indices(vectors.shape[:-1])
    for dim, along in zip(
        numbers.operand_batching_dims, numbers.indices_batching_dims, strict=True
    ):
        starts[dim] = counts[batch.index(along)]
    return starts


def _batch_dims(numbers: IndexMap, indices: Array) -> tuple[int, ...]:
    return tuple(indices.shape[dim] for dim in numbers.indices_batch_dims(indices.ndim))


def _window_sizes(numbers: IndexMap, dims: tuple[int, ...], rank: int) -> list[int]:
    sizes = [1] * rank
    for dim, number in zip(numbers.operand_window_dims(rank), numbers.window_dims, strict=True):
        sizes[dim] = dims[number]
    return sizes


def _spread(numbers: IndexMap, value: Array, dims: tuple[int, ...]) -> Array:
    """Return a value per window as an array that broadcasts to the windowed array."""
    return value.reshape([1 if n in numbers.window_dims else size for n, size in enumerate(dims)])


def _coordinates(
    numbers: IndexMap, starts: list[Array], indices: Array, dims: tuple[int, ...]
) -> list[Array]:
    """Return, per operand dimension, the operand index of each windowed element."""
    coordinates = [np.broadcast_to(_spread(numbers, start, dims), dims) for start in starts]
    dimensions = numbers.operand_window_dims(len(starts))
    offsets = np.indices(dims)
    for dim, number in zip(dimensions, numbers.window_dims, strict=True):
        coordinates[dim] = coordinates[dim] + offsets[number]
    return coordinates


@evaluates("sort")
def sort(op: Instruction, operands: Sequence[Any], context: Context) -> Recursion[Value]:
    """The operands in the comparator's order, always stable."""
    (dim,) = op.attributes.dimensions
    last = [np.moveaxis(value, dim, -1) for value in operands]
    rows = [value.reshape(math.prod(value.shape[:-1]), value.shape[-1]) for value in last]
    order = yield from merge_sorted(op.attributes.to_apply, rows, context)
    results = tuple(
        np.moveaxis(np.take_along_axis(row, order, axis=-1).reshape(value.shape), -1, dim)
        for row, value in zip(rows, last, strict=True)
    )
    return results if op.shape.is_tuple else results[0]


def merge_sorted(comparator: Computation, rows: list[Array], context: Context) -> Recursion[Array]:
    """Return each row's order: a bottom-up merge sort of all rows at once.

    Merging two sorted runs: an element's new position is that in its own run plus the number of
    elements of the other run that come before it, found by bisection.
    """
    count, length = rows[0].shape
    positions: Array = np.arange(length, dtype=np.int64)
    order: Array = np.broadcast_to(positions, (count, length)).copy()

    def before(left: Array, right: Array) -> Recursion[Array]:
        arguments: list[Array] = []
        for row in rows:
            placed = np.take_along_axis(row, order, axis=-1)
            arguments.append(np.take_along_axis(placed, left, axis=-1))
            arguments.append(np.take_along_axis(placed, right, axis=-1))
        return (yield from apply(comparator, arguments, context))[0]

    width = 1
    while width < length:
        start: Array = positions // (2 * width) * (2 * width)
        middle = np.minimum(start + width, length)
        in_left: Array = positions < middle
        begin = np.where(in_left, middle, start)
        end = np.where(in_left, np.minimum(start + 2 * width, length), middle)
        own = positions - np.where(in_left, start, middle)
        low = np.broadcast_to(begin, order.shape).copy()
        high = np.broadcast_to(end, order.shape).copy()
        while (low < high).any():
            probe = np.minimum((low + high) // 2, length - 1)
            here = np.broadcast_to(positions, order.shape)
            pair = np.where(in_left, probe, here), np.where(in_left, here, probe)
            first = yield from before(*pair)
            # Equal elements keep their order: the left run's come first.
            goes_before = np.where(in_left, first, ~first)
            active = low < high
            low, high = (
                np.where(active & goes_before, probe + 1, low),
                np.where(active & ~goes_before, probe, high),
            )
        # Always a permutation: a comparator that is no order (NaN) may give a position twice.
        inverse = np.argsort(start + own + (low - begin), axis=-1, kind="stable")
        order = np.take_along_axis(order, inverse, axis=-1)
        width *= 2
    return order


@evaluates("topk")
def topk(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The first k of the last dimension in total order, equal ones by index."""
    (operand,) = operands
    return first_in_order(operand, op.attributes.k, op.attributes.largest)


def first_in_order(operand: Array, count: int, largest: bool) -> tuple[Array, Array]:
    """Return the first elements of the last dimension, and their indices."""
    key = total_order_key(operand) if element_of(operand).is_float else operand
    if largest:
        # The complement reverses the order of integers without overflow.
        key = np.invert(key)
    order = np.argsort(key, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(operand, order, axis=-1), order.astype(np.int32)
