# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's Philox 4x32-10 and its conversions, as HLO integer ops over an iota.

Element i of an array of 32-bit numbers is word `i % 4` of the block at counter + `i // 4`, so the
numbers do not depend on who computes them. The conversions to floats are TensorFlow's, bit for bit;
normal numbers go through log, sin and cos, which are within a few ulp.

Source: TensorFlow `core/lib/random/philox_random.h`, `random_distributions.h`,
`random_distributions_utils.h`; Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math

from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import BF16, F16, F32, F64, S64, U16, U32, U64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape
from ingot.support.records import record

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
SCRAMBLE_KEY = (0x3EC8F720, 0x02461E29)
ROUNDS = 10
SMALLEST = 1.0e-7  # keeps the logarithm of a normal number finite, in f32 and in f64


@record
class State:
    """Key and counter: `u64[]`, and the counter's two halves, low first, `u64[]` each."""

    key: Instruction
    low: Instruction
    high: Instruction


def words(b: TensorBuilder, value: Instruction) -> tuple[Instruction, Instruction]:
    """Return the low and high 32 bits of 64-bit numbers."""
    high = b.binary("shift-right-logical", value, 32)
    return b.convert_to(value, U32), b.convert_to(high, U32)


def join(b: TensorBuilder, low: Instruction, high: Instruction) -> Instruction:
    """Return 64-bit numbers of their low and high 32 bits."""
    shifted = b.binary("shift-left", b.convert_to(high, U64), 32)
    return b.or_(shifted, b.convert_to(low, U64))


def block(
    b: TensorBuilder, counter: list[Instruction], key: tuple[Instruction, Instruction]
) -> list[Instruction]:
    """Return the four words of the block at each counter (four words of equal shapes)."""
    first, second = (b.spread(word, counter[0].shape.dims) for word in key)
    for number in range(ROUNDS):
        if number:
            first = b.binary("add", first, WEYL[0])
            second = b.binary("add", second, WEYL[1])
        counter = _round(b, counter, first, second)
    return counter


def _round(
    b: TensorBuilder, counter: list[Instruction], first: Instruction, second: Instruction
) -> list[Instruction]:
    low0, high0 = _wide_product(b, counter[0], MULTIPLIERS[0])
    low1, high1 = _wide_product(b, counter[2], MULTIPLIERS[1])
    return [
        b.xor(b.xor(high1, counter[1]), first),
        low1,
        b.xor(b.xor(high0, counter[3]), second),
        low0,
    ]


def _wide_product(
    b: TensorBuilder, value: Instruction, factor: int
) -> tuple[Instruction, Instruction]:
    return words(b, b.binary("multiply", b.convert_to(value, U64), factor))


def state_of_seed(b: TensorBuilder, seed: Instruction) -> State:
    """Return the state that a stateless op makes of its seed, `[2]` of any integer type."""
    parts = [b.convert_to(b.reshape_to(b.sliced(seed, 0, n, n + 1), ()), U64) for n in range(2)]
    if seed.shape.dtype.bits == 32:
        # Negative seeds are sign-extended by the kernel that reads them.
        parts = [_sign_extended(b, seed, n) for n in range(2)]
    counter = [word for part in parts for word in words(b, part)]
    key = (b.scalar(SCRAMBLE_KEY[0], U32), b.scalar(SCRAMBLE_KEY[1], U32))
    mix = block(b, counter, key)
    return State(join(b, mix[0], mix[1]), b.scalar(0, U64), join(b, mix[2], mix[3]))


def _sign_extended(b: TensorBuilder, seed: Instruction, number: int) -> Instruction:
    scalar = b.reshape_to(b.sliced(seed, 0, number, number + 1), ())
    wide = b.convert_to(scalar, S64)
    return b.emit("bitcast-convert", wide, shape=wide.shape.with_dtype(U64))


def ahead(
    b: TensorBuilder, low: Instruction, high: Instruction, count: Instruction
) -> tuple[Instruction, Instruction]:
    """Return the counters (low and high half) `count` blocks further on."""
    moved = b.binary("add", count, low)
    carry = b.convert_to(b.compared("LT", moved, low), U64)
    return moved, b.binary("add", carry, high)


