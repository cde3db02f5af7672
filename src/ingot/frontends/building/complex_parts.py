# SPDX-License-Identifier: Apache-2.0
"""Complex numbers as pairs of real ones, the last dimension, and back.

Example: `pairs_of(b, x)` of `c64[3]` is `f32[3,2]`: the real parts, then the imaginary ones.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.instruction import Instruction


def pairs_of(b: ArrayBuilder, x: Instruction) -> Instruction:
    """Return complex numbers with a last dimension of 2: real and imaginary parts."""
    lines = (*x.shape.dims, 1)
    parts = [b.reshape_to(part, lines) for part in (b.real(x), b.imag(x))]
    return b.concatenate(*parts, dimensions=(len(lines) - 1,))


def complex_of(b: ArrayBuilder, pairs: Instruction) -> Instruction:
    """Return f32 or f64 pairs, the last dimension, as complex numbers."""
    dims = pairs.shape.dims[:-1]
    sides = (b.sliced(pairs, len(dims), n, n + 1) for n in range(2))
    return b.complex(*(b.reshape_to(side, dims) for side in sides))
