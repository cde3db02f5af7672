# SPDX-License-Identifier: Apache-2.0
"""Upper bounds of symbolic sizes that vary little: `greatest_value(size)`.

The remainder of a window of stride k is `n - k * floordiv(n, k)`, which is symbolic and below k.
HLO's windows need numbers as padding, so a rule pads by the bound, and cuts the result.

Example:
    >>> from ingot.hlo.dim import Dim
    >>> n = Dim.symbol("n")
    >>> greatest_value(n + 3 - 2 * (n // 2)), greatest_value(n)
    (4, None)
"""

from __future__ import annotations

from math import gcd

from ingot.frontends.torch.fx.sizes import Size
from ingot.hlo import dim as dim_math

_MOST_STEPS = 32
"""The most rounded quotients in one size."""


def greatest_value(size: Size) -> int | None:
    """Return a number that a size never exceeds; None if it grows with a named size.

    `k * floordiv(x, k)` is `x - r` with `0 <= r < k`: after this replacement, a size that only
    rounds has no names. It is made of a multiple of the size where a factor is not one of `k`:
    `n // 2 - 2 * (n // 4)` is 0 or 1.
    """
    most, scale = 0, 1
    for _ in range(_MOST_STEPS):
        if isinstance(size, int):
            return (size + most) // scale
        for atoms, factor in size.terms:
            if len(atoms) != 1 or not isinstance(atoms[0].right, int) or atoms[0].right <= 0:
                continue
            left, divisor = atoms[0].left, atoms[0].right
            if atoms[0].function == "mod":
                size = size - factor * dim_math.mod(left, divisor)
                most += max(factor, 0) * (divisor - 1)
                break
            if atoms[0].function == "floordiv":
                more = divisor // gcd(factor, divisor)
                size, most, scale, factor = size * more, most * more, scale * more, factor * more
                times = factor // divisor
                size = size - factor * dim_math.floordiv(left, divisor) + times * left
                most += max(-times, 0) * (divisor - 1)
                break
        else:
            return None
    return None