def block_at(
    b: TensorBuilder, key: Instruction, low: Instruction, high: Instruction
) -> list[Instruction]:
    """Return the four words of the block at each counter."""
    return block(b, [*words(b, low), *words(b, high)], words(b, key))


def unit_pair(
    b: TensorBuilder, key: Instruction, low: Instruction, high: Instruction
) -> tuple[Instruction, Instruction]:
    """Return the two uniform doubles of the block at each counter."""
    made = block_at(b, key, low, high)
    first, second = (unit_float(b, double_bits(b, *made[n : n + 2]), F64) for n in (0, 2))
    return first, second


def blocks(b: TensorBuilder, state: State, count: Size) -> list[Instruction]:
    """Return four `u32[count]`: the words of `count` blocks from the state on."""
    counters = ahead(b, state.low, state.high, b.iota_of(U64, (count,), 0))
    return block_at(b, state.key, *counters)


def interleaved(b: TensorBuilder, parts: list[Instruction], count: Size) -> Instruction:
    """Return parts[0][0], parts[1][0], …, parts[0][1], …: the first `count` of them.

    By selects, not by a concatenation: then all parts are asked for at the same index, so a fused
    kernel computes what they share (the ten rounds) once.
    """
    rows, lane = _lanes(b, parts)
    chosen = rows[-1]
    for number in reversed(range(len(rows) - 1)):
        chosen = b.select(b.compared("EQ", lane, number), rows[number], chosen)
    return _flat(b, chosen, count)


def _lanes(b: TensorBuilder, parts: list[Instruction]) -> tuple[list[Instruction], Instruction]:
    """Return the parts spread to `[groups, lanes]`, and the lane of each element."""
    dims = (parts[0].shape.dims[0], len(parts))
    return [b.spread(part, dims, (0,)) for part in parts], b.iota_of(U32, dims, 1)


def _flat(b: TensorBuilder, rows: Instruction, count: Size) -> Instruction:
    return b.sliced(b.reshape_to(rows, (rows.shape.size,)), 0, 0, count)


def groups_of(count: Size, per_group: int) -> Size:
    """Return how many groups hold `count` numbers."""
    exact = dim_math.exact_quotient(count, per_group)
    return dim_math.ceil_div(count, per_group) if exact is None else exact


def bits32(b: TensorBuilder, state: State, count: Size) -> Instruction:
    """Return `u32[count]` uniform bits."""
    return interleaved(b, blocks(b, state, groups_of(count, 4)), count)


def bits64(b: TensorBuilder, state: State, count: Size) -> Instruction:
    """Return `u64[count]` uniform bits: words 0 and 1, then 2 and 3, of each block."""
    parts = blocks(b, state, groups_of(count, 2))
    return interleaved(b, [join(b, *parts[:2]), join(b, *parts[2:])], count)


def unit_float(b: TensorBuilder, bits: Instruction, element: DType) -> Instruction:
    """Return uniform numbers in [0, 1): `bits` in the mantissa of 1.x, minus 1."""
    carrier = {16: U16, 32: U32, 64: U64}[element.bits]
    mantissa = b.and_(bits, b.like((1 << element.mantissa) - 1, bits.shape))
    mantissa = b.convert_to(mantissa, carrier)
    bias = {F16: 15, BF16: 127, F32: 127, F64: 1023}[element]
    one = b.binary("or", mantissa, bias << element.mantissa)
    shape = Shape.array(element, one.shape.dims)
    return b.binary("add", b.emit("bitcast-convert", one, shape=shape), -1)


def double_bits(b: TensorBuilder, low: Instruction, high: Instruction) -> Instruction:
    """Return the 52 bits of a double: 20 of the first word, then the second word."""
    return join(b, high, low)


def uniform(b: TensorBuilder, state: State, count: Size, element: DType) -> Instruction:
    """Return `count` uniform floats in [0, 1)."""
    if element is F64:
        parts = blocks(b, state, groups_of(count, 2))
        pairs = [double_bits(b, *parts[:2]), double_bits(b, *parts[2:])]
        return unit_float(b, interleaved(b, pairs, count), F64)
    return unit_float(b, bits32(b, state, count), element)


