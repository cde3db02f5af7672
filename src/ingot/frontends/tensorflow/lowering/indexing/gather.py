# SPDX-License-Identifier: Apache-2.0
"""Gathers: elements or slices taken at computed indices, and the coordinates of elements.

An index out of range is an error (`index_checks`). It is never clamped to another row.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take, take_vectors
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import (
    assert_inside,
    dims_text,
    product_fits,
    vectors_are_inside,
)
from ingot.hlo.instruction import Instruction
from ingot.semantics.assertions import emit_assertion


def gather(
    op: Op, operand: Instruction, indices: Instruction, axis: int, batch_dims: int
) -> Instruction:
    """Take slices along `axis`: `operand[..., indices, ...]` within the batch dimensions."""
    dims = operand.shape.dims
    batch_dims = batch_dims + indices.shape.rank if batch_dims < 0 else batch_dims
    for dimension in range(batch_dims):
        if not op.b.same(dims[dimension], indices.shape.dims[dimension]):
            raise op.mismatch(0, 1)
    assert_inside(op.b, indices, dims[axis])
    return take(op.b, operand, indices, axis, batch_dims)


def gather_nd(op: Op, operand: Instruction, indices: Instruction) -> Instruction:
    """Take the slices at index vectors: the last dimension of `indices`.

    Vectors outside of the array are an error, or give zeros where the node's policy says so.
    """
    b = op.b
    *outer, depth = indices.shape.dims
    if not isinstance(depth, int):
        raise op.error("the length of the index vectors is open at compile time")
    dims = operand.shape.dims
    made = take_vectors(b, operand, indices)
    inside = vectors_are_inside(b, indices, dims)
    if op.attribute("bad_indices_policy", "") == "IGNORE":
        flags = b.spread(inside, made.shape.dims, tuple(range(len(outer))))
        return b.select(flags, made, b.zeros(made.shape))
    shape = dims_text(dims)
    problem = f"indices do not index into param shape [{shape}]"
    if 0 in dims[:depth]:
        problem = f"Requested more than 0 entries, but params is empty.  Params shape: [{shape}]"
    assert_everywhere(b, inside, problem)
    return made


def _gather(op: Op) -> Value:
    return gather(op, op.tensor(0), op.tensor(1), 0, 0)


def _gather_v2(op: Op) -> Value:
    axis = op.axis(2, op.rank(0))
    return gather(op, op.tensor(0), op.tensor(1), axis, int(op.attribute("batch_dims", 0)))


def _gather_nd(op: Op) -> Value:
    return gather_nd(op, op.tensor(0), op.tensor(1))


def _unravelled(op: Op) -> Value:
    """Indices of elements, a number or a vector; sizes: the coordinates, `[rank(, n)]`."""
    b, numbers, dims = op.b, op.tensor(0), op.tensor(1)
    if numbers.shape.rank > 1:
        text = dims_text(numbers.shape.dims)
        raise op.error(f'The indices can only be scalar or vector, got "[{text}]"')
    if dims.shape.rank != 1:
        raise op.mistake(f'The indices can only be 1-D, got "[{dims_text(dims.shape.dims)}]"')
    rank = op.fixed(dims.shape.dims[0], "number of sizes")
    sizes = [b.reshape_to(b.sliced(dims, 0, axis, axis + 1), ()) for axis in range(rank)]
    element = numbers.shape.dtype
    count: Size = numbers.shape.dims[0] if numbers.shape.rank else 1
    text = "Input dims cannot contain a dim of zero"
    assert_everywhere(b, b.compared("NE", dims, 0), text)
    assert_everywhere(b, b.compared("GE", dims, 0), "Input dims cannot be negative")
    text = "Input dims product is causing integer overflow"
    emit_assertion(b, product_fits(b, sizes), text)
    total = b.constant(1, element)
    for size in sizes:
        total = b.multiply(total, size)
    bound = b.spread(total, numbers.shape.dims)
    assert_everywhere(
        b, b.compare(numbers, bound, direction="LT"), "index is out of bound as with dims"
    )
    rest = b.reshape_to(numbers, (1, count))
    rows: list[Instruction] = []
    for axis in reversed(range(rank)):
        divisor = b.spread(b.binary("maximum", sizes[axis], 1), rest.shape.dims)
        rows.append(b.remainder(rest, divisor))
        rest = b.divide(rest, divisor)
    made = b.concatenated(rows[::-1], 0)
    return made if numbers.shape.rank else b.reshape_to(made, (rank,))


RULES: dict[str, Rule] = {
    "Gather": _gather,
    "GatherNd": _gather_nd,
    "GatherV2": _gather_v2,
    "UnravelIndex": _unravelled,
}
