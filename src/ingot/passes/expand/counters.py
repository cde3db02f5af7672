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


class Words:
    """Arithmetic on unsigned words of one shape, with Python ints as constants."""

    def __init__(self, build: Builder, dims: tuple[int | Dim, ...]) -> None:
        """Work on arrays of `dims`."""
        self.build = build
        self.dims = dims

    def constant(self, value: int, bits: int) -> Instruction:
        """Return `value` modulo 2^bits, broadcast."""
        element = U32 if bits == 32 else U64
        return self.build.full(value & ((1 << bits) - 1), Shape.array(element, self.dims))

    def spread(self, scalar: Instruction) -> Instruction:
        """Return a scalar, broadcast."""
        return self.build.broadcast_to(scalar, self.dims)

    def like(self, word: Instruction, value: int) -> Instruction:
        """Return `value` in the type of `word`, broadcast."""
        return self.constant(value, word.shape.dtype.bits)

    def plus(self, word: Instruction, value: int) -> Instruction:
        """Return word + value."""
        return self.build.add(word, self.like(word, value))

    def shifted_left(self, word: Instruction, count: int) -> Instruction:
        """Return word << count."""
        return self.build.shift_left(word, self.like(word, count))

    def shifted_right(self, word: Instruction, count: int) -> Instruction:
        """Return word >> count with zeros."""
        return self.build.shift_right_logical(word, self.like(word, count))

    def masked(self, word: Instruction, mask: int) -> Instruction:
        """Return word & mask."""
        return self.build.and_(word, self.like(word, mask))

    def low(self, wide: Instruction) -> Instruction:
        """Return the low 32 bits of 64."""
        return self.build.convert_to(wide, U32)

    def high(self, wide: Instruction) -> Instruction:
        """Return the high 32 bits of 64."""
        return self.low(self.shifted_right(wide, 32))

    def joined(self, low: Instruction, high: Instruction) -> Instruction:
        """Return the 64 bits of two 32-bit words."""
        upper = self.shifted_left(self.build.convert_to(high, U64), 32)
        return self.build.or_(self.build.convert_to(low, U64), upper)


def size_value(build: Builder, size: int | Dim) -> Instruction:
    """Return a size as a u64 scalar; a symbolic one is the last index of an iota one longer."""
    if isinstance(size, int):
        return build.constant(size, U64)
    counts = build.iota(shape=Shape.array(U64, (size + 1,)), iota_dimension=0)
    return build.reshape_to(build.slice(counts, slice=((size, size + 1, 1),)), ())
