# SPDX-License-Identifier: Apache-2.0
"""Compares results of two frameworks' compilers that round differently.

Where a small change of the inputs changes the reference's own result by more than a part of the
tolerance, the program is no measure of anybody's precision, and that result is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

TOLERANCE = 2e-3
"""Relative to the largest number of an array."""


def difference_of_leaves(got: Sequence[Any], want: Sequence[Any], near: Sequence[Any]) -> str:
    """Return how the first array that differs does so, or ""; see `difference_of_leaf`."""
    for number, (mine, other, shaken) in enumerate(zip(got, want, near, strict=True)):
        found = difference_of_leaf(mine, other, shaken)
        if found:
            return f"leaf {number}: {found}"
    return ""


def difference_of_leaf(mine: Any, other: Any, shaken: Any) -> str:
    """Return how an array differs from the reference, or "".

    Args:
        mine: what Ingot gives.
        other: what the reference gives.
        shaken: what the reference gives on inputs that differ in the last places.
    """
    if (mine.dtype, mine.shape) != (other.dtype, other.shape):
        return f"is {mine.dtype}{mine.shape}, not {other.dtype}{other.shape}"
    wide = [np.asarray(value).astype(np.float64) for value in (mine, other, shaken)]
    with np.errstate(all="ignore"):
        size = np.max(np.abs(np.where(np.isfinite(wide[1]), wide[1], 0)), initial=1.0)
        shakes = ~np.isclose(wide[1], wide[2], rtol=0, atol=TOLERANCE * size / 8, equal_nan=True)
        near = np.isclose(wide[0], wide[1], rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True)
    if shakes.any() or near.all():
        return ""
    index = tuple(map(int, np.argwhere(~near)[0]))
    return f"at {index}: {mine[index]} not {other[index]}, {int((~near).sum())} of {mine.size}"
