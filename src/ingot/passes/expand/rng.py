# SPDX-License-Identifier: Apache-2.0
"""`rng` as random bits of the program's own generator, and that generator as a call.

The generator is Philox with a 128-bit counter. Every `rng` and `rng-get-and-update-state` of a
program has a counter range of its own (the number of the call in the high word), so one draw
does not depend on the order in which ops run. The counters live as long as the executable: the
first execution always draws the same numbers, the next ones go on. The seed is
`INGOT_RANDOM_SEED`.

Uniform floats are the high bits of a word in [0, 1), scaled; normal ones are Box-Muller of two
words; integers are words modulo the range.

Source: xla/service/rng_expander.cc, xla/hlo/builder/lib/prng.cc.
"""

from __future__ import annotations

import math

from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F32, F64, U64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import Expander
from ingot.hlo.shape import Shape
from ingot.passes.expand.counters import Words
from ingot.passes.expand.foreign import foreign_call
from ingot.support.records import record

TARGET = "ingot.rng_state"
_MOST_DRAWN = 1 << 40
"""The advance of the counter for a draw of unknown size: more than any array has elements."""


@record
class RngExpander(Expander):
    """Rewrites `rng` into `rng-get-and-update-state`, `rng-bit-generator` and arithmetic."""

    name = "rng-expander"
    concerns = frozenset({"rng"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the numbers."""
        first, second, *_ = op.operands
        element, dims = op.shape.dtype, op.shape.dims
        normal = op.attributes.distribution == "rng_normal"
        words = _words(build, (*dims, 2) if normal else dims)
        if normal:
            return _normal(words, first, second, op.shape, build)
        if element.is_float:
            return _uniform(words, first, second, op.shape, build)
        return _integers(words, first, second, op.shape, build)


def _words(build: Builder, dims: tuple[int | dim.Dim, ...]) -> Instruction:
    """Return 64 random bits for each element."""
    size = dim.product(dims)
    blocks = (size + 1) // 2 if isinstance(size, int) else _MOST_DRAWN
    counter = build.rng_get_and_update_state(shape=Shape.array(U64, (2,)), delta=max(1, blocks))
    key = build.constant([0], U64)
    state = build.concatenate(key, counter, dimensions=(0,))
    shape = Shape.tuple((Shape.array(U64, (3,)), Shape.array(U64, dims)))
    drawn = build.rng_bit_generator(state, shape=shape, algorithm="rng_philox")
    return build.element_of(drawn, 1)


def _unit(words: Instruction, wide: DType, build: Builder) -> Instruction:
    """Return numbers in [0, 1) from the high bits of words."""
    on = Words(build, words.shape.dims)
    bits = wide.mantissa + 1
    high = build.convert_to(on.shifted_right(words, 64 - bits), wide)
    return build.multiply(high, build.full(2.0**-bits, high.shape))


def _wide(element: DType) -> DType:
    return F64 if element is F64 else F32


def _uniform(
    words: Instruction, low: Instruction, high: Instruction, shape: Shape, build: Builder
) -> Instruction:
    wide = _wide(shape.dtype)
    unit = _unit(words, wide, build)
    start = build.broadcast_to(build.convert_to(low, wide), shape.dims, ())
    limit = build.broadcast_to(build.convert_to(high, wide), shape.dims, ())
    value = build.add(build.multiply(unit, build.subtract(limit, start)), start)
    return build.convert_to(value, shape.dtype)


def _normal(
    words: Instruction, mean: Instruction, deviation: Instruction, shape: Shape, build: Builder
) -> Instruction:
    wide, dims = _wide(shape.dtype), shape.dims
    both = _unit(words, wide, build)
    box = tuple((0, size, 1) for size in dims)
    first, second = (
        build.reshape_to(build.slice(both, slice=(*box, (n, n + 1, 1))), dims) for n in (0, 1)
    )
    like = first.shape
    # 1 - u is in (0, 1]: its logarithm is finite.
    length = build.log(build.subtract(build.full(1.0, like), first))
    radius = build.sqrt(build.multiply(build.full(-2.0, like), length))
    angle = build.multiply(build.full(2 * math.pi, like), second)
    unit = build.multiply(radius, build.cosine(angle))
    scale = build.broadcast_to(build.convert_to(deviation, wide), dims, ())
    middle = build.broadcast_to(build.convert_to(mean, wide), dims, ())
    return build.convert_to(build.add(build.multiply(unit, scale), middle), shape.dtype)


def _integers(
    words: Instruction, low: Instruction, high: Instruction, shape: Shape, build: Builder
) -> Instruction:
    """Return integers from `low` to below `high`; `low` where there are none."""
    start, limit = (build.convert_to(value, U64) for value in (low, high))
    is_empty = build.compare(low, high, direction="GE")
    width = build.select(is_empty, build.full(1, start.shape), build.subtract(limit, start))
    width = build.broadcast_to(width, shape.dims, ())
    rest = build.remainder(words, width)
    value = build.add(rest, build.broadcast_to(start, shape.dims, ()))
    return build.convert_to(value, shape.dtype)


@record
class RngStateExpander(Expander):
    """Rewrites `rng-get-and-update-state` into a call that keeps the op's counter."""

    name = "rng-state-expander"
    concerns = frozenset({"rng-get-and-update-state"})

    def expand(self, op: Instruction, build: Builder, module: Module) -> Instruction:
        """Return the call; the program that it ends up in numbers it (`CallSite.number`)."""
        config = {"delta": op.attributes.delta}
        return foreign_call(build, TARGET, (), op.shape, config)
