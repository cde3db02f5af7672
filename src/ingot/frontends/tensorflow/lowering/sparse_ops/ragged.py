# SPDX-License-Identifier: Apache-2.0
"""Ragged tensors: ranges, gathers, and dense or sparse tensors of rows of different lengths.

A ragged tensor is its flat values, and for each ragged dimension where its rows begin and end
(`row_splits`: 0, ends of the rows). How many values there are is a size (`computed_sizes`). Source:
TensorFlow's `kernels/ragged_*_op.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take
from ingot.frontends.building.scans import scan
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Known, Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import (
    are_inside,
    assert_inside,
    dims_text,
)
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_nd, scatter_rows
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S64, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion


def _splits(op: Op, lengths: Instruction) -> Instruction:
    """Return 0 and the ends of rows of these lengths, `s64[rows + 1]`."""
    ends = scan(op.b, lengths, 0, lambda b, x, y: b.add(x, y), 0)
    return op.b.padded(ends, 0, 1, 0, op.b.constant(0, S64))


def _lengths(op: Op, splits: Instruction) -> Instruction:
    """Return the lengths of rows, `s64[rows]`."""
    (count,) = splits.shape.dims
    begins, ends = _ends(op, splits, count)
    return op.b.subtract(ends, begins)


def _ends(op: Op, splits: Instruction, count: Size) -> tuple[Instruction, Instruction]:
    return op.b.sliced(splits, 0, 0, count - 1), op.b.sliced(splits, 0, 1, count)


def rows_of_values(op: Op, splits: Instruction, size: Size) -> tuple[Instruction, Instruction]:
    """Return for each of `size` values its row, and its index there."""
    b = op.b
    _, ends = _ends(op, splits, splits.shape.dims[0])
    # The row of a value is the number of rows that end at or before it: a running sum of ends.
    zeros = b.zeros(Shape.array(S64, (size,)))
    steps = scatter_rows(op, "add", zeros, ends, b.like(1, ends.shape))
    row = scan(b, steps, 0, lambda b, x, y: b.add(x, y), 0)
    return row, b.subtract(b.iota_of(S64, (size,), 0), take(b, splits, row))


def _ranges(
    op: Op, begins: Instruction, lengths: Instruction
) -> tuple[Instruction, Instruction, Instruction]:
    """Return the splits of ranges of numbers from `begins`; the row and number of each value."""
    b = op.b
    splits = _splits(op, lengths)
    total = b.reduced("add", lengths, (0,))
    row, index = rows_of_values(op, splits, computed_size(op.frame, total))
    return splits, row, b.add(take(b, begins, row), index)


def _range(op: Op) -> tuple[Value, ...]:
    """Operands: starts, limits and steps of rows, each a vector or one number for all."""
    b = op.b
    count = next((op.dims(n)[0] for n in range(3) if op.rank(n)), 1)
    given = b.together(*op.tensors(0, 3), b.zeros(Shape.array(op.dtype(0), (count,))))
    starts, limits, steps, zeros = given
    is_stepping = b.compare(steps, zeros, direction="NE")
    assert_everywhere(b, is_stepping, "Requires delta != 0")
    is_up = b.compare(steps, zeros, direction="GT")
    low, high = b.select(is_up, starts, limits), b.select(is_up, limits, starts)
    has_values = b.and_(is_stepping, b.not_(b.compare(high, low, direction="LT")))
    most = int(np.iinfo(op.result(0).numpy).max)
    if starts.shape.dtype.is_float:
        found = b.ceil(b.abs(b.divide(b.subtract(limits, starts), steps)))
        fits = b.compared("LT", found, float(most + 1))
    else:
        found = _steps_between(b, low, high, steps)
        fits = b.compare(found, b.like(most, found.shape), direction="LE")
    fits = b.or_(fits, b.not_(has_values))
    assert_everywhere(b, fits, f"Requires ((limit - start) / delta) <= {most}")
    # Lengths that end the program are set to 0, since no size may follow from them.
    is_counted = b.and_(fits, has_values)
    lengths = b.select(is_counted, b.convert_to(found, S64), b.zeros(Shape.array(S64, (count,))))
    fits = b.compared("LE", b.reduced("add", lengths, (0,)), most)
    emit_assertion(b, fits, _OVERFLOW)
    lengths = b.select(b.spread(fits, (count,)), lengths, b.zeros(lengths.shape))
    splits, row, number = _ranges(op, b.zeros(lengths.shape), lengths)
    offsets = b.convert_to(number, starts.shape.dtype)
    values = b.add(take(b, starts, row), b.multiply(offsets, take(b, steps, row)))
    return b.convert_to(splits, op.result(0)), values


def _steps_between(
    b: TensorBuilder, low: Instruction, high: Instruction, steps: Instruction
) -> Instruction:
    """Return how many steps of integers reach from `low` to `high`, `u64[n]`.

    The distance of two numbers of 64 bits is a number of 64 bits without a sign.
    """
    low, high, steps = (b.convert_to(b.convert_to(x, S64), U64) for x in (low, high, steps))
    span = b.subtract(high, low)
    is_down = b.compared("LT", b.convert_to(steps, S64), 0)
    length = b.select(is_down, b.negate(steps), steps)
    rest = b.convert_to(b.compared("NE", b.remainder(span, length), 0), U64)
    return b.add(b.divide(span, length), rest)


_OVERFLOW = (
    "The total range size overflowed. Consider using int64 instead of int32 for row_splits_dtype."
)


def _checked_splits(
    op: Op, partitions: Sequence[Instruction], count: Size, *, is_whole: bool
) -> None:
    """Let the program fail unless splits are sorted and their rows lie within the values.

    Args:
        op: the node.
        partitions: splits of each ragged dimension, `s64[rows + 1]`, outermost first.
        count: number of values.
        is_whole: whether all values must be in rows.
    """
    b = op.b
    below = [*(splits.shape.dims[0] - 1 for splits in partitions[1:]), count]
    for splits, size in zip(partitions, below, strict=True):
        (number,) = splits.shape.dims
        first = b.reshape_to(b.sliced(splits, 0, 0, 1), ())
        last = b.reshape_to(b.sliced(splits, 0, number - 1, number), ())
        if is_whole:
            is_first = b.compared("EQ", first, 0)
            emit_assertion(b, is_first, "First value of ragged splits must be 0.")
        else:
            is_first = b.compared("GE", first, 0)
            emit_assertion(b, is_first, "Ragged splits must be non-negative")
        begins, ends = _ends(op, splits, number)
        is_sorted = b.compare(begins, ends, direction="LE")
        assert_everywhere(b, is_sorted, _UNSORTED[is_whole])
        is_last = b.compare(last, b.size(size), direction="EQ" if is_whole else "LE")
        emit_assertion(b, is_last, _BEYOND[is_whole])


_UNSORTED = ("Ragged splits must be sorted", "Ragged splits should be non decreasing")
_BEYOND = (
    "Ragged splits must not point past values",
    "Final value of ragged splits must match the length the corresponding ragged values.",
)
"""TensorFlow's words where not all values must be in rows, and where they must."""


