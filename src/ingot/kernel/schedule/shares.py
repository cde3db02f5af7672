# SPDX-License-Identifier: Apache-2.0
"""How large the shares of a kernel are that threads take one after the other.

A kernel of little work is one share: to wake another thread would cost more. One of more work has
many, of some microseconds each and an even number of them, so that two threads end together; only
where work is plenty are shares larger. Where a size is not known shares are of that large kind.

Invariant: shares depend on sizes alone, never on the number of threads.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.dim import Dim

LARGE_SHARE = 400_000
"""Weighted element ops, some twenty microseconds: kernels of no more are not shared out."""

SHARE = LARGE_SHARE // 2
"""Weighted element ops of a share at least."""

IN_ORDER = 1 << 62
"""Elements of an axis that one unit takes of what runs in order: all that there may be."""

MANY_SHARES = 32
"""Kernels that would have more shares have larger ones."""


def share_of(total: int | Dim) -> int:
    """Return the weighted element ops of a share of a kernel that has `total`."""
    if isinstance(total, Dim) or total <= LARGE_SHARE:
        return LARGE_SHARE
    return min(max(-(-total // MANY_SHARES), SHARE), LARGE_SHARE)


def block_of(extent: int | Dim, work: int, share: int, step: int) -> int:
    """Return how many elements of an axis, each of so much work, one unit takes: whole steps."""
    most = max(step, share // max(work, 1) // step * step)
    if isinstance(extent, Dim) or extent <= most:
        return most
    count = _even(-(-extent // most))
    return -(-extent // (count * step)) * step


def grain_of(units: int | Dim, work: int | Dim, share: int) -> int | Dim:
    """Return how many units, each of so much work, are a share."""
    if isinstance(units, Dim) or isinstance(work, Dim):
        return dim.maximum(dim.floordiv(share, dim.maximum(work, 1)), 1)
    count = _even(-(-units * work // share))
    return max(-(-units // max(count, 1)), 1)


def _even(count: int) -> int:
    """Return a number of shares that two threads may have the same number of."""
    return count + (count & 1) if count > 1 else count
