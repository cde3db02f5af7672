# SPDX-License-Identifier: Apache-2.0
"""What the library of shared code has: facts that passes ask before there are kernels.

Strategies (`kernel.contraction.product`, `kernel.convolution`) read them as well, so that both mean
the same code.
"""

from __future__ import annotations

from functools import cache

from ingot.hlo.dtype import F32, F64
from ingot.llvm.target import CPU_LEVELS, TargetSpec

ELEMENTS = (F32, F64)
"""Element types of the convolutions that have drivers."""

MIN_VECTOR_BITS = 256
"""From here on rows end in masked vectors."""

VECTORS = 2
"""Vectors per row of the register blocks of most plain products."""


@cache
def driver_vector_bits() -> tuple[int, ...]:
    """Return the lengths of the vectors that there are drivers for."""
    lengths = {TargetSpec.at_level(level).vector_bits for level in CPU_LEVELS}
    return tuple(sorted(bits for bits in lengths if bits >= MIN_VECTOR_BITS))
