# SPDX-License-Identifier: Apache-2.0
"""Quotients and remainders that round down, and integer functions made of them.

HLO's `divide` and `remainder` truncate; Python, NumPy, TensorFlow and PyTorch also round down.
Invariant: operands of one function have the same dimensions and element type.

Example: `floor_divide(b, x, y)` of -7 and 2 is -4, `floor_modulo` is 1.
"""

from __future__ import annotations

from ingot.frontends.building.arrays import ArrayBuilder
from ingot.hlo.instruction import Instruction


def signs_differ(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """Whether exactly one of two numbers is below 0."""
    return b.compare(b.compared("LT", x, 0), b.compared("LT", y, 0), direction="NE")


def floor_divide(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """X / y rounded down."""
    element = x.shape.dtype
    if element.is_float:
        return b.floor(b.divide(x, y))
    quotient = b.divide(x, y)
    if not element.is_signed:
        return quotient
    inexact = b.compared("NE", b.remainder(x, y), 0)
    down = b.and_(signs_differ(b, x, y), inexact)
    return b.select(down, b.binary("subtract", quotient, 1), quotient)


def truncate_divide(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """X / y rounded towards zero."""
    return truncate(b, b.divide(x, y))


def truncate(b: ArrayBuilder, x: Instruction) -> Instruction:
    """X rounded towards zero; -0.5 gives -0."""
    if not x.shape.dtype.is_float:
        return x
    return b.select(b.compared("LT", x, 0), b.ceil(x), b.floor(x))


def floor_modulo(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """Remainder with the sign of y."""
    rest = b.remainder(x, y)
    if not x.shape.dtype.is_float and not x.shape.dtype.is_signed:
        return rest
    move = b.and_(b.compared("NE", rest, 0), signs_differ(b, rest, y))
    return b.select(move, b.add(rest, y), rest)


def greatest_common_divisor(b: ArrayBuilder, x: Instruction, y: Instruction) -> Instruction:
    """The greatest common divisor of two arrays of integers, by Euclid's algorithm; not negative.

    That of 0 and a number is the number.
    """

    def goes_on(inner: ArrayBuilder, values: list[Instruction]) -> Instruction:
        rest = inner.compared("NE", values[1], 0)
        return inner.reduced("or", rest, range(rest.shape.rank))

    def step(inner: ArrayBuilder, values: list[Instruction]) -> list[Instruction]:
        left, right = values
        more = inner.compared("NE", right, 0)
        rest = inner.remainder(left, right)
        return [inner.select(more, right, left), inner.select(more, rest, right)]

    if x.shape.dtype.is_signed:
        x, y = b.abs(x), b.abs(y)
    return b.loop([x, y], goes_on, step)[0]
