"""Ops whose results are as large as the data says: positions, partitions, segments.

How many there are is counted first, and becomes a size (`computed_sizes`). Which elements they are
is found by a stable sort that puts them in front.
"""

from __future__ import annotations

from typing import Any

from ingot.frontends.tensorflow.lowering.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.cumulative import scan
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.scatter import scatter_rows, segments
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Size, Value
from ingot.hlo.builder import Builder
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import PRED, S64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _comparator(op: Op) -> Computation:
    """Return `a < b` of two s64."""
    reducers, key = op.b.program.reducers, ("less", S64.name)
    if key not in reducers:
        b = Builder("less_s64")
        shape = Shape.array(S64, ())
        sides = (b.parameter(0, shape, "a"), b.parameter(1, shape, "b"))
        reducers[key] = b.build(b.emit("compare", *sides, direction="LT"))
    return reducers[key]


def _true(op: Op, value: Instruction) -> Instruction:
    return value if value.shape.dtype is PRED else op.b.compared("NE", value, 0)


def _count(op: Op, flags: Instruction) -> Size:
    """Return how many flags of a vector are set, as a size."""
    ones = op.b.convert_to(flags, S64)
    made = op.b.emit(
        "reduce",
        ones,
        op.b.constant(0, S64),
        dimensions=(0,),
        to_apply=op.b.program.reducer("add", S64),
    )
    return computed_size(op.frame, made)


def positions(op: Op, flags: Instruction) -> Instruction:
    """Return where a vector of flags is set, `s64[n]`, ascending."""
    b = op.b
    (whole,) = flags.shape.dims
    count = _count(op, flags)
    shape = Shape.array(S64, (whole,))
    numbers = b.emit("iota", shape=shape, iota_dimension=0)
    keys = b.select(flags, numbers, b.spread(b.convert_to(b.size(whole), S64), (whole,)))
    order = b.emit("sort", keys, dimensions=(0,), is_stable=True, to_apply=_comparator(op))
    zero = b.constant(0, S64)
    return b.emit("dynamic-slice", order, zero, dynamic_slice_sizes=(count,))


def _where(op: Op) -> Value:
    """The coordinates of what is not zero, `s64[n, rank]`."""
    b = op.b
    condition = _true(op, op.tensor(0))
    dims = condition.shape.dims
    if not dims:
        count = _count(op, b.reshape_to(condition, (1,)))
        return b.zeros(Shape.array(S64, (count, 0)))
    flat = positions(op, b.reshape_to(condition, (condition.shape.size,)))
    (count,) = flat.shape.dims
    columns: list[Instruction] = []
    rest = flat
    for size in reversed(dims):
        divisor = b.spread(b.maximum(b.size(size), b.constant(1, S64)), (count,))
        columns.append(b.reshape_to(b.remainder(rest, divisor), (count, 1)))
        rest = b.divide(rest, divisor)
    return b.concatenated(columns[::-1], 1)


def _rows(op: Op, data: Instruction, places: Instruction) -> Instruction:
    """Return the rows of `data` that `places` (`s64[n]`) numbers."""
    rest = data.shape.dims[1:]
    return op.b.emit(
        "gather",
        data,
        places,
        shape=data.shape.with_dims((*places.shape.dims, *rest)),
        offset_dims=tuple(range(1, 1 + len(rest))),
        collapsed_slice_dims=(0,),
        start_index_map=(0,),
        index_vector_dim=1,
        slice_sizes=(1, *rest),
    )


def _dynamic_partition(op: Op) -> tuple[Value, ...]:
    b = op.b
    data, numbers = op.tensor(0), op.tensor(1)
    rest = data.shape.dims[numbers.shape.rank :]
    rows = b.reshape_to(data, (numbers.shape.size, *rest))
    flat = b.reshape_to(numbers, (numbers.shape.size,))
    parts = range(int(op.attribute("num_partitions")))
    return tuple(_rows(op, rows, positions(op, b.compared("EQ", flat, k))) for k in parts)


def _values_less(op: Op, element: DType) -> Computation:
    """Return `a < b` of two values with a number each, which does not count."""
    b = Builder(f"less_{element.name}")
    value, number = Shape.array(element, ()), Shape.array(S64, ())
    sides = (b.parameter(0, value, "a"), b.parameter(1, value, "b"))
    b.parameter(2, number, "of_a")
    b.parameter(3, number, "of_b")
    return b.build(b.emit("compare", *sides, direction="LT"))


