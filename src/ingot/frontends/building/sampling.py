# SPDX-License-Identifier: Apache-2.0
"""Resampling along one axis: each element of the result is a weighted sum of a few of the source.

Which ones (the taps) and their weights are known at compile time. The gradient has the same form,
with the taps transposed, so that no two threads write one element.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.frontends.building.indexing import take
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction

Array = np.ndarray[Any, np.dtype[Any]]

_MOST_UNROLLED = 4
"""Taps up to which a sum is written out; more are one dimension that is reduced."""


@dataclass(frozen=True, slots=True)
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
        """Return the taps of the gradient, whose target is the source of `size` elements."""
        targets = np.broadcast_to(np.arange(len(self.indices))[:, None], self.indices.shape)
        used = (self.indices >= 0) & (self.weights != 0)
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
    places = (axis, axis + 1)
    found = taken(b, x, axis, np.maximum(taps.indices, 0))
    weights = b.constant(taps.weights, x.shape.dtype)
    scaled = b.multiply(found, b.spread(weights, found.shape.dims, places))
    if taps.indices.min(initial=0) < 0:
        counts = b.spread(b.constant(taps.indices >= 0), found.shape.dims, places)
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
