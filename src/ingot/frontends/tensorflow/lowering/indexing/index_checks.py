# SPDX-License-Identifier: Apache-2.0
"""Checks of indices: one out of range ends the program, as in TensorFlow's kernels for CPU.

Gathers and scatters ask for them with the words of TensorFlow's own message, less the index that is
wrong. A check is one pass over the indices, and none over what they choose. An index that follows
from loop counters is checked here, and one that is constant when the program is simplified: neither
costs a loop anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.frontends.building.checks import assert_everywhere
from ingot.frontends.tensorflow.lowering.context.affine import difference
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import PRED, S64, greatest
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape


def dims_text(dims: Sizes) -> str:
    """Return sizes as TensorFlow writes them in a shape."""
    return ",".join(map(str, dims))


def are_inside(b: TensorBuilder, indices: Instruction, size: Size) -> Instruction:
    """Return which indices are in 0..size."""
    if _is_counted_inside(b, indices, 0, size):
        return b.like(True, Shape.array(PRED, indices.shape.dims))
    return b.and_(are_below(b, indices, size), b.compared("GE", indices, 0))


def are_below(b: TensorBuilder, indices: Instruction, size: Size) -> Instruction:
    """Return which indices are less than `size`."""
    if indices.shape.dtype.bits < 32:
        # Not every size is a number of the indices' own type.
        indices = b.convert_to(indices, S64)
    return b.compared("LT", indices, b.scalar(size, indices.shape.dtype))


def _is_counted_inside(b: TensorBuilder, index: Instruction, least: Size, size: Size) -> bool:
    """Whether a single index is a sum of loop counters that is always in least..size."""
    if any(size != 1 for size in index.shape.dims):
        return False
    form = dict(difference(index, b.constant(0, index.shape.dtype), b.program.origins))
    low: Size = form.pop((), 0)
    high = low
    for factors, times in form.items():
        counter = b.program.counters.get(factors[0]) if len(factors) == 1 else None
        if counter is None:
            return False
        ends = (counter.first * times, counter.most * times)
        low += ends[times < 0]
        high += ends[times > 0]
    return dim_math.never_negative(low - least) and dim_math.never_negative(size - 1 - high)


def assert_index(b: TensorBuilder, index: Instruction, start: Instruction, size: Size) -> None:
    """Let the program fail unless a single index, perhaps counted from the end, is in a dimension.

    Args:
        b: where the check is added.
        index: as the program gives it.
        start: the same, counted from the front.
        size: of the dimension.
    """
    if not _is_counted_inside(b, index, -size, size):
        text = f"slice index out of bounds: it is not in [{-size}, {size})"
        assert_everywhere(b, are_inside(b, start, size), text)


def vectors_are_inside(b: TensorBuilder, indices: Instruction, dims: Sizes) -> Instruction:
    """Return which index vectors, the last dimension of `indices`, are inside of `dims`."""
    *outer, depth = indices.shape.dims
    assert isinstance(depth, int)
    inside = b.like(True, Shape.array(PRED, tuple(outer)))
    for column in range(depth):
        part = b.sliced(indices, len(outer), column, column + 1)
        inside = b.and_(inside, are_inside(b, b.reshape_to(part, tuple(outer)), dims[column]))
    return inside


def row_major(b: TensorBuilder, indices: Instruction, dims: Sizes) -> Instruction:
    """Return the row-major offset in an array of `dims` of each row of `indices`, `s64[n]`."""
    (count, _) = indices.shape.dims
    found = b.zeros(Shape.array(S64, (count,)))
    for axis, size in enumerate(dims):
        column = b.reshape_to(b.sliced(indices, 1, axis, axis + 1), (count,))
        wide = b.multiply(found, b.spread(b.size(size), (count,)))
        found = b.add(wide, b.convert_to(column, S64))
    return found


def product_fits(b: TensorBuilder, sizes: Sequence[Instruction]) -> Instruction:
    """Return whether sizes, integers of rank 0, multiply to a number of their type.

    They are multiplied one by one, as TensorFlow does: nothing that follows a 0 is too large. The
    sizes themselves are at least 0.
    """
    fits = b.constant(True)
    total = sizes[0] if sizes else fits
    for size in sizes[1:]:
        most = b.like(greatest(size.shape.dtype), size.shape)
        limit = b.divide(most, b.binary("maximum", size, 1))
        fits = b.and_(fits, b.compare(total, limit, direction="LE"))
        total = b.multiply(total, size)
    return fits


def assert_inside(b: TensorBuilder, indices: Instruction, size: Size) -> None:
    """Let the program fail unless all indices are in 0..size."""
    assert_everywhere(b, are_inside(b, indices, size), f"indices are not in [0, {size})")


def assert_sorted(b: TensorBuilder, numbers: Instruction) -> None:
    """Let the program fail unless segment ids, a vector, are at least 0 and not decreasing."""
    (count,) = numbers.shape.dims
    if count == 0:
        return
    assert_everywhere(b, b.compared("GE", numbers, 0), "segment ids must be >= 0")
    _assert_neighbours(b, numbers, "LE", "segment ids are not increasing")


def assert_ascending(b: TensorBuilder, indices: Instruction, dims: Sizes) -> None:
    """Let the program fail unless the rows of `indices` are in row-major order and all differ.

    No index is negative.
    """
    found = row_major(b, indices, dims)
    _assert_neighbours(b, found, "LE", "an index is out of order")
    _assert_neighbours(b, found, "NE", "an index is repeated")


def _assert_neighbours(b: TensorBuilder, numbers: Instruction, direction: str, text: str) -> None:
    """Let the program fail unless each number and the one before it compare so.

    Before the first is -1; no number is negative.
    """
    below = b.scalar(-1, numbers.shape.dtype)
    # Shifted by one: the number before each; an empty vector stays empty.
    before = b.emit("pad", numbers, below, padding=((1, -1, 0),))
    assert_everywhere(b, b.compare(before, numbers, direction=direction), text)
