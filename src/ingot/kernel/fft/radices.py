# SPDX-License-Identifier: Apache-2.0
"""The radices of the passes of a transform: factors of its length that a pass each takes off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

_CACHE_SIZE = 64
"""Lengths whose factors are kept: a program asks several times for those of few lengths."""

RADICES = (8, 4, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
"""Factors that passes take off, in the order in which they are tried."""

COMPOSITES = (16, 15, 12, 10, 9, 6)
"""Radices that save a pass beside two of `RADICES`."""

PASS_OPS = 16
"""Instructions of a pass for each element beside its butterfly: loads, stores and twiddles."""

BUTTERFLY_OPS: Mapping[int, float] = {
    **{2: 2, 4: 4, 6: 6.7, 8: 7.5, 9: 11.1, 10: 9.2, 12: 8.7, 15: 11.9, 16: 25},
    **{prime: prime + 2.5 for prime in RADICES if prime % 2},
}
"""Instructions of a butterfly for each element. Those of 16 count what spills of 32 registers: with
10.3, as it has without, two passes of 8 and 16 took 1.1 to 1.2 times as long as three of 8, 4 and
4. With the composites 144 took 0.89 of the time, 384 0.92, 300 0.94; with AVX2, whose registers
hold none of them, 192 0.86, 720 0.91, 300 1.08 (batches of 500, Sapphire Rapids, one thread,
2026-11-30)."""


@lru_cache(_CACHE_SIZE)
def factors(length: int, radices: tuple[int, ...] = RADICES) -> tuple[int, ...] | None:
    """Return factors out of those given, the first as often as they divide; None if some are left.

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


@lru_cache(_CACHE_SIZE)
def pass_radices(length: int) -> tuple[int, ...] | None:
    """Return the radices of the passes that take the fewest instructions, the largest first.

    None if a prime factor of the length is too large, as for `factors`.
    """
    if factors(length) is None:
        return None
    best: dict[int, tuple[float, tuple[int, ...]]] = {1: (0.0, ())}
    lesser = [low for low in range(1, math.isqrt(length) + 1) if length % low == 0]
    for divisor in sorted({*lesser, *(length // low for low in lesser)} - {1}):
        found = [
            (best[rest][0] + PASS_OPS + BUTTERFLY_OPS[radix], (*best[rest][1], radix))
            for radix in (*RADICES, *COMPOSITES)
            if divisor % radix == 0 and (rest := divisor // radix) in best
        ]
        best[divisor] = min(found)
    return tuple(sorted(best[length][1], reverse=True))
