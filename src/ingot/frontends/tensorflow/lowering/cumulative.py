# SPDX-License-Identifier: Apache-2.0
"""Cumulative sums, products and log-sum-exps along an axis.

A scan by doubling: each step combines every element with the one `distance` before it, so a length
of n takes log2 n steps, unrolled for a known length and a loop for an open one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.frontends.building.arrays import wider
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.values import Size, Value
from ingot.hlo.dtype import S64
from ingot.hlo.instruction import Instruction

Combine = Callable[[TensorBuilder, Instruction, Instruction], Instruction]


def scan(b: TensorBuilder, x: Instruction, axis: int, combine: Combine, start: Any) -> Instruction:
    """Return the inclusive scan of `x` along `axis`; `start` is the neutral element."""
    size = x.shape.dims[axis]
    if isinstance(size, int):
        return _unrolled(b, x, axis, combine, start, size)
    return _looped(b, x, axis, combine, start, size)


def _unrolled(
    b: TensorBuilder, x: Instruction, axis: int, combine: Combine, start: Any, size: int
) -> Instruction:
    distance = 1
    neutral = b.scalar(start, x.shape.dtype)
    while distance < size:
        before = b.padded(b.sliced(x, axis, 0, size - distance), axis, distance, 0, neutral)
        x = combine(b, x, before)
        distance *= 2
    return x


def _looped(
    b: TensorBuilder, x: Instruction, axis: int, combine: Combine, start: Any, size: Size
) -> Instruction:
    dims = x.shape.dims
    limit = b.size(size)

    def goes_on(inner: TensorBuilder, state: list[Instruction]) -> Instruction:
        return inner.compare(state[1], state[2], direction="LT")

    def step(inner: TensorBuilder, state: list[Instruction]) -> list[Instruction]:
        values, distance, whole = state
        front = inner.like(start, values.shape)
        joined = inner.concatenated([front, values], axis)
        zero = inner.constant(0, S64)
        places = [inner.subtract(whole, distance) if n == axis else zero for n in range(len(dims))]
        before = inner.emit("dynamic-slice", joined, *places, dynamic_slice_sizes=dims)
        return [combine(inner, values, before), inner.add(distance, distance), whole]

    return b.loop([x, b.constant(1, S64), limit], goes_on, step)[0]


def _cumulative(combine: Combine, start: Any) -> Rule:
    def rule(op: Op) -> Value:
        b = op.b
        x = op.tensor(0)
        element = x.shape.dtype
        axis = op.axis(1, x.shape.rank)
        backwards = bool(op.attribute("reverse", False))
        x = b.convert_to(x, wider(element))
        if backwards:
            x = b.reverse(x, dimensions=(axis,))
        if op.attribute("exclusive", False):
            size = x.shape.dims[axis]
            neutral = b.scalar(start, x.shape.dtype)
            x = b.padded(b.sliced(x, axis, 0, size - 1), axis, 1, 0, neutral) if size != 0 else x
        x = scan(b, x, axis, combine, start)
        if backwards:
            x = b.reverse(x, dimensions=(axis,))
        return b.convert_to(x, element)

    return rule


def _log_add(b: TensorBuilder, x: Instruction, y: Instruction) -> Instruction:
    """log(exp x + exp y); minus infinity is neutral."""
    most, least = b.maximum(x, y), b.minimum(x, y)
    gap = b.subtract(least, most)
    gap = b.select(b.compared("EQ", least, -np.inf), b.like(-np.inf, x.shape), gap)
    return b.add(most, b.log_plus_one(b.exponential(gap)))


RULES: dict[str, Rule] = {
    "Cumprod": _cumulative(lambda b, x, y: b.multiply(x, y), 1),
    "Cumsum": _cumulative(lambda b, x, y: b.add(x, y), 0),
    "CumulativeLogsumexp": _cumulative(_log_add, -np.inf),
}
