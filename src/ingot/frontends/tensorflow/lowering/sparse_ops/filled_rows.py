# SPDX-License-Identifier: Apache-2.0
"""Rows without a value get one: what a lookup of sparse or ragged words does before it starts.

Values of a row stay in their order, and a row is put after those before it. Source: TensorFlow's
`kernels/fill_empty_rows_functor.h`.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take
from ingot.frontends.building.scans import scan
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Size, Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import are_inside
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.sparse_ops.structure import column, order_of
from ingot.hlo.dtype import PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _filled(
    op: Op, row: Instruction, rows: Size, inner: Instruction | None, values: Instruction
) -> tuple[Value, ...]:
    """Return tensors with one default value (the last operand) in each row that has none.

    Args:
        op: the op.
        row: the row of each value, `s64[n]`.
        rows: how many there are.
        inner: the whole index of each value, `s64[n, rank]`; None if the row is all of it.
        values: `[n]`.

    Returns:
        Rows or indices, and values, of the result; which rows had none; where each value went.
    """
    b = op.b
    (count,) = values.shape.dims
    text = f"indices are invalid: a row is not in [0, {rows})"
    assert_everywhere(b, are_inside(b, row, rows), text)
    none = b.zeros(Shape.array(S64, (rows,)))
    counts = scatter_rows(op, "add", none, row, b.like(1, row.shape))
    is_empty = b.compared("EQ", counts, 0)
    added = b.convert_to(is_empty, S64)
    ends = scan(b, b.add(counts, added), 0, lambda b, x, y: b.add(x, y), 0)
    starts = b.subtract(ends, b.add(counts, added))
    total = computed_size(op.frame, b.binary("add", b.reduced("add", added, (0,)), b.size(count)))
    order = order_of(b, row)
    rank = scatter_rows(op, "update", b.zeros(row.shape), order, b.iota_of(S64, row.shape.dims, 0))
    earlier = scan(b, counts, 0, lambda b, x, y: b.add(x, y), 0)
    shift = b.subtract(starts, b.subtract(earlier, counts))
    target = b.add(rank, take(b, shift, row))
    # A target behind the end is none: the scatter drops it.
    holes = b.select(is_empty, starts, b.like(total, starts.shape))
    default = b.spread(b.convert_to(op.tensor(len(op) - 1), values.shape.dtype), (total,))
    made = scatter_rows(op, "update", default, target, values)
    numbers = b.iota_of(S64, (rows,), 0)
    lines = scatter_rows(op, "update", b.zeros(Shape.array(S64, (total,))), holes, numbers)
    lines = scatter_rows(op, "update", lines, target, row)
    if inner is not None:
        rest = b.sliced(inner, 1, 1, inner.shape.dims[1])
        zeros = b.zeros(rest.shape.with_dims((total, *rest.shape.dims[1:])))
        rest = scatter_rows(op, "update", zeros, target, rest)
        lines = b.concatenated([b.reshape_to(lines, (total, 1)), rest], 1)
    return lines, made, is_empty, target


def _rows_filled(op: Op) -> tuple[Value, ...]:
    """Indices, values, dense shape, default value."""
    indices = op.tensor(0)
    rows = op.sizes(2, "dense shape")[0]
    return _filled(op, column(op.b, indices, 0), rows, indices, op.tensor(1))


def _ragged_rows_filled(op: Op) -> tuple[Value, ...]:
    """Rows of the values, values, number of rows, default value."""
    return _filled(op, op.tensor(0), op.size(2, "number of rows"), None, op.tensor(1))


def _filled_gradient(op: Op) -> tuple[Value, ...]:
    """Where each value went, gradient: of the values, and of the default one."""
    b, target, gradient = op.b, op.tensor(0), op.tensor(1)
    inside = are_inside(b, target, gradient.shape.dims[0])
    assert_everywhere(b, inside, "Elements in reverse index must be in range")
    flags = b.like(True, Shape.array(PRED, target.shape.dims))
    none = b.zeros(Shape.array(PRED, gradient.shape.dims))
    is_value = scatter_rows(op, "or", none, target, flags)
    rest = b.select(is_value, b.zeros(gradient.shape), gradient)
    return take(b, gradient, target), b.summed(rest, (0,))


RULES: dict[str, Rule] = {
    "RaggedFillEmptyRows": _ragged_rows_filled,
    "RaggedFillEmptyRowsGrad": _filled_gradient,
    "SparseFillEmptyRows": _rows_filled,
    "SparseFillEmptyRowsGrad": _filled_gradient,
}