def normal(b: TensorBuilder, state: State, count: Size, element: DType) -> Instruction:
    """Return `count` normal numbers by Box-Muller; halves are rounded from f32.

    The words are chosen before the logarithm is taken, so that each element takes only its own.
    """
    per_group = 2 if element is F64 else 4
    rows, lane = _lanes(b, blocks(b, state, groups_of(count, per_group)))
    if element is F64:
        dims = (rows[0].shape.dims[0], 2)
        rows = [b.sliced(row, 1, 0, 2) for row in rows]
        lane = b.iota_of(U32, dims, 1)
        pair = [unit_float(b, double_bits(b, *rows[n : n + 2]), F64) for n in (0, 2)]
    else:
        front = b.compared("LT", lane, 2)
        pair = [unit_float(b, b.select(front, rows[n], rows[n + 2]), F32) for n in (0, 1)]
    sine, cosine = box_muller(b, *pair)
    even = b.compared("EQ", b.and_(lane, b.like(1, lane.shape)), 0)
    return b.convert_to(_flat(b, b.select(even, sine, cosine), count), element)


def box_muller(
    b: TensorBuilder, first: Instruction, second: Instruction
) -> tuple[Instruction, Instruction]:
    """Return two normal numbers of two uniform ones."""
    held = b.binary("maximum", first, SMALLEST)
    radius = b.sqrt(b.binary("multiply", b.log(held), -2.0))
    # 2 pi u is computed in f64 and rounded, as the C++ expression is.
    turn = b.binary("multiply", b.convert_to(second, F64), 2 * math.pi)
    angle = b.convert_to(turn, first.shape.dtype)
    return b.multiply(b.sine(angle), radius), b.multiply(b.cosine(angle), radius)


def truncated_normal(b: TensorBuilder, state: State, count: Size, element: DType) -> Instruction:
    """Return `count` normal numbers within 2 deviations, by rejection.

    Each group of 4 numbers (2 for f64) has 64 (or 128) blocks of its own. Within a group, numbers
    are made in pairs, and the first ones that fit are kept, in order; so a group needs no other.
    """
    per_group = 2 if element is F64 else 4
    groups = groups_of(count, per_group)
    wide = F64 if element is F64 else F32
    skip = per_group * 256 // 4
    base = b.binary("multiply", b.iota_of(U64, (groups,), 0), skip)
    kept = b.zeros(Shape.array(wide, (groups, per_group)))
    taken = b.zeros(Shape.array(U32, (groups,)))
    loop = _Rejection(per_group, groups, wide)
    state_parts = [state.key, state.low, state.high, base, kept, taken]
    result = b.loop(state_parts, loop.goes_on, loop.step)
    flat = b.reshape_to(result[4], (groups * per_group,))
    return b.convert_to(b.sliced(flat, 0, 0, count), element)


@record
class _Rejection:
    """The loop of `truncated_normal`: one block per group and iteration."""

    per_group: int
    groups: Size
    element: DType

    def goes_on(self, b: TensorBuilder, values: list[Instruction]) -> Instruction:
        """Whether some group lacks numbers."""
        return b.reduced("or", b.compared("LT", values[5], self.per_group), (0,))

    def step(self, b: TensorBuilder, values: list[Instruction]) -> list[Instruction]:
        """Make one block per group and keep what fits."""
        key, low, high, base, kept, taken = values
        made = block_at(b, key, *ahead(b, low, high, base))
        for number in self._candidates(b, made):
            fits = b.compared("LT", b.abs(number), 2.0)
            slot = b.iota_of(U32, (self.groups, self.per_group), 1)
            here = b.compare(slot, b.spread(taken, slot.shape.dims, (0,)), direction="EQ")
            here = b.and_(here, b.spread(fits, slot.shape.dims, (0,)))
            kept = b.select(here, b.spread(number, slot.shape.dims, (0,)), kept)
            taken = b.add(taken, b.convert_to(fits, U32))
        return [key, low, high, b.binary("add", base, 1), kept, taken]

    def _candidates(self, b: TensorBuilder, made: list[Instruction]) -> list[Instruction]:
        if self.element is F64:
            pair = [unit_float(b, double_bits(b, *made[n : n + 2]), F64) for n in (0, 2)]
            return list(box_muller(b, *pair))
        uniforms = [unit_float(b, word, F32) for word in made]
        return [*box_muller(b, *uniforms[:2]), *box_muller(b, *uniforms[2:])]
