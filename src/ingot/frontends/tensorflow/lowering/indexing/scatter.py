# SPDX-License-Identifier: Apache-2.0
"""Scatters and segment reductions: updates combined into computed indices.

HLO's scatter drops an index out of range, and so do `scatter_nd`, `scatter_rows` and `segments`. In
the ops here it is an error, as in TensorFlow's kernels for CPU (`index_checks`). ScatterNd alone
drops it: TensorFlow's tests of its XLA bridge demand that it does not fail.
"""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes

from ingot.frontends.building.arrays import neutral, wider
from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import scatter_slices, scatter_vectors
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import (
    are_below,
    are_inside,
    assert_ascending,
    dims_text,
    vectors_are_inside,
)
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.diagnostics import UnsupportedError


def scatter_nd(
    op: Op, opcode: str, operand: Instruction, indices: Instruction, updates: Instruction
) -> Instruction:
    """Combine slices into the slices given by index vectors (the last dimension)."""
    dims = _update_dims(op, operand.shape.dims, indices)
    return scatter_vectors(op.b, opcode, operand, indices, _fitted(op, updates, dims))


def _update_dims(op: Op, dims: Sizes, indices: Instruction) -> Sizes:
    """Return the sizes of the updates for index vectors into a tensor of sizes `dims`."""
    *outer, depth = indices.shape.dims
    if not isinstance(depth, int):
        raise op.error("the length of the index vectors is open at compile time")
    if depth > len(dims):
        raise op.error(f"index vectors of length {depth} for a tensor of rank {len(dims)}")
    return (*outer, *dims[depth:])


def checked_nd(
    op: Op, opcode: str, operand: Instruction, indices: Instruction, updates: Instruction
) -> Instruction:
    """Do the same; vectors that choose nothing are an error unless the node's policy drops them."""
    made = scatter_nd(op, opcode, operand, indices, updates)
    if op.attribute("bad_indices_policy", "") != "IGNORE":
        dims = operand.shape.dims
        inside = vectors_are_inside(op.b, indices, dims)
        assert_everywhere(op.b, inside, f"indices do not index into shape [{dims_text(dims)}]")
    return made


def scatter_rows(
    op: Op, opcode: str, operand: Instruction, indices: Instruction, updates: Instruction
) -> Instruction:
    """Combine rows into the rows numbered by `indices`, of any rank."""
    dims: Sizes = (*indices.shape.dims, *operand.shape.dims[1:])
    return scatter_slices(op.b, opcode, operand, indices, _fitted(op, updates, dims))


def _fitted(op: Op, updates: Instruction, dims: Sizes) -> Instruction:
    """Return the updates, or one for all of them, with the sizes `dims`."""
    given = updates.shape.dims
    if not given:
        return op.b.spread(updates, dims)
    if len(given) != len(dims) or not all(map(op.b.same, given, dims)):
        raise _misfit(op, given, dims)
    return updates


def _misfit(op: Op, given: Sizes, dims: Sizes) -> UnsupportedError:
    return op.error(
        "Must have updates.shape = indices.shape[:batch_dim] + buffer_shape[num_index_dims:], "
        f"got updates.shape [{dims_text(given)}] where [{dims_text(dims)}] is needed"
    )


def _new(op: Op) -> Value:
    """ScatterNd: into zeros; what falls on one index is added."""
    indices, updates = op.tensor(0), op.tensor(1)
    shape = updates.shape.with_dims(op.sizes(2, "shape"))
    wanted = _update_dims(op, shape.dims, indices)
    if wanted and not updates.shape.rank:  # The other ops put one update everywhere.
        raise _misfit(op, (), wanted)
    scatter = checked_nd if op.attribute("bad_indices_policy", "") == "ERROR" else scatter_nd
    return scatter(op, "add", op.b.zeros(shape), indices, updates)


