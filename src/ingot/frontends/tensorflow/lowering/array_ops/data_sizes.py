# SPDX-License-Identifier: Apache-2.0
"""Ops whose results are as large as the data says: positions, partitions, segments.

How many there are is counted first, and becomes a size (`computed_sizes`). Which elements they are
is found by a stable sort that puts them in front.
"""

from __future__ import annotations

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take
from ingot.frontends.building.scans import scan
from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes, Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import (
    are_inside,
    assert_sorted,
    dims_text,
)
from ingot.frontends.tensorflow.lowering.indexing.scatter import (
    scatter_rows,
    segment_sizes,
    segments,
)
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

_MOST_ELEMENTS = 2**63 - 1


def _count(op: Op, flags: Instruction) -> Size:
    """Return how many flags of a vector are set, as a size."""
    return computed_size(op.frame, op.b.reduced("add", op.b.convert_to(flags, S64), (0,)))


def positions(op: Op, flags: Instruction) -> Instruction:
    """Return where a vector of flags is set, `s64[n]`, ascending."""
    b = op.b
    (whole,) = flags.shape.dims
    count = _count(op, flags)
    numbers = b.iota_of(S64, (whole,), 0)
    order = sort_by_first(b, [b.select(flags, numbers, b.like(whole, numbers.shape))], 0)
    zero = b.constant(0, S64)
    return b.emit("dynamic-slice", order, zero, dynamic_slice_sizes=(count,))


def _where(op: Op) -> Value:
    """The coordinates of what is not zero, `s64[n, rank]`."""
    b = op.b
    condition = b.to_pred(op.tensor(0))
    dims = condition.shape.dims
    if not dims:
        count = _count(op, b.reshape_to(condition, (1,)))
        return b.zeros(Shape.array(S64, (count, 0)))
    flat = positions(op, b.reshape_to(condition, (condition.shape.size,)))
    return b.concatenated(coordinates(b, flat, dims), 1)


def coordinates(b: TensorBuilder, flat: Instruction, dims: Sizes) -> list[Instruction]:
    """Return the coordinates of elements in an array of sizes `dims`, a column `[n, 1]` each."""
    (count,) = flat.shape.dims
    columns: list[Instruction] = []
    rest = flat
    for size in reversed(dims):
        divisor = b.spread(b.maximum(b.size(size), b.constant(1, S64)), (count,))
        columns.append(b.reshape_to(b.remainder(rest, divisor), (count, 1)))
        rest = b.divide(rest, divisor)
    return columns[::-1]


def _dynamic_partition(op: Op) -> tuple[Value, ...]:
    b = op.b
    data, numbers = op.tensor(0), op.tensor(1)
    outer, rest = data.shape.dims[: numbers.shape.rank], data.shape.dims[numbers.shape.rank :]
    if len(outer) != numbers.shape.rank or not all(map(b.same, outer, numbers.shape.dims)):
        raise op.mistake(
            "data.shape must start with partitions.shape, got data.shape = "
            f"[{dims_text(data.shape.dims)}], partitions.shape = [{dims_text(numbers.shape.dims)}]"
        )
    rows = b.reshape_to(data, (numbers.shape.size, *rest))
    flat = b.reshape_to(numbers, (numbers.shape.size,))
    parts = range(int(op.attribute("num_partitions")))
    inside = are_inside(b, flat, len(parts))
    assert_everywhere(b, inside, f"partitions are not in [0, {len(parts)})")
    return tuple(take(b, rows, positions(op, b.compared("EQ", flat, k))) for k in parts)


def value_groups(op: Op, x: Instruction) -> tuple[Instruction, ...]:
    """Sort a vector; return the values, where they were, which begin a group, and each's group.

    A group are equal values; the one that comes first in `x` begins it. -0 and 0 are equal, and NaN
    is equal to nothing.
    """
    b = op.b
    numbers = b.iota_of(S64, x.shape.dims, 0)
    by_value = sort_by_first(b, (_one_zero(b, x), numbers), 0)
    values, indices = b.element_of(by_value, 0), b.element_of(by_value, 1)
    # The first of equal values, in the sorted order, is the one that comes first.
    return values, indices, *_groups(b, b.reshape_to(values, (*x.shape.dims, 1)))


def _one_zero(b: TensorBuilder, x: Instruction) -> Instruction:
    """Return an array with 0 for -0: equal values are neighbours in the total order."""
    return b.select(b.compared("EQ", x, 0), b.zeros(x.shape), x)


def _groups(b: TensorBuilder, rows: Instruction) -> tuple[Instruction, Instruction]:
    """Return which rows of a sorted matrix differ from the one before, and each one's group."""
    first = b.compared("EQ", b.iota_of(S64, rows.shape.dims[:1], 0), 0)
    before = b.shifted(rows, 0, 1, b.scalar(0, rows.shape.dtype))
    differs = b.reduced("or", b.compare(rows, before, direction="NE"), (1,))
    is_new = b.or_(first, differs)
    ends = scan(b, b.convert_to(is_new, S64), 0, lambda b, x, y: b.add(x, y), 0)
    return is_new, b.binary("subtract", ends, 1)


