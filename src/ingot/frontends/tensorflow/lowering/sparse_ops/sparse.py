# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors: products, sums, orders and elementwise ops of indices `[n, rank]` and values.

What is missing from a sparse tensor is 0, so results with a place for everything are scattered into
zeros. Source: TensorFlow's `kernels/sparse_*_op.cc`, `segment_reduction_ops_impl.h`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import neutral, wider
from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take
from ingot.frontends.building.products import conjugate
from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.array_ops.data_sizes import (
    positions,
    segment_count,
    value_groups,
)
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.indexing.gather import gather, gather_nd
from ingot.frontends.tensorflow.lowering.indexing.index_checks import (
    are_below,
    assert_inside,
    assert_sorted,
    dims_text,
    row_major,
    vectors_are_inside,
)
from ingot.frontends.tensorflow.lowering.indexing.scatter import (
    checked_nd,
    scatter_nd,
    scatter_rows,
    segment_sizes,
)
from ingot.hlo.dtype import PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _column(op: Op, indices: Instruction, axis: int) -> Instruction:
    """Return the indices of one dimension, `s64[n]`."""
    count = indices.shape.dims[0]
    column = op.b.reshape_to(op.b.sliced(indices, 1, axis, axis + 1), (count,))
    return op.b.convert_to(column, S64)


def _columns(op: Op, indices: Instruction, axes: Sequence[int]) -> Instruction:
    """Return the indices of some dimensions, `s64[n, axes]`."""
    count = indices.shape.dims[0]
    parts = [op.b.reshape_to(_column(op, indices, axis), (count, 1)) for axis in axes]
    if not parts:
        return op.b.zeros(Shape.array(S64, (count, 0)))
    return op.b.concatenated(parts, 1)


def _product(op: Op) -> Value:
    """Indices, values and shape of a matrix; a dense one."""
    b, indices, values = op.b, op.tensor(0), op.tensor(1)
    sizes = op.sizes(2, "dense shape")
    right = op.tensor(3)
    rows, columns = 0, 1
    if op.attribute("adjoint_a", False):
        rows, columns, values = 1, 0, conjugate(b, values)
    if op.attribute("adjoint_b", False):
        right = conjugate(b, b.transposed(right, (1, 0)))
    if not b.same(sizes[columns], right.shape.dims[0]):
        raise op.mismatch(0, 3)
    element = wider(values.shape.dtype)
    found = b.convert_to(gather(op, right, _column(op, indices, columns), 0, 0), element)
    scaled = b.multiply(found, b.spread(b.convert_to(values, element), found.shape.dims, (0,)))
    zeros = b.zeros(Shape.array(element, (sizes[rows], right.shape.dims[1])))
    numbers = _column(op, indices, rows)
    assert_inside(b, numbers, sizes[rows])
    return b.convert_to(scatter_rows(op, "add", zeros, numbers, scaled), op.result())


def _reduced(opcode: str) -> Rule:
    """Reduce the values that are there; where there is none, the result is 0."""

    def rule(op: Op) -> Value:
        b, indices, values = op.b, op.tensor(0), op.tensor(1)
        dims = op.sizes(2, "dense shape")
        axes = set(op.axes(3, len(dims), "reduction axes"))
        # No axis at all stands for every one.
        axes = axes or set(range(len(dims)))
        kept = [axis for axis in range(len(dims)) if axis not in axes]
        sizes = tuple(dims[axis] for axis in kept)
        kept_indices = _columns(op, indices, kept)
        into = b.like(neutral(opcode, values.shape.dtype), values.shape.with_dims(sizes))
        made = checked_nd(op, opcode, into, kept_indices, values)
        if opcode != "add":
            flags = b.like(True, Shape.array(PRED, values.shape.dims))
            some = scatter_nd(op, "or", b.zeros(Shape.array(PRED, sizes)), kept_indices, flags)
            made = b.select(some, made, b.zeros(made.shape))
        if op.attribute("keep_dims", False):
            ones = tuple(1 if axis in axes else size for axis, size in enumerate(dims))
            made = b.reshape_to(made, ones)
        return made

    return rule


def _reordered(op: Op) -> tuple[Value, ...]:
    """Indices and values by rows: in the order of the dense elements."""
    b, indices, values = op.b, op.tensor(0), op.tensor(1)
    dims = op.sizes(2, "dense shape")
    if indices.shape.dims[1] != len(dims):
        raise op.error(
            f"Number of elements of the shape ({len(dims)}) and columns of the indices "
            f"({indices.shape.dims[1]}) do not match"
        )
    offset = row_major(b, indices, dims)
    order = b.element_of(sort_by_first(b, (offset, b.iota_of(S64, offset.shape.dims, 0)), 0), 1)
    return take(b, indices, order), take(b, values, order)


