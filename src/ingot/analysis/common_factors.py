# SPDX-License-Identifier: Apache-2.0
"""Runs of dimensions that a reshape makes of each other.

Source: xla/util.h (CommonFactors).

Example:
    >>> common_factors((2, 3, 5), (6, 5))
    [((0, 2), (0, 1)), ((2, 3), (1, 2))]
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.hlo.dim import Dim


def common_factors(
    left: Sequence[int | Dim], right: Sequence[int | Dim]
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the finest cut of both dimension lists into runs of equal product."""
    runs: list[tuple[tuple[int, int], tuple[int, int]]] = []
    left_start = right_start = 0
    for left_end, right_end in _cuts(left, right):
        runs.append(((left_start, left_end), (right_start, right_end)))
        left_start, right_start = left_end, right_end
    if left_start < len(left) or right_start < len(right):
        runs.append(((left_start, len(left)), (right_start, len(right))))
    return runs


def _cuts(left: Sequence[int | Dim], right: Sequence[int | Dim]) -> list[tuple[int, int]]:
    """Return the positions where the running products agree, in increasing order."""
    if 0 in left or 0 in right:
        return []
    products: dict[str, list[int]] = {}
    running: int | Dim = 1
    for position, size in enumerate(right, 1):
        running = running * size
        products.setdefault(str(running), []).append(position)
    cuts: list[tuple[int, int]] = []
    running = 1
    previous = 0
    for position, size in enumerate(left, 1):
        running = running * size
        positions = [p for p in products.get(str(running), []) if p > previous]
        if positions:
            previous = positions[0]
            cuts.append((position, previous))
    return cuts