def _gather(op: Op) -> tuple[Value, ...]:
    """Operands: splits of the parameters, their values, and the rows to take."""
    b, rank = op.b, int(op.attribute("PARAMS_RAGGED_RANK"))
    indices = b.convert_to(op.tensor(rank + 1), S64)
    dims = indices.shape.dims
    found = b.reshape_to(indices, (indices.shape.size,))
    results = [_even_splits(op, dims, axis) for axis in range(len(dims) - 1)]
    partitions = [b.convert_to(item, S64) for item in op.tensors(0, rank)]
    assert_inside(b, found, partitions[0].shape.dims[0] - 1)
    _checked_splits(op, partitions, op.dims(rank)[0], is_whole=False)
    for number, splits in enumerate(partitions):
        begins, ends = (take(b, part, found) for part in _ends(op, splits, splits.shape.dims[0]))
        made, _, found = _ranges(op, begins, b.subtract(ends, begins))
        # A single index takes its row, which is no dimension any more.
        if dims or number:
            results.append(made)
    kinds = [op.result(number) for number in range(len(results))]
    converted = [b.convert_to(made, kind) for made, kind in zip(results, kinds, strict=True)]
    return *converted, take(b, op.tensor(rank), found)


def _even_splits(op: Op, dims: Sizes, axis: int) -> Instruction:
    """Return the splits of a dimension that is no ragged one: all rows are equally long."""
    count = dim_math.product(dims[: axis + 1]) + 1
    return op.b.binary("multiply", op.b.iota_of(S64, (count,), 0), op.b.size(dims[axis + 1]))


