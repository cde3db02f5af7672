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
from ingot.passes.expand.counters import WORD, halves, joined, size_value
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
    bits = wide.mantissa + 1
    high = build.convert_to(build.shift_right_logical(words, 64 - bits), wide)
    return build.multiply(high, 2.0**-bits)


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
    halves = (build.slice_along(both, len(dims), n, n + 1) for n in (0, 1))
    first, second = (build.reshape_to(half, dims) for half in halves)
    # 1 - u is in (0, 1]: its logarithm is finite.
    length = build.log(build.subtract(1.0, first))
    radius = build.sqrt(build.multiply(-2.0, length))
    angle = build.multiply(2 * math.pi, second)
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
    width = build.select(is_empty, 1, build.subtract(limit, start))
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
    index = build.index_along((size,), 0, U64)
    per_block = 1 if wide else 2  # log2 of elements in a block of four words
    offset = build.shift_right_logical(index, per_block)
    lows = build.add(build.broadcast_to(low, (size,)), offset)
    carry = build.convert_to(build.compare(lows, offset, direction="LT"), U64)
    highs = build.add(build.broadcast_to(high, (size,)), carry)
    words = [*halves(build, lows), *halves(build, highs)]
    keys = halves(build, key)
    for number in range(10):
        words = _philox_round(build, words, keys, number)
    lane = build.and_(index, (1 << per_block) - 1)
    choices = [joined(build, *words[:2]), joined(build, *words[2:])] if wide else words
    bits = choices[-1]
    for number in reversed(range(len(choices) - 1)):
        is_it = build.compare(lane, number, direction="EQ")
        bits = build.select(is_it, choices[number], bits)
    blocks = _blocks(size, per_block, build)
    after_low = build.add(low, blocks)
    overflow = build.convert_to(build.compare(after_low, blocks, direction="LT"), U64)
    after = [after_low, build.add(high, overflow)][: len(state) - 1]
    return after, build.reshape_to(bits, dims)


def _blocks(size: int | Dim, per_block: int, build: Builder) -> Instruction:
    """Return how many blocks of 2^per_block elements hold `size` elements."""
    whole = build.add(size_value(build, size), (1 << per_block) - 1)
    return build.shift_right_logical(whole, per_block)


def _philox_round(
    build: Builder, words: list[Instruction], keys: tuple[Instruction, Instruction], number: int
) -> list[Instruction]:
    first, second = (
        build.broadcast_to(build.add(key, number * step & WORD), words[0].shape.dims)
        for key, step in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)
    )
    (left_low, left_high), (right_low, right_high) = (
        halves(build, build.multiply(build.convert_to(word, U64), factor))
        for word, factor in ((words[0], 0xD2511F53), (words[2], 0xCD9E8D57))
    )
    xor = build.xor
    return [
        xor(xor(right_high, words[1]), first),
        right_low,
        xor(xor(left_high, words[3]), second),
        left_low,
    ]


def _threefry(
    state: list[Instruction], dims: tuple[int | Dim, ...], wide: bool, build: Builder
) -> tuple[Instruction, Instruction]:
    """Return the counter after, and u32 or (wide) u64 bits of shape `dims`."""
    dimension = None if wide or not dims else _split_dim(dims)
    half = [(size + 1) // 2 if n == dimension else size for n, size in enumerate(dims)]
    index = build.full(0, Shape.array(U64, dims))
    stride: int | Dim = 1
    for number in reversed(range(len(dims))):
        along = build.index_along(dims, number, U64)
        along = build.shift_right_logical(along, 1) if number == dimension else along
        step = build.broadcast_to(size_value(build, stride), dims)
        index = build.add(index, build.multiply(along, step))
        stride = stride * half[number]
    counters = build.add(build.broadcast_to(state[1], dims), index)
    first, second = _threefry_block(build, state[0], counters)
    after = build.add(state[1], size_value(build, stride))
    if wide:
        return after, joined(build, first, second)
    if dimension is None:
        return after, first
    along = build.index_along(dims, dimension, U64)
    odd = build.compare(build.and_(along, 1), 1, direction="EQ")
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
    build: Builder, key: Instruction, counters: Instruction
) -> tuple[Instruction, Instruction]:
    """Return the two words of 20 rounds."""
    add, xor, dims = build.add, build.xor, counters.shape.dims
    keys = [*halves(build, key)]
    keys.append(xor(xor(keys[0], keys[1]), 0x1BD11BDA))
    x, y = (
        add(half, build.broadcast_to(key, dims))
        for half, key in zip(halves(build, counters), keys[:2], strict=True)
    )
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = add(x, y)
            left, right = build.shift_left(y, rotation), build.shift_right_logical(y, 32 - rotation)
            y = xor(build.or_(left, right), x)
        x = add(x, build.broadcast_to(keys[(group + 1) % 3], dims))
        y = add(y, build.broadcast_to(add(keys[(group + 2) % 3], group + 1), dims))
    return x, y
