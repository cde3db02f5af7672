# SPDX-License-Identifier: Apache-2.0
"""Random numbers as random bits, and random bits as integer arithmetic or a call.

The program's own generator is Philox with a 128-bit counter. Every `rng` and
`rng-get-and-update-state` of a program has a counter range of its own (the number of the call in
the high word), so one draw does not depend on the order in which ops run. The counters live as long
as the executable: the first execution always draws the same numbers, the next ones go on. The seed
is `INGOT_RANDOM_SEED`. Uniform floats are the high bits of a word in [0, 1), scaled; normal ones
are Box-Muller of two words; integers are words modulo the range.

`rng-bit-generator` gives XLA's exact bits: Philox 4x32-10 or Threefry 2x32-20. Each element of the
result computes the block of words that it belongs to and picks its own: more arithmetic than a
block at a time, but no intermediate array, whole vectors, and any consumer fuses with it.

Source: xla/hlo/builder/lib/prng.cc, xla/service/rng_expander.cc, rng_bit_generator_expander.cc.
"""

from __future__ import annotations

import math

from ingot.hlo import dim
from ingot.hlo.builder import Builder
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, F64, U32, U64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.opset.random import bits_shape
from ingot.hlo.rewrite.op_pass import expander
from ingot.hlo.shape import Shape
from ingot.passes.expand.counters import Words, size_value
from ingot.passes.expand.foreign import foreign_call
from ingot.support.diagnostics import UnsupportedError

TARGET = "ingot.rng_state"
_MOST_DRAWN = 1 << 40
"""The advance of the counter for a draw of unknown size: more than any array has elements."""


@expander("rng-expander", "rng")
def rng_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `rng` into `rng-get-and-update-state`, `rng-bit-generator` and arithmetic."""
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


@expander("rng-state-expander", "rng-get-and-update-state")
def rng_state_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `rng-get-and-update-state` into a call that keeps the op's counter."""
    config = {"delta": op.attributes.delta}
    return foreign_call(build, TARGET, (), op.shape, config)


@expander("rng-bit-generator-expander", "rng-bit-generator", ensures=frozenset({"no-rng-bits"}))
def rng_bit_generator_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `rng-bit-generator`; the default algorithm is Philox, as on XLA:CPU and XLA:GPU."""
    return _expanded(op, build)


def _expanded(generator: Instruction, build: Builder) -> Instruction:
    (state,) = generator.operands
    words = _state_words(state, build)
    result = bits_shape(generator.shape)
    wide = result.dtype.bits > 32
    if generator.attributes.algorithm == "rng_three_fry":
        counter, bits = _threefry(words, result.dims, wide, build)
        after = [counter]
    else:
        after, bits = _philox(words, result.dims, wide, build)
    parts = [build.reshape_to(word, (1,)) for word in (words[0], *after)]
    next_state = build.concatenate(*parts, dimensions=(0,))
    made = _as_element(bits, result, build)
    if not generator.shape.is_tuple:
        return made
    return build.tuple(_as_state(next_state, state.shape, build), made)


def _state_words(state: Instruction, build: Builder) -> list[Instruction]:
    """Return the 64-bit words of the state: the key, then the counter."""
    if state.shape.dtype is U32:
        count = state.shape.static_dims[0] // 2
        pairs = build.reshape_to(state, (count, 2))
        state = build.bitcast_convert(pairs, shape=Shape.array(U64, (count,)))
    words = [
        build.slice(state, slice=((number, number + 1, 1),))
        for number in range(state.shape.static_dims[0])
    ]
    return [build.reshape_to(word, ()) for word in words]


def _as_state(words: Instruction, shape: Shape, build: Builder) -> Instruction:
    if shape.dtype is U32:
        count = words.shape.static_dims[0]
        words = build.bitcast_convert(words, shape=Shape.array(U32, (count, 2)))
    return build.reshape_to(words, shape.dims)


def _as_element(bits: Instruction, shape: Shape, build: Builder) -> Instruction:
    """Return the low bits of each word as an element of the result's type."""
    element = shape.dtype
    unsigned = build.convert_to(bits, f"u{element.bits}")
    if element is unsigned.shape.dtype:
        return unsigned
    return build.bitcast_convert(unsigned, shape=shape)


