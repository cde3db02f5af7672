# SPDX-License-Identifier: Apache-2.0
"""Stitches and differences of lists: known at compile time where shapes follow, else at run time.

Source: TensorFlow's `kernels/dynamic_stitch_op.cc`, `kernels/listdiff_op.cc`.
"""

from __future__ import annotations

import numpy as np

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.building.indexing import take
from ingot.frontends.building.scans import scan
from ingot.frontends.building.sorting import sort_by_first
from ingot.frontends.tensorflow.lowering.array_ops.data_sizes import positions
from ingot.frontends.tensorflow.lowering.context.computed_sizes import computed_size
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Array, Known, Value
from ingot.frontends.tensorflow.lowering.indexing.scatter import scatter_rows
from ingot.hlo.dtype import PRED, S32, S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def _stitch(op: Op) -> Value:
    """Indices, then as many tensors: rows are merged; later tensors win."""
    half = len(op) // 2
    for number in range(half):
        positive = op.b.compared("GE", op.tensor(number), 0)
        assert_everywhere(op.b, positive, "indices are out of range")
    known = _known(op, half, "indices")
    if known is not None:
        return _merged(op, known)
    b = op.b
    numbers = [
        b.reshape_to(b.convert_to(op.tensor(n), S64), (op.tensor(n).shape.size,))
        for n in range(half)
    ]
    count = b.constant(0, S64)
    for part in numbers:
        count = b.maximum(count, b.reduced("maximum", b.binary("add", part, 1), (0,)))
    size = computed_size(op.frame, count)
    rows = [_rows(op, n) for n in range(half)]
    made = b.zeros(rows[0].shape.with_dims((size, *rows[0].shape.dims[1:])))
    for part, row in zip(numbers, rows, strict=True):
        made = scatter_rows(op, "update", made, part, row)
    return made


def _known(op: Op, count: int, what: str) -> list[Array] | None:
    """Return the first operands if compile time knows the numbers of all."""
    found = [op.known_or_computed(number, what) for number in range(count)]
    known = [array for array in found if array is not None and array.dtype != object]
    return known if len(known) == count else None


def _rows(op: Op, number: int) -> Instruction:
    """Return the rows that go to the indices of operand `number`."""
    data, indices = op.tensor(len(op) // 2 + number), op.tensor(number)
    rank = indices.shape.rank
    if not all(map(op.b.same, data.shape.dims[:rank], indices.shape.dims)):
        raise op.mismatch(number, len(op) // 2 + number)
    return op.b.reshape_to(data, (indices.shape.size, *data.shape.dims[rank:]))


def _merged(op: Op, indices: list[Array]) -> Value:
    rows: dict[int, Instruction] = {}
    for number, targets in enumerate(indices):
        flat = _rows(op, number)
        for source, row in enumerate(targets.ravel()):
            rows[int(row)] = op.b.sliced(flat, 0, source, source + 1)
    if not rows:
        some = _rows(op, 0)
        return op.b.zeros(some.shape.with_dims((0, *some.shape.dims[1:])))
    some = next(iter(rows.values()))
    empty = op.b.zeros(some.shape)
    return op.b.concatenated([rows.get(row, empty) for row in range(max(rows) + 1)], 0)


def _difference(op: Op) -> tuple[Value, ...]:
    """The elements of a vector that another one lacks, and their indices."""
    known = _known(op, 2, "list")
    if known is not None:
        kept = np.flatnonzero(~np.isin(known[0], known[1]))
        return Known(known[0][kept], op.result()), Known.of(kept, op.result(1))
    b, (x, y) = op.b, op.tensors()
    indices = positions(op, b.not_(_is_among(op, x, y)))
    return take(b, x, indices), b.convert_to(indices, op.result(1))


def _is_among(op: Op, x: Instruction, y: Instruction) -> Instruction:
    """Whether each element of `x` is one of `y`; NaN is none.

    All are sorted, those of `y` before equal ones of `x`: an element of `x` is among them where the
    first of its equals is one of `y`.
    """
    b = op.b
    both = b.concatenated([_comparable(b, y), _comparable(b, x)], 0)
    count, before = both.shape.dims[0], y.shape.dims[0]
    if 0 in (*x.shape.dims, before):
        return b.zeros(x.shape.with_dtype(PRED))
    numbers = b.iota_of(S64, (count,), 0)
    ordered = sort_by_first(b, (both, numbers), 0)
    values, order = b.element_of(ordered, 0), b.element_of(ordered, 1)
    previous = b.shifted(values, 0, 1, b.scalar(0, values.shape.dtype))
    starts = b.or_(b.compared("EQ", numbers, 0), b.compare(values, previous, direction="NE"))
    marks = b.select(starts, numbers, b.zeros(numbers.shape))
    first = scan(b, marks, 0, lambda b, left, right: b.maximum(left, right), 0)
    limit = b.like(before, order.shape)
    found = b.convert_to(b.compare(take(b, order, first), limit, direction="LT"), S32)
    whole = scatter_rows(op, "update", b.zeros(Shape.array(S32, (count,))), order, found)
    return b.compared("NE", b.sliced(whole, 0, before, count), 0)


def _comparable(b: TensorBuilder, x: Instruction) -> Instruction:
    """Return numbers without -0, so that equal ones are neighbours in their total order."""
    return b.select(b.compared("EQ", x, 0), b.zeros(x.shape), x)


RULES: dict[str, Rule] = {
    "DynamicStitch": _stitch,
    "ListDiff": _difference,
    "ParallelDynamicStitch": _stitch,
}
