# SPDX-License-Identifier: Apache-2.0
"""How often each number comes: in a vector, or in each row of a matrix, ragged or sparse.

Numbers that are too large are left out; negative ones are an error. A sparse tensor of counts has
the numbers that come at all. Source: TensorFlow's
`kernels/bincount_op.cc`, `kernels/count_ops.cc`, `kernels/histogram_op.cc`.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take
from ingot.frontends.tensorflow.lowering.array_ops.data_sizes import positions, row_groups
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Known, Size, Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import vectors_are_inside
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.sparse_ops.ragged import rows_of_values
from ingot.hlo.dtype import F64, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion


def _counted(
    op: Op, size: Size, numbers: Instruction, weights: Instruction | None = None
) -> Instruction:
    """Count (or sum weights of) each number in 0..size of a vector; others are left out."""
    b, element = op.b, op.result()
    is_binary = bool(op.attribute("binary_output", False))
    each = b.like(1, Shape.array(element, numbers.shape.dims))
    if weights is not None and not is_binary:
        each = weights
    zeros = b.zeros(Shape.array(element, (size,)))
    return scatter_rows(op, "update" if is_binary else "add", zeros, numbers, each)


def _weights(op: Op, number: int, values: Instruction) -> Instruction | None:
    """Return the weights of values, operand `number`, as a vector; None if it is empty."""
    weights = op.tensor(number)
    if weights.shape.size == 0:
        return None
    dims, given = values.shape.dims, weights.shape.dims
    if len(dims) != len(given) or not all(map(op.b.same, dims, given)):
        raise op.mistake(
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case "
            f"it acts as all weights equal to 1. Got {list(given)} and {list(dims)}"
        )
    return op.b.reshape_to(weights, (values.shape.size,))


def _numbers(op: Op, number: int, text: str = "Input arr must be non-negative!") -> Instruction:
    """Return operand `number` as a vector; let the program fail where an element is negative."""
    numbers = op.b.reshape_to(op.tensor(number), (op.tensor(number).shape.size,))
    assert_everywhere(op.b, op.b.compared("GE", numbers, 0), text)
    return numbers


def _counted_by_rows(
    op: Op,
    row: Instruction,
    rows: Size,
    size: Size,
    numbers: Instruction,
    weights: Instruction | None,
) -> Instruction:
    """Count each number in 0..size of each row, `[rows, size]`; `row`: of each number, `s64[n]`."""
    b, wide = op.b, op.b.convert_to(numbers, S64)
    limit = b.like(size, wide.shape)
    bin = b.add(b.multiply(row, limit), wide)
    inside = b.compare(wide, limit, direction="LT")
    bin = b.select(inside, bin, b.like(-1, wide.shape))
    return b.reshape_to(_counted(op, rows * size, bin, weights), (rows, size))


def _bincount(op: Op) -> Value:
    return _counted(op, op.size(1, "size"), _numbers(op, 0), _weights(op, 2, op.tensor(0)))


def _dense(op: Op) -> Value:
    """Numbers of a vector, or of each row of a matrix; binary: only whether they are there."""
    b, given, size = op.b, op.tensor(0), op.size(1, "size")
    numbers, weights = _numbers(op, 0), _weights(op, 2, given)
    if given.shape.rank < 2:
        return _counted(op, size, numbers, weights)
    if given.shape.rank > 2:
        raise op.mistake(f"Shape must be at most rank 2 but is rank {given.shape.rank}")
    row = b.reshape_to(b.iota_of(S64, given.shape.dims, 0), numbers.shape.dims)
    return _counted_by_rows(op, row, given.shape.dims[0], size, numbers, weights)


def _ragged(op: Op) -> Value:
    """Splits, values, size, weights."""
    numbers, weights = _numbers(op, 1, "Input must be non-negative"), _weights(op, 3, op.tensor(1))
    row, rows = _rows_by_splits(op)
    return _counted_by_rows(op, row, rows, op.size(2, "size"), numbers, weights)


def _rows_by_splits(op: Op) -> tuple[Instruction, Size]:
    """Return the row of each value, and how many rows there are, given splits and values."""
    b, splits = op.b, op.b.convert_to(op.tensor(0), S64)
    (ends,), (count,) = splits.shape.dims, op.dims(1)
    first, last = b.sliced(splits, 0, 0, 1), b.sliced(splits, 0, ends - 1, ends)
    assert_everywhere(b, b.compared("EQ", first, 0), "Splits must start with 0")
    ends_there = b.compare(last, b.like(count, last.shape), direction="EQ")
    assert_everywhere(b, ends_there, "Splits must end with the number of values")
    row, _ = rows_of_values(op, splits, count)
    return row, ends - 1


def _sparse(op: Op) -> Value:
    """Indices, values, dense shape, size, weights."""
    size, numbers, weights = op.size(3, "size"), _numbers(op, 1), _weights(op, 4, op.tensor(1))
    row, rows = _rows_by_indices(op)
    if rows is None:
        return _counted(op, size, numbers, weights)
    return _counted_by_rows(op, row, rows, size, numbers, weights)


def _rows_by_indices(op: Op) -> tuple[Instruction, Size | None]:
    """Return the row of each value, and how many, given indices, values, shape; None: a vector."""
    b, indices, dims = op.b, op.tensor(0), op.sizes(2, "dense shape")
    wanted = (*op.dims(1), len(dims))
    if not all(map(b.same, indices.shape.dims, wanted)):
        raise op.mismatch(0, 1)
    inside = vectors_are_inside(b, indices, dims)
    assert_everywhere(b, inside, "Sparse index tuple indices is out of bounds")
    if len(dims) == 1:
        return b.zeros(Shape.array(S64, op.dims(1))), None
    return b.reshape_to(b.sliced(indices, 1, 0, 1), op.dims(1)), dims[0]


def _dense_to_sparse(op: Op) -> tuple[Value, ...]:
    """Values, weights."""
    b, dims = op.b, op.dims(0)
    if len(dims) == 1:
        return _sparse_counts(op, 0, b.zeros(Shape.array(S64, dims)), None)
    if len(dims) != 2:
        raise op.mistake(f"Input must be a 1 or 2-dimensional tensor. Got: {list(dims)}")
    row = b.reshape_to(b.iota_of(S64, dims, 0), (dims[0] * dims[1],))
    return _sparse_counts(op, 0, row, dims[0])


def _sparse_counts(op: Op, number: int, row: Instruction, rows: Size | None) -> tuple[Value, ...]:
    """Return indices, values and dense shape of the counts of operand `number`.

    Args:
        op: the node; its last operand are the weights.
        number: of the operand whose numbers are counted.
        row: of each number, `s64[n]`.
        rows: how many there are; None where the counts are a vector.
    """
    b, weights = op.b, _weights(op, len(op) - 1, op.tensor(number))
    if 0 in op.dims(number):
        raise op.mistake("Invalid input: Shapes dimension cannot be 0.")
    numbers = b.convert_to(_numbers(op, number, "Input values must all be non-negative"), S64)
    size: Size = int(op.attribute("maxlength", -1))
    cells = b.concatenated([b.reshape_to(x, (*x.shape.dims, 1)) for x in (row, numbers)], 1)
    if size > 0:
        found = positions(op, b.compared("LT", numbers, size))
        cells = take(b, cells, found)
        weights = None if weights is None else take(b, weights, found)
    order, is_new, group = row_groups(op, cells)
    firsts = take(b, order, positions(op, is_new))
    each = b.like(1, Shape.array(op.result(1), order.shape.dims))
    is_binary = bool(op.attribute("binary_output", False))
    if weights is not None and not is_binary:
        each = take(b, weights, order)
    zeros = b.zeros(each.shape.with_dims(firsts.shape.dims))
    counts = scatter_rows(op, "update" if is_binary else "add", zeros, group, each)
    if size <= 0:
        least = b.constant(max(int(op.attribute("minlength", -1)), 1), S64)
        greatest = b.reduced("maximum", b.sliced(cells, 1, 1, 2), (0, 1))
        size = computed_size(op.frame, b.maximum(b.binary("add", greatest, 1), least))
    indices = take(b, cells, firsts)
    if rows is None:
        return b.sliced(indices, 1, 1, 2), counts, Known.sizes((size,), S64)
    return indices, counts, Known.sizes((rows, size), S64)


def _histogram(op: Op) -> Value:
    """values, range, number of bins: what lies outside is in the first or last bin."""
    b = op.b
    values = b.reshape_to(op.tensor(0), (op.tensor(0).shape.size,))
    low, high = (b.reshape_to(b.sliced(op.tensor(1), 0, n, n + 1), ()) for n in range(2))
    count = op.size(2, "nbins")
    text = "value_range should satisfy value_range[0] < value_range[1]"
    emit_assertion(b, b.compare(low, high, direction="LT"), text)
    if values.shape.dtype.is_float:
        numbers = b.reduced("and", b.compare(values, values, direction="EQ"), (0,))
        emit_assertion(b, numbers, "Histogram values must not contain NaN")
    number = b.scalar(count, F64)
    emit_assertion(b, b.compared("GT", number, 0), "nbins should be a positive number")
    values, low, high = (b.convert_to(item, F64) for item in (values, low, high))
    # The difference of the quotients, as in TensorFlow 2.21, is finite for every range.
    step = b.subtract(b.divide(high, number), b.divide(low, number))
    start = b.spread(low, values.shape.dims)
    above = b.subtract(b.maximum(values, start), start)
    last = b.spread(b.binary("add", number, -1), values.shape.dims)
    bin = b.minimum(b.divide(above, b.spread(step, values.shape.dims)), last)
    return _counted(op, count, b.convert_to(bin, S32))


RULES: dict[str, Rule] = {
    "Bincount": _bincount,
    "DenseBincount": _dense,
    "DenseCountSparseOutput": _dense_to_sparse,
    "HistogramFixedWidth": _histogram,
    "RaggedBincount": _ragged,
    "RaggedCountSparseOutput": lambda op: _sparse_counts(op, 1, *_rows_by_splits(op)),
    "SparseBincount": _sparse,
    "SparseCountSparseOutput": lambda op: _sparse_counts(op, 1, *_rows_by_indices(op)),
}
