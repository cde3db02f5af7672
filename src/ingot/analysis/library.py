# SPDX-License-Identifier: Apache-2.0
"""Contents of the library of shared code, for passes that run before there are kernels.

Strategies (`kernel.product.product`, `kernel.convolution`) read the same facts, so that both
agree.
"""

from __future__ import annotations

from functools import cache

from ingot.hlo.dtype import F32, F64
from ingot.llvm.target import CPU_LEVELS, TargetSpec

ELEMENTS = (F32, F64)
"""Element types of the convolutions that have drivers."""

MIN_VECTOR_BITS = 256
"""Bits of the shortest vectors that drivers exist for."""

VECTORS = 2
"""Vectors per row of the register blocks of most plain products."""


@cache
def driver_vector_bits() -> tuple[int, ...]:
    """Return the vector lengths, in bits, that drivers exist for."""
    lengths = {TargetSpec.at_level(level).vector_bits for level in CPU_LEVELS}
    return tuple(sorted(bits for bits in lengths if bits >= MIN_VECTOR_BITS))