def _unique(op: Op) -> tuple[Value, ...]:
    """The values in the order in which they come first, which of them each is, and how many."""
    b = op.b
    x = op.tensor(0)
    if x.shape.rank != 1:
        raise op.error("values that are not a vector have no lowering")
    if "V2" in op.node.op:
        op.axes(1, 1)  # Refuses another axis than the only one.
    (whole,) = x.shape.dims
    shape = Shape.array(S64, (whole,))
    numbers = b.emit("iota", shape=shape, iota_dimension=0)
    by_value = b.emit(
        "sort",
        x,
        numbers,
        dimensions=(0,),
        is_stable=True,
        to_apply=_values_less(op, x.shape.dtype),
    )
    values, places = b.element_of(by_value, 0), b.element_of(by_value, 1)
    # The first of equal values, in the sorted order, is the one that comes first.
    before = b.emit(
        "dynamic-slice",
        b.concatenated([b.spread(_first(op, values), (1,)), values], 0),
        b.constant(0, S64),
        dynamic_slice_sizes=(whole,),
    )
    is_start = b.compared("EQ", numbers, 0)
    is_new = b.emit("or", is_start, b.compare(values, before, direction="NE"))
    group = b.subtract(
        scan(b, b.convert_to(is_new, S64), 0, _plus, 0), b.spread(b.constant(1, S64), (whole,))
    )
    zeros = b.zeros(shape)
    # Where each group's value comes first in `x`, then the groups in the order of that.
    starts = positions(op, is_new)
    (count,) = starts.shape.dims
    firsts = _rows(op, places, starts)
    order = b.element_of(
        b.emit(
            "sort",
            firsts,
            b.emit("iota", shape=firsts.shape, iota_dimension=0),
            dimensions=(0,),
            is_stable=True,
            to_apply=_values_less(op, S64),
        ),
        1,
    )
    rank = _placed(
        op, b.zeros(firsts.shape), order, b.emit("iota", shape=firsts.shape, iota_dimension=0)
    )
    index = _placed(op, zeros, places, _rows(op, rank, group))
    found = _rows(op, x, _rows(op, firsts, order))
    results = [found, b.convert_to(index, op.result(1))]
    if "WithCounts" in op.node.op:
        each = b.spread(b.constant(1, S64), (whole,))
        counts = scatter_rows(op, "add", b.zeros(Shape.array(S64, (count,))), index, each)
        results.append(b.convert_to(counts, op.result(2)))
    return tuple(results)


def _plus(b: TensorBuilder, x: Instruction, y: Instruction) -> Instruction:
    return b.add(x, y)


def _first(op: Op, values: Instruction) -> Instruction:
    """Return a number of the type of `values`; what it is does not matter."""
    return op.b.scalar(0, values.shape.dtype)


def _placed(op: Op, into: Instruction, places: Instruction, values: Instruction) -> Instruction:
    """Put values where `places` says, each somewhere else."""
    return scatter_rows(op, "update", into, places, values)


def _segments(opcode: str) -> Rule:
    """Sorted segments: there are as many as the last number says, and one."""

    def rule(op: Op) -> Value:
        numbers = op.tensor(1)
        most: Any = op.b.emit(
            "reduce",
            op.b.convert_to(numbers, S64),
            op.b.constant(-1, S64),
            dimensions=(0,),
            to_apply=op.b.program.reducer("maximum", S64),
        )
        count = computed_size(op.frame, op.b.add(most, op.b.constant(1, S64)))
        return segments(op, opcode, count)

    return rule


def _segment_mean(op: Op) -> Value:
    """Sums of segments over their numbers of rows; a segment without rows gives 0."""
    b = op.b
    element = op.tensor(0).shape.dtype
    total = _segments("add")(op)
    assert isinstance(total, Instruction)
    numbers, (count, *rest) = op.tensor(1), total.shape.dims
    ones = b.like(1, Shape.array(element, numbers.shape.dims))
    each = scatter_rows(op, "add", b.zeros(Shape.array(element, (count,))), numbers, ones)
    least = b.maximum(each, b.like(1, each.shape))
    wide = b.broadcast_to(least, (count, *rest), (0,))
    return b.divide(total, wide)


RULES: dict[str, Rule] = {
    "DynamicPartition": _dynamic_partition,
    "SegmentMax": _segments("maximum"),
    "SegmentMean": _segment_mean,
    "SegmentMin": _segments("minimum"),
    "SegmentProd": _segments("multiply"),
    "SegmentSum": _segments("add"),
    "Unique": _unique,
    "UniqueV2": _unique,
    "UniqueWithCounts": _unique,
    "UniqueWithCountsV2": _unique,
    "Where": _where,
}
