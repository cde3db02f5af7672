# SPDX-License-Identifier: Apache-2.0
"""Scans: each element folded with all before it along an axis, one array or several together.

A known length is a `reduce-window` whose windows are the prefixes, which kernels run as one pass
(`analysis.scans`). An open length is a loop that doubles: each step combines every element with
the one `distance` before it, so a length of n takes log2 n steps.

Invariant: the starts are neutral, also combined with themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot.frontends.building.arrays import ArrayBuilder, Size, counts_up
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

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
        return _looped(b, operands, axis, combine, starts, size)
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
        WindowDimension(size, low=size - 1) if place == axis else WindowDimension(1)
        for place in range(operands[0].shape.rank)
    )
    found = b.emit(
        "reduce-window",
        *operands,
        *(b.scalar(start, element) for start, element in zip(starts, elements, strict=True)),
        window=window,
        to_apply=folded,
    )
    return [found] if count == 1 else [b.element_of(found, n) for n in range(count)]


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
        places = [inner.subtract(whole, distance) if n == axis else zero for n in range(len(dims))]
        before: list[Instruction] = []
        for value, start in zip(values, starts, strict=True):
            joined = inner.concatenated([inner.like(start, value.shape), value], axis)
            shifted = inner.emit("dynamic-slice", joined, *places, dynamic_slice_sizes=dims)
            before.append(shifted)
        return [inner.add(distance, distance), whole, *combine(inner, values, before)]

    return b.loop([b.constant(1, S64), limit, *operands], counts_up, step)[-count:]
