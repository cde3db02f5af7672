# SPDX-License-Identifier: Apache-2.0
"""Scans: each element folded with all before it along an axis, one array or several together.

A known length is a `reduce-window` whose windows are the prefixes, which kernels run as one pass
(`analysis.scans`). An open length is cut into blocks of a known length: each is scanned, then the
blocks' totals, and what came before a block is combined with its elements. The totals are scanned
by a loop that doubles: each step combines every total with the one `distance` before it.

Invariant: the starts are neutral, also combined with themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot.frontends.building.arrays import ArrayBuilder, Size, counts_up
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

BLOCK = 64
"""Elements of a block of an open length."""

Combine = Callable[[ArrayBuilder, Instruction, Instruction], Instruction]
CombineSeveral = Callable[
    [ArrayBuilder, Sequence[Instruction], Sequence[Instruction]], Sequence[Instruction]
]


def scan(b: ArrayBuilder, x: Instruction, axis: int, combine: Combine, start: Any) -> Instruction:
    """Return the inclusive scan of `x` along `axis`; `start` is the neutral element.

    `combine` takes a builder, an element and what comes before it.
    """

    def both(
        inner: ArrayBuilder, after: Sequence[Instruction], before: Sequence[Instruction]
    ) -> list[Instruction]:
        return [combine(inner, after[0], before[0])]

    return scan_several(b, [x], axis, both, [start])[0]


def scan_several(
    b: ArrayBuilder,
    operands: Sequence[Instruction],
    axis: int,
    combine: CombineSeveral,
    starts: Sequence[Any],
) -> list[Instruction]:
    """Return the inclusive scans of arrays of the same sizes that are combined together."""
    size = operands[0].shape.dims[axis]
    if not isinstance(size, int):
        return _blocked(b, operands, axis, combine, starts, size)
    if size < 2:
        return list(operands)
    return _windowed(b, operands, axis, combine, starts, size)


def _windowed(
    b: ArrayBuilder,
    operands: Sequence[Instruction],
    axis: int,
    combine: CombineSeveral,
    starts: Sequence[Any],
    size: int,
) -> list[Instruction]:
    count = len(operands)
    elements = [x.shape.dtype for x in operands]
    inner, given = b.region(
        "scan", [Shape.array(element, ()) for element in (*elements, *elements)]
    )
    made = combine(inner, given[count:], given[:count])
    folded = inner.build(made[0] if count == 1 else inner.tuple(*made))
    window = tuple(
        WindowDimension(size, low=size - 1) if dim == axis else WindowDimension(1)
        for dim in range(operands[0].shape.rank)
    )
    found = b.emit(
        "reduce-window",
        *operands,
        *(b.scalar(start, element) for start, element in zip(starts, elements, strict=True)),
        window=window,
        to_apply=folded,
    )
    return [found] if count == 1 else [b.element_of(found, n) for n in range(count)]


def _blocked(
    b: ArrayBuilder,
    operands: Sequence[Instruction],
    axis: int,
    combine: CombineSeveral,
    starts: Sequence[Any],
    size: Size,
) -> list[Instruction]:
    dims = operands[0].shape.dims
    count = dim_math.ceil_div(size, BLOCK)
    rest = (*dims[:axis], count * BLOCK - size, *dims[axis + 1 :])
    blocks = (*dims[:axis], count, BLOCK, *dims[axis + 1 :])
    inside: list[Instruction] = []
    for x, start in zip(operands, starts, strict=True):
        whole = b.concatenated([x, b.like(start, x.shape.with_dims(rest))], axis)
        inside.append(b.reshape_to(whole, blocks))
    inside = _windowed(b, inside, axis + 1, combine, starts, BLOCK)
    totals = (*dims[:axis], count, *dims[axis + 1 :])
    before: list[Instruction] = []
    for x, start in zip(inside, starts, strict=True):
        total = b.reshape_to(b.sliced(x, axis + 1, BLOCK - 1, BLOCK), totals)
        first = b.like(start, x.shape.with_dims((*dims[:axis], 1, *dims[axis + 1 :])))
        before.append(b.sliced(b.concatenated([first, total], axis), axis, 0, count))
    # Shifted before the loop: what reads the result then reads an array, without a condition.
    others = (*range(axis + 1), *range(axis + 2, len(blocks)))
    found = _looped(b, before, axis, combine, starts, count)
    before = [b.spread(x, blocks, others) for x in found]
    made = combine(b, inside, before)
    flat = (*dims[:axis], count * BLOCK, *dims[axis + 1 :])
    return [b.sliced(b.reshape_to(x, flat), axis, 0, size) for x in made]


def _looped(
    b: ArrayBuilder,
    operands: Sequence[Instruction],
    axis: int,
    combine: CombineSeveral,
    starts: Sequence[Any],
    size: Size,
) -> list[Instruction]:
    dims, count = operands[0].shape.dims, len(operands)
    limit = b.size(size)

    def step(inner: ArrayBuilder, state: list[Instruction]) -> list[Instruction]:
        distance, whole, *values = state
        zero = inner.constant(0, S64)
        indices = [inner.subtract(whole, distance) if n == axis else zero for n in range(len(dims))]
        before: list[Instruction] = []
        for value, start in zip(values, starts, strict=True):
            joined = inner.concatenated([inner.like(start, value.shape), value], axis)
            shifted = inner.emit("dynamic-slice", joined, *indices, dynamic_slice_sizes=dims)
            before.append(shifted)
        return [inner.add(distance, distance), whole, *combine(inner, values, before)]

    return b.loop([b.constant(1, S64), limit, *operands], counts_up, step)[-count:]
