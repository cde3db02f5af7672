# SPDX-License-Identifier: Apache-2.0
"""Evaluates random ops with XLA's exact bits: Philox 4x32-10 and Threefry 2x32-20.

Source: xla/hlo/builder/lib/prng.cc; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.evaluator.numbers import rounded
from ingot.evaluator.registry import Array, Context, Value, evaluates
from ingot.hlo.dtype import DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.opset.random import bits_shape

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@evaluates("rng-bit-generator")
def rng_bit_generator(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The next state and bits; the default algorithm is Philox, as on XLA:CPU and XLA:GPU."""
    (state,) = operands
    words = np.ascontiguousarray(state).view(np.uint64)
    result = bits_shape(op.shape)
    dims = context.dims(result)
    if op.attributes.algorithm == "rng_three_fry":
        counter, bits = threefry(int(words[0]), int(words[1]), dims, result.dtype.bits > 32)
        after = [counter]
    else:
        # XLA takes the key as the counter's high word of a state that has none.
        high = words[2] if words.size == 3 else words[0]
        start = int(words[1]) | int(high) << 64
        counter, bits = philox(int(words[0]), start, dims, result.dtype.bits > 32)
        after = [counter & (2**64 - 1), counter >> 64][: words.size - 1]
    made = _as_element(bits, result.dtype)
    if not op.shape.is_tuple:
        return made
    next_words = np.array([int(words[0]), *after], np.uint64)
    return next_words.view(state.dtype).reshape(state.shape), made


def _as_element(bits: Array, element: DType) -> Array:
    """Return the low bits of each word as an element."""
    unsigned = bits.astype(f"u{element.bytes}")
    return unsigned.view(element.numpy) if element.bits >= 8 else rounded(unsigned, element)


def philox(key: int, counter: int, dims: tuple[int, ...], wide: bool) -> tuple[int, Array]:
    """Return the counter after, and u32 or (wide) u64 bits of shape `dims`."""
    size = math.prod(dims)
    blocks = -(-size * (2 if wide else 1) // 4)
    low, high = counter & (2**64 - 1), counter >> 64
    offsets = np.arange(blocks, dtype=np.uint64)
    lows = offsets + np.uint64(low)
    highs = np.where(lows < offsets, np.uint64((high + 1) & (2**64 - 1)), np.uint64(high))
    words = [lows & _LOW, lows >> _HALF, highs & _LOW, highs >> _HALF]
    for number in range(10):
        words = _philox_round(words, key, number)
    flat = np.stack(words, axis=-1).reshape(-1)
    if wide:
        flat = flat[0::2] | (flat[1::2] << _HALF)
    return (counter + blocks) & (2**128 - 1), flat[:size].reshape(dims)


def _philox_round(words: list[Array], key: int, number: int) -> list[Array]:
    first = np.uint64(((key & 0xFFFFFFFF) + number * 0x9E3779B9) & 0xFFFFFFFF)
    second = np.uint64(((key >> 32) + number * 0xBB67AE85) & 0xFFFFFFFF)
    left = words[0] * np.uint64(0xD2511F53)
    right = words[2] * np.uint64(0xCD9E8D57)
    return [
        (right >> _HALF) ^ words[1] ^ first,
        right & _LOW,
        (left >> _HALF) ^ words[3] ^ second,
        left & _LOW,
    ]


def threefry(key: int, counter: int, dims: tuple[int, ...], wide: bool) -> tuple[int, Array]:
    """Return the counter after, and u32 or (wide) u64 bits of shape `dims`."""
    if wide:
        first, second, used = _threefry_blocks(key, counter, dims)
        return (counter + used) & (2**64 - 1), first | (second << _HALF)
    dim = _split_dim(dims)
    half = tuple(-(-size // 2) if n == dim else size for n, size in enumerate(dims)) or (1,)
    first, second, used = _threefry_blocks(key, counter, half)
    after = (counter + used) & (2**64 - 1)
    if not dims:
        return after, first.reshape(())
    # Both words of a block stand next to each other along the split dimension.
    both = np.stack([first, second], axis=dim + 1)
    merged = both.reshape([2 * size if n == dim else size for n, size in enumerate(half)])
    return after, merged[tuple(slice(size) for size in dims)]


def _split_dim(dims: tuple[int, ...]) -> int:
    """Return the dimension that XLA halves: the first even one, else the first greatest."""
    even = [dim for dim, size in enumerate(dims) if size % 2 == 0]
    return even[0] if even else int(np.argmax(dims)) if dims else 0


def _threefry_blocks(key: int, counter: int, dims: tuple[int, ...]) -> tuple[Array, Array, int]:
    size = math.prod(dims)
    counters = np.arange(size, dtype=np.uint64).reshape(dims) + np.uint64(counter)
    keys = [key & 0xFFFFFFFF, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x = (counters & _LOW) + np.uint64(keys[0]) & _LOW
    y = (counters >> _HALF) + np.uint64(keys[1]) & _LOW
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) & _LOW
            y = ((y << np.uint64(rotation)) | (y >> np.uint64(32 - rotation))) & _LOW
            y = y ^ x
        x = (x + np.uint64(keys[(group + 1) % 3])) & _LOW
        y = (y + np.uint64((keys[(group + 2) % 3] + group + 1) & 0xFFFFFFFF)) & _LOW
    return x, y, size


@evaluates("rng-get-and-update-state")
def rng_get_and_update_state(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """The 128-bit state, low word first, which then advances by delta."""
    state = context.state.random_state
    context.state.random_state = (state + op.attributes.delta) & (2**128 - 1)
    return np.array([state & (2**64 - 1), state >> 64], np.uint64)


@evaluates("rng")
def rng(op: Instruction, operands: Sequence[Any], context: Context) -> Value:
    """Uniform in [low, high) or normal, from Philox on the module's own state."""
    first, second, *_ = operands
    element, dims = op.shape.dtype, context.dims(op.shape)
    counter, bits = philox(0, context.state.random_state, dims, wide=True)
    context.state.random_state = counter
    generator = np.random.Generator(
        np.random.Philox(key=int(bits.reshape(-1)[0]) if bits.size else 0)
    )
    if op.attributes.distribution == "rng_normal":
        mean, deviation = first.astype(np.float64), second.astype(np.float64)
        return rounded(generator.standard_normal(dims) * deviation + mean, element)
    if element.is_float:
        low, high = first.astype(np.float64), second.astype(np.float64)
        return rounded(generator.random(dims) * (high - low) + low, element)
    low, high = int(first), max(int(second), int(first) + 1)  # of an empty range its start
    return rounded(generator.integers(low, high, dims, dtype=np.int64), element)
