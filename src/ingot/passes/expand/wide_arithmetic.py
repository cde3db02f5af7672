# SPDX-License-Identifier: Apache-2.0
"""`mulhi`, `stochastic-convert` and comparisons in total order, in terms of ordinary arithmetic.

`mulhi` multiplies in twice the width; 64-bit numbers are taken apart into halves. For
`stochastic-convert` the fraction that truncation drops, as an unsigned number of the width of the
random one, is the odds of going away from zero.

Comparisons of floats in total order are comparisons of integers.
The bits of a float, read as a signed integer, order the positive ones; the negative ones are in
reverse, which flipping all bits but the sign sets right. Then -NaN < -inf < -0 < 0 < inf < NaN.

Source: xla/service/stochastic_convert_decomposer.cc, comparison_expander.cc; Hacker's Delight, 8-2.
"""

from __future__ import annotations

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import F32, F64, S64, U64
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.rewrite.op_pass import expander
from ingot.support.diagnostics import UnsupportedError


@expander("mulhi-expander", "mulhi")
def mulhi_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `mulhi`."""
    left, right = op.operands
    element = op.shape.dtype
    if element.bits == 64:
        return _high_of_64(left, right, build)
    wide = S64 if element.is_signed else U64
    product = build.multiply(build.convert_to(left, wide), build.convert_to(right, wide))
    shift = build.shift_right_arithmetic if element.is_signed else build.shift_right_logical
    return build.convert_to(shift(product, element.bits), element)


def _high_of_64(left: Instruction, right: Instruction, build: Builder) -> Instruction:
    """Return the high word of the unsigned product, corrected for signs."""
    element = left.shape.dtype
    x, y = (build.convert_to(value, U64) for value in (left, right))
    mask = (1 << 32) - 1
    (x_low, x_high), (y_low, y_high) = (
        (build.and_(value, mask), build.shift_right_logical(value, 32)) for value in (x, y)
    )
    low = build.multiply(x_low, y_low)
    middle = build.add(build.multiply(x_high, y_low), build.shift_right_logical(low, 32))
    other = build.add(build.multiply(x_low, y_high), build.and_(middle, mask))
    high = build.add(build.multiply(x_high, y_high), build.shift_right_logical(middle, 32))
    high = build.add(high, build.shift_right_logical(other, 32))
    if element.is_signed:
        for value, factor in ((left, y), (right, x)):
            negative = build.compare(value, 0, direction="LT")
            high = build.subtract(high, build.select(negative, factor, 0))
    return build.convert_to(high, element)


@expander("stochastic_convert_decomposer", "stochastic-convert")
def stochastic_convert_decomposer(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `stochastic-convert` to signed integers.

    Raises:
        UnsupportedError: the result is no signed integer.
    """
    operand, random = op.operands
    element = op.shape.dtype
    if not element.is_signed:
        raise UnsupportedError(
            f"stochastic-convert to {element}: only signed integers",
            instruction=repr(op),
            location=op.metadata.location,
            hint="convert to a signed integer type",
        )
    value = build.convert_to(operand, F64)
    size = build.abs(value)
    whole = build.floor(size)
    scale = float(1 << random.shape.dtype.bits)
    odds = build.convert_to(build.multiply(build.subtract(size, whole), scale), U64)
    grows = build.compare(build.convert_to(random, U64), odds, direction="LT")
    grown = build.select(grows, build.add(whole, 1.0), whole)
    negative = build.compare(value, 0.0, direction="LT")
    # Conversion saturates, and makes NaN zero.
    result = build.convert_to(build.select(negative, build.negate(grown), grown), element)
    finite = build.compare(value, value, direction="EQ")
    return build.select(finite, result, 0)


@expander("comparison-expander", "compare")
def comparison_expander(op: Instruction, build: Builder, module: Module) -> Instruction:
    """Rewrites `compare` with type=TOTALORDER on floats."""
    if op.attributes.type != "TOTALORDER" or not op.operands[0].shape.dtype.is_float:
        return op
    keys = [_ordered_bits(operand, build) for operand in op.operands]
    return build.compare(*keys, direction=op.attributes.direction)


def _ordered_bits(operand: Instruction, build: Builder) -> Instruction:
    """Return signed integers in the total order of the floats."""
    if operand.shape.dtype.bits <= 8:
        # These formats differ in where their sign is and which values are NaN.
        operand = build.convert_to(operand, F32)
    width = operand.shape.dtype.bits
    shape = operand.shape.with_dtype(f"s{width}")
    bits = build.bitcast_convert(operand, shape=shape)
    flipped = build.xor(bits, (1 << (width - 1)) - 1)
    negative = build.compare(bits, 0, direction="LT")
    return build.select(negative, flipped, bits)
