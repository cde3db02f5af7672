# SPDX-License-Identifier: Apache-2.0
"""The factors of a transform's length, each a pass over a block of sequences.

Below the stages and their steps: both ask which lengths have small factors alone.
"""

from __future__ import annotations

from functools import lru_cache

_CACHE_SIZE = 64
"""Lengths whose factors are kept: a program asks several times for those of few lengths."""

RADICES = (8, 4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
"""Factors that passes take off, in the order in which they are tried."""


@lru_cache(_CACHE_SIZE)
def factors(length: int, radices: tuple[int, ...] = RADICES) -> tuple[int, ...] | None:
    """Return the radices of the passes, out of those given; None if a prime factor is too large.

    Raises:
        ValueError: the length is not positive, so that no radices have it as their product.
    """
    if length < 1:
        raise ValueError(f"no transform has the length {length}")
    found: list[int] = []
    rest = length
    for radix in radices:
        # Two fours are better than eight and two.
        while rest % radix == 0 and (radix != 8 or rest % 32 == 0 or rest % 16):
            found.append(radix)
            rest //= radix
    return tuple(found) if rest == 1 else None
