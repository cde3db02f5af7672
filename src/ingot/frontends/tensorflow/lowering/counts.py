# SPDX-License-Identifier: Apache-2.0
"""How often each number comes: in a vector, or in each row of a matrix, ragged or sparse.

Numbers that are too large are left out; negative ones are an error. Source: TensorFlow's
`kernels/bincount_op.cc`, `kernels/histogram_op.cc`.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.tensorflow.lowering.index_checks import vectors_are_inside
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.ragged import rows_of_values
from ingot.frontends.tensorflow.lowering.scatter import scatter_rows
from ingot.frontends.tensorflow.lowering.values import Size, Value
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
        raise op.error(
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
        raise op.error(f"Shape must be at most rank 2 but is rank {given.shape.rank}")
    row = b.reshape_to(b.iota_of(S64, given.shape.dims, 0), numbers.shape.dims)
    return _counted_by_rows(op, row, given.shape.dims[0], size, numbers, weights)


def _ragged(op: Op) -> Value:
    """Splits, values, size, weights."""
    b, splits = op.b, op.b.convert_to(op.tensor(0), S64)
    numbers, weights = _numbers(op, 1, "Input must be non-negative"), _weights(op, 3, op.tensor(1))
    (ends,), (count,) = splits.shape.dims, numbers.shape.dims
    first, last = b.sliced(splits, 0, 0, 1), b.sliced(splits, 0, ends - 1, ends)
    assert_everywhere(b, b.compared("EQ", first, 0), "Splits must start with 0")
    ends_there = b.compare(last, b.like(count, last.shape), direction="EQ")
    assert_everywhere(b, ends_there, "Splits must end with the number of values")
    row, _ = rows_of_values(op, splits, count)
    return _counted_by_rows(op, row, ends - 1, op.size(2, "size"), numbers, weights)


def _sparse(op: Op) -> Value:
    """Indices, values, dense shape, size, weights."""
    b, indices, size = op.b, op.tensor(0), op.size(3, "size")
    numbers, weights = _numbers(op, 1), _weights(op, 4, op.tensor(1))
    dims = op.sizes(2, "dense shape")
    wanted = (*numbers.shape.dims, len(dims))
    if not all(map(b.same, indices.shape.dims, wanted)):
        raise op.mismatch(0, 1)
    inside = vectors_are_inside(b, indices, dims)
    assert_everywhere(b, inside, "Sparse index tuple indices is out of bounds")
    if len(dims) == 1:
        return _counted(op, size, numbers, weights)
    row = b.reshape_to(b.sliced(indices, 1, 0, 1), numbers.shape.dims)
    return _counted_by_rows(op, row, dims[0], size, numbers, weights)


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
    step = b.divide(b.convert_to(b.subtract(high, low), F64), number)
    start = b.spread(low, values.shape.dims)
    above = b.convert_to(b.subtract(b.maximum(values, start), start), F64)
    last = b.spread(b.binary("add", number, -1), values.shape.dims)
    bin = b.minimum(b.divide(above, b.spread(step, values.shape.dims)), last)
    return _counted(op, count, b.convert_to(bin, S32))


RULES: dict[str, Rule] = {
    "Bincount": _bincount,
    "DenseBincount": _dense,
    "HistogramFixedWidth": _histogram,
    "RaggedBincount": _ragged,
    "SparseBincount": _sparse,
}