def _philox(
    state: list[Instruction], dims: tuple[int | Dim, ...], wide: bool, build: Builder
) -> tuple[list[Instruction], Instruction]:
    """Return the counter words after, and u32 or (wide) u64 bits of shape `dims`."""
    key, low, *rest = state
    # XLA takes the key as the counter's high word of a state that has none.
    high = rest[0] if rest else key
    size = dim.product(dims)
    on = Words(build, (size,))
    index = build.iota(shape=Shape.array(U64, (size,)), iota_dimension=0)
    per_block = 1 if wide else 2  # log2 of elements in a block of four words
    offset = on.shifted_right(index, per_block)
    lows = build.add(on.spread(low), offset)
    carry = build.convert_to(build.compare(lows, offset, direction="LT"), U64)
    highs = build.add(on.spread(high), carry)
    words = [on.low(lows), on.high(lows), on.low(highs), on.high(highs)]
    scalar = Words(build, ())
    keys = (scalar.low(key), scalar.high(key))
    for number in range(10):
        words = _philox_round(words, keys, number, on)
    lane = on.masked(index, (1 << per_block) - 1)
    choices = [on.joined(words[0], words[1]), on.joined(words[2], words[3])] if wide else words
    bits = choices[-1]
    for number in reversed(range(len(choices) - 1)):
        is_it = build.compare(lane, on.like(lane, number), direction="EQ")
        bits = build.select(is_it, choices[number], bits)
    blocks = _blocks(size, per_block, build)
    after_low = build.add(low, blocks)
    overflow = build.convert_to(build.compare(after_low, blocks, direction="LT"), U64)
    after = [after_low, build.add(high, overflow)][: len(state) - 1]
    return after, build.reshape_to(bits, dims)


def _blocks(size: int | Dim, per_block: int, build: Builder) -> Instruction:
    """Return how many blocks of 2^per_block elements hold `size` elements."""
    scalar = Words(build, ())
    whole = scalar.plus(size_value(build, size), (1 << per_block) - 1)
    return scalar.shifted_right(whole, per_block)


def _philox_round(
    words: list[Instruction], keys: tuple[Instruction, Instruction], number: int, on: Words
) -> list[Instruction]:
    scalar = Words(on.build, ())
    first = on.spread(scalar.plus(keys[0], number * 0x9E3779B9))
    second = on.spread(scalar.plus(keys[1], number * 0xBB67AE85))
    left = _wide_product(words[0], 0xD2511F53, on)
    right = _wide_product(words[2], 0xCD9E8D57, on)
    xor = on.build.xor
    return [
        xor(xor(on.high(right), words[1]), first),
        on.low(right),
        xor(xor(on.high(left), words[3]), second),
        on.low(left),
    ]


def _wide_product(word: Instruction, factor: int, on: Words) -> Instruction:
    wide = on.build.convert_to(word, U64)
    return on.build.multiply(wide, on.like(wide, factor))


def _threefry(
    state: list[Instruction], dims: tuple[int | Dim, ...], wide: bool, build: Builder
) -> tuple[Instruction, Instruction]:
    """Return the counter after, and u32 or (wide) u64 bits of shape `dims`."""
    on = Words(build, dims)
    dimension = None if wide or not dims else _split_dim(dims)
    half = [(size + 1) // 2 if n == dimension else size for n, size in enumerate(dims)]
    index = on.constant(0, 64)
    stride: int | Dim = 1
    for number in reversed(range(len(dims))):
        along = build.iota(shape=Shape.array(U64, dims), iota_dimension=number)
        along = on.shifted_right(along, 1) if number == dimension else along
        index = build.add(index, build.multiply(along, on.spread(size_value(build, stride))))
        stride = stride * half[number]
    counters = build.add(on.spread(state[1]), index)
    first, second = _threefry_block(state[0], counters, on)
    after = build.add(state[1], size_value(build, stride))
    if wide:
        return after, on.joined(first, second)
    if dimension is None:
        return after, first
    along = build.iota(shape=Shape.array(U64, dims), iota_dimension=dimension)
    odd = build.compare(on.masked(along, 1), on.constant(1, 64), direction="EQ")
    return after, build.select(odd, second, first)


def _split_dim(dims: tuple[int | Dim, ...]) -> int:
    """Return the dimension that XLA halves: the first even one, else the first greatest."""
    for dimension, size in enumerate(dims):
        if dim.known_multiple_of(size, 2):
            return dimension
        if isinstance(size, Dim):
            raise UnsupportedError(
                f"rng_three_fry of symbolic size {size}: its bits depend on whether it is even",
                hint="use rng_philox, or make the size static",
            )
    sizes = [size for size in dims if isinstance(size, int)]
    return sizes.index(max(sizes))


def _threefry_block(
    key: Instruction, counters: Instruction, on: Words
) -> tuple[Instruction, Instruction]:
    """Return the two words of 20 rounds."""
    scalar = Words(on.build, ())
    add, xor = on.build.add, on.build.xor
    keys = [scalar.low(key), scalar.high(key)]
    keys.append(xor(xor(keys[0], keys[1]), scalar.constant(0x1BD11BDA, 32)))
    x = add(on.low(counters), on.spread(keys[0]))
    y = add(on.high(counters), on.spread(keys[1]))
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = add(x, y)
            rotated = on.build.or_(on.shifted_left(y, rotation), on.shifted_right(y, 32 - rotation))
            y = xor(rotated, x)
        x = add(x, on.spread(keys[(group + 1) % 3]))
        y = add(y, on.spread(scalar.plus(keys[(group + 2) % 3], group + 1)))
    return x, y
