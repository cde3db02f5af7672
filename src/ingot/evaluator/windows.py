# SPDX-License-Identifier: Apache-2.0
"""Windows: the padded array that they slide over, and the elements that they read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot.evaluator.registry import Array
from ingot.hlo.window import WindowDimension


def padded(value: Array, dimensions: Sequence[WindowDimension], fill: Array) -> Array:
    """Return `value` with gaps between elements and borders; negative borders cut elements off."""
    sizes: list[int] = []
    inner: list[slice] = []
    cropped: list[slice] = []
    for size, one in zip(value.shape, dimensions, strict=True):
        spread = one.spread(int(size))
        begin = max(one.low, 0)
        total = begin + spread + max(one.high, 0)
        sizes.append(total)
        inner.append(slice(begin, begin + spread, one.base_dilation))
        cropped.append(slice(max(-one.low, 0), max(0, total - max(-one.high, 0))))
    bordered = np.full(sizes, fill, value.dtype)
    bordered[tuple(inner)] = value
    return bordered[tuple(cropped)]


def window_elements(
    dimensions: Sequence[WindowDimension], index: Sequence[int], counts: Sequence[int]
) -> tuple[slice, ...]:
    """Return the slices of the padded array that hold element `index` of every window."""
    return tuple(
        slice(
            number * one.window_dilation,
            number * one.window_dilation + (count - 1) * one.stride + 1 if count else 0,
            one.stride,
        )
        for number, one, count in zip(index, dimensions, counts, strict=True)
    )