def row_groups(op: Op, rows: Instruction) -> tuple[Instruction, ...]:
    """Sort the rows of a matrix; return what `value_groups` does, without the rows.

    They are sorted stably by one column after the other, the last one first.
    """
    b = op.b
    count, width = rows.shape.dims
    columns = b.transposed(_one_zero(b, rows), (1, 0))
    if not isinstance(width, int) or width == 0:
        # A row has a column that can be looked at.
        columns = b.padded(columns, 0, 0, 1, b.scalar(0, rows.shape.dtype))
        width = width + 1

    def goes_on(b: TensorBuilder, state: list[Instruction]) -> Instruction:
        return b.compared("GE", state[0], 0)

    def step(b: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
        number, order, columns = state
        zero, sizes = b.constant(0, S64), (1, count)
        column = b.emit("dynamic-slice", columns, number, zero, dynamic_slice_sizes=sizes)
        keys = take(b, b.reshape_to(column, (count,)), order)
        order = b.element_of(sort_by_first(b, (keys, order), 0), 1)
        return [b.binary("subtract", number, 1), order, columns]

    last = b.binary("subtract", b.convert_to(b.size(width), S64), 1)
    order = b.loop([last, b.iota_of(S64, (count,), 0), columns], goes_on, step)[1]
    return order, *_groups(b, take(b, b.transposed(columns, (1, 0)), order))


def _unique(op: Op) -> tuple[Value, ...]:
    """The values in the order in which they come first, which of them each is, and how many.

    With an axis, the values are the parts of the array at each index along it. -0 and 0 are one
    value, and each NaN is another, as in TensorFlow (whose kernel tells -0 from 0 in half and
    bfloat16 alone).
    """
    b, x, axis = op.b, op.tensor(0), 0
    if "V2" in op.node.op and op.dims(1) != (0,):
        axes = op.axes(1, x.shape.rank)
        if len(axes) != 1:
            raise op.error("axis does not support input tensors larger than 1 elements")
        (axis,) = axes
    elif x.shape.rank != 1:
        raise op.error("unique expects a 1D vector.")
    if x.shape.rank == 1:
        _, indices, is_new, group = value_groups(op, x)
    else:
        outer = [n for n in range(x.shape.rank) if n != axis]
        dims = x.shape.dims[axis], dim_math.product([x.shape.dims[n] for n in outer])
        rows = b.reshape_to(b.transposed(x, (axis, *outer)), dims)
        indices, is_new, group = row_groups(op, rows)
    # Where each group's value comes first in `x`, then the groups in the order of that.
    firsts = take(b, indices, positions(op, is_new))
    groups = b.iota_of(S64, firsts.shape.dims, 0)
    order = b.element_of(sort_by_first(b, (firsts, groups), 0), 1)
    rank = scatter_rows(op, "update", b.zeros(firsts.shape), order, groups)
    index = scatter_rows(op, "update", b.zeros(indices.shape), indices, take(b, rank, group))
    results: list[Value] = [
        take(b, x, take(b, firsts, order), axis),
        b.convert_to(index, op.result(1)),
    ]
    if "WithCounts" in op.node.op:
        counts = scatter_rows(op, "add", b.zeros(firsts.shape), index, b.like(1, indices.shape))
        results.append(b.convert_to(counts, op.result(2)))
    return tuple(results)


def segment_count(op: Op, numbers: Instruction) -> Size:
    """Return how many sorted segments there are: as many as the last number says, and one."""
    b = op.b
    assert_sorted(b, numbers)
    # The result has as many elements as 64 bits can say, as in TensorFlow's kernels.
    row = b.size(dim_math.product(op.dims(0)[1:]))
    least = b.maximum(row, b.constant(1, S64))
    most = b.divide(b.constant(_MOST_ELEMENTS, S64), least)
    fits = b.compare(b.convert_to(numbers, S64), b.spread(most, numbers.shape.dims), direction="LT")
    assert_everywhere(b, fits, "Encountered overflow when multiplying segments by their rows' size")
    ends = b.binary("add", b.convert_to(numbers, S64), 1)
    # No rows at all are no segments.
    return computed_size(op.frame, b.maximum(b.reduced("maximum", ends, (0,)), b.constant(0, S64)))


def _segments(opcode: str) -> Rule:
    return lambda op: segments(op, opcode, segment_count(op, op.tensor(1)))


def _extremes(opcode: str) -> Rule:
    """Return the rule for the extremes of segments; a segment without rows gives 0."""

    def rule(op: Op) -> Value:
        b, numbers = op.b, op.tensor(1)
        made = segments(op, opcode, segment_count(op, numbers))
        flags = b.like(True, Shape.array(PRED, numbers.shape.dims))
        none = b.zeros(Shape.array(PRED, made.shape.dims[:1]))
        some = scatter_rows(op, "or", none, numbers, flags)
        return b.select(b.spread(some, made.shape.dims, (0,)), made, b.zeros(made.shape))

    return rule


def _segment_mean(op: Op) -> Value:
    """Sums of segments over their numbers of rows; a segment without rows gives 0."""
    b = op.b
    numbers = op.tensor(1)
    total = segments(op, "add", segment_count(op, numbers))
    return b.divide(
        total, b.spread(segment_sizes(op, numbers, total.shape), total.shape.dims, (0,))
    )


RULES: dict[str, Rule] = {
    "DynamicPartition": _dynamic_partition,
    "SegmentMax": _extremes("maximum"),
    "SegmentMean": _segment_mean,
    "SegmentMin": _extremes("minimum"),
    "SegmentProd": _segments("multiply"),
    "SegmentSum": _segments("add"),
    "Unique": _unique,
    "UniqueV2": _unique,
    "UniqueWithCounts": _unique,
    "UniqueWithCountsV2": _unique,
    "Where": _where,
}