def _are_row_numbers(op: Op) -> bool:
    """Whether RaggedTensorToTensor is given the row of each value, not the splits."""
    return str(op.attribute("row_partition_types")[0]) == "FIRST_DIM_SIZE"


def _partitions(op: Op) -> list[Instruction]:
    """Return the row splits that RaggedTensorToTensor is given, in one of their forms."""
    b = op.b
    tensors = [b.convert_to(item, S64) for item in op.tensors(3)]
    if not _are_row_numbers(op):
        return tensors
    rows = op.size(3, "number of rows")
    found: list[Instruction] = []
    for ids in tensors[1:]:
        zeros = b.zeros(Shape.array(S64, (rows,)))
        lengths = scatter_rows(op, "add", zeros, ids, b.like(1, ids.shape))
        found.append(_splits(op, lengths))
        (rows,) = ids.shape.dims
    return found


def _coordinates(op: Op, partitions: Sequence[Instruction], count: Size) -> list[Instruction]:
    """Return for each of `count` values its index in each dimension."""
    row, index = rows_of_values(op, partitions[-1], count)
    found = [index]
    for splits in reversed(partitions[:-1]):
        (below,) = partitions[len(partitions) - len(found)].shape.dims
        parent, within = rows_of_values(op, splits, below - 1)
        found.insert(0, take(op.b, within, row))
        row = take(op.b, parent, row)
    return [row, *found]


def _longest(op: Op, splits: Instruction) -> Size:
    longest = op.b.reduced("maximum", _lengths(op, splits), (0,))
    return computed_size(op.frame, op.b.maximum(longest, op.b.constant(0, S64)))


def _to_tensor(op: Op) -> Value:
    """Operands: shape, values, default value, row partitions."""
    b, values, partitions = op.b, op.tensor(1), _partitions(op)
    if partitions[0].shape.dims == (0,):
        raise op.mistake("Invalid first partition input. Tensor requires at least one element.")
    wanted = op.sizes(0, "shape", least=-1)
    rank = len(partitions) + 1
    count, *rest = values.shape.dims
    _check_shapes(op, wanted, rank)
    own: list[Size] = [partitions[0].shape.dims[0] - 1]
    given = wanted[:rank] if op.rank(0) else (-1,) * rank
    open_sizes = zip(given[1:], partitions, strict=True)
    own += [_longest(op, splits) if size == -1 else size for size, splits in open_sizes]
    dims = (own[0] if given[0] == -1 else given[0], *own[1:], *rest)
    _check_partitions(op, partitions, dims)
    columns = [b.reshape_to(item, (count, 1)) for item in _coordinates(op, partitions, count)]
    into = b.spread(op.tensor(2), dims)
    return scatter_nd(op, "update", into, b.concatenated(columns, 1), values)


