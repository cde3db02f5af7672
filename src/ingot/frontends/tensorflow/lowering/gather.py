# SPDX-License-Identifier: Apache-2.0
"""Gathers: elements or slices taken at computed places.

An index out of range is an error (`index_checks`). It is never clamped to another row.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take, take_vectors
from ingot.frontends.tensorflow.lowering.index_checks import (
    assert_inside,
    dims_text,
    vectors_are_inside,
)
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo.instruction import Instruction


def gather(
    op: Op, operand: Instruction, indices: Instruction, axis: int, batch_dims: int
) -> Instruction:
    """Take slices along `axis`: `operand[..., indices, ...]` within the batch dimensions."""
    dims = operand.shape.dims
    batch_dims = batch_dims + indices.shape.rank if batch_dims < 0 else batch_dims
    for place in range(batch_dims):
        if not op.b.same(dims[place], indices.shape.dims[place]):
            raise op.mismatch(0, 1)
    assert_inside(op.b, indices, dims[axis])
    return take(op.b, operand, indices, axis, batch_dims)


def gather_nd(op: Op, operand: Instruction, indices: Instruction) -> Instruction:
    """Take the slices at index vectors: the last dimension of `indices`.

    Vectors that are no place are an error, or give zeros where the node's policy says so.
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


RULES: dict[str, Rule] = {"Gather": _gather, "GatherNd": _gather_nd, "GatherV2": _gather_v2}
