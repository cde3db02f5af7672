# SPDX-License-Identifier: Apache-2.0
"""The sizes of shares: the parts of a kernel that threads take one after the other.

A kernel of little work is one share: waking another thread would cost more. A larger kernel has an
even number of shares of some microseconds each, so that two threads end together. Very large
kernels and those of unknown size have larger shares.

Invariant: shares depend on sizes alone, never on the number of threads.
"""

from __future__ import annotations

from ingot.hlo import dim
from ingot.hlo.dim import Dim

LARGE_SHARE = 400_000
"""Weighted element ops, about twenty microseconds: smaller kernels are not divided."""

SHARE = LARGE_SHARE // 2
"""Weighted element ops of a share at least."""

IN_ORDER = 1 << 62
"""Elements of an axis per unit where units run in order: more than any axis has."""

MANY_SHARES = 32
"""Kernels that would have more shares have larger ones."""


def share_of(total: int | Dim) -> int:
    """Return the weighted element ops of a share of a kernel that has `total`."""
    if isinstance(total, Dim) or total <= LARGE_SHARE:
        return LARGE_SHARE
    return min(max(-(-total // MANY_SHARES), SHARE), LARGE_SHARE)


def block_of(extent: int | Dim, work: int, share: int, step: int) -> int:
    """Return the elements of an axis per unit, a multiple of `step`; each is `work`."""
    most = max(step, share // max(work, 1) // step * step)
    if isinstance(extent, Dim) or extent <= most:
        return most
    count = _even(-(-extent // most))
    return -(-extent // (count * step)) * step


def grain_of(units: int | Dim, work: int | Dim, share: int) -> int | Dim:
    """Return the units in a share; each is `work`."""
    if isinstance(units, Dim) or isinstance(work, Dim):
        return dim.maximum(dim.floordiv(share, dim.maximum(work, 1)), 1)
    count = _even(-(-units * work // share))
    return max(-(-units // max(count, 1)), 1)


def _even(count: int) -> int:
    """Return a number of shares, rounded up so that two threads get equally many."""
    return count + (count & 1) if count > 1 else count
