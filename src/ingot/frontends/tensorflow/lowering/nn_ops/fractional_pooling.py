# SPDX-License-Identifier: Apache-2.0
"""Pools whose windows are of two sizes, one more than the other, in TensorFlow's own random order.

Where the windows start is a sequence for rows and one for columns, computed when the program runs;
so each axis is pooled by gathering its windows, the longer size for all of them, and leaving out
what is behind a window's end. Source: TensorFlow's `kernels/fractional_pool_common.cc`,
`fractional_max_pool_op.cc`, `fractional_avg_pool_op.cc`; Graham, "Fractional max-pooling" (2014).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from ingot.frontends.building.indexing import take
from ingot.frontends.building.scans import scan
from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Sizes, Value
from ingot.frontends.tensorflow.lowering.random_ops import philox
from ingot.frontends.tensorflow.lowering.random_ops.philox import State
from ingot.frontends.tensorflow.lowering.random_ops.picks import shuffled_order
from ingot.frontends.tensorflow.lowering.random_ops.random import seeded_state, state_in_node
from ingot.hlo.dtype import F64, S64, U64, least_finite
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import record

_PER_BLOCK = 4


@record
class _Axis:
    """The windows of one axis: `starts` is `s64[windows + 1]`, the last one the axis' size."""

    b: TensorBuilder
    starts: Instruction
    size: int
    overlapping: bool

    def _windows(self) -> int:
        return self.starts.shape.static_dims[0] - 1

    def _ends(self) -> Instruction:
        """Return the index after the last one of each window."""
        ends = self.b.sliced(self.starts, 0, 1, self._windows() + 1)
        if self.overlapping:
            ends = self.b.binary("minimum", self.b.binary("add", ends, 1), self.size)
        return ends

    def counts(self) -> Instruction:
        """Return how many pixels each window has."""
        return self.b.subtract(self._ends(), self.b.sliced(self.starts, 0, 0, self._windows()))

    def taps(self) -> Iterator[tuple[Instruction, Instruction]]:
        """Yield the index of each window's first, second, … pixel, and whether it has that many."""
        b = self.b
        first = b.sliced(self.starts, 0, 0, self._windows())
        for number in range(self.size // self._windows() + 1 + self.overlapping):
            row = b.binary("add", first, number)
            inside = b.compare(row, self._ends(), direction="LT")
            yield b.binary("minimum", row, self.size - 1), inside

    def owners(self) -> Iterator[tuple[Instruction, Instruction | None]]:
        """Yield the window of each pixel; then, where windows overlap, the one that ends at it."""
        b = self.b
        rows = b.iota_of(S64, (self.size, self._windows()), 0)
        starts = b.sliced(self.starts, 0, 0, self._windows())
        before = b.compared("LE", b.spread(starts, rows.shape.dims, (1,)), rows)
        window = b.binary("add", b.reduced("add", b.convert_to(before, S64), (1,)), -1)
        yield window, None
        if self.overlapping:
            numbers = b.iota_of(S64, (self.size,), 0)
            at_start = b.compare(take(b, starts, window), numbers, direction="EQ")
            shared = b.and_(at_start, b.compared("GT", window, 0))
            yield b.binary("maximum", b.binary("add", window, -1), 0), shared


@record
class _Grid:
    """The windows of images `[batch, rows, columns, channels]`."""

    rows: _Axis
    columns: _Axis

    def tapped(self, image: Instruction) -> Iterator[tuple[Instruction, Instruction, Instruction]]:
        """Yield what each tap sees, its index, and whether it is in the window."""
        b = self.rows.b
        for (row, in_row), (column, in_column) in product(self.rows.taps(), self.columns.taps()):
            part = take(b, take(b, image, row, 1), column, 2)
            dims = part.shape.dims
            inside = b.and_(b.spread(in_row, dims, (1,)), b.spread(in_column, dims, (2,)))
            yield part, self._index(row, column, dims), inside

    def _index(self, row: Instruction, column: Instruction, dims: Sizes) -> Instruction:
        b = self.rows.b
        first = b.spread(b.binary("multiply", row, self.columns.size), dims, (1,))
        return b.add(first, b.spread(column, dims, (2,)))

    def returned(self, gradient: Instruction, wanted: Instruction | None = None) -> Instruction:
        """Return the sum of the gradients of each pixel's windows; `wanted`: of these alone."""
        b = self.rows.b
        total: Instruction | None = None
        for (row, row_has), (column, column_has) in product(
            self.rows.owners(), self.columns.owners()
        ):
            part = take(b, take(b, gradient, row, 1), column, 2)
            dims = part.shape.dims
            flags = [
                b.spread(flag, dims, (axis,))
                for flag, axis in ((row_has, 1), (column_has, 2))
                if flag is not None
            ]
            if wanted is not None:
                numbers = [b.iota_of(S64, (dims[axis],), 0) for axis in (1, 2)]
                here = self._index(numbers[0], numbers[1], dims)
                there = take(b, take(b, wanted, row, 1), column, 2)
                flags.append(b.compare(here, there, direction="EQ"))
            for flag in flags:
                part = b.select(flag, part, b.zeros(part.shape))
            total = part if total is None else b.add(total, part)
        assert total is not None
        return total

    def counts(self, shape: Shape) -> Instruction:
        """Return how many pixels are in each window, for images of `shape`."""
        b = self.rows.b
        rows, columns = (
            b.spread(axis.counts(), shape.dims, (n,))
            for n, axis in enumerate((self.rows, self.columns), 1)
        )
        return b.convert_to(b.multiply(rows, columns), shape.dtype)


def _sequence(op: Op, state: State, size: int, windows: int) -> Instruction:
    """Return where windows start, and the size."""
    b = op.b
    if op.attribute("pseudo_random", False):
        return _increasing(b, state, size, windows)
    order = shuffled_order(b, state, windows)
    longer = b.convert_to(b.compared("LT", order, size % windows), S64)
    lengths = b.binary("add", longer, size // windows)
    ends = scan(b, lengths, 0, lambda inner, x, y: inner.add(x, y), 0)
    return b.concatenated([b.zeros(Shape.array(S64, (1,))), ends], 0)


def _increasing(b: TensorBuilder, state: State, size: int, windows: int) -> Instruction:
    """Multiples of size / windows, all moved by the same random number, rounded up."""
    alpha = size / windows
    least = size // windows
    most = min((least + 2) / alpha - 1, (size + 1 - least) / alpha - (windows - 1))
    drawn, _ = philox.unit_pair(b, state.key, state.low, state.high)
    moved = b.binary("multiply", drawn, most)
    inner = b.binary("add", b.iota_of(F64, (windows + 1,), 0), moved)
    starts = b.convert_to(b.emit("ceil", b.binary("multiply", inner, alpha)), S64)
    starts = b.sliced(b.binary("add", starts, -1), 0, 1, windows)
    ends = [b.constant([edge], S64) for edge in (0, size)]
    return b.concatenated([ends[0], starts, ends[1]], 0)


def _drawn(op: Op) -> tuple[_Grid, list[Instruction]]:
    """Return the windows of operand 0, and both sequences."""
    b = op.b
    ratios = [float(ratio) for ratio in op.attribute("pooling_ratio")]
    if (ratios[0], ratios[3]) != (1.0, 1.0):
        raise op.error(f"pooling ratios {ratios} pool the batch or the channels")
    sizes = [op.fixed(op.dims(0)[axis], "size of the image") for axis in (1, 2)]
    windows = [math.floor(size / ratio) for size, ratio in zip(sizes, ratios[1:3], strict=True)]
    if 0 in windows:
        raise op.error(f"pooling ratios {ratios} of an image of {sizes} leave nothing")
    pseudo = bool(op.attribute("pseudo_random", False))
    blocks = [1 if pseudo else -(-count // _PER_BLOCK) for count in windows]
    fixed = bool(op.attribute("deterministic", False))
    first = seeded_state(op) if fixed else state_in_node(op, sum(blocks))
    low, high = philox.ahead(b, first.low, first.high, b.scalar(blocks[0], U64))
    states = (first, replace(first, low=low, high=high))
    found = [_sequence(op, *each) for each in zip(states, sizes, windows, strict=True)]
    return _grid(op, found, sizes), found


def _given(op: Op, gradient: int, sizes: list[int]) -> _Grid:
    """Return the windows that the last two operands say.

    Args:
        op: the node of a pool's gradient.
        gradient: number of the operand that holds a gradient of each window.
        sizes: rows and columns of the image.
    """
    starts = op.tensors(gradient + 1)
    for axis, start in enumerate(starts, 1):
        windows = op.dims(gradient)[axis]
        if len(start.shape.dims) != 1 or start.shape.dims[0] != windows + 1:
            raise op.error(f"the sequence {start.shape} is not of {windows} windows and their end")
    return _grid(op, starts, sizes)


def _grid(op: Op, starts: list[Instruction], sizes: list[int]) -> _Grid:
    overlapping = bool(op.attribute("overlapping", False))
    rows, columns = (
        _Axis(op.b, start, size, overlapping) for start, size in zip(starts, sizes, strict=True)
    )
    return _Grid(rows, columns)


def _max_pool(op: Op) -> tuple[Value, ...]:
    """NaN is no window's greatest number."""
    b, image = op.b, op.tensor(0)
    grid, starts = _drawn(op)
    greatest: Instruction | None = None
    for part, _, inside in grid.tapped(image):
        if greatest is None:
            greatest = b.like(least_finite(part.shape.dtype), part.shape)
        more = b.and_(inside, b.compare(part, greatest, direction="GT"))
        greatest = b.select(more, part, greatest)
    assert greatest is not None
    return greatest, *starts


def _average_pool(op: Op) -> tuple[Value, ...]:
    b, image = op.b, op.tensor(0)
    grid, starts = _drawn(op)
    total: Instruction | None = None
    for part, _, inside in grid.tapped(image):
        term = b.select(inside, part, b.zeros(part.shape))
        total = term if total is None else b.add(total, term)
    assert total is not None
    return b.divide(total, grid.counts(total.shape)), *starts


def _max_pool_gradient(op: Op) -> Value:
    """A window's gradient goes to its greatest number's first pixel; to NaN's, if it begins so."""
    b, image = op.b, op.tensor(0)
    sizes = [op.fixed(op.dims(0)[axis], "size of the image") for axis in (1, 2)]
    grid = _given(op, 2, sizes)
    greatest: Instruction | None = None
    where_greatest: Instruction | None = None
    for part, where, inside in grid.tapped(image):
        if greatest is None or where_greatest is None:
            greatest, where_greatest = part, where
            continue
        more = b.and_(inside, b.compare(part, greatest, direction="GT"))
        greatest, where_greatest = (
            b.select(more, part, greatest),
            b.select(more, where, where_greatest),
        )
    return grid.returned(op.tensor(2), where_greatest)


def _average_pool_gradient(op: Op) -> Value:
    """Take the image's shape, the gradient, both sequences."""
    b, gradient = op.b, op.tensor(1)
    sizes = [op.fixed(size, "size of the image") for size in op.sizes(0, "shape")[1:3]]
    grid = _given(op, 1, sizes)
    return grid.returned(b.divide(gradient, grid.counts(gradient.shape)))


RULES: dict[str, Rule] = {
    "FractionalAvgPool": _average_pool,
    "FractionalAvgPoolGrad": _average_pool_gradient,
    "FractionalMaxPool": _max_pool,
    "FractionalMaxPoolGrad": _max_pool_gradient,
}