def _check_shapes(op: Op, wanted: Sizes, rank: int) -> None:
    """Refuse a shape and a default value that values of ragged rows do not have.

    Args:
        op: a RaggedTensorToTensor.
        wanted: the shape, -1 for an open size.
        rank: number of dimensions of the rows.
    """
    _, *rest = dims = op.dims(1)
    value, inner = op.dims(2), wanted[rank:]
    if len(value) >= len(dims):
        raise op.mistake(
            f"default_value.shape=[{dims_text(value)}] and rt_input.flat_values.shape="
            f"[{dims_text(dims)}] are incompatible: default_value.rank = {len(value)}  must be "
            f"less than rt_input.flat_values.rank = {len(dims)}"
        )
    if not op.rank(0):
        if wanted != (-1,):
            raise op.mistake("the shape is a scalar, but it is not -1")
        return
    text = f"rt_input.shape and shape=[{dims_text(wanted)}] are incompatible: rt_input."
    if len(inner) != len(rest) or len(wanted) < rank:
        raise op.mistake(f"{text}rank = {rank + len(rest)} but shape.rank = {len(wanted)}")
    for axis, (size, own) in enumerate(zip(inner, rest, strict=True), rank):
        if size != -1 and not op.b.same(size, own):
            raise op.mistake(f"{text}shape[{axis}] = {own} but shape[{axis}] = {size}")


def _check_partitions(op: Op, partitions: Sequence[Instruction], dims: Sizes) -> None:
    """Let the program fail unless the rows of each dimension are those of the one before.

    TensorFlow looks at no rows where the dense tensor, of shape `dims`, has no elements.
    """
    b, is_empty = op.b, op.b.constant(False)
    for size in dims:
        is_empty = b.or_(is_empty, b.compared("EQ", b.size(size), 0))
    if _are_row_numbers(op):
        for numbers, splits in zip(op.tensors(4), partitions, strict=True):
            rows = splits.shape.dims[0] - 1
            inside = b.or_(are_inside(b, numbers, rows), b.spread(is_empty, numbers.shape.dims))
            assert_everywhere(b, inside, f"Got a value_rowid which is not less than {rows}")
        return
    above: Instruction | None = None
    for splits in partitions:
        (number,) = splits.shape.dims
        if above is not None:
            fits = b.or_(b.compared("GE", above, b.size(number - 1)), is_empty)
            emit_assertion(b, fits, "Row partition size is greater than output size")
        above = b.reshape_to(b.sliced(splits, 0, number - 1, number), ())
        total = b.reduced("add", b.binary("maximum", _lengths(op, splits), 0), (0,))
        fits = b.or_(b.compare(total, above, direction="EQ"), is_empty)
        emit_assertion(b, fits, "Invalid row split size.")


def _to_sparse(op: Op) -> tuple[Value, ...]:
    """Return the indices, the values and the dense shape of a ragged tensor."""
    b, depth = op.b, int(op.attribute("RAGGED_RANK"))
    partitions = [b.convert_to(item, S64) for item in op.tensors(0, depth)]
    values = op.tensor(depth)
    count, *rest = values.shape.dims
    _checked_splits(op, partitions, count, is_whole=True)
    total = values.shape.size
    # Dimensions behind the ragged ones are rows of equal lengths.
    every = b.iota_of(S64, (total,), 0)
    inner: list[Instruction] = []
    for size in reversed(rest):
        divisor = b.spread(b.maximum(b.size(size), b.constant(1, S64)), (total,))
        inner.insert(0, b.remainder(every, divisor))
        every = b.divide(every, divisor)
    outer = [take(b, item, every) for item in _coordinates(op, partitions, count)]
    columns = [b.reshape_to(item, (total, 1)) for item in (*outer, *inner)]
    dims = [partitions[0].shape.dims[0] - 1, *(_longest(op, s) for s in partitions), *rest]
    return b.concatenated(columns, 1), b.reshape_to(values, (total,)), Known.sizes(dims, S64)


RULES: dict[str, Rule] = {
    "RaggedGather": _gather,
    "RaggedRange": _range,
    "RaggedTensorToSparse": _to_sparse,
    "RaggedTensorToTensor": _to_tensor,
}
