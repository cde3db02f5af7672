# SPDX-License-Identifier: Apache-2.0
"""Adaptive windows along an axis of symbolic size: `sums` and `greatest`, loops over the taps.

Window i of n over `size` elements is from floor(i * size / n) to ceil((i + 1) * size / n); the
windows that hold element j are those from floor(j * n / size) to ceil((j + 1) * n / size), so a
gradient is the same with the sizes exchanged. The loop ends after the taps of the longest window.
Source: as `adaptive_pooling`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot.frontends.building.arrays import ArrayBuilder, counts_up
from ingot.frontends.building.indexing import take
from ingot.frontends.building.pooling import is_beaten
from ingot.frontends.torch.fx.sizes import Size
from ingot.hlo.dtype import S64, DType
from ingot.hlo.instruction import Instruction


def _bounds(b: ArrayBuilder, size: Size, count: Size) -> tuple[Instruction, Instruction]:
    """Return the start and the number of elements of each window, `s64[count]`."""
    number = b.iota_of(S64, (count,), 0)
    whole, parts = b.like(size, number.shape), b.like(count, number.shape)
    start = b.divide(b.multiply(number, whole), parts)
    end = b.multiply(b.binary("add", number, 1), whole)
    last = b.divide(b.binary("subtract", b.add(end, parts), 1), parts)
    return start, b.subtract(last, start)


def lengths(b: ArrayBuilder, size: Size, count: Size, element: DType) -> Instruction:
    """Return the number of elements of each of `count` windows over `size` elements."""
    return b.convert_to(_bounds(b, size, count)[1], element)


Fold = Callable[[ArrayBuilder, Sequence[Instruction], Sequence[Instruction]], Sequence[Instruction]]


def folded(
    b: ArrayBuilder,
    arrays: Sequence[Instruction],
    axis: int,
    count: Size,
    starts: Sequence[Instruction],
    fold: Fold,
) -> list[Instruction]:
    """Fold the elements of each window together, in order.

    Args:
        b: the builder.
        arrays: arrays of the same sizes, which are folded together.
        axis: the dimension of the windows.
        count: the number of windows.
        starts: the initial value of each array's fold, of rank 0.
        fold: takes a builder, the folded values so far, and elements; returns the new values.
    """
    dims = arrays[0].shape.dims
    begin, length = _bounds(b, dims[axis], count)
    most = b.reduced("maximum", length, (0,))
    made_dims = (*dims[:axis], count, *dims[axis + 1 :])
    totals = [b.spread(start, made_dims) for start in starts]
    number = len(arrays)

    def turn(inner: ArrayBuilder, state: list[Instruction]) -> list[Instruction]:
        tap, first, lengths = state[0], state[2], state[3]
        before, given = state[4 : 4 + number], state[4 + number :]
        index = inner.add(first, inner.spread(tap, first.shape.dims))
        is_inside = inner.compare(inner.spread(tap, first.shape.dims), lengths, direction="LT")
        index = inner.select(is_inside, index, first)
        elements = [take(inner, x, index, axis) for x in given]
        counts = inner.spread(is_inside, made_dims, (axis,))
        after = fold(inner, before, elements)
        kept = [inner.select(counts, new, old) for new, old in zip(after, before, strict=True)]
        return [inner.binary("add", tap, 1), *state[1:4], *kept, *given]

    state = [b.constant(0, S64), most, begin, length, *totals, *arrays]
    return b.loop(state, counts_up, turn)[4 : 4 + number]


def sums(b: ArrayBuilder, x: Instruction, axis: int, count: Size) -> Instruction:
    """Return the sum of each of `count` windows along an axis."""
    zero = b.scalar(0, x.shape.dtype)
    return folded(b, [x], axis, count, [zero], lambda b, old, new: [b.add(old[0], new[0])])[0]


def greatest(
    b: ArrayBuilder, x: Instruction, numbers: Instruction, axis: int, count: Size
) -> tuple[Instruction, Instruction]:
    """Return each window's greatest element and the least of its numbers; NaN is greatest.

    Of several NaN the one with the greatest number is found, as in PyTorch.
    """

    def fold(
        b: ArrayBuilder, old: Sequence[Instruction], new: Sequence[Instruction]
    ) -> Sequence[Instruction]:
        none = b.like(0, old[1].shape)
        wins = is_beaten(b, (old[0], old[1]), (new[0], new[1]), none)
        return [b.select(wins, one, other) for one, other in zip(new, old, strict=True)]

    starts = [b.scalar(0, x.shape.dtype), b.constant(-1, numbers.shape.dtype)]
    made = folded(b, [x, numbers], axis, count, starts, fold)
    return made[0], made[1]
