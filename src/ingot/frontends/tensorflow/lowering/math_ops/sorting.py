# SPDX-License-Identifier: Apache-2.0
"""Sorting: top-k, searches in sorted rows, buckets.

Equal elements are ordered by their index, so every sort is stable. Floats are in their total order,
as in XLA: NaN above infinity, 0 above -0 (TensorFlow's own top-k has no order for NaN).
"""

from __future__ import annotations

import math

from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction

_CHUNK, _TILE = 1024, 128
"""How many elements of a vector, and of a row of a matrix, a TPU looks at together."""


def top_k(op: Op, x: Instruction, k: Size) -> tuple[Instruction, Instruction]:
    """Return the k greatest elements of the last dimension and their indices (s32)."""
    b = op.b
    axis = x.shape.rank - 1
    size = x.shape.dims[axis]
    if isinstance(k, int) and isinstance(size, int) and k > size:
        raise op.error(f"the {k} greatest of {size} elements")
    if isinstance(k, int):
        found = b.emit("topk", x, k=k, largest=True)
        return b.element_of(found, 0), b.element_of(found, 1)
    numbers = b.iota_of(S32, x.shape.dims, axis)
    ordered = sort_by_first(b, (x, numbers), axis, descending=True)
    values, indices = (b.sliced(b.element_of(ordered, n), axis, 0, k) for n in range(2))
    return values, indices


def _top_k(op: Op) -> tuple[Value, ...]:
    k: Size = int(op.attribute("k")) if len(op) == 1 else op.size(1, "k")
    values, indices = top_k(op, op.tensor(0), k)
    return values, op.b.convert_to(indices, op.result(1))


def _approximate_top_k(op: Op) -> tuple[Value, ...]:
    """The exact ones: nothing is lost."""
    b, x = op.b, op.tensor(0)
    rank = x.shape.rank
    axis = op.axis_of(int(op.attribute("reduction_dimension", -1)), rank)
    order = (*(n for n in range(rank) if n != axis), axis)
    back = tuple(order.index(n) for n in range(rank))
    largest = bool(op.attribute("is_max_k", True))
    moved = b.transposed(x, order)
    found = top_k(op, moved if largest else b.negate(moved), _candidates(op, axis))
    values, indices = (b.transposed(part, back) for part in found)
    return values if largest else b.negate(values), indices


def _nth_element(op: Op) -> Value:
    """The n-th smallest element of each row; with `reverse` the n-th greatest."""
    b, x = op.b, op.tensor(0)
    axis = x.shape.rank - 1
    if axis < 0:
        raise op.mistake("Shape must be at least rank 1 but is rank 0")
    n = op.integer(1, "n")
    size = x.shape.dims[axis]
    if n < 0:
        raise op.mistake(f"n must be non-negative but is {n}")
    if isinstance(size, int) and n >= size:
        raise op.mistake(f"Input must have last dimension > n = {n} but is {size}")
    ordered = sort_by_first(b, (x,), axis, descending=bool(op.attribute("reverse", False)))
    found = b.sliced(ordered, axis, n, n + 1)
    return b.emit("reshape", found, shape=x.shape.with_dims(x.shape.dims[:-1]))


def _candidates(op: Op, axis: int) -> int:
    """Return how many elements are kept of a row: k, or those among which the k are.

    XLA's `ApproxTopKReductionOutputSize`, by the tiles of a TPU.
    """
    k = int(op.attribute("k"))
    if op.attribute("aggregate_to_topk", True):
        return k
    tile = _TILE if op.rank(0) > 1 else _CHUNK
    count = op.fixed(op.dims(0)[axis], "number of candidates")
    if count <= tile:
        return count
    tiles = -(-count // tile)
    if k == 1:
        return tile
    recall = float(op.attribute("recall_target", 0.95))
    given = int(op.attribute("reduction_input_size_override", -1))
    wanted = min(max(int((1 - k) / math.log(recall)) if recall < 1 else count, tile), count)
    halvings = ((given if given >= 0 else count) // wanted).bit_length() - 1
    if halvings <= 0:
        return count
    return -(-tiles // 2 ** min(halvings, (tiles - 1).bit_length())) * tile


def _search(direction: str) -> Rule:
    """Count, for each value, the elements of its sorted row that come before it."""

    def rule(op: Op) -> Value:
        b = op.b
        rows, values = op.tensor(0), op.tensor(1)
        batch, size = rows.shape.dims
        count = values.shape.dims[1]
        dims = (batch, count, size)
        row, value = b.spread(rows, dims, (0, 2)), b.spread(values, dims, (0, 1))
        before = b.compare(row, value, direction=direction)
        return b.reduced("add", b.convert_to(before, op.result()), (2,))

    return rule


def _bucketize(op: Op) -> Value:
    b = op.b
    x = op.tensor(0)
    boundaries = [float(item) for item in op.attribute("boundaries", ())]
    if boundaries != sorted(boundaries):
        raise op.error("Expected sorted boundaries")
    total = b.zeros(x.shape.with_dtype(S32))
    wide = b.convert_to(x, "f32" if x.shape.dtype.bits <= 32 else "f64")
    for boundary in boundaries:
        # Not less, rather than at least: NaN is in the last bucket.
        below = b.compared("LT", wide, boundary)
        total = b.add(total, b.convert_to(b.not_(below), S32))
    return total


RULES: dict[str, Rule] = {
    "ApproxTopK": _approximate_top_k,
    "Bucketize": _bucketize,
    "LowerBound": _search("LT"),
    "NthElement": _nth_element,
    "TopK": _top_k,
    "TopKV2": _top_k,
    "UpperBound": _search("LE"),
}
