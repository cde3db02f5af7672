# SPDX-License-Identifier: Apache-2.0
"""Random numbers of the ThreeFry algorithm, as TensorFlow's XLA makes them; no kernel for CPU does.

Bits are HLO's own `rng-bit-generator`; the conversions to floats are XLA's: bits without those of
sign and exponent, over their count; normal numbers in pairs along one dimension; truncated ones by
the inverse of their distribution. Source: XLA's `hlo/builder/lib/prng.cc`, TensorFlow's
`compiler/tf2xla/kernels/stateless_random_ops_v2.cc`, `compiler/tf2xla/lib/random.cc`.
"""

from __future__ import annotations

import math

from ingot.frontends.building.special_functions.special import erf_inverse
from ingot.frontends.tensorflow.lowering.context.tensors import TensorBuilder
from ingot.frontends.tensorflow.lowering.context.values import Size, Sizes
from ingot.frontends.tensorflow.lowering.random_ops.philox import SMALLEST, State
from ingot.hlo import dim as dim_math
from ingot.hlo.dtype import BF16, F16, F32, F64, U16, U32, U64, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.shape import Shape

_BOUND = 2.0
"""Truncated normal numbers are within this many deviations."""


def bits(b: TensorBuilder, state: State, dims: Sizes, element: DType) -> Instruction:
    """Return uniform bits, of an unsigned type of 32 or 64 bits."""
    parts = [b.reshape_to(part, (1,)) for part in (state.key, state.low)]
    seed = b.concatenated(parts, 0)
    made = Shape.tuple((seed.shape, Shape.array(element, dims)))
    drawn = b.emit("rng-bit-generator", seed, shape=made, algorithm="rng_three_fry")
    return b.element_of(drawn, 1)


def uniform(b: TensorBuilder, state: State, dims: Sizes, element: DType) -> Instruction:
    """Return uniform floats in [0, 1)."""
    if element is BF16:
        return _shortened(b, uniform(b, state, dims, F32))
    wide = U64 if element is F64 else U32
    drawn = bits(b, state, dims, wide)
    if element is F16:
        drawn = b.and_(drawn, b.like((1 << F16.mantissa) - 1, drawn.shape))
    else:
        drawn = b.binary("shift-right-logical", drawn, element.bits - element.mantissa)
    return b.binary("multiply", b.convert_to(drawn, element), 2.0**-element.mantissa)


def _shortened(b: TensorBuilder, x: Instruction) -> Instruction:
    """Return f32 numbers as bf16, without the bits that it has no room for."""
    word = b.emit("bitcast-convert", x, shape=x.shape.with_dtype(U32))
    upper = b.convert_to(b.binary("shift-right-logical", word, 16), U16)
    return b.emit("bitcast-convert", upper, shape=upper.shape.with_dtype(BF16))


def normal(b: TensorBuilder, state: State, dims: Sizes, element: DType) -> Instruction:
    """Return normal numbers, two of each pair of uniform ones."""
    if element is BF16:
        return _shortened(b, normal(b, state, dims, F32))
    whole = dims or (1,)
    axis = _split(whole)
    half = dim_math.floordiv(whole[axis] + 1, 2)
    front, back = whole[:axis], whole[axis + 1 :]
    drawn = uniform(b, state, (*front, half, 2, *back), element)
    first, second = (b.sliced(drawn, axis + 1, n, n + 1) for n in (0, 1))
    held = b.binary("maximum", first, SMALLEST)
    radius = b.sqrt(b.binary("multiply", b.log(held), -2.0))
    angle = b.binary("multiply", second, 2 * math.pi)
    pair = [b.multiply(wave, radius) for wave in (b.sine(angle), b.cosine(angle))]
    joined = b.reshape_to(b.concatenated(pair, axis + 1), (*front, half * 2, *back))
    return b.reshape_to(b.sliced(joined, axis, 0, whole[axis]), dims)


def _split(dims: Sizes) -> int:
    """Return which dimension has the pairs: the first even one, else the first of the longest."""
    even = [axis for axis, size in enumerate(dims) if _is_even(size)]
    if even:
        return even[0]
    known = [size if isinstance(size, int) else 0 for size in dims]
    return known.index(max(known))


def _is_even(size: Size) -> bool:
    return isinstance(size, int) and size % 2 == 0


def truncated_normal(b: TensorBuilder, state: State, dims: Sizes, element: DType) -> Instruction:
    """Return normal numbers within two deviations."""
    if element is BF16:
        return _shortened(b, truncated_normal(b, state, dims, F32))
    least = 2.0 ** {F16: -14, F32: -126, F64: -1022}[element]
    drawn = uniform(b, state, dims, element)
    drawn = b.binary("maximum", drawn, least)
    below = (1 - math.erf(_BOUND / math.sqrt(2))) / 2
    share = b.binary("add", b.binary("multiply", drawn, 1 - 2 * below), below)
    value = b.binary("add", b.binary("multiply", share, 2), -1)
    inverse = b.convert_to(erf_inverse(b, b.convert_to(value, F64), element), element)
    return b.binary("multiply", inverse, math.sqrt(2))