def _to_dense(op: Op) -> Value:
    """Indices `[n, rank]`, `[n]` or one; shape; values; what stands elsewhere."""
    b, indices = op.b, op.tensor(0)
    dims = op.sizes(1, "output shape")
    if indices.shape.rank < 2:
        rows: Size = indices.shape.dims[0] if indices.shape.rank else 1
        indices = b.reshape_to(indices, (rows, 1))
    if indices.shape.dims[1] != len(dims):
        raise op.error(
            f"output_shape has incorrect number of elements: {len(dims)} should be: "
            f"{indices.shape.dims[1]}"
        )
    count, values = indices.shape.dims[0], op.dims(2)
    if values and not (len(values) == 1 and b.same(values[0], count)):
        raise op.error(
            f"sparse_values has incorrect shape [{dims_text(values)}], should be [] or [{count}]"
        )
    if op.dims(3):
        raise op.error("default_value should be a scalar.")
    inside = vectors_are_inside(b, indices, dims)
    text = f"indices are out of bounds: need 0 <= index < [{dims_text(dims)}]"
    assert_everywhere(b, inside, text)
    if op.attribute("validate_indices", True):
        assert_ascending(b, indices, dims)
    return scatter_nd(op, "update", b.spread(op.tensor(3), dims), indices, op.tensor(2))


def _into(opcode: str) -> Rule:
    return lambda op: checked_nd(op, opcode, op.tensor(0), op.tensor(1), op.tensor(2))


def segments(op: Op, opcode: str, count: Size) -> Instruction:
    """Combine rows of operand 0 by the segment numbers in operand 1, into `count` rows."""
    data, numbers = op.tensor(0), op.tensor(1)
    if data.shape.rank < numbers.shape.rank:
        raise op.error(
            f"data.shape = [{dims_text(data.shape.dims)}] does not start with segment_ids.shape = "
            f"[{dims_text(numbers.shape.dims)}]"
        )
    element = data.shape.dtype
    wide = wider(element) if opcode == "add" else element
    rest = data.shape.dims[numbers.shape.rank :]
    first: Any = neutral(opcode, wide)
    if element.is_float and opcode in ("maximum", "minimum"):
        # TensorFlow starts at the least finite number, not at minus infinity.
        limits = cast("Any", ml_dtypes.finfo(element.numpy))
        first = limits.min if opcode == "maximum" else limits.max
    into = op.b.like(first, Shape.array(wide, (count, *rest)))
    made = scatter_rows(op, opcode, into, numbers, op.b.convert_to(data, wide))
    return op.b.convert_to(made, element)


def segment_sizes(op: Op, numbers: Instruction, shape: Shape) -> Instruction:
    """Return how many rows each segment of a result of `shape` has; 1 for none."""
    ones = op.b.like(1, Shape.array(shape.dtype, numbers.shape.dims))
    least = op.b.zeros(shape.with_dims(shape.dims[:1]))
    found = scatter_rows(op, "add", least, numbers, ones)
    return op.b.maximum(found, op.b.like(1, found.shape))


def _unsorted(opcode: str) -> Rule:
    """Return the rule that combines rows by numbers below operand 2; negative ones are dropped."""

    def rule(op: Op) -> Value:
        count = op.size(2, "number of segments")
        text = f"segment_ids are out of range [0, {count})"
        assert_everywhere(op.b, are_below(op.b, op.tensor(1), count), text)
        return segments(op, opcode, count)

    return rule


def _inverse(op: Op) -> Value:
    """Return where each number of a permutation is."""
    order = op.tensor(0)
    (count,) = order.shape.dims
    assert_everywhere(
        op.b, are_inside(op.b, order, count), f"a number is not between 0 and {count}"
    )
    nowhere = op.b.like(-1, order.shape)
    indices = op.b.iota_of(order.shape.dtype, order.shape.dims, 0)
    found = scatter_rows(op, "update", nowhere, order, indices)
    is_found = op.b.compared("GE", found, 0)
    assert_everywhere(op.b, is_found, "a number is duplicated in the input")
    return found


RULES: dict[str, Rule] = {
    "InvertPermutation": _inverse,
    "ScatterNd": _new,
    "SparseToDense": _to_dense,
    "TensorScatterAdd": _into("add"),
    "TensorScatterMax": _into("maximum"),
    "TensorScatterMin": _into("minimum"),
    "TensorScatterSub": _into("subtract"),
    "TensorScatterUpdate": _into("update"),
    "UnsortedSegmentMax": _unsorted("maximum"),
    "UnsortedSegmentMin": _unsorted("minimum"),
    "UnsortedSegmentProd": _unsorted("multiply"),
    "UnsortedSegmentSum": _unsorted("add"),
}
