# SPDX-License-Identifier: Apache-2.0
"""Sparse tensors whose indices change: reshapes, concatenations, slices, splits and sums.

An index is compared, sorted and looked up as its key: the element of the dense tensor that it is,
counted row by row. How many indices a result has is a size (`computed_sizes`) where the data
decides it. As in TensorFlow's kernels, the indices of an operand are in row-major order where
nothing else is said. Source: TensorFlow's `kernels/sparse_*_op.cc`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.arrays import neutral
from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import scatter_slices, take
from ingot.frontends.building.scans import scan
from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.array_ops.data_sizes import positions
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Value
from ingot.frontends.tensorflow.lowering.indexing.index_checks import product_fits
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.hlo.dtype import F32, PRED, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.semantics.assertions import emit_assertion


def element_at(b: TensorBuilder, vector: Instruction, axis: int) -> Instruction:
    """Return one element of a vector, of rank 0."""
    return b.reshape_to(b.sliced(vector, 0, axis, axis + 1), ())


def column(b: TensorBuilder, indices: Instruction, axis: int) -> Instruction:
    """Return the indices of one dimension, `s64[n]`."""
    return b.reshape_to(b.sliced(indices, 1, axis, axis + 1), indices.shape.dims[:1])


def _rank(op: Op, vector: Instruction) -> int:
    return op.fixed(vector.shape.dims[0], "rank of the sparse tensor")


def _keys(b: TensorBuilder, indices: Instruction, sizes: Sequence[Instruction]) -> Instruction:
    """Return the key of each index, `s64[n]`; `sizes`: of the dense tensor, `s64[]` each."""
    found = b.zeros(Shape.array(S64, indices.shape.dims[:1]))
    for axis, size in enumerate(sizes):
        wide = b.multiply(found, b.spread(size, found.shape.dims))
        found = b.add(wide, column(b, indices, axis))
    return found


def _indices(b: TensorBuilder, keys: Instruction, sizes: Sequence[Instruction]) -> Instruction:
    """Return the index of each key, `s64[n, rank]`."""
    (count,) = keys.shape.dims
    columns: list[Instruction] = []
    for size in reversed(sizes):
        divisor = b.spread(b.binary("maximum", size, 1), (count,))
        columns.append(b.reshape_to(b.remainder(keys, divisor), (count, 1)))
        keys = b.divide(keys, divisor)
    if not columns:
        return b.zeros(Shape.array(S64, (count, 0)))
    return b.concatenated(columns[::-1], 1)


def _stacked(b: TensorBuilder, parts: Sequence[Instruction]) -> Instruction:
    if not parts:
        return b.zeros(Shape.array(S64, (0,)))
    return b.concatenated([b.reshape_to(part, (1,)) for part in parts], 0)


def _total(b: TensorBuilder, sizes: Sequence[Instruction]) -> Instruction:
    total = b.constant(1, S64)
    for size in sizes:
        total = b.multiply(total, size)
    return total


def _sizes_of(op: Op, number: int) -> list[Instruction]:
    """Return the elements of a dense shape, `s64[]` each."""
    return _elements(op, op.tensor(number))


def _elements(op: Op, vector: Instruction) -> list[Instruction]:
    return [element_at(op.b, vector, axis) for axis in range(_rank(op, vector))]


def _reshaped(op: Op) -> tuple[Value, ...]:
    """Indices, shape, new shape, of which one size may be -1."""
    b, indices = op.b, op.tensor(0)
    sizes, wanted = _sizes_of(op, 1), op.tensor(2)
    parts = _sizes_of(op, 2)
    assert_everywhere(b, b.compared("GE", wanted, -1), "size must be non-negative")
    is_open = b.compared("EQ", wanted, -1)
    count = b.reduced("add", b.convert_to(is_open, S64), (0,))
    emit_assertion(b, b.compared("LE", count, 1), "only one output dimension may be -1")
    total, one = _total(b, sizes), b.constant(1, S64)
    known = _total(b, [b.select(b.compared("EQ", part, -1), one, part) for part in parts])
    some_open = b.compared("EQ", count, 1)
    text = "reshape cannot infer the missing input size for an empty tensor unless all specified"
    is_inferred = b.or_(b.compared("GT", known, 0), b.not_(some_open))
    emit_assertion(b, is_inferred, f"{text} input sizes are non-zero")
    missing = b.divide(total, b.maximum(known, one))
    made = [b.select(b.compared("EQ", part, -1), missing, part) for part in parts]
    fits = b.compare(_total(b, made), total, direction="EQ")
    text = "Input to reshape is a SparseTensor whose number of dense values is not that of the"
    emit_assertion(b, fits, f"{text} requested shape")
    return _indices(b, _keys(b, indices, sizes), made), _stacked(b, made)


def _softmax(op: Op) -> Value:
    """The softmax of the values that are there, along the last dimension."""
    b, indices, values = op.b, op.tensor(0), op.tensor(1)
    (count,) = values.shape.dims
    depth = op.fixed(indices.shape.dims[1], "rank of the sparse tensor")
    sizes = _sizes_of(op, 2)
    if len(sizes) < 2:
        raise op.mistake(f"Input should have rank >= 2, but its rank is {len(sizes)}")
    if len(sizes) != depth:
        raise op.mistake("Order length must be SparseTensor rank.")
    is_positive = b.compared("GE", op.tensor(2), 0)
    assert_everywhere(b, is_positive, "Expected shape dimensions to be non-negative")
    emit_assertion(b, product_fits(b, sizes), "Encountered overflow when multiplying the sizes")
    is_new = b.compared("EQ", b.iota_of(S64, (count,), 0), 0)
    for axis in range(depth - 1):
        own = column(b, indices, axis)
        before = b.shifted(own, 0, 1, b.constant(0, S64))
        is_new = b.or_(is_new, b.compare(own, before, direction="NE"))
    row = _ordinals(b, is_new)
    element = values.shape.dtype
    wide = values if element.bits >= F32.bits else b.convert_to(values, F32)
    least = b.like(neutral("maximum", wide.shape.dtype), wide.shape)
    highest = scatter_rows(op, "maximum", least, row, wide)
    powers = b.exponential(b.subtract(wide, take(b, highest, row)))
    sums = scatter_rows(op, "add", b.zeros(wide.shape), row, powers)
    return b.convert_to(b.divide(powers, take(b, sums, row)), element)


def _ordinals(b: TensorBuilder, is_new: Instruction) -> Instruction:
    """Return the number of the group of each element, given where groups begin."""
    ends = scan(b, b.convert_to(is_new, S64), 0, lambda b, x, y: b.add(x, y), 0)
    return b.binary("subtract", ends, 1)


def _concatenated(op: Op) -> tuple[Value, ...]:
    """Indices, values and shapes of several tensors; an attribute is the dimension."""
    b, number = op.b, len(op) // 3
    shapes = [op.tensor(2 * number + n) for n in range(number)]
    rank = _rank(op, shapes[0])
    axis = op.axis_of(int(op.attribute("concat_dim")), rank)
    sizes = _elements(op, shapes[0])
    parts: list[Instruction] = []
    offset = b.constant(0, S64)
    for n, shape in enumerate(shapes):
        is_positive = b.reduced("and", b.compared("GE", shape, 0), (0,))
        fits = product_fits(b, _elements(op, shape))
        text = "Encountered overflow from large input shape."
        emit_assertion(b, b.and_(is_positive, fits), text, "INTERNAL")
        for other in range(rank):
            if n and other != axis:
                same = b.compare(element_at(b, shape, other), sizes[other], direction="EQ")
                emit_assertion(b, same, f"Input shapes must match: dimension {other}")
        indices = op.tensor(n)
        shift = b.select(
            b.compared("EQ", b.iota_of(S64, (rank,), 0), axis),
            b.spread(offset, (rank,)),
            b.zeros(Shape.array(S64, (rank,))),
        )
        parts.append(b.binary("add", indices, shift))
        offset = b.add(offset, element_at(b, shape, axis))
    sizes[axis] = offset
    indices = b.concatenated(parts, 0)
    values = b.concatenated([op.tensor(number + n) for n in range(number)], 0)
    if axis:
        order = order_of(b, _keys(b, indices, sizes))
        indices, values = take(b, indices, order), take(b, values, order)
    return indices, values, _stacked(b, sizes)


def order_of(b: TensorBuilder, keys: Instruction) -> Instruction:
    """Return where the keys of a sorted vector come from, `s64[n]`; equal ones in their order."""
    numbers = b.iota_of(S64, keys.shape.dims, 0)
    return b.element_of(sort_by_first(b, (keys, numbers), 0), 1)


def _within(
    op: Op, indices: Instruction, starts: Sequence[Instruction], sizes: Sequence[Instruction]
) -> tuple[Instruction, Instruction]:
    """Return which of the operands are in a box, and their indices there."""
    b = op.b
    inside = b.like(True, Shape.array(PRED, indices.shape.dims[:1]))
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        moved = b.binary("subtract", column(b, indices, axis), start)
        within = b.and_(b.compared("GE", moved, 0), b.compared("LT", moved, size))
        inside = b.and_(inside, within)
    chosen = positions(op, inside)
    return chosen, b.binary("subtract", take(b, indices, chosen), _stacked(b, starts))


def _sliced(op: Op) -> tuple[Value, ...]:
    """Indices, values, shape, start, size; what is behind the end is cut off."""
    b, indices, values = op.b, op.tensor(0), op.tensor(1)
    starts, sizes = _sizes_of(op, 3), op.tensor(4)
    assert_everywhere(b, b.compared("GE", sizes, 0), "Expected a non-negative size")
    rest = b.binary("maximum", b.subtract(op.tensor(2), op.tensor(3)), 0)
    shape = b.minimum(rest, sizes)
    kept = [element_at(b, shape, axis) for axis in range(len(starts))]
    chosen, made = _within(op, indices, starts, kept)
    return made, take(b, values, chosen), shape


def _split(op: Op) -> tuple[Value, ...]:
    """Dimension, indices, values, shape: pieces of which the first ones are one longer."""
    b, indices, values, sizes = op.b, op.tensor(1), op.tensor(2), _sizes_of(op, 3)
    axis, number = op.axis(0, len(sizes)), int(op.attribute("num_split"))
    text = f"Number of splits {number} is not between 1 and the size of dimension {axis}"
    emit_assertion(b, b.compared("GE", sizes[axis], number), text)
    least, more = (b.binary(opcode, sizes[axis], number) for opcode in ("divide", "remainder"))
    start = b.constant(0, S64)
    results: list[tuple[Value, Value, Value]] = []
    for n in range(number):
        is_longer = b.convert_to(b.compared("GT", more, n), S64)
        part = [*sizes[:axis], b.add(least, is_longer), *sizes[axis + 1 :]]
        starts = [start if other == axis else b.constant(0, S64) for other in range(len(sizes))]
        chosen, made = _within(op, indices, starts, part)
        results.append((made, take(b, values, chosen), _stacked(b, part)))
        start = b.add(start, part[axis])
    return tuple(value for kind in zip(*results, strict=True) for value in kind)


def _same_shapes(op: Op, one: int, other: int) -> None:
    left, right = op.tensor(one), op.tensor(other)
    same = op.b.compare(left, right, direction="EQ")
    assert_everywhere(op.b, same, "Operands' shapes do not match")


def _merged(op: Op, opcode: str) -> tuple[Instruction, Instruction, list[Instruction]]:
    """Return indices and combined values of what two tensors have together, and the shape.

    Operands: indices, values and shape of each. What one of them lacks is left out.
    """
    b, sizes = op.b, _sizes_of(op, 2)
    _same_shapes(op, 2, 5)
    indices = b.concatenated([op.tensor(0), op.tensor(3)], 0)
    values = b.concatenated([op.tensor(1), op.tensor(4)], 0)
    keys = _keys(b, indices, sizes)
    numbers = b.iota_of(S64, keys.shape.dims, 0)
    ordered = sort_by_first(b, (keys, numbers), 0)
    keys, order = (b.element_of(ordered, n) for n in range(2))
    before = b.shifted(keys, 0, 1, b.constant(0, S64))
    is_new = b.or_(b.compared("EQ", numbers, 0), b.compare(keys, before, direction="NE"))
    firsts = positions(op, is_new)
    made = b.like(neutral(opcode, values.shape.dtype), values.shape.with_dims(firsts.shape.dims))
    made = scatter_rows(op, opcode, made, _ordinals(b, is_new), take(b, values, order))
    return take(b, indices, take(b, order, firsts)), made, sizes


def _added(op: Op) -> tuple[Value, ...]:
    """Two tensors, and the least size of a sum that is kept; a single value always is."""
    b = op.b
    indices, values, sizes = _merged(op, "add")
    keys, size = _keys(b, indices, sizes), b.abs(values)
    limit = b.spread(b.convert_to(op.tensor(6), size.shape.dtype), size.shape.dims)
    in_both = [_found_in(b, keys, _keys(b, op.tensor(n), sizes))[1] for n in (0, 3)]
    is_single = b.not_(b.and_(*in_both))
    kept = positions(op, b.or_(is_single, b.compare(limit, size, direction="LE")))
    return take(b, indices, kept), take(b, values, kept), _stacked(b, sizes)


def _extreme(opcode: str) -> Rule:
    """Return the rule for the greatest or least of two tensors, where what is missing is 0."""

    def rule(op: Op) -> tuple[Value, ...]:
        b = op.b
        indices, values, sizes = _merged(op, opcode)
        keys = _keys(b, indices, sizes)
        for number in (0, 3):
            _, is_found = _found_in(b, keys, _keys(b, op.tensor(number), sizes))
            with_zero = b.emit(opcode, values, b.zeros(values.shape))
            values = b.select(is_found, values, with_zero)
        return indices, values

    return rule


def _found_in(
    b: TensorBuilder, keys: Instruction, among: Instruction
) -> tuple[Instruction, Instruction]:
    """Return where each key is among others, which are not repeated; and whether it is there."""
    (count,), (others,) = keys.shape.dims, among.shape.dims
    both = b.concatenated([among, keys], 0)
    # Of equal keys the one that is looked up comes last.
    ordered = sort_by_first(b, (both, b.iota_of(S64, both.shape.dims, 0)), 0)
    sorted_keys, order = (b.element_of(ordered, n) for n in range(2))
    nowhere = b.like(-1, order.shape)
    is_other = b.compared("LT", order, b.size(others))
    steps = b.select(is_other, b.iota_of(S64, order.shape.dims, 0), nowhere)
    latest = scan(b, steps, 0, lambda b, x, y: b.maximum(x, y), -1)
    clamped = b.binary("maximum", latest, 0)
    same = b.compare(take(b, sorted_keys, clamped), sorted_keys, direction="EQ")
    same = b.and_(same, b.compared("GE", latest, 0))
    found = b.select(same, take(b, order, clamped), nowhere)
    back = b.binary("subtract", order, b.size(others))
    back = b.select(b.compared("LT", back, 0), b.like(count, back.shape), back)
    index = b.like(-1, Shape.array(S64, (count,)))
    index = scatter_slices(b, "update", index, back, found)
    return b.binary("maximum", index, 0), b.compared("GE", index, 0)


def _values_found(
    op: Op, gradient: Instruction, wanted: Instruction, given: Instruction
) -> Instruction:
    """Return the gradient of each index of `wanted` that is in `given`, and 0 for the others."""
    b = op.b
    depth = op.fixed(wanted.shape.dims[1], "rank of the sparse tensor")
    # Any sizes that hold all indices give keys.
    both = b.concatenated([wanted, given, b.zeros(Shape.array(S64, (1, depth)))], 0)
    sizes = b.binary("add", b.reduced("maximum", both, (0,)), 1)
    sizes = [element_at(b, sizes, axis) for axis in range(depth)]
    index, is_found = _found_in(b, _keys(b, wanted, sizes), _keys(b, given, sizes))
    # Behind the last value is a 0: there may be none at all.
    padded = b.padded(gradient, 0, 0, 1, b.scalar(0, gradient.shape.dtype))
    found = take(b, padded, index)
    return b.select(is_found, found, b.zeros(found.shape))


def _added_gradient(op: Op) -> tuple[Value, ...]:
    """Gradient of the sum's values; indices of both operands and of the sum."""
    gradient, total = op.tensor(0), op.tensor(3)
    return tuple(_values_found(op, gradient, op.tensor(n), total) for n in (1, 2))


def _sliced_gradient(op: Op) -> Value:
    """Gradient of the slice's values; indices of the operand; start; indices of the slice."""
    given = op.b.binary("add", op.tensor(3), op.tensor(2))
    return _values_found(op, op.tensor(0), op.tensor(1), given)


RULES: dict[str, Rule] = {
    "SparseAdd": _added,
    "SparseAddGrad": _added_gradient,
    "SparseConcat": _concatenated,
    "SparseReshape": _reshaped,
    "SparseSlice": _sliced,
    "SparseSliceGrad": _sliced_gradient,
    "SparseSoftmax": _softmax,
    "SparseSparseMaximum": _extreme("maximum"),
    "SparseSparseMinimum": _extreme("minimum"),
    "SparseSplit": _split,
}
