# SPDX-License-Identifier: Apache-2.0
"""Counters and wide words for random bits: indices, sizes and 32-bit halves as HLO.

Everything is elementwise over iotas, so that random bits fuse with their users, and sizes may
be symbolic.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import U32, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

WORD = (1 << 32) - 1
"""The bits of a word."""


def halves(build: Builder, wide: Instruction) -> tuple[Instruction, Instruction]:
    """Return the low and the high words (u32) of u64 numbers."""
    high = build.shift_right_logical(wide, 32)
    return build.convert_to(wide, U32), build.convert_to(high, U32)


def joined(build: Builder, low: Instruction, high: Instruction) -> Instruction:
    """Return the u64 numbers of two words."""
    upper = build.shift_left(build.convert_to(high, U64), 32)
    return build.or_(build.convert_to(low, U64), upper)


def size_value(build: Builder, size: int | Dim) -> Instruction:
    """Return a size as a u64 scalar; a symbolic one is the last index of an iota one longer."""
    if isinstance(size, int):
        return build.constant(size, U64)
    counts = build.iota(shape=Shape.array(U64, (size + 1,)), iota_dimension=0)
    return build.reshape_to(build.slice(counts, slice=((size, size + 1, 1),)), ())
