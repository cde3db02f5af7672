# SPDX-License-Identifier: Apache-2.0
"""Resampling along one axis: each element of the result is a weighted sum of a few of the source.

Which ones (the taps) and their weights are known at compile time: `Taps`. The gradient has the same
form, with the taps transposed, so that no two threads write one element. Where a size is symbolic
the program computes them: a few taps for each element (`OpenTap`), or as many as the source
elements of a span (`Spans`), whose number is computed too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder, Size
from ingot.frontends.building.indexing import scatter_slices, take
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction
from ingot.support.records import record

Array = np.ndarray[Any, np.dtype[Any]]

_MOST_UNROLLED = 4
"""Taps up to which a sum is written out; more are one dimension that is reduced."""


@record
class Taps:
    """Indices and weights `[target, taps]` of the source elements of each target element.

    An element with fewer taps than another has index -1 for the rest, and weight 0.
    """

    indices: Array
    weights: Array

    def matrix(self, size: int) -> Array:
        """Return the weights as `[target, size]`, f32."""
        found = np.zeros((len(self.indices), size), np.float32)
        np.add.at(found, (np.arange(len(found))[:, None], self.indices), self.weights)
        return found

    def transposed(self, size: int) -> Taps:
        """Return the taps of the gradient, whose target is the source of `size` elements.

        One of weight 0 is kept: 0 times NaN is NaN.
        """
        targets = np.broadcast_to(np.arange(len(self.indices))[:, None], self.indices.shape)
        used = self.indices >= 0
        source, target, weight = (item[used] for item in (self.indices, targets, self.weights))
        order = np.argsort(source, kind="stable")
        source, target, weight = source[order], target[order], weight[order]
        counts = np.bincount(source, minlength=size)
        column = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
        indices = np.full((size, max(1, counts.max(initial=0))), -1)
        weights = np.zeros(indices.shape, self.weights.dtype)
        indices[source, column], weights[source, column] = target, weight
        return Taps(indices, weights)


def sampled(b: ArrayBuilder, x: Instruction, axis: int, taps: Taps) -> Instruction:
    """Return the weighted sums of taps along an axis, in the element type of `x`."""
    count = taps.indices.shape[1]
    if count <= _MOST_UNROLLED:
        parts = [_one_tap(b, x, axis, taps, number) for number in range(count)]
        made = parts[0]
        for part in parts[1:]:
            made = b.add(made, part)
        return made
    dimensions = (axis, axis + 1)
    found = taken(b, x, axis, np.maximum(taps.indices, 0))
    weights = b.constant(taps.weights, x.shape.dtype)
    scaled = b.multiply(found, b.spread(weights, found.shape.dims, dimensions))
    if taps.indices.min(initial=0) < 0:
        counts = b.spread(b.constant(taps.indices >= 0), found.shape.dims, dimensions)
        scaled = b.select(counts, scaled, b.zeros(scaled.shape))
    return b.reduced("add", scaled, (axis + 1,))


def _one_tap(b: ArrayBuilder, x: Instruction, axis: int, taps: Taps, number: int) -> Instruction:
    indices, weights = taps.indices[:, number], taps.weights[:, number]
    made = taken(b, x, axis, np.maximum(indices, 0))
    if np.any(weights != 1):
        factor = b.constant(weights, x.shape.dtype)
        made = b.multiply(made, b.spread(factor, made.shape.dims, (axis,)))
    if indices.min(initial=0) < 0:
        counts = b.spread(b.constant(indices >= 0), made.shape.dims, (axis,))
        made = b.select(counts, made, b.zeros(made.shape))
    return made


def taken(b: ArrayBuilder, x: Instruction, axis: int, indices: Array) -> Instruction:
    """Return the elements along an axis at indices that are known; the identity is no gather."""
    size = x.shape.dims[axis]
    if isinstance(size, int) and np.array_equal(indices, np.arange(size)):
        return x
    return take(b, x, b.constant(indices.astype(np.int32), S32), axis)


OpenTap = tuple[Instruction, Instruction | None]
"""The index of a source element for each target element, and its weight if that is not 1."""


def sampled_at(b: ArrayBuilder, x: Instruction, axis: int, taps: Sequence[OpenTap]) -> Instruction:
    """Return the weighted sums of taps along an axis, in the element type of `x`."""
    total = None
    for indices, weight in _computed_once(b, taps):
        made = _weighted(b, take(b, x, indices, axis), axis, weight)
        total = made if total is None else b.add(total, made)
    assert total is not None
    return total


def cubic_weights(b: ArrayBuilder, share: Instruction, a: float) -> list[Instruction]:
    """Return the weights of the four source elements around a position, by Keys's kernel.

    Args:
        b: the program.
        share: the position between the second of them (0) and the third (1), `[target]`.
        a: the kernel's parameter.
    """
    rest = b.subtract(b.like(1, share.shape), share)

    def polynomial(x: Instruction, *factors: float) -> Instruction:
        made = b.like(factors[0], x.shape)
        for factor in factors[1:]:
            made = b.binary("add", b.multiply(made, x), factor)
        return made

    def inner(x: Instruction) -> Instruction:
        return polynomial(x, a + 2, -(a + 3), 0, 1)

    def outer(x: Instruction) -> Instruction:
        return polynomial(b.binary("add", x, 1), a, -5 * a, 8 * a, -4 * a)

    return [outer(share), inner(share), inner(rest), outer(rest)]


def spread_back(
    b: ArrayBuilder, gradient: Instruction, axis: int, size: Size, taps: Sequence[OpenTap]
) -> Instruction:
    """Return the gradient of `sampled_at` for its operand, which has `size` elements."""
    total = b.zeros(gradient.shape.with_dim(axis, size))
    for indices, weight in _computed_once(b, taps):
        share = _weighted(b, gradient, axis, weight)
        total = scatter_slices(b, "add", total, indices, share, axis)
    return total


def computed_once(b: ArrayBuilder, *vectors: Instruction) -> list[Instruction]:
    """Return vectors of an axis, which fusion is not to compute again for each element of x."""
    held = b.emit("opt-barrier", b.tuple(*vectors))
    return [b.element_of(held, number) for number in range(len(vectors))]


def _computed_once(b: ArrayBuilder, taps: Sequence[OpenTap]) -> list[OpenTap]:
    vectors = [part for tap in taps for part in tap if part is not None]
    held = dict(zip(vectors, computed_once(b, *vectors), strict=True))
    return [(held[index], None if weight is None else held[weight]) for index, weight in taps]


def _weighted(
    b: ArrayBuilder, x: Instruction, axis: int, weight: Instruction | None
) -> Instruction:
    if weight is None:
        return x
    factor = b.convert_to(weight, x.shape.dtype)
    return b.multiply(x, b.spread(factor, x.shape.dims, (axis,)))


Weigh = Callable[[ArrayBuilder, Sequence[Instruction], Instruction], Instruction]


@record
class Spans:
    """The source elements of each target element along an axis: those from `first` to `last`.

    Attributes:
        first: the first source element, `s32[target]`.
        last: the last one, `s32[target]`; less than the first if there is none.
        count: no span is longer, `s32[]`.
        values: what the weights are computed from: of shape `[target]` or `[]` each.
        weigh: returns the weights (`f32[target]`) of source elements (`s32[target]`) by the values.
    """

    first: Instruction
    last: Instruction
    count: Instruction
    values: Sequence[Instruction]
    weigh: Weigh


def sampled_spans(b: ArrayBuilder, x: Instruction, axis: int, spans: Spans) -> Instruction:
    """Return the weighted sums of spans along an axis: a loop takes one element of each at a time.

    What lies past the end of a span does not count, whatever it is. A span may go on past the end
    of the source, where the last element is repeated.
    """
    dims, target = x.shape.dims, spans.first.shape.dims
    into = x.shape.with_dims((*dims[:axis], *target, *dims[axis + 1 :]))

    def goes_on(b: ArrayBuilder, state: list[Instruction]) -> Instruction:
        return b.compare(state[0], state[-1], direction="LT")

    def step(b: ArrayBuilder, state: list[Instruction]) -> list[Instruction]:
        number, made, x, first, last, *values, count = state
        source = b.add(first, b.spread(number, target))
        weights = spans.weigh(b, values, source)
        source, weights = computed_once(b, source, weights)
        end = b.spread(b.binary("subtract", b.scalar(dims[axis], S32), 1), target)
        term = _weighted(b, take(b, x, b.minimum(source, end), axis), axis, weights)
        counts = b.compare(source, last, direction="LE")
        counts = b.spread(counts, term.shape.dims, (axis,))
        term = b.select(counts, term, b.zeros(term.shape))
        return [b.binary("add", number, 1), b.add(made, term), x, first, last, *values, count]

    parts = (x, spans.first, spans.last, *spans.values, spans.count)
    return b.loop([b.constant(0, S32), b.zeros(into), *parts], goes_on, step)[1]