def _with_dense(opcode: str) -> Rule:
    """Combine each value with the dense element at its index; the dense operand is broadcast."""

    def rule(op: Op) -> Value:
        b = op.b
        dense = b.spread(op.tensor(3), op.sizes(2, "dense shape"))
        indices = b.convert_to(op.tensor(0), S64)
        return b.emit(opcode, op.tensor(1), gather_nd(op, dense, indices))

    return rule


def _add_dense(op: Op) -> Value:
    indices, dense = op.tensor(0), op.tensor(3)
    text = f"Sparse tensor has an invalid index for shape [{dims_text(dense.shape.dims)}]"
    assert_everywhere(op.b, vectors_are_inside(op.b, indices, dense.shape.dims), text)
    return scatter_nd(op, "add", dense, indices, op.tensor(1))


def _scaled(op: Op, kind: str, sums: Instruction, numbers: Instruction) -> Instruction:
    """Divide sums of segments by their numbers of rows, or by the roots of those."""
    if kind == "Sum":
        return sums
    b, counts = op.b, segment_sizes(op, numbers, sums.shape)
    return b.divide(
        sums, b.spread(b.sqrt(counts) if kind == "SqrtN" else counts, sums.shape.dims, (0,))
    )


def _segments(kind: str, *, are_counted: bool) -> Rule:
    """Combine rows of the data, which the indices choose, by sorted segment numbers."""

    def rule(op: Op) -> Value:
        b, data, numbers = op.b, op.tensor(0), op.tensor(2)
        if are_counted:
            assert_sorted(b, numbers)
            count = op.size(3, "number of segments")
            text = "segment ids must be < num_segments"
            assert_everywhere(b, are_below(b, numbers, count), text)
        else:
            count = segment_count(op, numbers)
        shape = Shape.array(wider(data.shape.dtype), (count, *data.shape.dims[1:]))
        rows = b.convert_to(gather(op, data, op.tensor(1), 0, 0), shape.dtype)
        made = scatter_rows(op, "add", b.zeros(shape), numbers, rows)
        return b.convert_to(_scaled(op, kind, made, numbers), op.result())

    return rule


def _chosen_rows(op: Op, kind: str) -> tuple[Size, Instruction]:
    """Return how many rows the data had, and the gradients of those that the indices chose.

    The operands are gradient, indices, segment numbers, how many rows the data had.
    """
    b, gradient, numbers = op.b, op.tensor(0), op.tensor(2)
    count = op.size(3, "number of rows")
    assert_inside(b, op.tensor(1), count)
    wide = b.convert_to(gradient, wider(gradient.shape.dtype))
    return count, gather(op, _scaled(op, kind, wide, numbers), numbers, 0, 0)


def _segments_gradient(kind: str) -> Rule:
    """The gradient of all rows of the data."""

    def rule(op: Op) -> Value:
        count, rows = _chosen_rows(op, kind)
        zeros = op.b.zeros(rows.shape.with_dims((count, *rows.shape.dims[1:])))
        return op.b.convert_to(scatter_rows(op, "add", zeros, op.tensor(1), rows), op.result())

    return rule


def _chosen_segments_gradient(kind: str) -> Rule:
    """The gradient of the rows that the indices chose, by ascending index, and those indices."""

    def rule(op: Op) -> tuple[Value, ...]:
        b = op.b
        _, rows = _chosen_rows(op, kind)
        values, order, is_new, group = value_groups(op, op.tensor(1))
        firsts = positions(op, is_new)
        zeros = b.zeros(rows.shape.with_dims((*firsts.shape.dims, *rows.shape.dims[1:])))
        made = scatter_rows(op, "add", zeros, group, take(b, rows, order))
        return b.convert_to(made, op.result()), take(b, values, firsts)

    return rule


_KINDS = ("Mean", "SqrtN", "Sum")
RULES: dict[str, Rule] = {
    "SparseDenseCwiseAdd": _with_dense("add"),
    "SparseDenseCwiseDiv": _with_dense("divide"),
    "SparseDenseCwiseMul": _with_dense("multiply"),
    "SparseReduceMax": _reduced("maximum"),
    "SparseReduceSum": _reduced("add"),
    "SparseReorder": _reordered,
    "SparseTensorDenseAdd": _add_dense,
    "SparseTensorDenseMatMul": _product,
    **{f"SparseSegment{kind}": _segments(kind, are_counted=False) for kind in _KINDS},
    **{f"SparseSegment{kind}WithNumSegments": _segments(kind, are_counted=True) for kind in _KINDS},
    **{f"SparseSegment{kind}Grad": _segments_gradient(kind) for kind in _KINDS},
    **{f"SparseSegment{kind}GradV2": _chosen_segments_gradient(kind) for kind in _KINDS},
}
